//! `definitions.json`: what RabbitMQ creates at every start.

use serde_json::{Value, json};
use tf_agent_api::rabbitmq;
use tf_api::MirroredQueueMode;
use tf_config_files::{Unrepresentable, json as file_json};

use crate::{login::Login, nodes::Node};

/// Name of the file.
pub const FILE: &str = "definitions.json";
/// Name of the same for releases from 4.0 on, which have no mirrors and do not start with a policy of them.
pub const FILE_4: &str = "definitions-4.json";

/// Every queue but those of the server itself (docs/upstream/rabbitmq.md#settings).
const CLIENT_QUEUES: &str = r"^(?!amq\.).*";

/// [`FILE`]: user, virtual host, permissions and the policy that mirrors the clients' queues. Their queues are transient and the
/// clients do not read the database again after a reconnect, so without mirrors a restart of one member loses changes
/// (docs/upstream/rabbitmq.md#mirrors).
///
/// # Errors
/// Those of [`file_json::render`].
pub fn definitions(login: &Login, mode: MirroredQueueMode, nodes: &[Node]) -> Result<String, Unrepresentable> {
    let mirrors = json!({
        "vhost": login.vhost,
        "name": "ha",
        "pattern": CLIENT_QUEUES,
        "apply-to": "queues",
        "priority": 0,
        "definition": mirrored(mode, nodes),
    });
    render(FILE, login, &[mirrors])
}

/// [`FILE_4`].
///
/// # Errors
/// Those of [`file_json::render`].
pub fn definitions_4(login: &Login) -> Result<String, Unrepresentable> {
    render(FILE_4, login, &[])
}

fn mirrored(mode: MirroredQueueMode, nodes: &[Node]) -> Value {
    let mut policy = json!({ "ha-mode": mode, "ha-sync-mode": "automatic", "ha-sync-batch-size": 5 });
    match mode {
        MirroredQueueMode::All => {}
        // The number is not in the spec; more than half of the members is what RabbitMQ's documentation advises.
        MirroredQueueMode::Exactly => policy["ha-params"] = json!(nodes.len() / 2 + 1),
        MirroredQueueMode::Nodes => policy["ha-params"] = nodes.iter().map(|node| Value::from(node.name())).collect(),
    }
    policy
}

fn render(file: &str, login: &Login, policies: &[Value]) -> Result<String, Unrepresentable> {
    file_json::render(
        file,
        &json!({
            "users": [
                user(&login.user, &login.hash, "administrator"),
                // It asks how the server is.
                user(rabbitmq::USER, &login.agent_hash, "monitoring"),
            ],
            "vhosts": [{ "name": login.vhost }],
            // The management plugin shows queues to whom their virtual host is open.
            "permissions": [permission(&login.user, login, ".*"), permission(rabbitmq::USER, login, "^$")],
            "policies": policies,
        }),
    )
}

/// What a user may do with what has a name like this.
fn permission(user: &str, login: &Login, names: &str) -> Value {
    json!({"user": user, "vhost": login.vhost, "configure": names, "write": names, "read": names})
}

fn user(name: &str, hash: &str, tags: &str) -> Value {
    json!({
        "name": name,
        "password_hash": hash,
        "hashing_algorithm": "rabbit_password_hashing_sha256",
        "tags": tags,
    })
}
