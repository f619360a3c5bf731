//! Clients that consume, what agents remember of them, and the quorum queue that they declare.

use super::*;

/// Steps for which consumers are waited for when a server came or went.
const LONGEST: usize = 6;

/// A client, which consumes from a queue with mirrors.
#[derive(Clone, Debug, Default)]
pub struct Client {
    pub stopped: bool,
    /// The server that it is connected to.
    pub on: Option<usize>,
    /// When it lost its server.
    lost: usize,
    /// Steps until it finds another one.
    away: usize,
}

/// What an agent remembers of queues (`tf_node::store::rabbitmq::queues`).
#[derive(Clone, Debug)]
pub struct Memory {
    nodes: Vec<(usize, bool)>,
    /// When the agent began, and when nodes changed.
    begun: usize,
    changed: usize,
    /// When it last asked its server: what was meanwhile it did not see.
    looked: usize,
    consumed: BTreeSet<usize>,
    pub deserted: BTreeSet<usize>,
}

impl World {
    pub fn clients_go_on(&mut self) {
        self.time += 1;
        let running: BTreeSet<usize> = (0..self.machines.len()).filter(|at| self.serves(*at)).collect();
        for (client, number) in self.clients.iter_mut().zip(0..) {
            if client.on.is_some_and(|at| !running.contains(&at)) {
                *client = Client { on: None, lost: self.time, away: self.slowness, ..*client };
            }
            client.away = client.away.saturating_sub(1);
            if client.stopped {
                client.on = None;
            } else if client.on.is_none() && client.away == 0 {
                client.on = running.iter().copied().cycle().nth(number);
            }
        }
        // It is lost with a majority of those that have it, and declared anew.
        let has_it = self.queue.iter().filter(|at| self.holds(**at)).count();
        if self.has_quorum_queue && 2 * has_it <= self.queue.len() {
            self.lost += usize::from(!self.queue.is_empty());
            self.queue = running.iter().copied().take(GROUP).collect();
        }
        self.agents_look(&running);
    }

    fn agents_look(&mut self, running: &BTreeSet<usize>) {
        let now = self.time;
        let nodes: Vec<(usize, bool)> = self.cluster.iter().map(|at| (*at, running.contains(at))).collect();
        let connected = |number: &usize| self.clients[*number].on.is_some();
        let consumed: BTreeSet<usize> = (0..self.clients.len()).filter(connected).collect();
        let pods: BTreeMap<u32, usize> = self.set.pods.iter().filter_map(|pod| Some((pod.uid, pod.at?))).collect();
        self.memories.retain(|uid, _| pods.contains_key(uid));
        for (uid, _) in pods.iter().filter(|(_, at)| running.contains(at)) {
            let memory = self.memories.entry(*uid).or_insert_with(|| Memory {
                nodes: nodes.clone(),
                begun: now,
                changed: now,
                looked: now,
                consumed: BTreeSet::new(),
                deserted: BTreeSet::new(),
            });
            let looked = std::mem::replace(&mut memory.looked, now);
            if memory.nodes != nodes || looked + 1 < now {
                (memory.nodes, memory.changed) = (nodes.clone(), now);
            }
            if now - memory.changed > LONGEST {
                memory.consumed = consumed.clone();
            }
            memory.consumed.extend(&consumed);
            memory.deserted = &memory.consumed - &consumed;
        }
    }

    /// Clients that are to be waited for: they lost their server a short while ago, and an agent that answers has seen them before.
    pub fn missed(&self) -> usize {
        let saw = |lost: usize| {
            self.set.pods.iter().any(|pod| {
                let memory = self.memories.get(&pod.uid);
                let runs = pod.at.is_some_and(|at| self.runs(at)) && pod.leaving.is_none();
                runs && memory.is_some_and(|memory| memory.begun + LONGEST < lost)
            })
        };
        let is_missed = |client: &&Client| {
            client.on.is_none() && !client.stopped && self.time - client.lost < LONGEST && saw(client.lost)
        };
        self.clients.iter().filter(is_missed).count()
    }
}
