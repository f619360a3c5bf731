//! Objects that somebody else made in the config API, of types that operators register, or have something to do with: they stay as they are.

use serde_json::{Value, json};
use tf_api::ports::CONFIG_API;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::tls::Access;

/// The last part of the name of each.
pub const NAME: &str = "foreign";
/// An address that no node has.
const ADDRESS: &str = "192.0.2.1";

/// Objects with their types, as the API shows them.
pub struct Foreign(Vec<(&'static str, Value)>);

impl Foreign {
    /// Makes one of each type.
    pub async fn make(client: &Client, address: IpAddr) -> Result<Self> {
        let mut made = Vec::new();
        for (kind, object) in objects() {
            let answer = ask(client, address, &format!("POST /{kind}s"), &json!({ kind: object }).to_string()).await?;
            let identifier = answer[kind]["uuid"].as_str().with_context(|| format!("{kind}: {answer}"))?;
            made.push((kind, ask(client, address, &format!("GET /{kind}/{identifier}"), "").await?));
        }
        Ok(Self(made))
    }

    /// Fails where one is not as it was, as each of these members of the API shows it. Removes them, so that another part of a story can make its own.
    pub async fn are_as_they_were(self, client: &Client, addresses: &[IpAddr]) -> Result<()> {
        for address in addresses {
            for (kind, object) in &self.0 {
                let identifier = object[kind]["uuid"].as_str().unwrap_or_default();
                let now = ask(client, *address, &format!("GET /{kind}/{identifier}"), "").await;
                let now = now.with_context(|| format!("{kind} {NAME}, which somebody else made"))?;
                ensure!(now == *object, "{kind} {NAME} of somebody else was changed: {now}, and was {object}");
            }
        }
        let address = *addresses.first().context("no member of the API")?;
        for (kind, object) in self.0.iter().rev() {
            let identifier = object[kind]["uuid"].as_str().unwrap_or_default();
            ask(client, address, &format!("DELETE /{kind}/{identifier}"), "").await?;
        }
        Ok(())
    }
}

/// Types, and what there is of each.
fn objects() -> [(&'static str, Value); 7] {
    let node = |property: &str| {
        let name = ["default-global-system-config", NAME];
        json!({"fq_name": name, "parent_type": "global-system-config", property: ADDRESS})
    };
    let router = json!({
        "fq_name": ["default-domain", "default-project", "ip-fabric", "__default__", NAME],
        "parent_type": "routing-instance",
        "bgp_router_parameters": {
            "router_type": "router", "vendor": "mx", "autonomous_system": 64513, "identifier": ADDRESS, "address": ADDRESS,
        },
    });
    [
        ("config-node", node("config_node_ip_address")),
        ("analytics-node", node("analytics_node_ip_address")),
        ("virtual-router", node("virtual_router_ip_address")),
        ("bgp-router", router),
        ("project", json!({"fq_name": ["default-domain", NAME], "parent_type": "domain"})),
        ("sub-cluster", json!({"fq_name": [NAME]})),
        ("virtual-machine", json!({"fq_name": [NAME]})),
    ]
}

/// What the API on a node answers to a method and a path.
async fn ask(client: &Client, address: IpAddr, line: &str, body: &str) -> Result<Value> {
    let mut stream = Access::of(client).await?.stream(address, CONFIG_API.get()).await?;
    let length = body.len();
    let head =
        format!("{line} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {length}");
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await?;
    let mut answer = Vec::new();
    // Not everybody ends TLS before the connection.
    let read = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").with_context(|| format!("{line}: {answer:?}: {read:?}"))?;
    ensure!(head.lines().next().is_some_and(|status| status.contains(" 200 ")), "{line}: {answer}");
    Ok(if body.trim().is_empty() { Value::Null } else { serde_json::from_str(body)? })
}
