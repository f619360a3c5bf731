//! A daemon of Tungsten Fabric as one value. A component states each of its daemons in a file of its own, `daemons/<daemon>.rs`, and lists all of them in one
//! table; what the plan of the component has of them follows from that here.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Volume;
use tf_agent_api::{
    launch::{Launch, OnChange, PATIENCE, Unusable, file_name},
    node,
};
use tf_api::{KindInfo, contract::MemberStatus, schema::Port};
use tf_plan::{
    build::{
        configuration::Files,
        identity::Identity,
        pod::{DaemonContainer, mount},
        storage::{self, host_path},
    },
    external_tls::File,
    images::{Builtin, Chosen},
    member_set::Parts,
    not_ready::NotReady,
};

/// Volume of logs.
pub const LOGS: &str = "logs";
/// Directory of logs.
pub const LOG_DIR: &str = "/var/log/contrail";

/// A row of the table of a component's daemons. `C`: what the daemons of a resource are stated by.
pub struct Entry<C> {
    /// The container. The names are those of the Go tf-operator.
    pub container: Builtin,
    /// What runs in this container.
    pub daemon: fn(&C, DaemonContainer) -> Result<Daemon, NotReady>,
}

/// The containers of a table.
pub fn containers<C>(table: &[Entry<C>]) -> Vec<Builtin> {
    table.iter().map(|entry| entry.container).collect()
}

/// A daemon of a resource: its container, how the node agent runs it, and what it reads.
pub struct Daemon {
    /// Image, command, ports, mounts, environment and privileges.
    pub container: DaemonContainer,
    /// Names of ports on the loopback address, which no Service has.
    pub loopback: &'static [&'static str],
    /// Volumes of its mounts, besides that of the logs.
    pub volumes: Vec<Volume>,
    /// How the node agent of every member runs it. None where that differs from member to member.
    pub launch: Option<Launch>,
    /// How the node agents of the members with these addresses run it.
    pub launch_of: BTreeMap<String, Launch>,
    /// What it reads that other daemons of the component do not.
    pub files: Files,
}

impl Daemon {
    /// A daemon that every member runs in the same way.
    pub fn new(container: DaemonContainer, launch: Launch, files: Files) -> Self {
        let launch_of = BTreeMap::new();
        Self { container, loopback: &[], volumes: Vec::new(), launch: Some(launch), launch_of, files }
    }

    /// A daemon that each of these members runs in its own way.
    ///
    /// # Errors
    /// When a value cannot be expressed in a launch file.
    pub fn by_member(
        container: DaemonContainer,
        members: &[MemberStatus],
        launch: impl Fn(&MemberStatus) -> Result<Launch, Unusable>,
        files: Files,
    ) -> Result<Self, Unusable> {
        let of = |member: &MemberStatus| Ok((member.address.clone(), launch(member)?));
        let launch_of = members.iter().map(of).collect::<Result<_, _>>()?;
        Ok(Self { container, loopback: &[], volumes: Vec::new(), launch: None, launch_of, files })
    }
}

/// A container of a daemon that logs to [`LOG_DIR`].
pub fn native(container: DaemonContainer) -> DaemonContainer {
    DaemonContainer { mounts: vec![mount(LOGS, LOG_DIR)], ..container }
}

/// A container of a daemon in Python that logs to [`LOG_DIR`]. Files are written as UTF-8, and not every image says so.
pub fn python(container: DaemonContainer) -> DaemonContainer {
    DaemonContainer { env: vec![("PYTHONUTF8".into(), "1".into())], ..native(container) }
}

/// A daemon with certificates, which is started again when one of these files changes or one for TLS to services.
pub fn launch(
    argv: Vec<String>,
    files: impl IntoIterator<Item = impl Into<String>>,
    external_tls: Vec<File>,
) -> Launch {
    let files = files.into_iter().map(Into::into).chain(external_tls.into_iter().map(|file| file.name));
    Launch {
        files: files.map(|file| (file, OnChange::Restart)).collect(),
        awaits: node::TLS_FILES.map(str::to_owned).to_vec(),
        patience: Some(PATIENCE),
        ..Launch::new(argv)
    }
}

/// Where a daemon finds one of its files.
pub fn path(file: &str) -> String {
    format!("{}/{file}", node::RUN_DIR)
}

/// The daemons of a resource, for its plan.
#[derive(Default)]
pub struct Daemons {
    containers: Vec<DaemonContainer>,
    ports: Vec<(&'static str, Port)>,
    volumes: Vec<Volume>,
    files: Files,
}

impl Daemons {
    /// Those of the chosen containers.
    ///
    /// # Errors
    /// When a file of a daemon cannot express what the spec asks for.
    pub fn of<C>(table: &[Entry<C>], chosen: &[Chosen], cluster: &C) -> Result<Self, NotReady> {
        let mut all = Self::default();
        for chosen in chosen {
            for entry in table.iter().filter(|entry| entry.container.name == chosen.name) {
                all.add((entry.daemon)(cluster, DaemonContainer::of(chosen))?)?;
            }
        }
        Ok(all)
    }

    fn add(&mut self, daemon: Daemon) -> Result<(), NotReady> {
        let Daemon { container, loopback, volumes, launch, launch_of, files } = daemon;
        self.files.append(files);
        let file = file_name(container.name);
        if let Some(launch) = launch {
            self.files.shared(&file, launch.render()?);
        }
        for (address, launch) in launch_of {
            self.files.member(&file, &address, launch.render()?);
        }
        self.ports.extend(container.ports.iter().filter(|(name, _)| !loopback.contains(name)));
        // Two daemons may share a directory.
        let volumes: Vec<Volume> =
            volumes.into_iter().filter(|new| self.volumes.iter().all(|other| other.name != new.name)).collect();
        self.volumes.extend(volumes);
        self.containers.push(container);
        Ok(())
    }

    /// What a plan has of them, with the volume of their logs, and with the files that several of them read.
    pub fn parts(self, logs: Volume, shared: Files) -> Parts {
        let Self { containers, ports, volumes, mut files } = self;
        files.append(shared);
        Parts {
            files,
            volumes: [logs].into_iter().chain(volumes).collect(),
            owned_mounts: vec![mount(LOGS, LOG_DIR)],
            ports,
            daemons: containers,
            ..Parts::default()
        }
    }
}

/// The volume of a component's logs. The resource with the kind's default name has the directory that the Go tf-operator left on nodes.
pub fn logs(directory: &str, kind: KindInfo, identity: &Identity) -> Volume {
    host_path(LOGS, &storage::node_directory(LOG_DIR, directory, &[kind.default_name], identity))
}
