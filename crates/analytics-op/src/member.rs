//! What the plans of all kinds begin and end with.

use k8s_openapi::api::core::v1::Volume;
use tf_api::{Managed, common::Container, schema::Port};
use tf_contrail::nodemanager::{self, NodeType};
use tf_plan::{
    build::{
        configuration::Files,
        identity::Identity,
        pod::{Daemon, mount},
        storage::{self, host_path},
    },
    certificates,
    dependency::{self, Dependency},
    ensemble::{Ensemble, Traits},
    images::{Builtin, Chosen},
    keystone::{self, Keystone},
    members::Identities,
    not_ready::NotReady,
    observed::Observed,
    selection,
};

use crate::{OPERATOR, config};

/// Volume of logs.
pub const LOGS: &str = "logs";
/// Time for work that is under way to end.
pub const GRACE_SECONDS: i64 = 30;

/// What the members of a kind run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Containers they can run.
    pub builtins: &'a [Builtin],
    /// Those without which a member is of no use.
    pub needed: &'a [&'static str],
    /// The spec's container list.
    pub listed: &'a [Container],
    /// Whether they use `authParameters`.
    pub uses_auth: bool,
}

impl Run<'_> {
    /// Chooses members and containers, one member on each node that matches.
    ///
    /// # Errors
    /// When the spec leaves out what is needed, no node matches, or nodes cannot be read.
    pub fn prepare<'a, Cr: Managed>(
        &self,
        cr: &'a Cr,
        observed: &'a Observed<Cr>,
    ) -> Result<Ensemble<'a, Cr>, NotReady> {
        selection::require(self.listed, self.needed)?;
        Ensemble::prepare(
            cr,
            observed,
            &Traits {
                // Kafka keeps copies on brokers by them, and alarm generators have databases of Redis: of those there are sixteen.
                identities: Identities::Lowest,
                uses_auth: self.uses_auth,
                ..Traits::without_data(OPERATOR, self.builtins, self.listed)
            },
        )
    }
}

/// A daemon in Python, as a container with a volume for logs at `log_dir`.
pub fn python(chosen: &Chosen, ports: Vec<(&'static str, Port)>, log_dir: &str) -> Daemon {
    // Files are written as UTF-8, and not every image says so.
    Daemon { env: vec![("PYTHONUTF8".into(), "1".into())], ..native(chosen, ports, log_dir) }
}

/// The same of another one.
pub fn native(chosen: &Chosen, ports: Vec<(&'static str, Port)>, log_dir: &str) -> Daemon {
    Daemon {
        mounts: vec![mount(LOGS, log_dir)],
        ports,
        ..Daemon::new(chosen.name, chosen.image.clone(), chosen.command.clone())
    }
}

/// Volumes of a member: logs, and what the node manager needs where it runs. `legacy`: the resource whose directories the Go tf-operator
/// left on nodes.
pub fn volumes(identity: &Identity, containers: &[Chosen], directory: &str, legacy: &str) -> Vec<Volume> {
    let logs = storage::node_directory("/var/log/contrail", directory, &[legacy], identity);
    let mut volumes = vec![host_path(LOGS, &logs)];
    if containers.iter().any(|chosen| chosen.name == nodemanager::CONTAINER.name) {
        volumes.extend(nodemanager::volumes());
    }
    volumes
}

/// Adds the files of the node manager, where it runs.
///
/// # Errors
/// When a value cannot be expressed in a file.
pub fn node_manager<Cr: Managed>(
    files: &mut Files,
    ensemble: &Ensemble<'_, Cr>,
    settings: &nodemanager::Settings<'_>,
) -> Result<(), NotReady> {
    let Some(container) = ensemble.container(nodemanager::CONTAINER.name) else { return Ok(()) };
    let node_type: NodeType = settings.node_type;
    let launch = crate::launch::node_manager(node_type, settings.collectors).render()?;
    files.shared(&tf_agent_api::launch::file_name(container.name), launch);
    for member in ensemble.members() {
        let content = nodemanager::file(settings, &member.node, &member.address)?;
        files.member(&node_type.file(), &member.address, content);
    }
    Ok(())
}

/// Adds how the config API is found and how Keystone is asked, where it is.
///
/// # Errors
/// When a value cannot be expressed in a file.
pub fn library(
    files: &mut Files,
    services: &crate::services::Services,
    keystone: Option<&Keystone>,
) -> Result<(), NotReady> {
    let library = config::library(services, keystone)?;
    match keystone {
        Some(keystone) => {
            files.shared_secret(keystone::FILE, keystone.file()?);
            files.foreign(keystone::files(Some(keystone)));
            files.shared_secret(tf_contrail::vnc_api::FILE, library);
        }
        None => files.shared(tf_contrail::vnc_api::FILE, library),
    }
    Ok(())
}

/// Common fields of the spec that are set and have no effect.
pub fn ignored<Cr: Managed>(cr: &Cr, observed: &Observed<Cr>, dependencies: &[Dependency]) -> Vec<String> {
    let common = cr.common();
    let host_files = certificates::host_files_ignored(common);
    dependency::ignored(dependencies, observed).into_iter().chain(host_files).collect()
}

/// A dependency of the spec that is stated and that no daemon of the kind uses.
pub fn unused(field: &str, is_stated: bool) -> Option<String> {
    is_stated.then(|| format!("spec.dependencies.{field}: no daemon of this kind connects to it"))
}
