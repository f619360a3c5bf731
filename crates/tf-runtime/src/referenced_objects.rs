//! Objects of users that resources refer to by name.
//!
//! A Secret may be as big as a megabyte and there may be thousands: neither their content nor their names are kept. The
//! index holds the names that resources refer to, and a change of any other object is dropped where it arrives.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
};

use tf_plan::object::Kind;
use tokio::sync::mpsc;

use crate::{caches::Trigger, object::Key, watch::Sink};

/// Which resource refers to which objects.
#[derive(Debug, Default)]
pub struct Inputs(Mutex<HashMap<Key, HashSet<(Kind, Key)>>>);

impl Inputs {
    /// Replaces the references of a resource.
    pub fn refer(&self, resource: &Key, objects: HashSet<(Kind, Key)>) {
        self.lock().insert(resource.clone(), objects);
    }

    /// The resource is gone.
    pub fn forget(&self, resource: &Key) {
        self.lock().remove(resource);
    }

    /// Whether nobody refers to anything.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn referring(&self, kind: Kind, object: &Key) -> Vec<Key> {
        let wanted = (kind, object.clone());
        self.lock().iter().filter(|(_, objects)| objects.contains(&wanted)).map(|(key, _)| key.clone()).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, HashSet<(Kind, Key)>>> {
        crate::lock::lock(&self.0)
    }
}

/// Wakes the resources that refer to what changed, and forgets the rest.
#[derive(Debug)]
pub struct InputSink {
    /// The kind of the objects.
    pub kind: Kind,
    /// Who refers to what.
    pub inputs: Arc<Inputs>,
    /// Where to wake them.
    pub triggers: mpsc::UnboundedSender<Trigger>,
}

impl InputSink {
    fn wake(&self, object: &Key) {
        for resource in self.inputs.referring(self.kind, object) {
            let _ = self.triggers.send(Trigger::One(resource));
        }
    }
}

impl Sink<()> for InputSink {
    fn begin(&self) {}

    fn put(&self, key: Key, (): ()) {
        self.wake(&key);
    }

    fn remove(&self, key: &Key) {
        self.wake(key);
    }

    /// What was deleted while the watch was away is not known: everybody who refers to anything looks.
    fn end(&self, namespace: Option<&str>) {
        let resources: Vec<Key> = self.inputs.lock().keys().cloned().collect();
        for resource in resources {
            if namespace.is_none_or(|namespace| namespace == resource.namespace) {
                let _ = self.triggers.send(Trigger::One(resource));
            }
        }
    }
}
