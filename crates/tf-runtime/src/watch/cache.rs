//! Reduced objects by key.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use crate::object::Key;

/// Objects of one kind, reduced to what is used.
#[derive(Debug)]
pub struct Cache<T>(RwLock<HashMap<Key, Arc<T>>>);

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self(RwLock::new(HashMap::new()))
    }
}

impl<T: PartialEq> Cache<T> {
    /// The object of this key.
    pub fn get(&self, key: &Key) -> Option<Arc<T>> {
        self.read(|items| items.get(key).cloned())
    }

    /// All keys.
    pub fn keys(&self) -> Vec<Key> {
        self.read(|items| items.keys().cloned().collect())
    }

    /// All objects for which `wanted` holds, sorted by key.
    pub fn select(&self, wanted: impl Fn(&Key, &T) -> bool) -> Vec<(Key, Arc<T>)> {
        let mut found: Vec<_> = self.read(|items| {
            items.iter().filter(|(key, item)| wanted(key, item)).map(|(k, v)| (k.clone(), v.clone())).collect()
        });
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        found
    }

    /// Stores an object. Returns before and after, unless nothing changed.
    pub fn put(&self, key: Key, value: T) -> Option<(Option<Arc<T>>, Arc<T>)> {
        let mut items = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if items.get(&key).is_some_and(|present| **present == value) {
            return None;
        }
        let after = Arc::new(value);
        let before = items.insert(key, after.clone());
        Some((before, after))
    }

    /// Removes an object and returns it.
    pub fn remove(&self, key: &Key) -> Option<Arc<T>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(key)
    }

    fn read<R>(&self, look: impl FnOnce(&HashMap<Key, Arc<T>>) -> R) -> R {
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}
