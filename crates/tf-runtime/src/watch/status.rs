//! The state of every watch, for planners, readiness and tasks that wait for the first synchronisation.

use std::{collections::HashMap, sync::Mutex};

use tf_plan::{object::Kind, observed::Unavailable};
use tokio::sync::watch;

/// What a watch is for. Secrets, for example, are watched both as objects we own and as objects users refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Objects the component works on: its own, its peers', nodes, pods.
    Work,
    /// Objects that resources refer to by name.
    Input,
    /// The Secrets with authorities of members' certificates.
    Authority,
    /// Events about volume claims.
    Claims,
}

/// What a watch is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The kind.
    pub kind: Kind,
    /// What for.
    pub purpose: Purpose,
    /// The namespace; none for all, and for cluster-scoped kinds.
    pub namespace: Option<String>,
}

impl Subject {
    /// A watch for the component's work.
    pub fn work(kind: Kind, namespace: Option<&str>) -> Self {
        Self { kind, purpose: Purpose::Work, namespace: namespace.map(str::to_owned) }
    }
}

/// State of one watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Not tried to the end yet.
    Pending,
    /// What arrived is what the API server has, give or take a moment.
    Synced,
    /// Does not work, and this is why.
    Failing(Unavailable),
}

/// States by subject.
#[derive(Debug, Default)]
pub struct WatchStatuses {
    states: Mutex<HashMap<Subject, State>>,
    /// Counts changes.
    changed: watch::Sender<()>,
}

impl WatchStatuses {
    /// Records the state of a watch.
    pub fn set(&self, subject: &Subject, state: State) {
        let previous = self.lock().insert(subject.clone(), state.clone());
        if previous.as_ref() != Some(&state) {
            self.changed.send_replace(());
        }
    }

    /// State of exactly this watch.
    pub fn get(&self, subject: &Subject) -> State {
        self.lock().get(subject).cloned().unwrap_or(State::Pending)
    }

    /// State of the work watch that covers this namespace; the watch of all namespaces covers each. None if no watch does.
    pub fn covering(&self, kind: Kind, namespace: &str) -> Option<State> {
        let states = self.lock();
        states.get(&Subject::work(kind, Some(namespace))).or_else(|| states.get(&Subject::work(kind, None))).cloned()
    }

    /// Whether every watch has succeeded or failed at least once.
    pub fn all_tried(&self) -> bool {
        let states = self.lock();
        !states.is_empty() && states.values().all(|state| *state != State::Pending)
    }

    /// Whether the watches of this kind work; none if there are none.
    pub fn synced(&self, kind: Kind) -> Option<bool> {
        let states = self.lock();
        let mut own = states.iter().filter(|(subject, _)| subject.kind == kind).peekable();
        own.peek()?;
        Some(own.all(|(_, state)| *state == State::Synced))
    }

    /// Completes when every watch has succeeded or failed at least once.
    pub async fn tried(&self) {
        let mut changes = self.changes();
        // The sender lives as long as `self`.
        while !self.all_tried() && changes.changed().await.is_ok() {}
    }

    /// Receives every change of the state of any watch from now on, also a change while no task was waiting.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Subject, State>> {
        crate::lock::lock(&self.states)
    }
}
