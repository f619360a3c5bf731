//! The servers' certificates: which they show and trust, how the ensemble changes over to another source, and what is said
//! of them.
//!
//! The operators' authority is trusted in every mode, so it is the bridge between all others: before anybody shows a
//! certificate of its node, everybody trusts those of the nodes, and nobody stops trusting them before nobody shows one.

use tf_agent_api::{launch, state::HostFiles};
use tf_api::{
    Zookeeper,
    kinds::{CertificatesMode, Modes},
};

use crate::{
    modes::{self, Observation},
    observe::ClusterState,
};

/// The mode that the spec asks for.
pub fn wanted(cr: &Zookeeper) -> CertificatesMode {
    let stated = cr.spec.common_configuration.certificates.as_ref();
    let is_host = stated.is_some_and(|certificates| certificates.host_files.is_some());
    if is_host { CertificatesMode::Host } else { CertificatesMode::Issued }
}

/// The modes of an ensemble that was founded.
pub fn recorded(cr: &Zookeeper) -> Modes<CertificatesMode> {
    cr.status.as_ref().and_then(|status| status.own.certificates).unwrap_or_default()
}

/// The mode in which an ensemble is founded: what is wrong with the files of a node keeps no server from the others.
pub fn founded(wanted: CertificatesMode) -> CertificatesMode {
    wanted.min(CertificatesMode::HostTrusted)
}

/// The modes to record next. The last one takes good files on every node.
pub fn next(
    recorded: Modes<CertificatesMode>,
    wanted: CertificatesMode,
    seen: Observation,
    sight: &ClusterState<'_>,
) -> Modes<CertificatesMode> {
    if recorded.mode != CertificatesMode::HostTrusted {
        return modes::next(recorded, wanted, seen);
    }
    let said = || sight.reports.pods.iter().map(|pod| sight.reports.host_files(pod));
    let is_good = |files: &HostFiles| files.not_after.is_some() && files.problem.is_none();
    let current = seen.current && said().flatten().all(|files| !files.shown);
    let whole = seen.whole && said().all(|files| files.is_some_and(is_good));
    modes::next(recorded, wanted, Observation { current, whole })
}

/// What is not as wanted yet, for people.
pub fn explain(modes: Modes<CertificatesMode>, wanted: CertificatesMode) -> Option<String> {
    let when = "every member answers, serves and has good files";
    modes::explain("the source of the servers' certificates", modes, wanted, when)
}

/// What the launch file says of the nodes' files.
pub fn host_files(mode: CertificatesMode) -> Option<launch::HostFiles> {
    match mode {
        CertificatesMode::Issued => None,
        CertificatesMode::HostTrusted => Some(launch::HostFiles::Trusted),
        CertificatesMode::Host => Some(launch::HostFiles::Shown),
    }
}
