//! What the API lets everybody know over the message bus of a change: JSON with the operation, the type and the object (upstream `vnc_db.py`,
//! `dbe_create_publish` and its like). And which notices make daemons of analytics stumble.

use hyper::StatusCode;
use serde_json::{Value, json};

/// A change of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: String,
    /// Type of the object, with underscores.
    pub kind: String,
    /// Identifier of the object.
    pub uuid: String,
}

impl Notice {
    /// Of this change.
    pub fn new(operation: &str, kind: &str, uuid: &str) -> Self {
        Self { operation: operation.into(), kind: kind.replace('-', "_"), uuid: uuid.into() }
    }

    /// What there is to say of a request that was answered like this; none if it changed nothing.
    pub fn of(method: &str, path: &str, body: &[u8], answer: (StatusCode, &str)) -> Option<Self> {
        if answer.0 != StatusCode::OK {
            return None;
        }
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let text = |value: &Value, field: &str| value[field].as_str().map(str::to_owned);
        match (method, parts.as_slice()) {
            ("POST", ["ref-update"]) => {
                let asked: Value = serde_json::from_slice(body).ok()?;
                Some(Self::new("UPDATE", &text(&asked, "type")?, &text(&asked, "uuid")?))
            }
            ("POST", [collection]) => {
                let kind = collection.strip_suffix('s')?;
                let made: Value = serde_json::from_str(answer.1).ok()?;
                Some(Self::new("CREATE", kind, &text(&made[kind], "uuid")?))
            }
            ("PUT", [kind, uuid]) => Some(Self::new("UPDATE", kind, uuid)),
            ("DELETE", [kind, uuid]) => Some(Self::new("DELETE", kind, uuid)),
            _ => None,
        }
    }

    /// One that was published.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let field = |name: &str| value[name].as_str();
        Some(Self::new(field("oper")?, field("type")?, field("uuid")?))
    }

    /// As it is published.
    pub fn text(&self) -> String {
        json!({"oper": self.operation, "type": self.kind, "uuid": self.uuid}).to_string()
    }
}

/// A daemon of analytics that follows few types. Until it got an object of one of them it has an exception at every other one, by which it loses
/// its connection to the message bus for a moment (seen; upstream `vnc_amqp.py`).
#[derive(Clone, Debug)]
pub struct Stumbling {
    known: &'static [&'static str],
    is_over: bool,
}

impl Stumbling {
    /// One that knows these types, written with underscores.
    pub const fn over_all_but(known: &'static [&'static str]) -> Self {
        Self { known, is_over: false }
    }

    /// Whether it stumbles over an object of this type, which it gets now.
    pub fn stumbles(&mut self, kind: &str) -> bool {
        self.is_over |= self.known.contains(&kind);
        !self.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_something_is_published_and_nothing_else_is() {
        let of = |method, path, body: &str, answer: &str| {
            Notice::of(method, path, body.as_bytes(), (StatusCode::OK, answer)).map(|notice| notice.text())
        };
        let made = r#"{"config-node": {"uuid": "u1", "fq_name": ["a"]}}"#;
        let notice = of("POST", "/config-nodes", "", made).unwrap();
        assert_eq!(Notice::read(notice.as_bytes()), Some(Notice::new("CREATE", "config_node", "u1")));
        let changed = Some(Notice::new("UPDATE", "bgp-router", "u2").text());
        assert_eq!(of("PUT", "/bgp-router/u2", "{}", "{}"), changed);
        assert_eq!(of("POST", "/ref-update", r#"{"type": "bgp-router", "uuid": "u2"}"#, "{}"), changed);
        assert_eq!(of("DELETE", "/bgp-router/u2", "", ""), Some(Notice::new("DELETE", "bgp-router", "u2").text()));
        assert_eq!(of("GET", "/bgp-router/u2", "", "{}"), None);
        assert_eq!(of("POST", "/fqname-to-id", "{}", r#"{"uuid": "u2"}"#), None);
        assert_eq!(Notice::of("DELETE", "/bgp-router/u2", b"", (StatusCode::CONFLICT, "")), None);
        assert_eq!(Notice::read(b"u1"), None);
    }

    #[test]
    fn it_stumbles_until_it_gets_what_it_knows() {
        let mut daemon = Stumbling::over_all_but(&["alarm", "global_system_config"]);
        assert!(daemon.stumbles("virtual_network") && daemon.stumbles("virtual_network"));
        assert!(!daemon.stumbles("alarm") && !daemon.stumbles("virtual_network"));
    }
}
