//! Whether queues of clients have mirrors (RabbitMQ before 4.0, "Classic Mirrored Queues"): a policy says so, which somebody may delete, or hide behind
//! another one. What is in a transient queue without a mirror is lost with its node, and clients of Tungsten Fabric do not notice
//! (stateful-services 0.1).

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result, bail};
use http::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;
use tf_plan::node::rabbitmq::Unmirrored;

use super::{Management, NAMED};
use crate::paths::Paths;

/// What a policy of mirrors says how many there are by.
const MODE: &str = "ha-mode";

#[derive(Deserialize)]
struct Definitions {
    #[serde(default)]
    policies: Vec<Policy>,
}

#[derive(Deserialize)]
struct Policy {
    vhost: String,
    definition: Value,
}

/// A queue in the plugin's words.
#[derive(Deserialize)]
struct Queue {
    name: String,
    #[serde(default)]
    exclusive: bool,
    /// An empty list is what a queue has without one.
    #[serde(default)]
    policy: Value,
    #[serde(default, rename = "type")]
    kind: String,
}

impl Queue {
    fn policy(&self) -> Option<&str> {
        self.policy.as_str().filter(|name| !name.is_empty())
    }

    /// Whether a policy of mirrors is about it: not if it belongs to one connection or to the server, or has copies of another kind.
    fn is_meant(&self) -> bool {
        !self.exclusive && !self.name.starts_with("amq.") && matches!(self.kind.as_str(), "" | "classic")
    }
}

#[derive(Deserialize)]
struct Effective {
    #[serde(default)]
    effective_policy_definition: Value,
}

/// The virtual host whose queues are to have mirrors by these definitions. `definitions`: as the daemon sees them.
pub(super) fn wanted(definitions: &Path, paths: &Paths) -> Option<String> {
    let file = fs::read(paths.at(definitions)).ok()?;
    let definitions: Definitions = serde_json::from_slice(&file).ok()?;
    definitions.policies.into_iter().find(|policy| !policy.definition[MODE].is_null()).map(|policy| policy.vhost)
}

/// Queues of a virtual host that have no mirrors.
pub(super) async fn unmirrored(management: &mut Management, vhost: String) -> Result<Option<Unmirrored>> {
    let encoded = |name: &str| utf8_percent_encode(name, NON_ALPHANUMERIC).to_string();
    let all = format!("/api/queues/{}?disable_stats=true", encoded(&vhost));
    let (status, body) = management.get(&all).await?;
    let queues: Vec<Queue> = match status {
        StatusCode::OK => serde_json::from_slice(&body).context("queues")?,
        // It is there, and open to the agent, once the server has taken its definitions.
        StatusCode::NOT_FOUND | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Ok(None),
        other => bail!("queues: status {}", other.as_u16()),
    };
    let mut mirror = BTreeMap::new();
    // What a policy says is the same for all queues that go by it.
    for (policy, example) in examples(&queues) {
        let one = format!("/api/queues/{}/{}?columns=effective_policy_definition", encoded(&vhost), encoded(example));
        let (status, body) = management.get(&one).await?;
        let mirrors = match status {
            StatusCode::OK => !serde_json::from_slice::<Effective>(&body)?.effective_policy_definition[MODE].is_null(),
            // It was deleted meanwhile.
            StatusCode::NOT_FOUND => true,
            other => bail!("a queue: status {}", other.as_u16()),
        };
        mirror.insert(policy, mirrors);
    }
    Ok(without(&queues, &mirror, vhost))
}

/// A queue for each policy by which some go.
fn examples(queues: &[Queue]) -> BTreeMap<Option<String>, &str> {
    let meant = queues.iter().filter(|queue| queue.is_meant());
    meant.map(|queue| (queue.policy().map(str::to_owned), queue.name.as_str())).collect()
}

/// Queues whose policy does not have them mirrored. `mirror`: policies, each with whether it does.
fn without(queues: &[Queue], mirror: &BTreeMap<Option<String>, bool>, vhost: String) -> Option<Unmirrored> {
    let has_none = |queue: &&Queue| mirror.get(&queue.policy().map(str::to_owned)) == Some(&false);
    let mut bare: Vec<&Queue> = queues.iter().filter(|queue| queue.is_meant()).filter(has_none).collect();
    // Those that no policy is about come first: that can be mended.
    bare.sort_by_key(|queue| (queue.policy().map(str::to_owned), queue.name.clone()));
    let policy = bare.first()?.policy().map(str::to_owned);
    let queues = bare.iter().take(NAMED).map(|queue| queue.name.clone()).collect();
    Some(Unmirrored { vhost, queues, count: bare.len(), policy })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As RabbitMQ 3.10.8 lists them without statistics.
    const QUEUES: &str = r#"[
        {"name":"vnc_config.a","durable":false,"exclusive":false,"policy":"ha","type":"classic"},
        {"name":"vnc_config.b","durable":false,"exclusive":false,"policy":"mine","type":"classic"},
        {"name":"vnc_config.c","durable":false,"exclusive":false,"policy":[],"type":"classic"},
        {"name":"own","exclusive":true,"policy":[],"type":"classic"},
        {"name":"amq.gen-1","exclusive":false,"policy":[],"type":"classic"},
        {"name":"ledger","exclusive":false,"policy":[],"type":"quorum"}
    ]"#;

    #[test]
    fn queues_whose_policy_has_no_mirrors_are_named_and_those_without_one_first() {
        let queues: Vec<Queue> = serde_json::from_str(QUEUES).unwrap();
        let policies: Vec<_> = examples(&queues).into_keys().collect();
        assert_eq!(policies, [None, Some("ha".to_owned()), Some("mine".to_owned())]);
        let found = |bare: &[Option<&str>]| {
            let mirror = policies.iter().map(|policy| (policy.clone(), !bare.contains(&policy.as_deref()))).collect();
            without(&queues, &mirror, "tf".into())
        };
        assert_eq!(found(&[]), None);
        let hidden = found(&[Some("mine")]).unwrap();
        assert_eq!((hidden.queues, hidden.count, hidden.policy), (vec!["vnc_config.b".into()], 1, Some("mine".into())));
        let both = found(&[Some("mine"), None]).unwrap();
        assert_eq!((both.queues[0].as_str(), both.count, both.policy), ("vnc_config.c", 2, None));
    }

    #[test]
    fn the_virtual_host_is_that_of_the_policy_of_mirrors() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::below(root.path());
        let host = |text: &str| {
            fs::write(paths.at("/definitions.json"), text).unwrap();
            wanted(Path::new("/definitions.json"), &paths)
        };
        let policy = r#"{"policies":[{"vhost":"tf/1","name":"ha","definition":{"ha-mode":"all"}}]}"#;
        assert_eq!(host(policy).as_deref(), Some("tf/1"));
        assert_eq!(host(r#"{"policies":[{"vhost":"a","definition":{"max-length":1}}]}"#), None);
        assert_eq!((host("{}"), host("{")), (None, None));
    }
}
