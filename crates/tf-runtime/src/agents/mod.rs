//! What the node agents of pods say, asked every other second by the process that leads.
//!
//! Where there are very many, as on the nodes of a vRouter, a round takes longer instead of asking more at a time.
//!
//! Answers are kept; a resource is woken when one of its pods says something else than before. So what is asked costs the
//! API server nothing. Only pods whose certificate is noted are asked: others have no agent that could answer.

mod call;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{StreamExt as _, stream};
use http::Method;
use jiff::Timestamp;
use serde_json::Value;
use tf_agent_api::state::{State, Status};
use tf_api::Resource as _;
use tf_plan::{component::Component, observed::Agent, step::Request};
use tokio::{
    sync::{Notify, mpsc, watch},
    time::{sleep, timeout},
};

use self::call::{CallError, Connection};
use crate::{
    caches::{Caches, Trigger},
    http_client::ExchangeError,
    identity::Authorities,
    leader::Permit,
    lock::lock,
    metrics::Answers,
    object::Key,
    watch::Primary,
};

/// Between two rounds of questions.
const INTERVAL: Duration = Duration::from_secs(2);
/// Between two rounds for each agent that is asked, where that is longer: 200 questions a second at most.
const PACE: Duration = Duration::from_millis(5);
/// Questions at a time.
const AT_ONCE: usize = 64;
/// For a connection, and for an answer about the state.
const PATIENCE: Duration = Duration::from_millis(1500);
/// For an answer about a new list of members, which has to reach a majority.
const RECONFIGURE_PATIENCE: Duration = Duration::from_secs(12);
/// For an answer about a member that leaves: its clients and queues go to others first.
const MEMBERSHIP_PATIENCE: Duration = Duration::from_secs(90);
/// For an answer about a ring: most of it goes on afterwards, and a changed keyspace has to reach every server.
const RING_PATIENCE: Duration = Duration::from_secs(40);
/// For an answer about another Redis server that takes writes: it is up to date first, and then a majority has to hear of it.
const REDIS_PATIENCE: Duration = Duration::from_secs(30);
/// An agent that failed to answer so often in a row is silent.
const FAILURES: u32 = 2;

/// What is known of the agents, by the pods' uids.
#[derive(Default)]
pub struct Agents {
    known: Mutex<HashMap<String, Arc<Member>>>,
    hurry: Notify,
    rounds: watch::Sender<u64>,
}

/// One pod's agent.
struct Member {
    resource: Key,
    address: SocketAddr,
    connection: tokio::sync::Mutex<Option<Connection>>,
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    agent: Option<Agent>,
    failures: u32,
}

/// What asking takes.
pub struct Round<C: Component> {
    /// Pods and resources.
    pub caches: Arc<Caches<C::Cr>>,
    /// Whom agents trust.
    pub authorities: Arc<Authorities>,
    /// Whether this process leads.
    pub permit: Permit,
    /// Whom to wake.
    pub triggers: mpsc::UnboundedSender<Trigger>,
    /// Domain of cluster services.
    pub cluster_domain: String,
}

impl Agents {
    /// What the agent of a pod says; none if it was not asked to the end yet.
    pub fn heard(&self, uid: &str) -> Option<Agent> {
        let member = lock(&self.known).get(uid)?.clone();
        lock(&member.heard).agent.clone()
    }

    /// Asks a pod's agent to change something. When this returns, what all agents say has been asked for again.
    ///
    /// # Errors
    /// When the agent cannot be reached, or refuses.
    pub async fn ask(&self, uid: &str, request: &Request) -> Result<(), CallError> {
        let member = lock(&self.known).get(uid).cloned().ok_or(CallError::Unknown)?;
        let (path, body, patience) = match request {
            Request::Reconfigure(change) => {
                ("/v1/zookeeper/reconfig", serde_json::to_vec(change), RECONFIGURE_PATIENCE)
            }
            Request::Ring(change) => ("/v1/cassandra/ring", serde_json::to_vec(change), RING_PATIENCE),
            Request::Redis(change) => ("/v1/redis/change", serde_json::to_vec(change), REDIS_PATIENCE),
            Request::Membership(change) => ("/v1/rabbitmq/membership", serde_json::to_vec(change), MEMBERSHIP_PATIENCE),
        };
        let body = body.map_err(CallError::Malformed)?;
        let result = {
            let mut connection = member.connection.lock().await;
            let open = connection.as_mut().ok_or(CallError::Unknown)?;
            let result = open.call::<Value>(Method::POST, path, body, patience).await;
            if !matches!(result, Ok(_) | Err(CallError::Refused(..))) {
                *connection = None;
            }
            result
        };
        self.listen().await;
        result.map(drop)
    }

    /// Waits for the end of a round that begins now.
    async fn listen(&self) {
        let mut rounds = self.rounds.subscribe();
        // One that is under way may have asked before.
        let until = *rounds.borrow() + 2;
        self.hurry.notify_one();
        let passed = async {
            while *rounds.borrow_and_update() < until && rounds.changed().await.is_ok() {
                self.hurry.notify_one();
            }
        };
        let _ = timeout(3 * PATIENCE, passed).await;
    }

    /// Asks for ever.
    pub async fn run<C: Component>(self: Arc<Self>, round: Round<C>) {
        loop {
            let mut asked = 0;
            if round.permit.until().is_some() {
                asked = self.look(&round).await;
                self.rounds.send_modify(|count| *count += 1);
            }
            tokio::select! {
                () = sleep(pause(asked)) => {}
                () = self.hurry.notified() => {}
            }
        }
    }

