//! TLS between the servers: what the spec asks for, and how far the ensemble is.

use tf_api::{
    Zookeeper, ZookeeperConfiguration,
    kinds::{Modes, QuorumTlsMode},
};

use crate::modes;

/// The mode that the spec asks for.
pub fn wanted(spec: &ZookeeperConfiguration) -> QuorumTlsMode {
    if spec.tls.as_ref().is_some_and(|tls| tls.quorum) { QuorumTlsMode::Required } else { QuorumTlsMode::Plain }
}

/// The modes of an ensemble that was founded.
pub fn recorded(cr: &Zookeeper) -> Modes<QuorumTlsMode> {
    cr.status.as_ref().and_then(|status| status.own.quorum_tls).unwrap_or_default()
}

/// What is not as wanted yet, for people.
pub fn explain(modes: Modes<QuorumTlsMode>, wanted: QuorumTlsMode) -> Option<String> {
    modes::explain("TLS between the servers", modes, wanted, "every member answers and serves")
}
