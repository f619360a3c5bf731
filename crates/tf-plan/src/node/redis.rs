//! What the node agent of a Redis member reports about its server, in the words of `INFO`.

use serde::{Deserialize, Serialize};

/// File of the launch file's set with the password by which the agent asks the server, from the Secret. It is the clients'.
pub const PASSWORD_FILE: &str = "agent-password";

/// Facts about one server. What could not be found out is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Facts {
    /// Its release.
    pub release: String,
    /// Whether it is reading its data, and answers no request meanwhile.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub loading: bool,
    /// The server that it copies, `<host>:<port>`, if somebody told it to: it takes no writes then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<String>,
    /// Why nothing could be found out, for people. Everything else is empty then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}
