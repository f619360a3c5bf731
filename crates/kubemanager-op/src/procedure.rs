//! What is done to members that run: what the next one waits for before it is brought up to date, and which one is the last.

use tf_agent_api::state::Health;
use tf_api::{contract::MemberStatus, kinds::SESSION_TIMEOUT_DEFAULT};
use tf_plan::{
    election::Election,
    observed::Pod,
    procedure::{Gate, Store, Troubles},
    reports::{Reports, pod_of},
};

use crate::containers::KUBEMANAGER;

/// The members, as the procedures of all components see them.
pub const MEMBERS: Store = Store {
    daemon: KUBEMANAGER,
    gate: Gate::Apart("kube-manager"),
    troubles,
    // How long an election znode outlives its process: kube-manager leaves that to the servers (`maxSessionTimeout`).
    election: Some(Election { daemons: &[KUBEMANAGER], leads, session: SESSION_TIMEOUT_DEFAULT }),
};

/// Whether it is at work. The others are brought up to date before, so that the work changes hands once.
fn leads(pod: &Pod, _: &str, reports: &Reports<'_>) -> bool {
    health(pod, reports).is_some_and(|health| health.serves && !health.standby)
}

/// That nobody is at work: each of them waits for its turn, or does not find ZooKeeper, which does not show from outside.
fn troubles(members: &[MemberStatus], reports: &Reports<'_>) -> Troubles {
    let pods: Vec<&Pod> = members.iter().filter_map(|member| pod_of(member, reports.pods)).collect();
    let is_standby = |pod: &&Pod| health(pod, reports).is_some_and(|health| health.standby);
    if pods.is_empty() || !pods.iter().all(is_standby) {
        return Troubles::new();
    }
    pods.iter().map(|pod| (pod.name.clone(), NOBODY.to_owned())).collect()
}

/// What is said of every member then.
const NOBODY: &str = "no member is elected; see in the logs whether they reach ZooKeeper, where the session of a lost member ends after maxSessionTimeout (30 s unless Zookeeper sets another)";

fn health<'a>(pod: &Pod, reports: &Reports<'a>) -> Option<&'a Health> {
    reports.of(pod)?.health.as_ref()
}
