//! What the node agents of a resource's pods report, for whoever decides about its members.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use tf_agent_api::{
    content::ContentHash,
    state::{HostFiles, Phase, State, Status},
    vrouter,
};
use tf_api::{Managed, contract::MemberStatus};

use crate::{
    observed::{Agent, Observed, Pod, Workload},
    rollout::{self, Change, Decision},
    status,
    step::{Step, Target},
};

/// How much is known of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentCoverage {
    /// Only the kubelet's word is known: no pod has a certificate, so no agent can be asked; or none that can knows of a
    /// quorum, and pods of another operator cannot be asked.
    Unobserved,
    /// Some agent has not been heard yet: nothing is concluded from its silence.
    Polling,
    /// Every agent that could answer does, or has been found not to.
    Complete,
}

/// The pods of a resource, with what their agents say.
#[derive(Clone, Copy, Debug)]
pub struct Reports<'a> {
    /// The pods.
    pub pods: &'a [Pod],
    /// What agents say, by the pods' uids.
    pub agents: &'a BTreeMap<String, Agent>,
}

impl<'a> Reports<'a> {
    /// What was observed of a resource's pods.
    pub fn of_observed<Cr>(observed: &'a Observed<Cr>) -> Self {
        let pods = observed.pods.known().map(Vec::as_slice).unwrap_or_default();
        Self { pods, agents: &observed.agents }
    }

    /// How much is known of the pods that there are.
    pub fn clarity(&self) -> AgentCoverage {
        let mut reachable = self.pods.iter().filter(|pod| pod.certificate.is_some() && !pod.terminating).peekable();
        if reachable.peek().is_none() {
            AgentCoverage::Unobserved
        } else if reachable.all(|pod| self.agents.contains_key(&pod.uid)) {
            AgentCoverage::Complete
        } else {
            AgentCoverage::Polling
        }
    }

