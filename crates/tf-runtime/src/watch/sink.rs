//! Where a watch delivers: an interface, and the usual implementation that keeps objects in a cache.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use super::Cache;
use crate::object::Key;

/// Takes in what a watch delivers.
pub trait Sink<T>: Send + Sync {
    /// A complete list follows.
    fn begin(&self);
    /// An object of the list, or one that was added or changed.
    fn put(&self, key: Key, value: T);
    /// An object was deleted.
    fn remove(&self, key: &Key);
    /// The list is complete for this namespace (none: for all): what was not in it is gone.
    fn end(&self, namespace: Option<&str>);
}

/// AgentReport about changes: key, before, after.
pub type Changed<T> = Arc<dyn Fn(&Key, Option<&T>, Option<&T>) + Send + Sync>;

/// Keeps objects in a cache and reports those whose reduced form changed.
pub struct Kept<T> {
    cache: Arc<Cache<T>>,
    changed: Changed<T>,
    listed: Mutex<HashSet<Key>>,
}

impl<T> Kept<T> {
    /// A sink for one watch; several may share the cache.
    pub fn new(cache: Arc<Cache<T>>, changed: Changed<T>) -> Arc<Self> {
        Arc::new(Self { cache, changed, listed: Mutex::default() })
    }

    fn listed(&self) -> std::sync::MutexGuard<'_, HashSet<Key>> {
        crate::lock::lock(&self.listed)
    }
}

impl<T: PartialEq + Send + Sync> Sink<T> for Kept<T> {
    fn begin(&self) {
        self.listed().clear();
    }

    fn put(&self, key: Key, value: T) {
        self.listed().insert(key.clone());
        if let Some((before, after)) = self.cache.put(key.clone(), value) {
            (self.changed)(&key, before.as_deref(), Some(&after));
        }
    }

    fn remove(&self, key: &Key) {
        self.listed().remove(key);
        if let Some(before) = self.cache.remove(key) {
            (self.changed)(key, Some(&before), None);
        }
    }

    fn end(&self, namespace: Option<&str>) {
        let listed = std::mem::take(&mut *self.listed());
        for key in self.cache.keys() {
            if namespace.is_none_or(|namespace| namespace == key.namespace) && !listed.contains(&key) {
                self.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Log = Arc<Mutex<Vec<(String, Option<i32>, Option<i32>)>>>;

    fn kept() -> (Arc<Kept<i32>>, Arc<Cache<i32>>, Log) {
        let (cache, log) = (Arc::new(Cache::default()), Log::default());
        let writer = log.clone();
        let changed: Changed<i32> = Arc::new(move |key, before, after| {
            writer.lock().unwrap().push((key.name.clone(), before.copied(), after.copied()));
        });
        (Kept::new(cache.clone(), changed), cache, log)
    }

    fn key(name: &str) -> Key {
        Key::new("tf", name)
    }

    #[test]
    fn an_object_whose_reduced_form_is_the_same_wakes_nobody() {
        let (sink, _, log) = kept();
        sink.put(key("a"), 1);
        sink.put(key("a"), 1);
        sink.put(key("a"), 2);
        assert_eq!(*log.lock().unwrap(), [("a".into(), None, Some(1)), ("a".into(), Some(1), Some(2))]);
    }

    #[test]
    fn what_a_new_list_lacks_is_gone_but_only_in_its_namespace() {
        let (sink, cache, log) = kept();
        sink.put(key("a"), 1);
        sink.put(Key::new("other", "b"), 2);
        log.lock().unwrap().clear();
        sink.begin();
        sink.end(Some("tf"));
        assert_eq!(cache.keys(), [Key::new("other", "b")]);
        assert_eq!(*log.lock().unwrap(), [("a".into(), Some(1), None)]);
    }
}
