//! Where objects are, and who has a name.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Mutex, MutexGuard, PoisonError},
};

use anyhow::Result;

/// Texts by keys, and names that one can have at a time. Keys and names have neither quotes nor slashes.
pub trait Store: Send + Sync + 'static {
    /// A text.
    fn get(&self, key: &str) -> impl Future<Output = Result<Option<String>>> + Send;
    /// Keeps a text.
    fn put(&self, key: &str, text: &str) -> impl Future<Output = Result<()>> + Send;
    /// Removes a text.
    fn remove(&self, key: &str) -> impl Future<Output = Result<()>> + Send;
    /// All texts whose keys begin so.
    fn all(&self, beginning: &str) -> impl Future<Output = Result<Vec<String>>> + Send;
    /// Gives a name to an identifier, unless another one has it that is about to make something of it.
    fn claim(&self, name: &str, uuid: &str) -> impl Future<Output = Result<bool>> + Send;
    /// Lets somebody else have a name.
    fn release(&self, name: &str) -> impl Future<Output = Result<()>> + Send;
}

/// A store in memory, where there are no daemons.
#[derive(Debug, Default)]
pub struct Memory {
    texts: Mutex<BTreeMap<String, String>>,
    names: Mutex<BTreeMap<String, String>>,
}

fn lock(map: &Mutex<BTreeMap<String, String>>) -> MutexGuard<'_, BTreeMap<String, String>> {
    map.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store for Memory {
    async fn get(&self, key: &str) -> Result<Option<String>> {
        Ok(lock(&self.texts).get(key).cloned())
    }

    async fn put(&self, key: &str, text: &str) -> Result<()> {
        lock(&self.texts).insert(key.to_owned(), text.to_owned());
        Ok(())
    }

    async fn remove(&self, key: &str) -> Result<()> {
        lock(&self.texts).remove(key);
        Ok(())
    }

    async fn all(&self, beginning: &str) -> Result<Vec<String>> {
        let texts = lock(&self.texts);
        let those = texts.iter().filter(|(key, _)| key.starts_with(beginning));
        Ok(those.map(|(_, text)| text.clone()).collect())
    }

    async fn claim(&self, name: &str, uuid: &str) -> Result<bool> {
        let mut names = lock(&self.names);
        let is_free = !names.contains_key(name);
        if is_free {
            names.insert(name.to_owned(), uuid.to_owned());
        }
        Ok(is_free)
    }

    async fn release(&self, name: &str) -> Result<()> {
        lock(&self.names).remove(name);
        Ok(())
    }
}
