//! What is promised: of each step, of what is recorded, of what servers serve with, and of the end.

use tf_api::BackupState;
use tf_plan::plan::Hibernation;

use super::*;

impl World {
    pub fn keeps_promises(&self, step: &Step) -> Result<(), TestCaseError> {
        let target = self.set.target(step);
        prop_assert!(target.is_some(), "a pod that is not there is asked");
        let target = target.unwrap();
        prop_assert!(target.leaving.is_none(), "it is deleted twice, or asked for something: {step:?}");
        match step {
            Step::Restart(_) => self.stops(target, step),
            Step::Activate(_, wanted) => {
                let next = self.contents.iter().enumerate().find(|(index, _)| hash(*index) == *wanted);
                let (Some((_, next)), Some(former)) = (next, self.content(target)) else { return Ok(()) };
                let has_data = target.at.is_some_and(|at| self.machines[at].has_data);
                let is_moot =
                    former.founds != next.founds && Content { founds: next.founds, ..former.clone() } == *next;
                prop_assert!(
                    !has_data || !is_moot,
                    "a founder changes over for files that it does not need: {self:#?}"
                );
                if former.is_taken_for(next) { Ok(()) } else { self.stops(target, step) }
            }
            Step::Ask(_, Request::Ring(change)) => self.may_ask(target, change),
            Step::Ask(..) | Step::Renew(..) => {
                prop_assert!(false, "nobody wants that: {step:?}");
                Ok(())
            }
        }
    }

    /// Whether the agent on a machine answers the operator.
    fn tells(&self, at: usize) -> bool {
        let is_there = |pod: &Pod| pod.leaving.is_none() && pod.age > 1;
        self.machines[at].is_heard() && self.machines[at].silent == 0 && self.set.pod_at(at).is_some_and(is_there)
    }

    /// Whether servers whose agents answer are of several lines.
    fn is_told_mixed(&self) -> bool {
        let told = self.ring.iter().filter(|at| self.tells(**at));
        told.filter_map(|at| Some(self.runs_with(*at)?.line)).collect::<BTreeSet<u32>>().len() > 1
    }

    /// Whether the server of a pod is about to be stopped, or is told to change over to what it is stopped for.
    fn goes(&self, pod: &Pod) -> bool {
        // Only what is mounted can be taken.
        let mounted = || pod.at.and_then(|at| self.files.get(&at)).copied();
        let changes = || {
            let [next, former] = [pod.told, pod.active].map(|it| it.map(|it| &self.contents[it]));
            pod.told == mounted() && next.zip(former).is_some_and(|(next, former)| !former.is_taken_for(next))
        };
        pod.leaving.is_some() || changes()
    }

    /// A member that serves is stopped while all others serve, and nobody comes, goes or fetches anything.
    fn stops(&self, target: &Pod, step: &Step) -> Result<(), TestCaseError> {
        let Some(at) = target.at.filter(|at| self.runs(*at) && self.ring.contains(at)) else { return Ok(()) };
        let is_away = |it: &&usize| !self.runs(**it) || self.set.pod_at(**it).is_none_or(|pod| self.goes(pod));
        // Who is lost is taken out of the ring when nobody is on its way out any more.
        let is_moot = |it: &usize| self.machines[at].stuck && !self.machines[*it].has_data;
        let away = self.ring.iter().filter(|other| **other != at && !is_moot(other)).find(is_away);
        prop_assert!(away.is_none(), "{at} is stopped while {away:?} is away: {step:?} {self:#?}");
        let joins = (0..self.machines.len()).find(|at| self.machines[*at].joining.is_some());
        prop_assert!(joins.is_none(), "{at} is stopped while {joins:?} joins: {step:?} {self:#?}");
        let is_busy = |it: &&Machine| it.doing.as_ref().is_some_and(|(change, ..)| !change.is_routine());
        let busy = self.machines.iter().find(is_busy).and_then(|machine| machine.doing.as_ref());
        prop_assert!(busy.is_none(), "{at} is stopped in the midst of {busy:?}: {step:?} {self:#?}");
        let is_torn = |it: &&usize| !self.is_known(**it) || **it != at && self.machines[**it].stuck;
        let torn = self.ring.iter().find(is_torn);
        prop_assert!(torn.is_none(), "{at} is stopped while not all see {torn:?}: {step:?} {self:#?}");
        Ok(())
    }

