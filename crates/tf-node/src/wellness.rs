//! Whether a daemon serves that nobody asks about from outside: those beside the one whose container serves the agent API. Their agents look
//! by themselves and tell by the state file, sooner and in more words than the kubelet does.

use std::time::Duration;

use tf_plan::node::launch::{Launch, Probe};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{paths::Paths, pod::Pod, probe, state_file};

/// Between two looks.
const PERIOD: Duration = Duration::from_secs(2);
/// How long a daemon may not serve before it is said. One that is merely busy answers late now and then.
const FORBEARANCE: Duration = Duration::from_secs(4);

/// Looks after the daemon of one container.
pub struct Wellness {
    paths: Paths,
    daemon: String,
    pod: Pod,
    looking: Option<(Launch, JoinHandle<()>)>,
    told: watch::Sender<Option<String>>,
}

impl Wellness {
    /// Looks at nothing yet.
    pub fn new(paths: Paths, daemon: &str, pod: Pod) -> Self {
        Self { paths, daemon: daemon.to_owned(), pod, looking: None, told: watch::Sender::new(None) }
    }

    /// Looks at what this launch file runs, from now on.
    pub fn follow(&mut self, launch: &Launch) {
        if self.looking.as_ref().is_some_and(|(present, _)| present == launch) {
            return;
        }
        if let Some((_, task)) = self.looking.take() {
            task.abort();
        }
        self.told.send_replace(None);
        // About the others an operator asks, and of some there is nothing to see.
        if launch.agent.is_none() && !matches!(launch.ready, Probe::Process) {
            let (paths, daemon, address) = (self.paths.clone(), self.daemon.clone(), self.pod.address);
            let (look, told) = (launch.clone(), self.told.clone());
            let task = tokio::spawn(async move {
                let mut since = None;
                loop {
                    sleep(PERIOD).await;
                    let begun = Instant::now();
                    let state = state_file::read(&paths, &daemon);
                    let health = probe::ready(&look, state.as_ref(), &paths, address).await;
                    since = (!health.serves).then(|| since.unwrap_or(begun));
                    let is_long = since.is_some_and(|since| since.elapsed() >= FORBEARANCE);
                    let now = is_long.then_some(health.message);
                    told.send_if_modified(|told| (*told != now).then(|| *told = now.clone()).is_some());
                }
            });
            self.looking = Some((launch.clone(), task));
        }
    }

    /// Why the daemon does not serve, if it does not.
    pub fn unwell(&self) -> Option<String> {
        self.told.borrow().clone()
    }

    /// Changes of that.
    pub fn told(&self) -> watch::Receiver<Option<String>> {
        self.told.subscribe()
    }
}

impl Drop for Wellness {
    fn drop(&mut self) {
        if let Some((_, task)) = &self.looking {
            task.abort();
        }
    }
}
