//! Which kinds of our group are installed.
//!
//! One small request answers for all kinds, and it is only repeated while a kind that is wanted is missing. Everybody may
//! ask it, so no right on CustomResourceDefinitions is needed.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kube::Client;
use tf_plan::object::Kind;
use tokio::sync::watch;

use crate::error::in_words;

/// How soon a missing kind is looked for again: definitions are often installed together with the operator, and the API
/// server needs a second or two to serve a new one.
const FIRST: Duration = Duration::from_secs(1);
/// How often a kind is looked for that stays missing.
const INTERVAL: Duration = Duration::from_secs(20);

/// The installed kinds of our group. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Discovery {
    installed: Arc<watch::Sender<BTreeSet<String>>>,
}

impl Discovery {
    /// Asks now, and goes on asking while one of `wanted` is missing.
    pub async fn start(client: Client, wanted: Vec<Kind>) -> Self {
        let wanted: BTreeSet<String> =
            wanted.iter().filter(|kind| kind.group == tf_api::GROUP).map(|kind| kind.plural.to_owned()).collect();
        let discovery = Self { installed: Arc::new(watch::channel(BTreeSet::new()).0) };
        if wanted.is_empty() {
            return discovery;
        }
        discovery.ask(&client).await;
        let poller = discovery.clone();
        tokio::spawn(async move {
            let mut state = poller.installed.subscribe();
            let mut pause = FIRST;
            loop {
                let missing = wanted.iter().any(|plural| !state.borrow_and_update().contains(plural));
                if missing {
                    tokio::time::sleep(super::jittered(pause)).await;
                    poller.ask(&client).await;
                    let moved = state.has_changed().unwrap_or_default();
                    pause = if moved { FIRST } else { INTERVAL.min(pause * 2) };
                } else if state.changed().await.is_err() {
                    return;
                } else {
                    pause = FIRST;
                }
            }
        });
        discovery
    }

    /// Whether the kind is installed.
    pub fn has(&self, kind: Kind) -> bool {
        self.installed.borrow().contains(kind.plural)
    }

    /// Completes when the kind is installed.
    pub async fn wait_for(&self, kind: Kind) {
        let mut state = self.installed.subscribe();
        // The sender lives as long as `self`.
        let _ = state.wait_for(|installed| installed.contains(kind.plural)).await;
    }

    /// A request for this kind was answered with "not found": ask again.
    pub fn suspect(&self, kind: Kind) {
        self.installed.send_if_modified(|installed| installed.remove(kind.plural));
    }

    async fn ask(&self, client: &Client) {
        let group_version = format!("{}/{}", tf_api::GROUP, tf_api::VERSION);
        match client.list_api_group_resources(&group_version).await {
            Ok(list) => self.publish(list.resources.into_iter().map(|resource| resource.name).collect()),
            Err(kube::Error::Api(status)) if status.code == 404 => self.publish(BTreeSet::new()),
            // What was known stays known; the watches themselves notice what is wrong.
            Err(error) => tracing::warn!(error = in_words(&error), "looking for installed kinds failed"),
        }
    }

    fn publish(&self, plurals: BTreeSet<String>) {
        self.installed.send_if_modified(|installed| {
            let differs = *installed != plurals;
            *installed = plurals;
            differs
        });
    }
}
