//! What the operator sees of the world, and what it plans by that.

use super::*;

impl World {
    fn pod(&self, pod: &Pod) -> observed::Pod {
        let seen = self.set.observed(pod);
        observed::Pod {
            ready: pod.leaving.is_none() && pod.at.is_some_and(|at| self.serves(at)),
            certificate: seen.certificate.filter(|_| self.has_agent(pod.template)),
            ..seen
        }
    }

    fn status(&self, pod: &Pod, at: usize) -> Status {
        let Machine { server, data, owner, .. } = &self.machines[at];
        let facts = if self.runs(at) {
            Facts { owner: *owner, ..self.facts(pod, at) }
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
        let heard = self.set.pods.iter().filter(|pod| self.has_agent(pod.template) && pod.age > 1);
        let agent = |pod: &Pod| Some((pod.uid.to_string(), Agent::Says(Box::new(self.status(pod, pod.at?)))));
        let mut observed = Observed {
            nodes: Source::Known(nodes.collect()),
            pods: Source::Known(self.set.pods.iter().map(|pod| self.pod(pod)).collect()),
            agents: heard.filter_map(agent).collect(),
            workloads: self.set.workloads(),
            ..Observed::default()
        };
        DOMAIN.clone_into(&mut observed.operator.cluster_domain);
        observed
    }

    /// The plan without what does not bear on the decision: objects, files and conditions.
    pub fn plan(&self, observed: &Observed<Rabbitmq>) -> Option<(Plan, Record, Spec, Content)> {
        let cr = self.resource();
        let member_set = prepare(&cr, observed).ok()?;
        let pinned_files = PinnedFiles::of(&cr, observed, &member_set);
        let Members { member_set, nodes: names, record, decided, .. } = members(member_set, &pinned_files).ok()?;
        let members = member_set.members().to_vec();
        let spec = Spec::of(&members, self.template, member_set.is_asleep());
        let both = members.iter().map(|member| member.id).zip(spec.nodes.iter().copied());
        let content = Content { version: self.version, members: both.collect() };
        let index = self.contents.iter().position(|it| *it == content).unwrap_or(self.contents.len());
        let contents = members.iter().map(|member| (member.node.clone(), hash(index))).collect();
        let mut plan = self.set.plan(&spec, members, observed);
        procedure::complete(&mut plan, &cr, observed, &contents, &names, decided);
        hibernation::finish(&mut plan);
        Some((plan, record, spec, content))
    }
}
