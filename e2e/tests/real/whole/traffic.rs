//! A client of the config API that goes on all the time: it makes a network through each member in turn, reads it for some seconds through all of them, and deletes
//! it. What one member does not answer it asks another, as Tungsten Fabric's clients do. Where the second one answers 503, too, it asks on every second, as those
//! clients' library does (upstream `vnc_api.py`, `_request`: 502 and 503, thirty times). It does so for less long: an outage is an outage.

use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tf_testing::real::sim::Visitor;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::store::NAMESPACE;

/// How often it looks whom to trust, as daemons do by their agents.
const TRUST: Duration = Duration::from_secs(2);
/// Between two requests.
const PAUSE: Duration = Duration::from_millis(100);
/// For how long a network is read. Each network makes two notices, so there are as many as where real daemons of analytics were seen to stumble over each
/// (docs/upstream/observed.md#unknown-types). A daemon that gets several in a second is hardly ever connected.
const READ: Duration = Duration::from_millis(2600);
/// Before it asks the next member after a 503.
const AGAIN: Duration = Duration::from_secs(1);
/// How often it does. Without a leader of ZooKeeper no API makes objects, and an election on two busy cores took 6 s.
const TIMES: usize = 10;

/// What became of the requests.
#[derive(Debug, Default)]
pub struct Tally {
    /// How many there were.
    requests: usize,
    /// How many were answered by the second member that was asked.
    retried: usize,
    /// How many of those after seconds in which members answered 503.
    waited: usize,
    /// Those that no member answered, with the time since the beginning.
    failed: Vec<String>,
    /// When the last of those was given up.
    last_failure: Duration,
    /// Longest time from a request's beginning to its answer.
    longest: Duration,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, retried, waited, failed, longest, .. } = self;
        let failures = failed.len();
        write!(
            f,
            "{requests} requests, {retried} answered by another member, {waited} of them after a 503 of both, {failures} failed, longest {longest:.1?}"
        )?;
        failed.iter().take(5).try_for_each(|failure| write!(f, "\n  {failure}"))
    }
}

/// The client at work.
pub struct Traffic {
    end: watch::Sender<bool>,
    task: JoinHandle<Result<Tally>>,
}

impl Traffic {
    /// Begins. `name`: what its objects are called, with a number.
    pub fn begin(client: &kube::Client, addresses: &[IpAddr], name: &str) -> Self {
        let (end, ended) = watch::channel(false);
        let client = Client { cluster: client.clone(), addresses: addresses.to_vec(), name: name.to_owned() };
        Self { end, task: tokio::spawn(client.go_on(ended)) }
    }

    /// Ends. Nothing may have failed.
    ///
    /// # Errors
    /// When something did.
    pub async fn end(self, what: &str) -> Result<()> {
        self.end_with(what, Duration::ZERO).await
    }

    /// Ends. Nothing may have failed but in the first `disturbed` of the time.
    ///
    /// # Errors
    /// When something did.
    pub async fn end_with(self, what: &str, disturbed: Duration) -> Result<()> {
        self.end.send_replace(true);
        let tally = self.task.await??;
        println!("{what}: {tally}");
        let is_served = tally.failed.is_empty() || tally.last_failure < disturbed;
        ensure!(is_served && tally.requests > 20, "{what}: {tally}");
        Ok(())
    }
}

struct Client {
    cluster: kube::Client,
    addresses: Vec<IpAddr>,
    name: String,
}

impl Client {
    async fn go_on(self, ended: watch::Receiver<bool>) -> Result<Tally> {
        let begun = Instant::now();
        let mut tally = Tally::default();
        let mut visitor = Visitor::of(&self.cluster, NAMESPACE).await?;
        let mut looked = begun;
        for number in 0.. {
            if *ended.borrow() {
                break;
            }
            if looked.elapsed() > TRUST {
                visitor = Visitor::of(&self.cluster, NAMESPACE).await?;
                looked = Instant::now();
            }
            let name = format!("{}-{number}", self.name);
            if let Some(id) = self.twice(number, &mut tally, begun, &visitor, &Question::Make(name)).await {
                let since = Instant::now();
                let mut turn = number;
                while since.elapsed() < READ && !*ended.borrow() {
                    turn += 1;
                    self.twice(turn, &mut tally, begun, &visitor, &Question::Read(id.clone())).await;
                    tokio::time::sleep(PAUSE).await;
                }
                self.twice(turn + 1, &mut tally, begun, &visitor, &Question::Delete(id)).await;
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(tally)
    }

    /// Asks a member, and if it does not answer the next one.
    async fn twice(
        &self,
        number: usize,
        tally: &mut Tally,
        begun: Instant,
        visitor: &Visitor,
        question: &Question,
    ) -> Option<String> {
        let start = Instant::now();
        tally.requests += 1;
        let mut answer = self.asked(number, visitor, question).await;
        if let Err(first) = &answer {
            tally.retried += 1;
            let first = format!("{first:#}");
            answer = self.asked(number + 1, visitor, question).await;
            tally.waited += usize::from(is_unavailable(&answer));
            for time in 2..TIMES + 2 {
                if !is_unavailable(&answer) {
                    break;
                }
                tokio::time::sleep(AGAIN).await;
                answer = self.asked(number + time, visitor, question).await;
            }
            if let Err(last) = &answer {
                tally.last_failure = begun.elapsed();
                let since = begun.elapsed().as_secs_f64();
                tally.failed.push(format!("after {since:.1} s: {first}; at last {last:#}"));
            }
        }
        tally.longest = tally.longest.max(start.elapsed());
        answer.ok()
    }

    /// What the member whose turn it is answers.
    async fn asked(&self, number: usize, visitor: &Visitor, question: &Question) -> Result<String> {
        let address = self.addresses[number % self.addresses.len()];
        question.ask(visitor, address).await.with_context(|| address.to_string())
    }
}

/// Whether a member answered that it cannot at the moment.
fn is_unavailable(answer: &Result<String>) -> bool {
    answer.as_ref().is_err_and(|error| format!("{error:#}").contains("status 503"))
}

/// What is asked.
enum Question {
    /// Make the virtual network of this name.
    Make(String),
    /// Show the one with this identifier.
    Read(String),
    /// Delete it.
    Delete(String),
}

impl Question {
    /// The identifier of what was made, shown or deleted.
    async fn ask(&self, visitor: &Visitor, address: IpAddr) -> Result<String> {
        match self {
            Self::Read(id) => visitor.read(address, id).await.map(|_| id.clone()),
            Self::Delete(id) => visitor.delete(address, id).await.map(|()| id.clone()),
            Self::Make(name) => match visitor.create(address, name).await {
                // It was made the first time, although nobody answered.
                Err(error) if error.to_string().contains("status 409") => visitor.find(address, name).await,
                made => made,
            },
        }
    }
}
