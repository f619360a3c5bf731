//! What the operator sees of the world, and what it plans by that.

use super::*;

impl World {
    pub fn sees(&self) -> Sight {
        let pods = self.set.pods.iter().map(|pod| self.observed(pod)).collect();
        let agents = self.set.pods.iter().filter(|pod| pod.template != 0 && pod.age > 1);
        let agent = |pod: &Pod| match pod.at.filter(|at| self.is_heard(*at) && self.machines[*at].silent == 0) {
            Some(at) => Agent::Says(Box::new(self.status(pod, at))),
            None => Agent::Silent("no answer".into()),
        };
        (pods, agents.map(|pod| (pod.uid.to_string(), agent(pod))).collect())
    }

    pub fn observed(&self, pod: &Pod) -> observed::Pod {
        let is_known = pod.at.is_some_and(|at| self.machines[at].unheard < UNHEARD);
        // What the Go tf-operator made has no agent, and no hash of a template.
        let is_ours = pod.template != 0;
        let seen = self.set.observed(pod);
        observed::Pod {
            ready: is_known && pod.own.server.is_some() && pod.leaving != Some(1),
            template: seen.template.filter(|_| is_ours),
            certificate: seen.certificate.filter(|_| is_ours),
            ..seen
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
        if let Some(server) = &pod.own.server {
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
        if let Some(sentinel) = &pod.own.sentinel {
            let Sentinel { master, epoch, known, .. } = sentinel;
            let (others, refuses) = (Some(known.len()), self.refuses(at));
            facts.sentinel = Some(Said { master: address(*master).parse().unwrap(), epoch: *epoch, others, refuses });
        }
        Status {
            node: node(at),
            daemons: both.into_iter().take(if self.mode == RedisMode::Sentinel { 2 } else { 1 }).collect(),
            health: Some(Health::new(pod.own.server.is_some(), "as it is")),
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
            ..observed::Node::default()
        });
        Observed {
            nodes: Source::Known(nodes.collect()),
            pods: Source::Known(pods),
            agents,
            workloads: self.set.workloads(),
            ..Observed::default()
        }
    }

    /// The plan without what does not bear on the decision: objects, files and conditions.
    pub fn plan(&self, observed: &Observed<Redis>) -> Option<(Plan, Spec, Content)> {
        let cr = self.resource();
        let Servers { member_set, mode, .. } = servers(&cr, observed).ok()?;
        let members = member_set.members().to_vec();
        let spec = Spec::of(&members, self.template, member_set.is_asleep());
        // Servers on their own are told of nobody else.
        let named = if mode == RedisMode::Sentinel { spec.nodes.clone() } else { (0..self.machines.len()).collect() };
        let content = Content { version: self.version, members: named };
        let index = self.contents.iter().position(|it| *it == content).unwrap_or(self.contents.len());
        let contents = members.iter().map(|member| (member.node.clone(), hash(index))).collect();
        let mut plan = self.set.plan(&spec, members, observed);
        procedure::complete(mode, &mut plan, &cr, observed, &contents);
        hibernation::finish(&mut plan);
        Some((plan, spec, content))
    }
}
