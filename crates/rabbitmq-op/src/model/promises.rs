//! What is promised: of what is recorded, of each step, and of the end.

use super::*;

impl World {
    fn nodes(members: &[MemberStatus]) -> impl Iterator<Item = usize> {
        members.iter().map(|member| machine(&member.node))
    }

    /// What holds of the next record.
    pub fn keeps_record(&self, next: &Record) -> Result<(), TestCaseError> {
        let before = &self.record;
        for gone in before.members.iter().filter(|member| !next.members.contains(member)) {
            prop_assert!(!self.cluster.contains(&machine(&gone.node)), "{gone:?} is struck off and in the cluster");
            prop_assert!(before.is_leaving(gone.id), "{gone:?} is struck off without a mark");
        }
        prop_assert!(!next.members.is_empty(), "nobody is left");
        if !before.members.is_empty() && next.members.len() > before.members.len() {
            prop_assert!(self.rests_with(&before.members), "a member joins while another one is away or on its way");
            prop_assert!(next.members.len() == before.members.len() + 1, "two join at the same moment");
        }
        prop_assert!(next.highest >= before.highest, "an identity is given again");
        Ok(())
    }

    /// What holds of a step, whose record is stored.
    pub fn keeps_promises(&self, step: &Step) -> Result<(), TestCaseError> {
        let Some(target) = self.set.target(step) else {
            return Err(TestCaseError::fail(format!("a pod that is not there is touched: {step:?}")));
        };
        prop_assert!(target.leaving.is_none(), "it is deleted twice, or asked for something: {step:?}");
        match (step, target.at) {
            (Step::Ask(_, Request::Membership(change)), Some(at)) => self.keeps_members(at, change),
            (Step::Activate(_, wanted), Some(at)) => {
                let is_mounted = self.files.map(hash).as_ref() == Some(wanted);
                prop_assert!(is_mounted, "another configuration is taken than is mounted");
                if self.is_taken_as_it_runs(target.active) { Ok(()) } else { self.may_stop(at, step) }
            }
            (Step::Restart(_), Some(at)) => self.may_stop(at, step),
            _ => Ok(()),
        }
    }

    /// What holds where a server is stopped that serves.
    fn may_stop(&self, at: usize, step: &Step) -> Result<(), TestCaseError> {
        if !self.serves(at) {
            return Ok(());
        }
        let is_member = Self::nodes(&self.record.members).any(|it| it == at);
        let mut others = Self::nodes(&self.record.members).filter(|it| *it != at);
        let away = others.find(|it| match self.set.pod_at(*it).filter(|pod| pod.leaving.is_none()) {
            Some(_) => !self.serves(*it),
            // It waits for the pod of a node that is of no member.
            None => is_member,
        });
        prop_assert!(away.is_none(), "a member is stopped while {away:?} is away: {step:?} {self:#?}");
        prop_assert!(self.missed() == 0, "a member is stopped while clients are not back: {step:?}");
        if !is_member {
            return Ok(());
        }
        prop_assert!(!self.is_critical(at), "a quorum queue loses its majority: {step:?}");
        let is_alone = self.cluster.len() > 1 && !self.has_mirror(at);
        prop_assert!(!is_alone, "messages go that nobody else has: {step:?} {self:#?}");
        prop_assert!(self.has_policy, "a member is stopped while queues have no mirror: {step:?}");
        let releases: BTreeSet<usize> =
            Self::nodes(&self.record.members).filter_map(|it| Some(self.set.pod_at(it)?.template)).collect();
        let has_flags = self.record.members.iter().any(|it| {
            let flags = self.machines[machine(&it.node)].flags;
            flags.is_some() && flags == releases.first().copied()
        });
        prop_assert!(releases.len() > 1 || has_flags, "a member is stopped before flags are enabled: {step:?}");
        Ok(())
    }

