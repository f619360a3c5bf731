//! What the operator sees of the world, and what it plans by that.

use tf_agent_api::{
    cassandra::{Facts, NORMAL, Peer, backup::Saved},
    state::{Health, Phase, State, Status},
};
use tf_api::{
    BackupVolume, Cassandra, CassandraConfiguration, CassandraSpec,
    common::{Container, HostPathStorage, PodConfiguration},
    kinds::CassandraStatus,
    names::{ANNOTATION_BACKUP, ANNOTATION_HIBERNATE},
};
use tf_plan::observed::{Agent, Observed, Source};

use super::*;
use crate::{
    backup,
    config::jvm::DAEMON,
    membership::LEAVING,
    plan::{decided, look_after, prepare, recorded},
    procedure, seeds,
};

impl World {
    fn pod(&self, pod: &Pod) -> observed::Pod {
        observed::Pod {
            ready: pod.at.is_some_and(|at| self.runs(at) && !self.is_given_up(at)),
            images: [(DAEMON.to_owned(), self.image(pod.template))].into(),
            ..self.set.observed(pod)
        }
    }

    fn image(&self, template: usize) -> String {
        format!("cassandra:{}", self.templates[template].release())
    }

    pub fn observe(&self) -> Observed<Cassandra> {
        let nodes = (0..self.machines.len()).filter(|at| self.machines[*at].exists).map(|at| self.place(at));
        let agent =
            |pod: &Pod| match pod.at.filter(|at| self.machines[*at].is_heard() && self.machines[*at].silent == 0) {
                Some(at) => Agent::Says(Box::new(self.status(pod, at))),
                None => Agent::Silent("no answer".into()),
            };
        let agents = self.set.pods.iter().filter(|pod| pod.age > 1).map(|pod| (pod.uid.to_string(), agent(pod)));
        Observed {
            now: self.now,
            nodes: Source::Known(nodes.collect()),
            pods: Source::Known(self.set.pods.iter().map(|pod| self.pod(pod)).collect()),
            agents: agents.collect(),
            workloads: self.set.workloads(),
            ..Observed::default()
        }
    }

    fn status(&self, pod: &Pod, at: usize) -> Status {
        let Machine { server, has_data, has_left, repaired, repaired_at, saved, failed, doing, stuck, .. } =
            &self.machines[at];
        let keyspace = |factor: Option<u32>| factor.map(|factor| (KEYSPACE.to_owned(), factor)).into_iter().collect();
        let mut facts = Facts {
            repaired: keyspace(*repaired),
            repaired_without: Some([(KEYSPACE.to_owned(), self.unheard_since(at))].into()),
            repaired_at: repaired_at.map(|at| (KEYSPACE.to_owned(), at)).into_iter().collect(),
            grace: self.factor.map(|_| (KEYSPACE.to_owned(), REMEMBERED as u32 * 3600)).into_iter().collect(),
            backups: saved
                .keys()
                .map(|name| (name.clone(), Saved { resource: "u".into(), at: self.now, bytes: 1 }))
                .collect(),
            doing: doing.as_ref().map(|(change, ..)| change.clone()),
            left: *has_left,
            has_served: *has_data,
            founds: self.founds(at),
            owner: self.machines[at].owner,
            joined: self.machines[at].joined > 0,
            failed: failed.clone().or_else(|| {
                stuck.then(|| Failed { of: Change::Decommission, why: "others".into(), at: Timestamp::UNIX_EPOCH })
            }),
            ..Facts::default()
        };
        if let Some(template) = self.runs_with(at) {
            facts.host_id = self.host_id(at);
            facts.release = template.release();
            facts.schema = template.line.to_string();
            facts.older = usize::from(self.machines[at].lines.0 < template.line);
            facts.peers = self.peers_of(at);
            facts.keyspaces = keyspace(self.factor);
        }
        let active = pod.active.map(hash);
        let mounted = self.files.get(&at).map(|it| (*it, &self.contents[*it]));
        let is_taken = |content: &Content| self.content(pod).is_some_and(|active| active.is_taken_for(content));
        let takes = mounted.filter(|(index, content)| self.runs(at) && pod.active != Some(*index) && is_taken(content));
        let mut state = State { active, takes: takes.map(|(index, _)| hash(index)), ..server.state() };
        if self.machines[at].joining.is_some() {
            state.phase = Phase::Running;
        }
        let health = Some(Health::new(self.runs(at), "as it is"));
        Status {
            node: node(at),
            daemons: [(DAEMON.to_owned(), state)].into(),
            health,
            cassandra: Some(facts),
            ..Status::default()
        }
    }

    /// Those without whom a member has repaired, of whom nothing was heard since.
    fn unheard_since(&self, at: usize) -> BTreeSet<String> {
        let without = self.machines[at].repaired_without.iter();
        without.filter(|(id, heard)| self.heard(id) == **heard).map(|(id, _)| id.clone()).collect()
    }