    fn may_ask(&self, target: &Pod, change: &Change) -> Result<(), TestCaseError> {
        let at = target.at.unwrap();
        let Machine { doing, saved, .. } = &self.machines[at];
        prop_assert!(doing.is_none(), "two things at once on a member, or the same one twice: {change:?}");
        // Nobody knows what goes on where an agent does not answer, and files are rewritten all the same.
        let is_known = |at: &usize| *change != Change::UpgradeSstables || self.tells(*at);
        let all = (0..self.machines.len()).filter(is_known);
        let goes_on = all.filter_map(|at| self.machines[at].doing.as_ref());
        // Members write backups beside each other, and beside a repair that could as well be done later.
        let is_beside =
            goes_on.map(|(other, ..)| other).all(|other| matches!(change, Change::Backup { .. }) && other.is_routine());
        prop_assert!(is_beside, "two things at once: {change:?}");
        // Who does not answer is not waited for with files that nobody takes: it may be lost, and replaced only when they are rewritten.
        let is_mixed = if *change == Change::UpgradeSstables { self.is_told_mixed() } else { self.is_mixed() };
        prop_assert!(!is_mixed, "something is begun while releases are mixed: {change:?} {self:#?}");
        let fetches = !matches!(change, Change::Backup { .. } | Change::UpgradeSstables);
        prop_assert!(!fetches || !self.has_old_files(), "nobody takes files of an earlier line: {change:?} {self:#?}");
        let all_run = self.all_run();
        match change {
            Change::Replicate { from, to, .. } => {
                prop_assert!(from.abs_diff(*to) == 1 && *to > 0 && self.factor == Some(*from), "{change:?}");
                let is_repaired = |it: &usize| self.machines[*it].repaired == Some(*from);
                prop_assert!(self.ring.iter().all(is_repaired), "what was written is not where it should be");
                prop_assert!(all_run);
            }
            Change::Repair { routine, .. } => {
                prop_assert!(all_run, "it would fail");
                let is_changing = !self.record.leaving.is_empty() || !self.unrepaired.is_empty();
                prop_assert!(!routine || !is_changing, "a repair from time to time goes before what is due now");
            }
            Change::Backup { of, members, .. } => {
                let is_whole = all_run && self.record.leaving.is_empty();
                prop_assert!(is_whole, "a backup is begun that cannot be whole: {self:#?}");
                let ids = members.iter().map(|(id, _)| *id).eq(self.record.members.iter().map(|member| member.id));
                prop_assert!(ids && self.wish.as_ref() == Some(&of.name));
                prop_assert!(!saved.contains_key(&of.name), "a member writes what it has written");
            }
            Change::Decommission => {
                prop_assert!(all_run, "a member leaves while another one is away");
                let fits = self.factor.is_none_or(|factor| (factor as usize) < self.ring.len());
                prop_assert!(fits && self.ring.len() > 1, "too few are left");
                prop_assert!(self.record.members.len() > self.wanted, "a member leaves that is wanted");
                // A template that its controller has not seen begins nothing.
                let is_seen = self.set.seen == self.set.spec;
                // The pod of one that was struck off may stay as long as its node is not heard.
                let is_of_member = |pod: &&Pod| {
                    let is_there = |member: &MemberStatus| pod.at == Some(machine(&member.node));
                    pod.at.is_none() || self.record.members.iter().any(is_there)
                };
                let outdated = self.set.pods.iter().filter(is_of_member).find(|pod| is_seen && !self.is_current(pod));
                prop_assert!(outdated.is_none(), "a member leaves during a roll-out: {outdated:?} {self:#?}");
            }
            Change::Remove { host_id } => {
                prop_assert!(!self.can_come_back(host_id), "a member is taken out that could come back: {self:#?}");
            }
            Change::RepairWithout { absent, .. } => {
                prop_assert!(!absent.iter().any(|id| self.can_come_back(id)), "one that could come back is left out");
                prop_assert!(self.all_run_without(absent), "it would fail");
            }
            Change::UpgradeSstables => {
                let is_old = self.runs_with(at).is_some_and(|it| self.machines[at].lines.0 < it.line);
                prop_assert!(is_old, "there is nothing to rewrite");
            }
            Change::Look { .. } | Change::RestoreSchema { .. } | Change::RestoreRows { .. } => {
                prop_assert!(false, "nobody wants that: {change:?}");
            }
        }
        Ok(())
    }

