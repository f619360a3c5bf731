//! The daemons of a member, each in a file of its own: its container, and how the node agent runs it (docs/upstream/web-ui.md#servers). Both read the same files, see
//! [`crate::cluster`].
//!
//! Neither reads anything again that matters, and none takes a signal for it (docs/upstream/daemons.md#sighup), so every change restarts them.

pub mod job;
pub mod web;

use tf_agent_api::launch::{Launch, OnChange};
use tf_contrail::daemon::{self, Entry, path};
use tf_plan::{
    images::Builtin,
    keystone,
    procedure::{DisruptionPolicy, Store, Troubles},
};

use crate::cluster::{Cluster, FILE, USER_FILE};

/// What a member can run.
pub fn table<'a>() -> [Entry<Cluster<'a>>; 2] {
    [Entry { container: web::CONTAINER, daemon: web::daemon }, Entry { container: job::CONTAINER, daemon: job::daemon }]
}

/// The containers that the spec may list.
pub fn containers() -> Vec<Builtin> {
    daemon::containers(&table())
}

/// The members, as the roll-outs of all components see them. A server that answers and has its Redis is asked for nothing more.
pub const MEMBERS: Store = Store {
    daemon: web::CONTAINER.name,
    policy: DisruptionPolicy::Independent("web UI"),
    troubles: |_, _| Troubles::new(),
    election: None,
};

/// Where the images have the program (docs/upstream/images.md#programs).
const PROGRAM: &str = "/usr/src/contrail/contrail-web-core";

/// One of the two servers. It reads its files when it starts.
fn launch(program: &str, cluster: &Cluster<'_>) -> Launch {
    let argv = ["node", program, "--conf_file", &path(FILE)].map(str::to_owned).to_vec();
    let mut launch = daemon::launch(argv, [FILE, USER_FILE], cluster.services.external_tls());
    launch.files.extend(keystone::files(cluster.login.keystone()).map(|file| (file.name, OnChange::Restart)));
    Launch { working_directory: Some(PROGRAM.into()), patience: None, ..launch }
}
