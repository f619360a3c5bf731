//! Which kinds are installed of those that come with a definition: ours, and others' that describe the cluster.
//!
//! One small request answers for all kinds of a group, and it is only repeated while a kind that is wanted is missing. Everybody may
//! ask it, so no right on CustomResourceDefinitions is needed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kube::Client;
use tf_plan::object::Kind;
use tokio::{sync::watch, time::timeout};

use crate::error::in_words;

/// How soon a missing kind is looked for again: definitions are often installed together with the operator, and the API
/// server needs a second or two to serve a new one.
const FIRST: Duration = Duration::from_secs(1);
/// How often a kind of ours is looked for that stays missing.
const INTERVAL: Duration = Duration::from_secs(20);
/// How often others' kinds are looked for that stay missing: they make the cluster what it is, and few clusters ever get them.
const SELDOM: Duration = Duration::from_mins(5);

/// A group and its version.
type Group = (&'static str, &'static str);

const fn group_of(kind: Kind) -> Group {
    (kind.group, kind.version)
}

/// What is known of kinds.
#[derive(Clone, Debug, Default)]
pub struct Installed {
    /// The plurals of the kinds that are installed, by group. One that is not in it was never answered for.
    plurals: BTreeMap<Group, BTreeSet<String>>,
    /// Kinds that were installed, and of which something was said since that they are not.
    doubted: BTreeSet<Kind>,
}

impl Installed {
    fn has(&self, kind: Kind) -> Option<bool> {
        let is_doubted = self.doubted.contains(&kind);
        self.plurals.get(&group_of(kind)).map(|plurals| plurals.contains(kind.plural)).filter(|_| !is_doubted)
    }

    fn doubts(&self, group: Group) -> bool {
        self.doubted.iter().any(|kind| group_of(*kind) == group)
    }
}

/// The installed kinds of the groups that are wanted. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Discovery {
    wanted: Arc<BTreeSet<Kind>>,
    installed: Arc<watch::Sender<Installed>>,
}

impl Discovery {
    /// Asks now, and goes on asking while one of `wanted` is missing.
    pub async fn start(client: Client, wanted: Vec<Kind>) -> Self {
        let wanted: BTreeSet<Kind> = wanted.into_iter().collect();
        let groups: BTreeSet<Group> = wanted.iter().copied().map(group_of).collect();
        let discovery = Self { wanted: Arc::new(wanted), installed: Arc::default() };
        for group in groups {
            discovery.ask(&client, group).await;
            tokio::spawn(discovery.clone().poll(client.clone(), group));
        }
        discovery
    }

    async fn poll(self, client: Client, group: Group) {
        let longest = if group.0 == tf_api::GROUP { INTERVAL } else { SELDOM };
        let mut state = self.changes();
        let mut pause = FIRST;
        loop {
            state.mark_unchanged();
            if self.wanted.iter().any(|kind| group_of(*kind) == group && self.has(*kind) != Some(true)) {
                let is_doubted = self.installed.borrow().doubts(group);
                if is_doubted {
                    tokio::time::sleep(super::jittered(pause)).await;
                } else if timeout(super::jittered(pause), state.wait_for(|it| it.doubts(group))).await.is_ok() {
                    // Another one is missing for long, and about this one nobody may wait to be sure.
                    pause = FIRST;
                    continue;
                }
                let before = self.of(group);
                self.ask(&client, group).await;
                pause = if self.of(group) == before { longest.min(pause * 2) } else { FIRST };
            } else if state.changed().await.is_err() {
                return;
            } else {
                pause = FIRST;
            }
        }
    }

    /// Whether a kind comes with a definition that may be missing.
    pub fn follows(&self, kind: Kind) -> bool {
        self.wanted.contains(&kind)
    }

    /// Whether the kind is installed; none as long as nobody could be asked, or asked again.
    pub fn has(&self, kind: Kind) -> Option<bool> {
        self.installed.borrow().has(kind)
    }

    /// Tells of every change from now on.
    pub fn changes(&self) -> watch::Receiver<Installed> {
        self.installed.subscribe()
    }

    /// A request for this kind was answered with "not found": ask again.
    pub fn suspect(&self, kind: Kind) {
        self.installed
            .send_if_modified(|installed| installed.has(kind) == Some(true) && installed.doubted.insert(kind));
    }

    fn of(&self, group: Group) -> Option<BTreeSet<String>> {
        self.installed.borrow().plurals.get(&group).cloned()
    }

    async fn ask(&self, client: &Client, group: Group) {
        let (name, version) = group;
        match client.list_api_group_resources(&format!("{name}/{version}")).await {
            Ok(list) => self.publish(group, list.resources.into_iter().map(|resource| resource.name).collect()),
            Err(kube::Error::Api(status)) if status.code == 404 => self.publish(group, BTreeSet::new()),
            // What was known stays known; the watches themselves notice what is wrong.
            Err(error) => tracing::warn!(group = name, error = in_words(&error), "looking for installed kinds failed"),
        }
    }

    fn publish(&self, group: Group, plurals: BTreeSet<String>) {
        self.installed.send_if_modified(|installed| {
            let was_doubted = installed.doubts(group);
            installed.doubted.retain(|kind| group_of(*kind) != group);
            installed.plurals.insert(group, plurals.clone()).as_ref() != Some(&plurals) || was_doubted
        });
    }
}
