//! A client of the config API as Tungsten Fabric's are: it knows every member, writes and reads through one after the other, and takes the next
//! one where a member does not answer. What fails there, too, has failed.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::*;

/// Between two requests.
const PACE: Duration = Duration::from_millis(100);
/// Before the next member is asked.
const RETRY: Duration = Duration::from_millis(200);
/// So often the client looks whom it is to trust.
const TRUST: Duration = Duration::from_secs(1);

/// How it went.
#[derive(Debug, Default)]
struct Account {
    /// Identifiers of what was made.
    made: Vec<String>,
    /// Requests that a member answered.
    answered: usize,
    /// Requests that a second member answered.
    retried: usize,
    /// Longest time from the beginning of a request to its answer.
    longest: Duration,
    /// What two members in a row did not answer.
    failed: Vec<String>,
}

impl Account {
    /// A request took so long, with these failures of so many attempts that there are.
    fn took(&mut self, long: Duration, failures: &[String], attempts: usize) {
        self.longest = self.longest.max(long);
        if failures.len() == attempts {
            self.failed.push(failures.join("; "));
        }
    }
}

/// The client.
pub struct Traffic {
    account: Arc<Mutex<Account>>,
    ending: oneshot::Sender<()>,
    task: JoinHandle<Result<()>>,
}

impl fmt::Display for Account {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { made, answered, retried, longest, failed } = self;
        write!(
            formatter,
            "{answered} requests answered, {} objects made, {retried} requests by a second member, ",
            made.len()
        )?;
        write!(formatter, "the slowest after {:.1} s, {} failed", longest.as_secs_f64(), failed.len())
    }
}

impl Traffic {
    /// Begins.
    pub fn begin(client: &Client, addresses: &[Ipv4Addr]) -> Self {
        let account = Arc::new(Mutex::new(Account::default()));
        let (ending, ended) = oneshot::channel();
        let task = tokio::spawn(run(client.clone(), addresses.to_vec(), Arc::clone(&account), ended));
        Self { account, ending, task }
    }

    /// How it went until now.
    pub fn summary(&self) -> String {
        lock(&self.account).to_string()
    }

    /// Ends, and holds that no request failed and that every member has all that was made.
    pub async fn end(self, visitor: &Visitor, addresses: &[Ipv4Addr]) -> Result<()> {
        let _ = self.ending.send(());
        self.task.await??;
        let account = std::mem::take(&mut *lock(&self.account));
        ensure!(account.failed.is_empty(), "{account}: {:?}", account.failed);
        ensure!(account.answered > 0, "nothing was asked");
        for id in &account.made {
            for address in addresses {
                visitor.read(*address, id).await.with_context(|| format!("{id} is lost: {account}"))?;
            }
        }
        println!("a client of the API: {account}");
        Ok(())
    }
}

fn lock(account: &Mutex<Account>) -> MutexGuard<'_, Account> {
    account.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn run(
    client: Client,
    addresses: Vec<Ipv4Addr>,
    account: Arc<Mutex<Account>>,
    mut ended: oneshot::Receiver<()>,
) -> Result<()> {
    let (mut visitor, mut looked) = (Visitor::of(&client, NAMESPACE).await?, Instant::now());
    for turn in 0.. {
        if ended.try_recv().is_ok() {
            break;
        }
        if looked.elapsed() > TRUST {
            (visitor, looked) = (Visitor::of(&client, NAMESPACE).await?, Instant::now());
        }
        // One writes, and the next one is asked for what the one before it has made.
        let known = lock(&account).made.last().cloned();
        let two = [addresses[turn % addresses.len()], addresses[(turn + 1) % addresses.len()]];
        let begun = Instant::now();
        let mut failures = Vec::new();
        for (attempt, address) in two.into_iter().enumerate() {
            let asked = match &known {
                Some(id) if turn % 2 == 1 => visitor.read(address, id).await.map(|_| None),
                // A member that ends may have made it and not said so: the second attempt has another name.
                _ => visitor.create(address, &format!("client-{turn}-{attempt}")).await.map(Some),
            };
            match asked {
                Ok(made) => {
                    let mut account = lock(&account);
                    account.answered += 1;
                    account.retried += attempt;
                    account.made.extend(made);
                    break;
                }
                Err(error) => failures.push(format!("{}: {error:#}", jiff::Timestamp::now())),
            }
            sleep(RETRY).await;
        }
        lock(&account).took(begun.elapsed(), &failures, two.len());
        sleep(PACE).await;
    }
    Ok(())
}