    /// Nobody is struck off who is in the ring, and nobody joins one of several lines.
    pub fn keeps_members(&self, record: &Record) -> Result<(), TestCaseError> {
        for gone in self.record.members.iter().filter(|member| record.members.iter().all(|it| it.id != member.id)) {
            let at = machine(&gone.node);
            let is_there = self.ring.contains(&at) || self.machines[at].joining.is_some();
            prop_assert!(!is_there, "{gone:?} is struck off and in the ring: {self:#?}");
            prop_assert!(self.record.is_leaving(gone.id), "{gone:?} is struck off without a mark");
        }
        prop_assert!(!record.members.is_empty(), "nobody is left");
        prop_assert!(record.highest >= self.record.highest);
        let grows = record.members.len() > self.record.members.len();
        prop_assert!(!grows || !self.is_mixed(), "one more is to join while releases are mixed: {self:#?}");
        Ok(())
    }

    /// Nobody is put to sleep in the middle of something that would have to begin anew.
    pub fn keeps_awake(&self, next: &Spec) -> Result<(), TestCaseError> {
        if next.replicas > 0 || self.set.spec.replicas == 0 {
            return Ok(());
        }
        prop_assert!(self.record.leaving.is_empty(), "it is put to sleep while one leaves: {self:#?}");
        let tells = |at: &usize| self.runs(*at) && self.tells(*at);
        let is_busy = |at: &usize| {
            let doing = self.machines[*at].doing.as_ref();
            tells(at) && doing.is_some_and(|(change, ..)| !change.is_routine())
        };
        prop_assert!(!self.ring.iter().any(is_busy), "it is put to sleep in the midst of work: {self:#?}");
        let joins = self.machines.iter().any(|machine| machine.joining.is_some());
        prop_assert!(!joins || !self.ring.iter().any(tells), "it is put to sleep while one joins: {self:#?}");
        Ok(())
    }

    /// Whoever serves does so with the data of the member that it is.
    pub fn keeps_data(&self) -> Result<(), TestCaseError> {
        for (at, machine) in self.machines.iter().enumerate().filter(|(_, machine)| machine.runs()) {
            prop_assert!(machine.has_data && self.ring.contains(&at), "{at} serves without data: {self:#?}");
        }
        Ok(())
    }

    /// A quorum of those that serve finds what was acknowledged.
    pub fn keeps_rows(&self) -> Result<(), TestCaseError> {
        let Some(quorum) = self.quorum().filter(|_| self.is_written) else { return Ok(()) };
        let lacks = |at: &&usize| self.runs(**at) && !self.machines[**at].has_row;
        let lacking = self.ring.iter().filter(lacks).count();
        prop_assert!(lacking < quorum, "a quorum does not have what was acknowledged: {self:#?}");
        Ok(())
    }

    fn can_come_back(&self, host_id: &str) -> bool {
        let at = machine(host_id.split('-').next().unwrap_or_default());
        self.runs(at) || self.machines[at].has_data || self.machines[at].unmounted.is_some()
    }

