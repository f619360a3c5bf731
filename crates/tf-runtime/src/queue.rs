//! The work queue: which resource is looked at when.
//!
//! Keys are merged, a key is never worked on twice at a time, and a key that is triggered while it is worked on comes
//! again. Triggers for one key are spread by [`SPREAD`]: the first is served at once, a burst after it together.

use std::{
    collections::{HashMap, HashSet},
    future::poll_fn,
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::time::{DelayQueue, delay_queue};

use crate::object::Key;

/// Least time between two passes over one resource.
pub const SPREAD: Duration = Duration::from_millis(250);

#[derive(Debug)]
struct Entry {
    slot: delay_queue::Key,
    due: Instant,
}

/// Keys with the time they are due.
#[derive(Debug, Default)]
pub struct Queue {
    timer: DelayQueue<Key>,
    waiting: HashMap<Key, Entry>,
    running: HashSet<Key>,
    /// Due times of keys that were added while running.
    again: HashMap<Key, Instant>,
    last: HashMap<Key, Instant>,
}

impl Queue {
    /// Looks at the key as soon as the spread allows.
    pub fn add(&mut self, key: Key) {
        let due = self.last.get(&key).map_or_else(Instant::now, |last| *last + SPREAD).max(Instant::now());
        self.schedule(key, due);
    }

    /// Looks at the key after this time at the latest.
    pub fn add_after(&mut self, key: Key, delay: Duration) {
        self.schedule(key, Instant::now() + delay);
    }

    /// An earlier appointment stands, a later one is replaced.
    fn schedule(&mut self, key: Key, due: Instant) {
        if self.running.contains(&key) {
            let again = self.again.entry(key).or_insert(due);
            *again = due.min(*again);
            return;
        }
        match self.waiting.get_mut(&key) {
            Some(entry) if entry.due <= due => {}
            Some(entry) => {
                self.timer.reset_at(&entry.slot, due);
                entry.due = due;
            }
            None => {
                let slot = self.timer.insert_at(key.clone(), due);
                self.waiting.insert(key, Entry { slot, due });
            }
        }
    }

    /// The next key that is due, marked as running. Waits for ever while the queue is empty.
    pub async fn next(&mut self) -> Key {
        let expired = poll_fn(|context| match self.timer.poll_expired(context) {
            // An empty timer is woken by `schedule`, because it is polled again after every change of the queue.
            std::task::Poll::Ready(None) => std::task::Poll::Pending,
            other => other,
        })
        .await;
        let key = expired.map(delay_queue::Expired::into_inner).unwrap_or_default();
        self.waiting.remove(&key);
        self.running.insert(key.clone());
        self.last.insert(key.clone(), Instant::now());
        key
    }

    /// The pass over the key is over.
    pub fn done(&mut self, key: &Key) {
        self.running.remove(key);
        if let Some(due) = self.again.remove(key) {
            let spread = self.last.get(key).map_or(due, |last| *last + SPREAD);
            self.schedule(key.clone(), due.max(spread));
        }
    }

    /// Whether it knows of no key at all.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty() && self.again.is_empty() && self.last.is_empty()
    }

    /// The resource is gone.
    pub fn forget(&mut self, key: &Key) {
        self.last.remove(key);
        self.again.remove(key);
        if let Some(entry) = self.waiting.remove(key) {
            self.timer.remove(&entry.slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("tf", name)
    }

    async fn due_within(queue: &mut Queue, time: Duration) -> Option<Key> {
        tokio::time::timeout(time, queue.next()).await.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_served_at_once_and_then_together() {
        let mut queue = Queue::default();
        for _ in 0..10 {
            queue.add(key("a"));
        }
        assert_eq!(due_within(&mut queue, Duration::from_millis(10)).await, Some(key("a")));
        queue.done(&key("a"));
        for _ in 0..10 {
            queue.add(key("a"));
        }
        assert_eq!(due_within(&mut queue, SPREAD / 2).await, None);
        assert_eq!(due_within(&mut queue, SPREAD).await, Some(key("a")));
        queue.done(&key("a"));
        assert_eq!(due_within(&mut queue, SPREAD * 10).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_steady_stream_of_triggers_starves_nobody() {
        let mut queue = Queue::default();
        let mut passes = 0;
        for _ in 0..100 {
            queue.add(key("busy"));
            if due_within(&mut queue, Duration::from_millis(50)).await.is_some() {
                passes += 1;
                queue.done(&key("busy"));
            }
        }
        assert!(passes >= 10, "{passes}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_triggered_while_it_is_worked_on_comes_again_and_never_twice_at_a_time() {
        let mut queue = Queue::default();
        queue.add(key("a"));
        let first = queue.next().await;
        queue.add(key("a"));
        assert_eq!(due_within(&mut queue, Duration::from_secs(60)).await, None);
        queue.done(&first);
        assert_eq!(due_within(&mut queue, SPREAD * 2).await, Some(key("a")));
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_appointment_stands() {
        let mut queue = Queue::default();
        queue.add_after(key("a"), Duration::from_secs(600));
        queue.add_after(key("a"), Duration::from_secs(5));
        queue.add_after(key("a"), Duration::from_secs(60));
        let begun = Instant::now();
        queue.next().await;
        assert_eq!(begun.elapsed().as_secs(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_forgotten_key_does_not_come() {
        let mut queue = Queue::default();
        queue.add_after(key("a"), Duration::from_secs(1));
        queue.forget(&key("a"));
        assert_eq!(due_within(&mut queue, Duration::from_secs(60)).await, None);
    }
}
