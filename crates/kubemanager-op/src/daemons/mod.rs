//! The one daemon of a member, in a file of its own: its container, how the node agent runs it and the files that it reads; and which member is brought up to date
//! last.

pub mod kube_manager;

use tf_agent_api::state::Health;
use tf_api::{contract::MemberStatus, kinds::SESSION_TIMEOUT_DEFAULT};
use tf_contrail::daemon::{self, Entry};
use tf_plan::{
    election::Election,
    images::Builtin,
    observed::Pod,
    procedure::{DisruptionPolicy, Store, Troubles},
    reports::{Reports, pod_of},
};

use crate::cluster::Cluster;

/// What a member can run.
pub fn table<'a>() -> [Entry<Cluster<'a>>; 1] {
    [Entry { container: kube_manager::CONTAINER, daemon: kube_manager::daemon }]
}

/// The containers that the spec may list.
pub fn containers() -> Vec<Builtin> {
    daemon::containers(&table())
}

const KUBE_MANAGER: &str = kube_manager::CONTAINER.name;

/// The members, as the roll-outs of all components see them.
pub const MEMBERS: Store = Store {
    daemon: KUBE_MANAGER,
    policy: DisruptionPolicy::Independent("kube-manager"),
    troubles,
    // How long an election znode outlives its process: kube-manager leaves that to the servers (`maxSessionTimeout`).
    election: Some(Election { daemons: &[KUBE_MANAGER], leads, session: SESSION_TIMEOUT_DEFAULT }),
};

/// Whether it is at work. The others are brought up to date before, so that the work changes hands once.
fn leads(pod: &Pod, _: &str, reports: &Reports<'_>) -> bool {
    health(pod, reports).is_some_and(|health| health.serves && !health.standby)
}

/// That no member is at work: each of them waits for its turn, or does not find ZooKeeper, which does not show from outside.
fn troubles(members: &[MemberStatus], reports: &Reports<'_>) -> Troubles {
    let pods: Vec<&Pod> = members.iter().filter_map(|member| pod_of(member, reports.pods)).collect();
    let is_standby = |pod: &&Pod| health(pod, reports).is_some_and(|health| health.standby);
    if pods.is_empty() || !pods.iter().all(is_standby) {
        return Troubles::new();
    }
    pods.iter().map(|pod| (pod.name.clone(), NONE_ELECTED.to_owned())).collect()
}

/// What is said of every member then.
const NONE_ELECTED: &str = "no member is elected; see in the logs whether they reach ZooKeeper, where the session of a lost member ends after maxSessionTimeout (30 s unless Zookeeper sets another)";

fn health<'a>(pod: &Pod, reports: &Reports<'a>) -> Option<&'a Health> {
    reports.of(pod)?.health.as_ref()
}