    /// A backup is called complete only when every member of it has written what it held.
    pub fn keeps_backups(&self, now: &[BackupStatus]) -> Result<(), TestCaseError> {
        for backup in now.iter().filter(|backup| !self.backups.contains(backup)) {
            let saved = |id: &u32| {
                let member = self.record.members.iter().find(|member| member.id == *id)?;
                self.machines[machine(&member.node)].saved.get(&backup.name)
            };
            let is_whole = backup.members.iter().all(|id| saved(id) == Some(&backup.members));
            prop_assert!(backup.state != BackupState::Complete || is_whole, "{backup:?} {self:#?}");
            prop_assert!(backup.state != BackupState::Failed || backup.message.is_some(), "nobody is told why");
        }
        let is_complete = |it: &&BackupStatus| it.state == BackupState::Complete;
        let is_kept = |it: &BackupStatus| now.contains(it) || now.len() == 10;
        prop_assert!(self.backups.iter().filter(is_complete).all(is_kept), "one that is complete is made again");
        Ok(())
    }

    /// In the end every row was repaired lately, and the backup that is asked for was made or has failed.
    pub fn keeps_what_is_deleted(&self) -> Result<(), TestCaseError> {
        let last = self.ring.iter().filter_map(|at| self.machines[*at].repaired_at).max();
        let is_repaired = last.is_some_and(|last| self.now.duration_since(last).as_hours() < REMEMBERED);
        let is_moot = self.factor.is_none() || self.ring.len() == 1;
        prop_assert!(is_repaired || is_moot, "what was deleted comes back: {self:#?}");
        let wish = self.backups.iter().find(|it| Some(&it.name) == self.wish.as_ref());
        prop_assert!(wish.is_none_or(|it| it.state != BackupState::Running) && wish.is_some() == self.wish.is_some());
        Ok(())
    }

    /// Whether nothing has been in the way of a repair for long enough, and it is neither asked for nor under way.
    pub fn is_repair_missed(&mut self, plan: &Plan) -> bool {
        let is_heard = |at: &usize| self.machines[*at].silent == 0 && self.machines[*at].serves > 0;
        let goes_on = self.is_busy() || !self.ring.iter().all(is_heard);
        let last = self.ring.iter().filter_map(|at| self.machines[*at].repaired_at).max();
        let age = last.map_or(REMEMBERED, |last| self.now.duration_since(last).as_hours());
        let is_to_sleep = plan.hibernation == Hibernation::Asleep;
        let is_idle = self.rests() && plan.step.is_none() && !goes_on && self.late.is_none() && !is_to_sleep;
        if !is_idle || age < DUE || self.factor.is_none() || self.ring.len() == 1 {
            self.calm_since = self.now;
        }
        self.now.duration_since(self.calm_since).as_hours() > SOON
    }

    /// Whether a member does something that it was asked for.
    pub fn is_busy(&self) -> bool {
        self.machines.iter().any(|machine| machine.doing.is_some())
    }

    /// Whether a pod is made from what is asked for, and its server runs with that. What a ring was founded with lacks nothing.
    fn is_current(&self, pod: &Pod) -> bool {
        let wanted = pod.at.and_then(|at| self.files.get(&at)).map(|it| &self.contents[*it]);
        let is_wanted = |(wanted, active): (&Content, &Content)| {
            let active = Content { founds: active.founds && wanted.founds, ..active.clone() };
            active == Content { version: self.version, told: self.told, ..wanted.clone() }
        };
        let is_current = wanted.zip(self.content(pod)).is_some_and(is_wanted);
        pod.template == self.template && is_current && !self.goes(pod)
    }

    /// Whether everything is as wanted.
    pub fn rests(&self) -> bool {
        let members: BTreeSet<usize> = self.record.members.iter().map(|member| machine(&member.node)).collect();
        let ring: BTreeSet<usize> = self.ring.iter().copied().collect();
        let factor = self.factor.is_none_or(|factor| factor as usize == self.wanted);
        self.record.members.len() == self.wanted
            && members == ring
            && members.iter().all(|at| self.runs(*at))
            && factor
            && self.unrepaired.is_empty()
            && !self.has_old_files()
            && self.set.pods.len() == self.wanted
            && self.set.pods.iter().all(|pod| self.is_current(pod))
    }
}
