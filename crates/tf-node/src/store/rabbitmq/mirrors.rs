//! Whether queues of clients have mirrors (RabbitMQ before 4.0, "Classic Mirrored Queues"): a policy says so, which somebody may delete, or hide behind
//! another one. What is in a transient queue without a mirror is lost with its node, and clients of Tungsten Fabric do not notice
//! (docs/upstream/rabbitmq.md#clients).

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::Value;
use tf_agent_api::rabbitmq::{Queues, Unmirrored};

use super::queues::Queue;

/// What a policy of mirrors says how many there are by.
const MODE: &str = "ha-mode";

/// A policy, in definitions and in the plugin's words. One goes by one, and by none of several.
#[derive(Deserialize)]
pub(super) struct Policy {
    name: String,
    definition: Value,
}

impl Policy {
    /// Whether queues that go by it have mirrors.
    pub(super) fn mirrors(&self) -> bool {
        !self.definition[MODE].is_null()
    }
}

/// Queues whose policy does not have them mirrored, by what the plugin says of policies.
pub(super) fn without(queues: &[Queue], policies: &[u8], vhost: &str) -> Result<Option<Unmirrored>> {
    let policies: Vec<Policy> = serde_json::from_slice(policies).context("policies")?;
    let mirror: BTreeSet<&str> = policies.iter().filter(|it| it.mirrors()).map(|it| it.name.as_str()).collect();
    let has_none = |queue: &&Queue| queue.policy().is_none_or(|name| !mirror.contains(name));
    let mut bare: Vec<&Queue> = queues.iter().filter(|queue| queue.is_mirrorable()).filter(has_none).collect();
    // Those that no policy is about come first: that can be mended.
    bare.sort_by_key(|queue| (queue.policy().map(str::to_owned), queue.name.clone()));
    let policy = bare.first().and_then(|queue| queue.policy()).map(str::to_owned);
    let are = Queues::of(vhost, bare.iter().map(|queue| &queue.name));
    Ok(are.map(|are| Unmirrored { are, policy }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As RabbitMQ 3.10.8 lists them without statistics.
    const QUEUES: &str = r#"[
        {"name":"vnc_config.a","durable":false,"exclusive":false,"policy":"ha","type":"classic"},
        {"name":"vnc_config.b","durable":false,"exclusive":false,"policy":"mine","type":"classic"},
        {"name":"vnc_config.c","durable":false,"exclusive":false,"type":"classic"},
        {"name":"own","exclusive":true,"policy":[],"type":"classic"},
        {"name":"amq.gen-1","exclusive":false,"policy":[],"type":"classic"},
        {"name":"ledger","exclusive":false,"policy":[],"type":"quorum"}
    ]"#;

    #[test]
    fn queues_whose_policy_has_no_mirrors_are_named_and_those_without_one_first() {
        let mut queues: Vec<Queue> = serde_json::from_str(QUEUES).unwrap();
        let policy =
            |name: &str, key: &str| serde_json::json!({"vhost": "tf", "name": name, "definition": {key: "all"}});
        let found = |queues: &[Queue], mine: &str| {
            let policies = serde_json::Value::from(vec![policy("ha", MODE), policy("mine", mine)]);
            without(queues, policies.to_string().as_bytes(), "tf").unwrap()
        };
        let both = found(&queues, "max-length").unwrap();
        assert_eq!(
            (both.are.queues, both.are.count, both.policy),
            (vec!["vnc_config.c".into(), "vnc_config.b".into()], 2, None)
        );
        queues.remove(2);
        assert_eq!(found(&queues, MODE), None);
        let hidden = found(&queues, "max-length").unwrap();
        assert_eq!((hidden.are.queues, hidden.policy), (vec!["vnc_config.b".to_owned()], Some("mine".into())));
        assert!(without(&queues, b"{}", "tf").is_err());
    }
}
