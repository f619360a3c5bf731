//! What the operator sees of the world, and what it plans by that.

use super::*;

impl World {
    pub fn sees(&self) -> Sight {
        let pods = self.pods.iter().map(|pod| self.observed(pod)).collect();
        let agents = self.pods.iter().filter(|pod| pod.template != 0 && pod.age > 1);
        let agent = |pod: &Pod| match pod.at.filter(|at| self.is_heard(*at) && self.machines[*at].silent == 0) {
            Some(at) => Agent::Says(Box::new(self.status(pod, at))),
            None => Agent::Silent("no answer".into()),
        };
        (pods, agents.map(|pod| (pod.uid.to_string(), agent(pod))).collect())
    }

    pub fn observed(&self, pod: &Pod) -> observed::Pod {
        let is_known = pod.at.is_some_and(|at| self.machines[at].unheard < UNHEARD);
        observed::Pod {
            name: format!("{SET}-{}", pod.ordinal),
            uid: pod.uid.to_string(),
            node: pod.at.map(node),
            ready: is_known && pod.server.is_some() && pod.leaving != Some(1),
            terminating: pod.leaving.is_some(),
            template: (pod.template != 0).then(|| pod.template.to_string()),
            revision: Some(pod.revision.to_string()),
            active: pod.told.map(|told| hash(told).as_str().to_owned()),
            certificate: (pod.template != 0 && pod.age > 0)
                .then(|| Certificate { not_after: jiff::Timestamp::MAX, issuer: String::new() }),
            ..observed::Pod::default()
        }
    }

    pub fn status(&self, pod: &Pod, at: usize) -> Status {
        let phase = if self.content(pod).is_some() { Phase::Running } else { Phase::BackOff };
        let daemon = |name: &str| {
            let active = pod.active.map(hash);
            (name.to_owned(), State { phase, active, ..State::default() })
        };
        let both = [daemon(CONTAINER), daemon(sentinel::CONTAINER)];
        let mut facts = Facts { unknown: Some("refused".into()), ..Facts::default() };
        if let Some(server) = &pod.server {
            let copies = self.linked_to(at);
            let far = |it: &usize| Some((address(*it).parse().ok()?, bytes(self.server(*it)?.data)));
            let copying = Copying {
                offset: bytes(server.data),
                linked: server.linked,
                copies: copies.iter().filter_map(far).collect(),
                lacks: if server.copies.is_none() { server.needs.saturating_sub(copies.len()) } else { 0 },
            };
            facts.unknown = None;
            facts.copies = server.copies.map(|master| format!("{}:6389", address(master)));
            facts.copying = (self.mode == RedisMode::Sentinel).then_some(copying);
        }
        if let Some(sentinel) = &pod.sentinel {
            let Sentinel { master, epoch, known, .. } = sentinel;
            let (others, refuses) = (Some(known.len()), self.refuses(at));
            facts.sentinel = Some(Said { master: address(*master).parse().unwrap(), epoch: *epoch, others, refuses });
        }
        Status {
            node: node(at),
            daemons: both.into_iter().take(if self.mode == RedisMode::Sentinel { 2 } else { 1 }).collect(),
            health: Some(Health::new(pod.server.is_some(), "as it is")),
            redis: Some(facts),
            ..Status::default()
        }
    }

    pub fn resource(&self) -> Redis {
        let other = if self.mode == RedisMode::Sentinel { RedisMode::Independent } else { RedisMode::Sentinel };
        let asked = if self.asks_other_mode { other } else { self.mode };
        let replicas = self.wanted.map(|wanted| wanted as i32);
        let mut cr = Redis::new(
            "redis1",
            RedisSpec {
                common_configuration: PodConfiguration { replicas, ..PodConfiguration::default() },
                service_configuration: RedisConfiguration { mode: Some(asked), ..RedisConfiguration::default() },
                ..RedisSpec::default()
            },
        );
        let hibernates = self.hibernates.then(|| (ANNOTATION_HIBERNATE.to_owned(), "true".to_owned()));
        cr.metadata.annotations = Some(hibernates.into_iter().collect());
        cr.metadata.namespace = Some("tf".into());
        let mut status = RedisStatus::default();
        status.contract.members.clone_from(&self.recorded);
        status.contract.initialized = Some(!self.recorded.is_empty());
        status.own.mode = (self.mode == RedisMode::Sentinel).then_some(self.mode);
        cr.status = Some(status);
        cr
    }

    pub fn observe(&self, (pods, agents): Sight) -> Observed<Redis> {
        let labels = BTreeMap::from([("node-role.kubernetes.io/control-plane".to_owned(), String::new())]);
        let nodes = self.machines.iter().enumerate().filter(|(_, machine)| machine.exists);
        let nodes = nodes.map(|(at, machine)| observed::Node {
            name: node(at),
            address: Some(address(at)),
            labels: labels.clone(),
            unreachable: machine.unheard >= UNHEARD,
        });
        let workload = Workload {
            name: SET.into(),
            current: self.seen == self.set,
            wanted: self.set.replicas as i32,
            revision: Some((self.revisions.len() - 1).to_string()),
            ..Workload::default()
        };
        let is_there = self.set != Set::default();
        Observed {
            nodes: Source::Known(nodes.collect()),
            pods: Source::Known(pods),
            agents,
            workloads: is_there.then(|| (SET.to_owned(), workload)).into_iter().collect(),
            ..Observed::default()
        }
    }

    /// The plan without what does not bear on the decision: objects, files and conditions.
    pub fn plan(&self, observed: &Observed<Redis>) -> Option<(Plan, Set, Content)> {
        let cr = self.resource();
        let Servers { ensemble, mode, .. } = servers(&cr, observed).ok()?;
        let members = ensemble.members().to_vec();
        let nodes: Vec<usize> = members.iter().map(|member| machine(&member.node)).collect();
        let replicas = if ensemble.is_asleep() { 0 } else { members.len() };
        let set = Set { replicas, template: self.template, nodes: nodes.clone() };
        // Servers on their own are told of nobody else.
        let named = if mode == RedisMode::Sentinel { nodes } else { (0..self.machines.len()).collect() };
        let content = Content { version: self.version, members: named };
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
        procedure::complete(mode, &mut plan, &cr, observed, &contents);
        hibernation::finish(&mut plan);
        Some((plan, set, content))
    }
}
