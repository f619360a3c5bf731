//! What the operator sees of the world, and what it plans by that.

use super::*;

impl World {
    fn pod(&self, pod: &Pod) -> observed::Pod {
        let has_agent = self.has_agent(pod.template) && pod.age > 0;
        observed::Pod {
            name: format!("{SET}-{}", pod.ordinal),
            uid: pod.uid.to_string(),
            node: pod.at.map(node),
            ready: pod.leaving.is_none() && pod.at.is_some_and(|at| self.serves(at)),
            terminating: pod.leaving.is_some(),
            template: Some(pod.template.to_string()),
            revision: Some(pod.revision.to_string()),
            active: pod.told.map(|told| hash(told).as_str().to_owned()),
            certificate: has_agent.then(|| Certificate { not_after: jiff::Timestamp::MAX, issuer: String::new() }),
            ..observed::Pod::default()
        }
    }

    fn status(&self, pod: &Pod, at: usize) -> Status {
        let Machine { server, data, owner, .. } = &self.machines[at];
        let facts = if self.runs(at) {
            self.facts(pod, at)
        } else {
            let remembers = Some(data.iter().flatten().map(|it| name(*it)).collect());
            let left = *server == Server::Left;
            Facts { unknown: Some("refused".into()), remembers, owner: *owner, left, ..Facts::default() }
        };
        let is_usable = |files: &usize| pod.active != Some(*files) && self.contents[*files].member(at).is_some();
        let takes = self.files.filter(is_usable).filter(|_| self.runs(at) && self.is_taken_as_it_runs(pod.active));
        let state = State { active: pod.active.map(hash), takes: takes.map(hash), ..server.state() };
        Status {
            node: node(at),
            daemons: BTreeMap::from([(CONTAINER.to_owned(), state)]),
            health: Some(Health::new(self.serves(at), "as it is")),
            rabbitmq: Some(facts),
            ..Status::default()
        }
    }

    /// What a server that runs says.
    fn facts(&self, pod: &Pod, at: usize) -> Facts {
        let queues = |names: Vec<String>| Queues::of("tf", names.iter());
        let deserted = self.memories.get(&pod.uid).map(|memory| memory.deserted.clone()).unwrap_or_default();
        let is_alone = self.cluster.len() > 1 && self.is_whole(at) && !self.has_mirror(at);
        let critical = (is_alone || self.is_critical(at)).then(|| "queues would not be there".to_owned());
        let unmirrored = || Some(Unmirrored { are: queues(vec!["mirrored".into()])?, policy: None });
        Facts {
            name: name(at),
            release: pod.template.to_string(),
            nodes: self.cluster.iter().map(|it| (name(*it), self.runs(*it))).collect(),
            deserted: queues(deserted.iter().map(|number| format!("q{number}")).collect()),
            short: queues(self.is_short(at).then(|| "ledger".to_owned()).into_iter().collect()),
            unmirrored: (!self.has_policy).then(unmirrored).flatten(),
            flags: Some(self.machines[at].flags == Some(pod.template)),
            critical,
            left: self.machines[at].drained,
            ..Facts::default()
        }
    }

    fn resource(&self) -> Rabbitmq {
        let common_configuration =
            PodConfiguration { replicas: Some(self.wanted as i32), ..PodConfiguration::default() };
        let mut cr = Rabbitmq::new("rabbitmq1", RabbitmqSpec { common_configuration, ..RabbitmqSpec::default() });
        let hibernates = self.hibernates.then(|| (ANNOTATION_HIBERNATE.to_owned(), "true".to_owned()));
        cr.metadata.annotations = Some(hibernates.into_iter().collect());
        cr.metadata.namespace = Some("tf".into());
        let mut status = RabbitmqStatus::default();
        status.contract.members.clone_from(&self.record.members);
        status.contract.initialized = Some(self.founded > 0);
        status.own.leaving.clone_from(&self.record.leaving);
        status.own.highest_id = Some(self.record.highest);
        cr.status = Some(status);
        cr
    }

    pub fn observe(&self) -> Observed<Rabbitmq> {
        let label = |machine: &Machine| {
            (!machine.is_unfit).then(|| ("node-role.kubernetes.io/control-plane".to_owned(), String::new()))
        };
        let nodes = self.machines.iter().enumerate().filter(|(_, machine)| machine.exists);
        let nodes = nodes.map(|(at, machine)| observed::Node {
            name: node(at),
            address: Some(address(at)),
            labels: label(machine).into_iter().collect(),
            ..observed::Node::default()
        });
        let workload = Workload {
            name: SET.into(),
            current: self.seen == self.set,
            wanted: self.set.replicas as i32,
            revision: Some((self.revisions.len() - 1).to_string()),
            ..Workload::default()
        };
        let is_there = self.set != Set::default();
        let heard = self.pods.iter().filter(|pod| self.has_agent(pod.template) && pod.age > 1);
        let agent = |pod: &Pod| Some((pod.uid.to_string(), Agent::Says(Box::new(self.status(pod, pod.at?)))));
        let mut observed = Observed {
            nodes: Source::Known(nodes.collect()),
            pods: Source::Known(self.pods.iter().map(|pod| self.pod(pod)).collect()),
            agents: heard.filter_map(agent).collect(),
            workloads: is_there.then(|| (SET.to_owned(), workload)).into_iter().collect(),
            ..Observed::default()
        };
        DOMAIN.clone_into(&mut observed.operator.cluster_domain);
        observed
    }

    /// The plan without what does not bear on the decision: objects, files and conditions.
    pub fn plan(&self, observed: &Observed<Rabbitmq>) -> Option<(Plan, Record, Set, Content)> {
        let cr = self.resource();
        let ensemble = prepare(&cr, observed).ok()?;
        let settled = Settled::of(&cr, observed, &ensemble);
        let Members { ensemble, nodes: names, record, decided, .. } = members(ensemble, &settled).ok()?;
        let members = ensemble.members().to_vec();
        let nodes: Vec<usize> = members.iter().map(|member| machine(&member.node)).collect();
        let content =
            Content { version: self.version, members: members.iter().map(|it| it.id).zip(nodes.clone()).collect() };
        let set = Set { replicas: if ensemble.is_asleep() { 0 } else { nodes.len() }, template: self.template, nodes };
        let templates = vec![(SET.to_owned(), self.template.to_string())];
        let pods = observed.pods.known().unwrap();
        let index = self.contents.iter().position(|it| *it == content).unwrap_or(self.contents.len());
        let contents = members.iter().map(|member| (member.node.clone(), hash(index))).collect();
        let mut plan = Plan {
            step: rollout::of_pods(pods, &observed.workloads, &templates).restart(),
            rollout: Some(Rollout { workloads: templates, wanted: None, selector: String::new() }),
            hibernation: if ensemble.is_asleep() { Hibernation::Asleep } else { Hibernation::Awake },
            members,
            ..Plan::default()
        };
        procedure::complete(&mut plan, &cr, observed, &contents, &names, decided);
        hibernation::finish(&mut plan);
        Some((plan, record, set, content))
    }
}
