//! Whether the Kubernetes API lets the daemon read what it follows, which such a daemon does not say (ADR 0055).

use std::time::Duration;

use tf_agent_api::launch::Reads;
use tokio::time::Instant;

use super::seen::FORBEARANCE;
use crate::{kubernetes, paths::Paths};

/// Between two questions to the Kubernetes API.
const ASKING: Duration = Duration::from_secs(5);
/// The connection to it, by type and name like those that daemons tell.
const KUBERNETES: &str = "Kubernetes:API";

/// What is known of it.
#[derive(Debug, Default)]
pub struct Access {
    asked: Option<Instant>,
    /// How often it was asked for one list after the other.
    turns: usize,
    /// Its last answer: what is refused, in its words.
    answer: Option<Result<(), String>>,
    /// Why the daemon's own way to it leads nowhere, and since when.
    unreachable: Option<(String, Instant)>,
}

impl Access {
    /// Asks, if it is time to. Whoever is not at work is refused nothing, and what the API does not say is as it was.
    pub async fn look(&mut self, reads: &Reads, paths: &Paths, is_at_work: bool, begun: Instant) {
        if !is_at_work {
            *self = Self::default();
            return;
        }
        let is_time = self.asked.is_none_or(|asked| begun.duration_since(asked) >= ASKING);
        if let Some(server) = reads.server.filter(|_| is_time || self.unreachable.is_some()) {
            let since = self.unreachable.take().map_or(begun, |(_, since)| since);
            self.unreachable = kubernetes::unreachable(server).await.map(|why| (why, since));
        }
        if is_time {
            self.asked = Some(begun);
            // A daemon that is let in is asked for one list at a time: who loses its token, or its rights, is refused whichever it is.
            let lists: Vec<&String> = match (&self.answer, self.turns.checked_rem(reads.lists.len())) {
                (Some(Ok(())), Some(turn)) => reads.lists.iter().skip(turn).take(1).collect(),
                _ => reads.lists.iter().collect(),
            };
            if let Ok(refused) = kubernetes::refused(&reads.token, &lists, paths).await {
                self.turns += lists.len();
                self.answer = Some(refused.map_or(Ok(()), Err));
            }
        }
    }

    /// As other connections are told.
    pub fn connection(&self, now: Instant) -> Option<(String, bool)> {
        let is_known = self.answer.is_some() || self.unreachable.is_some();
        is_known.then(|| (KUBERNETES.to_owned(), self.lost(now).is_none()))
    }

    /// What it has not been connected to, as other lost connections are told. A refusal is an answer; one that was not reached may be a moment
    /// later.
    pub fn lost(&self, now: Instant) -> Option<String> {
        let unreachable = self.unreachable.as_ref();
        let unreachable =
            unreachable.filter(|(_, since)| now.duration_since(*since) >= FORBEARANCE).map(|(why, _)| why);
        let why = unreachable.or(self.answer.as_ref().and_then(|answer| answer.as_ref().err()))?;
        Some(format!("{KUBERNETES} ({why})"))
    }
}
