//! Which events are merged. A recorder merges all that are alike but for their notes and keeps the first note, since no note can be changed.
//! With another recorder the next event is one of its own and has its own note: so it is here once the note is another one, and the series has
//! gone on for a while.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

/// For so long a series keeps its note, so that a state that flaps makes no more than one event in this time.
const LASTS: Duration = Duration::from_mins(5);
/// After so long without an event a recorder forgets a series (kube-runtime, `CACHE_TTL`).
const FORGOTTEN: Duration = Duration::from_mins(6);

/// Events that go on, by what they are, each with its recorder.
pub struct Series<R>(HashMap<String, One<R>>);

struct One<R> {
    note: String,
    begun: Instant,
    last: Instant,
    recorder: R,
}

impl<R> Default for Series<R> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<R: Clone> Series<R> {
    /// The recorder for an event with this note. `what`: all that is alike in the events of a series. `begin` makes a recorder.
    pub fn recorder(&mut self, what: String, note: &str, now: Instant, begin: impl FnOnce() -> R) -> R {
        self.0.retain(|_, one| now.duration_since(one.last) < FORGOTTEN);
        if let Some(one) = self.0.get_mut(&what)
            && (one.note == note || now.duration_since(one.begun) < LASTS)
        {
            one.last = now;
            return one.recorder.clone();
        }
        let recorder = begin();
        self.0.insert(what, One { note: note.to_owned(), begun: now, last: now, recorder: recorder.clone() });
        recorder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of the recorder for each event: seconds from the beginning, what it is, and its note.
    fn recorders(events: &[(u64, &str, &str)]) -> Vec<u32> {
        let (begin, mut series, mut made) = (Instant::now(), Series::default(), 0);
        let recorder = |(at, what, note): &(u64, &str, &str)| {
            series.recorder((*what).to_owned(), note, begin + Duration::from_secs(*at), || {
                made += 1;
                made
            })
        };
        events.iter().map(recorder).collect()
    }

    #[test]
    fn another_note_is_an_event_of_its_own_once_the_series_has_lasted_five_minutes() {
        let events =
            [(0, "a", "x"), (60, "a", "y"), (299, "a", "y"), (300, "a", "y"), (301, "a", "x"), (601, "a", "x")];
        assert_eq!(recorders(&events), [1, 1, 1, 2, 2, 3]);
    }

    #[test]
    fn the_same_note_is_one_series_and_what_is_not_alike_is_another() {
        assert_eq!(recorders(&[(0, "a", "x"), (1, "b", "x"), (301, "a", "x"), (601, "a", "x")]), [1, 2, 1, 1]);
    }

    #[test]
    fn a_state_that_flaps_makes_one_event_in_five_minutes() {
        let flaps: Vec<_> = (0..3600).map(|second| (second, "a", if second % 2 == 0 { "x" } else { "y" })).collect();
        assert_eq!(recorders(&flaps).last(), Some(&12));
    }

    #[test]
    fn a_series_is_forgotten_with_its_recorders_memory() {
        assert_eq!(recorders(&[(0, "a", "x"), (359, "a", "x"), (719, "a", "x")]), [1, 1, 2]);
    }
}