    /// What the agent of a pod says, if it answers.
    pub fn of(&self, pod: &Pod) -> Option<&'a Status> {
        self.agents.get(&pod.uid)?.status()
    }

    /// What the agent of a member's pod says, if it answers.
    pub fn of_member(&self, member: &MemberStatus) -> Option<&'a Status> {
        self.of(pod_of(member, self.pods)?)
    }

    /// The configuration that a pod's daemon runs with, if its agent says so.
    pub fn active(&self, pod: &Pod, daemon: &str) -> Option<&'a ContentHash> {
        self.of(pod)?.daemons.get(daemon)?.active.as_ref()
    }

    /// Whether the daemons of a pod would take this configuration as they run, as their agents say. Those of earlier releases do not.
    pub fn takes(&self, pod: &Pod, wanted: &ContentHash) -> bool {
        let takes = |state: &State| [&state.active, &state.takes].contains(&&Some(wanted.clone()));
        let daemons = self.of(pod).map(|status| &status.daemons).filter(|daemons| !daemons.is_empty());
        daemons.is_some_and(|daemons| daemons.values().all(takes))
    }

    /// Whether the daemons beside it run with this configuration, too, as far as their agents say what they run with. Each of them takes it by itself.
    fn have_all(&self, pod: &Pod, wanted: &ContentHash) -> bool {
        let daemons = self.of(pod).into_iter().flat_map(|status| status.daemons.values());
        daemons.filter_map(|state| state.active.as_ref()).all(|active| active == wanted)
    }

    /// What became of the files of a pod's node, if its agent says so.
    pub fn host_files(&self, pod: &Pod) -> Option<&'a HostFiles> {
        self.of(pod)?.host_files.as_ref()
    }

    /// Whether there is one pod on each of these nodes and no other, and its daemon runs with that configuration, as its agent
    /// says.
    pub fn all_run(&self, daemon: &str, contents: &BTreeMap<String, ContentHash>) -> bool {
        let wanted = |pod: &Pod| pod.node.as_ref().and_then(|node| contents.get(node));
        let runs = |pod: &Pod| !pod.terminating && wanted(pod).is_some_and(|it| self.active(pod, daemon) == Some(it));
        self.pods.len() == contents.len() && self.pods.iter().all(runs)
    }

    /// Whether the daemon that speaks for a pod serves, if its agent says so. It says nothing while it has not looked.
    pub fn serves(&self, pod: &Pod) -> Option<bool> {
        self.of(pod)?.health.as_ref().map(|health| health.serves)
    }

    /// Whether the daemon that speaks for a pod serves, as its agent reports, and something else in the pod does not, as its agent or the kubelet
    /// reports.
    pub fn ails(&self, pod: &Pod) -> bool {
        self.serves(pod) == Some(true) && (!pod.ready || self.of(pod).and_then(companion).is_some())
    }

    /// Whether the agent of a pod was asked for a configuration that its daemon does not run with.
    pub fn is_pending(&self, pod: &Pod, daemon: &str) -> bool {
        let asked = pod.active.as_deref();
        asked.zip(self.active(pod, daemon)).is_some_and(|(asked, active)| asked != active.as_str())
    }

    /// How much longer a pod settles ([`rollout::SETTLING`]) whose speaker is this daemon. None where it has settled, does not serve, or the clock of its
    /// node is far ahead.
    pub fn settles(&self, pod: &Pod, daemon: &str, now: Timestamp) -> Option<Duration> {
        self.soaks(pod, daemon, rollout::SETTLING, now)
    }

    /// The same of a pod that has to serve for a time.
    pub fn soaks(&self, pod: &Pod, daemon: &str, time: Duration, now: Timestamp) -> Option<Duration> {
        let state = self.of(pod)?.daemons.get(daemon).filter(|state| state.phase == Phase::Running)?;
        let since = state.serves_since.unwrap_or(state.since).max(state.since);
        let is_known = since != Timestamp::UNIX_EPOCH;
        status::remaining(time, since, now).filter(|_| is_known)
    }

    /// Pods that do not serve, with the cause.
    pub fn troubles(&self) -> BTreeMap<String, String> {
        let cause = |pod: &Pod| match self.agents.get(&pod.uid)? {
            Agent::Silent(why) => Some(format!("its agent does not answer: {why}")),
            Agent::Says(status) => match &status.health {
                Some(health) if health.serves => companion(status),
                Some(health) => Some(health.message.clone()),
                // It has just begun, and what the kubelet says may be from before.
                None => Some("its agent has not looked at the server yet".to_owned()),
            },
        };
        self.pods.iter().filter_map(|pod| Some((pod.name.clone(), cause(pod)?))).collect()
    }

    /// Pods that serve without something that a daemon of theirs should be connected to, or whose node is not as it should be, with what it is.
    pub fn shortages(&self) -> BTreeMap<String, String> {
        let lacks = |(daemon, state): (&String, &State)| {
            Some(format!("its {daemon} is not connected: {}", state.lacks.as_ref()?))
        };
        let shortage = |pod: &Pod| {
            let status = self.of(pod)?;
            let settings = || Some(format!("{}; correct CONTRAIL_SYSCTL_TUNING", status.settings.as_ref()?));
            let vhost0 = || status.vhost0.clone();
            let queues = || status.queues.clone();
            let module = || Some(status.module.as_ref()?.explained());
            status.daemons.iter().find_map(lacks).or_else(vhost0).or_else(settings).or_else(queues).or_else(module)
        };
        self.pods.iter().filter_map(|pod| Some((pod.name.clone(), shortage(pod)?))).collect()
    }

    /// Whether the kernel module of a pod's node is loaded again by another pod, as its agent says.
    pub fn may_reload(&self, pod: &Pod) -> bool {
        let module = || self.of(pod)?.module.as_ref();
        module().is_some_and(vrouter::Module::is_free)
    }

    /// The certificate or bundle by which daemons of a pod do not go before they are started anew, if its agent says so.
    fn unused(&self, pod: &Pod) -> Option<&'a ContentHash> {
        self.of(pod)?.certificate.as_ref()?.unused.as_ref()
    }

    /// What of a pod is not as it should be: its template, which counts when the controller of the workload would make the pod
    /// from it, the configuration that its daemon runs with, or the certificate that its daemons read when they started.
    pub fn change(
        &self,
        pod: &Pod,
        daemon: &str,
        workload: Option<&Workload>,
        template: &str,
        contents: &BTreeMap<String, ContentHash>,
    ) -> Option<Change> {
        let outdated = rollout::outdated(pod, workload, template);
        if outdated.is_some() {
            return outdated;
        }
        // It waits for one of the nodes that members had when it was made.
        let is_late =
            |workload: &Workload| workload.current && pod.revision.is_some() && pod.revision != workload.revision;
        if pod.node.is_none() && workload.is_some_and(is_late) {
            return Some(Change::Template);
        }
        let wanted = contents.get(pod.node.as_ref()?)?;
        let told = pod.active.as_deref();
        let is_told = told == Some(wanted.as_str());
        let has_all = self.have_all(pod, wanted);
        match self.active(pod, daemon) {
            // What it was told was set back before it could take it, and it would do so as soon as that is asked for again, whoever's turn it is.
            Some(active) if active == wanted && has_all && told.is_some() && !is_told => Some(Change::HotReload),
            Some(active) if active == wanted && has_all => self.unused(pod).map(|unused| {
                let is_told = pod.active_certificate.as_deref() == Some(unused.as_str());
                if is_told { Change::UnderWay } else { Change::Certificate }
            }),
            active if is_told => active.map(|_| Change::UnderWay),
            Some(_) if self.takes(pod, wanted) => Some(Change::HotReload),
            Some(_) => Some(Change::Configuration),
            // Its agent says nothing. One that was told to wait for what is no more would wait for ever.
            None => told.map(|_| Change::Configuration),
        }
    }

    /// The step of a decision, where pods change over by themselves. `contents`: the configuration of the member on each node.
    pub fn step(&self, decision: Decision, contents: &BTreeMap<String, ContentHash>) -> Option<Step> {
        let pod = |target: &Target| self.pods.iter().find(|pod| pod.uid == target.uid);
        match decision {
            Decision::Restart(target) => Some(Step::Restart(target)),
            Decision::Activate(target) => {
                let hash = contents.get(pod(&target)?.node.as_ref()?)?.clone();
                Some(Step::Activate(Target { why: format!("configuration {hash}"), ..target }, hash))
            }
            Decision::Renew(target) => {
                let hash = self.unused(pod(&target)?)?.clone();
                Some(Step::Renew(Target { why: "they go by a former certificate".to_owned(), ..target }, hash))
            }
            Decision::Done | Decision::Hold(_) => None,
        }
    }
}

/// What is amiss with a daemon beside the one that members are asked about, if something is.
fn companion(status: &Status) -> Option<String> {
    status.daemons.iter().find_map(|(daemon, state)| Some(format!("its {daemon} {}", state.amiss()?)))
}

/// What is under way while agents are being asked; nothing where nobody waits for it.
pub fn being_asked(cr: &impl Managed) -> Option<String> {
    (!status::is_ready(cr)).then(|| "its members are being asked how they are".to_owned())
}

/// The pod on the node of a member.
pub fn pod_of<'a>(member: &MemberStatus, pods: &'a [Pod]) -> Option<&'a Pod> {
    pods.iter().find(|pod| !pod.terminating && pod.node.as_ref() == Some(&member.node))
}
