//! A task that goes on as long as what it is for is asked for.

use std::time::{Duration, Instant};

use serde_json::json;
use tf_host::sysctls::Look;
use tokio::{sync::watch, task::JoinHandle};

use crate::log;

/// Reports what one look of a task did, and what is not as it should be. `what`: what it looks at, in the plural. The log has a problem when it changes.
pub fn report(what: &str, look: Look, problem: &watch::Sender<Option<String>>) {
    if !look.written.is_empty() {
        log::info(&format!("{what} are set"), &json!({"names": look.written}));
    }
    let now = (!look.problems.is_empty()).then(|| look.problems.join(", "));
    if problem.send_replace(now.clone()) != now
        && let Some(problem) = now
    {
        log::warn(&format!("{what} are not as they should be"), &json!({"error": problem}));
    }
}

/// How long attempts count against another program that undoes them.
const COUNTED: Duration = Duration::from_hours(1);

/// The time in which attempts are counted.
#[derive(Debug)]
pub struct Counted(Instant);

impl Counted {
    /// It begins now.
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    /// Whether it is over; another one has begun then.
    pub fn is_over(&mut self) -> bool {
        let is_over = self.0.elapsed() > COUNTED;
        if is_over {
            *self = Self::begin();
        }
        is_over
    }
}

/// A task and what it is for. It ends when this is dropped.
#[derive(Debug)]
pub struct Keeping<T>(Option<(T, JoinHandle<()>)>);

impl<T> Default for Keeping<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Keeping<T> {
    /// What the task is for. None: there is none.
    pub fn present(&self) -> Option<&T> {
        self.0.as_ref().map(|(present, _)| present)
    }

    /// Ends the task, unless it is for this. Whether something else is asked for than before, so that a task has to be started.
    pub fn end_other(&mut self, wanted: Option<&T>) -> bool
    where
        T: PartialEq,
    {
        let is_other = self.present() != wanted;
        if is_other {
            self.end();
        }
        is_other
    }

    /// Starts a task, after [`Keeping::end_other`].
    pub fn start(&mut self, wanted: T, task: impl Future<Output = ()> + Send + 'static) {
        self.0 = Some((wanted, tokio::spawn(task)));
    }

    fn end(&mut self) {
        if let Some((_, task)) = self.0.take() {
            task.abort();
        }
    }
}

impl<T> Drop for Keeping<T> {
    fn drop(&mut self) {
        self.end();
    }
}