    /// The others, as a server has them: those of the ring, and those that join it.
    fn peers_of(&self, own: usize) -> BTreeMap<std::net::IpAddr, Peer> {
        let is_there = |at: &usize| self.ring.contains(at) || self.machines[*at].joining.is_some();
        let peer = |at: usize| {
            let Machine { moved, listed, stuck, joining, serves, doing, .. } = &self.machines[at];
            let is_leaving = *stuck || matches!(doing, Some((Change::Decommission, ..)));
            let (state, place) = match joining {
                Some(_) => ("BOOT", *moved),
                None if is_leaving => (LEAVING, *listed),
                None => (NORMAL, *listed),
            };
            // Nobody is taken for well at the first word.
            let is_new = joining.is_none() && *serves == 0;
            let heard = if self.runs(at) && is_new { None } else { Some(self.runs(at) || joining.is_some()) };
            let host_id = Some(self.host_id(at));
            (address(at, place).parse().unwrap(), Peer { state: Some(state.into()), heard, host_id })
        };
        (0..self.machines.len()).filter(|at| *at != own && is_there(at)).map(peer).collect()
    }

    fn resource(&self) -> Cassandra {
        let backup = BackupVolume {
            host_path: Some(HostPathStorage { path: Some("/backups".into()) }),
            ..BackupVolume::default()
        };
        let server =
            Container { name: Some(DAEMON.into()), image: Some(self.image(self.template)), ..Container::default() };
        let service_configuration = CassandraConfiguration {
            backup: Some(backup),
            containers: vec![server],
            ..CassandraConfiguration::default()
        };
        let common_configuration =
            PodConfiguration { replicas: Some(self.wanted as i32), ..PodConfiguration::default() };
        let spec = CassandraSpec { common_configuration, service_configuration, ..CassandraSpec::default() };
        let mut cr = Cassandra::new("configdb1", spec);
        cr.metadata.namespace = Some("tf".into());
        cr.metadata.uid = Some("u".into());
        let wish = self.wish.clone().map(|wish| (ANNOTATION_BACKUP.to_owned(), wish));
        let sleep = self.hibernates.then(|| (ANNOTATION_HIBERNATE.to_owned(), "true".to_owned()));
        cr.metadata.annotations = Some(wish.into_iter().chain(sleep).collect());
        let mut status = CassandraStatus::default();
        status.contract.initialized = Some(true);
        status.contract.members.clone_from(&self.record.members);
        status.own.highest_id = Some(self.record.highest);
        status.own.leaving.clone_from(&self.record.leaving);
        status.own.backups.clone_from(&self.backups);
        cr.status = Some(status);
        cr
    }

    /// The files of members, by their machines.
    pub fn contents_of(&self, members: &[MemberStatus], founds: bool) -> BTreeMap<usize, Content> {
        let seeds: Vec<String> = seeds::of(members).into_iter().map(str::to_owned).collect();
        let content = |member: &MemberStatus| Content {
            version: self.version,
            founds,
            seeds: seeds.clone(),
            address: member.address.clone(),
            told: self.told,
            id: member.id,
            others: members.iter().map(|other| other.id).filter(|other| *other != member.id).collect(),
        };
        members.iter().map(|member| (machine(&member.node), content(member))).collect()
    }

    /// The plan without what does not bear on the decision: objects, files and conditions.
    pub fn plan(&mut self, observed: &Observed<Cassandra>) -> Planned {
        let cr = self.resource();
        let mut member_set = prepare(&cr, observed).unwrap();
        let kept = recorded(&cr, &member_set);
        let decided = decided(observed, &member_set, &kept, true);
        let record = decided.as_ref().map_or(&kept, |decision| &decision.record).clone();
        member_set.membership.members.clone_from(&record.members);
        let members = member_set.members().to_vec();
        let contents = self.contents_of(&members, false);
        let [newest, founding] = [false, true].map(|founds| {
            let contents = self.contents_of(&members, founds).into_iter();
            contents
                .map(|(at, content)| (node(at), hash(numbered(&mut self.contents, content))))
                .collect::<BTreeMap<_, _>>()
        });
        let wanted = procedure::wanted(newest, &founding, observed);
        let spec = Spec::of(&members, self.template, member_set.is_asleep());
        let mut plan = self.set.plan(&spec, members, observed);
        look_after(&mut plan, &cr, observed, &wanted, decided, Some(&kept), None);
        tf_plan::hibernation::finish(&mut plan);
        Planned { plan, record, spec, contents }
    }
}

/// The status of backups, as a plan has it.
pub fn backups_of(plan: &Plan) -> Vec<BackupStatus> {
    let list = plan.own_status.get(backup::FIELD).cloned();
    list.map(|list| serde_json::from_value(list).unwrap()).unwrap_or_default()
}
