//! A client of the config API that goes on all the time: it makes a network through each member in turn, reads it through the next one and deletes it, and what one
//! member does not answer it asks another, as Tungsten Fabric's clients do. One that says that it cannot at the moment is asked again after a second, by
//! those clients' library (upstream `vnc_api.py`: 502 and 503).

use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, ensure};
use tf_testing::real::sim::Visitor;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::store::NAMESPACE;

/// How often it looks whom to trust, as daemons do by their agents.
const TRUST: Duration = Duration::from_secs(2);
/// Between two networks.
const PAUSE: Duration = Duration::from_millis(100);
/// Before it asks again who cannot at the moment.
const AGAIN: Duration = Duration::from_secs(1);
/// For one member's answer. A client that waits longer has noticed.
const PATIENCE: Duration = Duration::from_secs(5);

/// What became of the requests.
#[derive(Debug, Default)]
pub struct Tally {
    /// How many there were.
    requests: usize,
    /// How many were answered by the second member that was asked.
    retried: usize,
    /// How many of those after a second in which neither could.
    waited: usize,
    /// Those that neither of two members answered, with the time since the beginning.
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
            "{requests} requests, {retried} answered by another member, {waited} of them a second later, {failures} failed, longest {longest:.1?}"
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
        Self::begin_at(client, addresses, name, PAUSE)
    }

    /// The same with another pause between two networks.
    pub fn begin_at(client: &kube::Client, addresses: &[IpAddr], name: &str, pause: Duration) -> Self {
        let (end, ended) = watch::channel(false);
        let client = Client { cluster: client.clone(), addresses: addresses.to_vec(), name: name.to_owned(), pause };
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
    pause: Duration,
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
            let made = self.twice(number, &mut tally, begun, &visitor, &Question::Make(name)).await;
            if let Some(id) = made {
                self.twice(number + 1, &mut tally, begun, &visitor, &Question::Read(id.clone())).await;
                self.twice(number + 2, &mut tally, begun, &visitor, &Question::Delete(id)).await;
            }
            tokio::time::sleep(self.pause).await;
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
        let count = self.addresses.len();
        let (first, second) = (self.addresses[number % count], self.addresses[(number + 1) % count]);
        let asked = async |address| timeout(PATIENCE, question.ask(visitor, address)).await.context("no answer")?;
        tally.requests += 1;
        let start = Instant::now();
        let answer = match asked(first).await {
            Ok(answer) => Some(answer),
            Err(error) => {
                tally.retried += 1;
                let told = |again: Error| {
                    tally.last_failure = begun.elapsed();
                    let since = begun.elapsed().as_secs_f64();
                    tally.failed.push(format!("after {since:.1} s: {first}: {error:#}; {second}: {again:#}"));
                };
                match asked(second).await {
                    Err(error) if error.to_string().contains("status 503") => {
                        tally.waited += 1;
                        tokio::time::sleep(AGAIN).await;
                        asked(first).await.map_err(told).ok()
                    }
                    answer => answer.map_err(told).ok(),
                }
            }
        };
        tally.longest = tally.longest.max(start.elapsed());
        answer
    }
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