    /// Asks everybody. How many that are.
    async fn look<C: Component>(&self, round: &Round<C>) -> usize {
        let members = self.update(round);
        let count = members.len();
        let questions = members.into_iter().map(|member| async move {
            let Some(authority) = round.authorities.of(&member.resource.namespace) else { return };
            let operator = round.caches.declaration.operator;
            let answer = match authority.client(operator, Timestamp::now()) {
                Ok(tls) => member.status(tls).await,
                Err(error) => Some(Err(ExchangeError::Unreachable(error.to_string()).into())),
            };
            if answer.is_some_and(|answer| member.take(answer)) {
                let _ = round.triggers.send(Trigger::One(member.resource.clone()));
            }
        });
        stream::iter(questions).buffer_unordered(AT_ONCE).collect::<()>().await;
        count
    }

    /// How many agents of a resource answer.
    pub fn answers(&self, resource: &Key) -> Answers {
        let mut answers = Answers::default();
        for member in lock(&self.known).values().filter(|member| member.resource == *resource) {
            match lock(&member.heard).agent {
                Some(Agent::Says(_)) => answers.answering += 1,
                Some(Agent::Silent(_)) => answers.silent += 1,
                None => answers.unheard += 1,
            }
        }
        answers
    }

    /// The agents that can be asked. Others are forgotten.
    fn update<C: Component>(&self, round: &Round<C>) -> Vec<Arc<Member>> {
        let mut known = lock(&self.known);
        let mut now = HashMap::new();
        for (key, primary) in round.caches.primaries.select(|_, _| true) {
            let Primary::Valid(cr) = &*primary else { continue };
            if cr.meta().deletion_timestamp.is_some() {
                continue;
            }
            let Some(agents) = C::agents(cr, &round.cluster_domain) else { continue };
            for pod in round.caches.pods_of(&key) {
                let reachable = pod.certificate.is_some() && !pod.terminating;
                let address = pod.address.as_ref().and_then(|address| address.parse::<IpAddr>().ok());
                let Some(address) = address.filter(|_| reachable) else { continue };
                let address = SocketAddr::new(address, pod.agent_port.unwrap_or(agents.port).get());
                let present = known.remove(&pod.uid).filter(|member| member.address == address);
                let member = present.unwrap_or_else(|| Arc::new(Member::new(key.clone(), address)));
                now.insert(pod.uid, member);
            }
        }
        *known = now;
        known.values().cloned().collect()
    }
}

impl Member {
    fn new(resource: Key, address: SocketAddr) -> Self {
        Self { resource, address, connection: tokio::sync::Mutex::default(), heard: Mutex::default() }
    }

    /// What the agent says. None while it is being asked to change something: it answers when that is done.
    async fn status(&self, tls: Arc<rustls::ClientConfig>) -> Option<Result<Status, CallError>> {
        let mut connection = self.connection.try_lock().ok()?;
        Some(self.status_over(&mut connection, tls).await)
    }

    async fn status_over(
        &self,
        connection: &mut Option<Connection>,
        tls: Arc<rustls::ClientConfig>,
    ) -> Result<Status, CallError> {
        let is_new = connection.is_none();
        let mut open = match connection.take() {
            Some(open) => open,
            None => self.connect(tls.clone()).await?,
        };
        let mut answer = open.call(Method::GET, "/v1/status", Vec::new(), PATIENCE).await;
        if !is_new && matches!(answer, Err(CallError::Unanswered(ExchangeError::Unreachable(_)))) {
            // The agent ends connections after a while.
            open = self.connect(tls).await?;
            answer = open.call(Method::GET, "/v1/status", Vec::new(), PATIENCE).await;
        }
        if answer.is_ok() {
            *connection = Some(open);
        }
        answer
    }

    async fn connect(&self, tls: Arc<rustls::ClientConfig>) -> Result<Connection, CallError> {
        Connection::open(self.address, tls, PATIENCE).await
    }

    /// Keeps an answer. Whether it is another one than before.
    fn take(&self, answer: Result<Status, CallError>) -> bool {
        let mut heard = lock(&self.heard);
        let before = heard.agent.take();
        heard.agent = match answer {
            Ok(status) => {
                heard.failures = 0;
                Some(Agent::Says(Box::new(status)))
            }
            Err(error) => {
                heard.failures += 1;
                if heard.failures < FAILURES { before.clone() } else { Some(Agent::Silent(error.to_string())) }
            }
        };
        !is_same(before.as_ref(), heard.agent.as_ref())
    }
}

/// Between two rounds of so many questions.
fn pause(asked: usize) -> Duration {
    INTERVAL.max(PACE * u32::try_from(asked).unwrap_or(u32::MAX))
}

/// Whether two answers lead to the same: counters and times pass by.
fn is_same(before: Option<&Agent>, after: Option<&Agent>) -> bool {
    match (before, after) {
        (Some(Agent::Says(before)), Some(Agent::Says(after))) => substance(before) == substance(after),
        (Some(Agent::Silent(_)), Some(Agent::Silent(_))) | (None, None) => true,
        _ => false,
    }
}

/// A status without what passes by. Whatever else there is counts, so that no fact is left out which somebody decides on.
fn substance(status: &Status) -> Status {
    let mut status = status.clone();
    for State { since, message, pid, restarts, last_exit, .. } in status.daemons.values_mut() {
        (*since, *message, *pid, *restarts, *last_exit) = (Timestamp::default(), None, None, 0, None);
    }
    if let Some(facts) = &mut status.zookeeper {
        facts.zxid = 0;
    }
    if let Some(copying) = status.redis.as_mut().and_then(|facts| facts.copying.as_mut()) {
        *copying = copying.at_rest();
    }
    status
}
