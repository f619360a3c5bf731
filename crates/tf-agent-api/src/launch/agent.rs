//! What the agent does beside running a daemon: its API, the certificate of the pod, a relay.

use std::{collections::BTreeSet, num::NonZeroU16};

use serde::{Deserialize, Serialize};

/// The agent API of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// Port on the member's address.
    pub port: NonZeroU16,
    /// DNS name that a client's certificate has to carry: the operator's.
    pub client: String,
}

/// The certificate of a member, besides what its pod says of itself: name, node and address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// Names of the services that the member is part of, in every form that clients use.
    #[serde(default)]
    pub services: BTreeSet<String>,
    /// Seconds a certificate is good for, 600 at least.
    pub lifetime_seconds: u32,
    /// Whether the daemon is started only once there is a certificate to show ([`crate::node::KEYSTORE_PEM`]) and somebody to trust
    /// ([`crate::node::TRUSTSTORE_PEM`]). By default it does not wait.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// What the daemon does with the node's files ([`crate::node::HOST_FILES_DIR`]). Default: nothing. The agent's own certificate,
    /// with which it serves its API, is asked for all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_files: Option<HostFiles>,
    /// Command that has the daemon read what it shows and trusts anew. Default: it looks itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload: Option<Vec<String>>,
    /// Whether the daemons of the pod that wait for a certificate read it when they start and never again, or do not, where `reload` is told in
    /// vain. Then what changes counts when they are started anew, which their operator asks for
    /// ([`tf_api::names::ANNOTATION_ACTIVE_CERTIFICATE`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_start: bool,
}

/// A Redis that daemons find on the loopback address, which neither speak TLS nor log in (ADR 0041): the agent does both for them.
/// Their container serves only while that Redis answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Relay {
    /// Port on the loopback address.
    pub port: NonZeroU16,
    /// Address or name of the server.
    pub host: String,
    /// Port of the server.
    pub server: NonZeroU16,
    /// Whether the server speaks TLS. Then its certificate has to be good for `host`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// File among the daemon's with the authorities that the server's certificate is checked against. Default: those that the member trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<String>,
    /// File among the daemon's with the password. Default: nobody logs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
}

/// How far a daemon uses the node's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostFiles {
    /// It trusts their authorities, besides the operators'.
    Trusted,
    /// It shows their certificate, too.
    Shown,
}