    fn keeps_members(&self, at: usize, change: &Membership) -> Result<(), TestCaseError> {
        let members = &self.record.members;
        let is_member = |at: usize| Self::nodes(members).any(|it| it == at);
        let is_there = |at: usize| self.machines[at].exists && !self.machines[at].is_unfit;
        let goes = |at: usize| members.len() > self.wanted || !is_there(at);
        match change {
            Membership::Leave => {
                prop_assert!(goes(at), "a member leaves that is wanted");
                let marked = members.iter().any(|it| machine(&it.node) == at && self.record.is_leaving(it.id));
                prop_assert!(marked, "a member leaves without a mark");
                let others_run = Self::nodes(members).all(|it| it == at || self.runs(it));
                prop_assert!(others_run, "a member leaves while another one is away");
                let is_drained = self.machines[at].drained;
                prop_assert!(is_drained || self.missed() == 0, "a member leaves while clients are not back");
                prop_assert!(is_drained || !self.is_critical(at), "a quorum queue loses its majority");
            }
            Membership::Grow => {
                let is_whole = self.are_there(members) && self.record.leaving.is_empty();
                prop_assert!(is_whole, "a queue is on more members while one is away: {self:#?}");
                prop_assert!(self.is_short(at), "a member holds queues that it holds: {self:#?}");
            }
            Membership::Forget { name } => {
                let gone = named(name);
                let has_data = self.machines[gone].data.as_ref().is_some_and(|data| data.len() > 1);
                prop_assert!(!self.runs(gone), "a server that runs is forgotten");
                prop_assert!(!is_member(gone) || goes(gone) || !has_data, "a member is forgotten that could come back");
            }
            Membership::EnableFlags => prop_assert!(self.are_there(members), "flags are enabled while one is away"),
            Membership::ImportDefinitions => prop_assert!(!self.has_policy, "definitions are taken for nothing"),
        }
        Ok(())
    }

    /// Whether only a person can tell whose data counts: a server does not start with its data, and those that are a cluster without it
    /// are not most of the members.
    pub fn is_for_people(&self) -> bool {
        let servers =
            |server| self.record.members.iter().filter(move |it| self.machines[machine(&it.node)].server == server);
        let is_outcast = |it: &MemberStatus| {
            let at = machine(&it.node);
            !self.cluster.contains(&at) && self.machines[at].data.is_some()
        };
        2 * servers(Server::Running).count() <= self.record.members.len() && servers(Server::Failing).any(is_outcast)
    }

    /// With a quorum queue on both of two members none of them can be stopped: people delete it.
    pub fn gives_up_quorum_queue(&mut self) {
        if self.record.members.len() == 2 && self.queue.len() == 2 {
            self.has_quorum_queue = false;
            self.queue.clear();
        }
    }

    /// Whether everything is as wanted.
    pub fn rests(&self) -> bool {
        let pods: BTreeSet<usize> = self.set.nodes().collect();
        self.late.is_none()
            && self.record.members.len() == self.wanted
            && self.rests_with(&self.record.members)
            && pods == self.cluster
            && self.set.pods.len() == pods.len()
            && self.set.pods.iter().all(|pod| pod.is_current(self.template, self.files))
            && self.files.is_some_and(|files| self.contents[files].version == self.version)
            && (!self.has_quorum_queue || self.queue.len() >= GROUP.min(self.cluster.len()))
            && self.has_policy
    }

    /// Whether all of these serve in the cluster. One may be there beside them that was struck off and is about to go.
    fn are_there(&self, members: &[MemberStatus]) -> bool {
        Self::nodes(members).all(|at| self.cluster.contains(&at) && self.serves(at))
    }

    /// Whether these are the cluster, and all of them run.
    fn rests_with(&self, members: &[MemberStatus]) -> bool {
        let members: BTreeSet<usize> = Self::nodes(members).collect();
        members == self.cluster && members.iter().all(|at| self.serves(*at))
    }
}
