//! The servers' certificates: which they show and trust, how the ensemble changes over to another source, and what is said
//! of them.
//!
//! The operators' authority is trusted in every mode, so it is the bridge between all others: before anybody shows a
//! certificate of its node, everybody trusts those of the nodes, and nobody stops trusting them before nobody shows one.

use tf_api::{
    Zookeeper,
    contract::{ConditionType::CertificatesReady, Draft, Reason},
    kinds::{CertificatesMode, Modes},
};
use tf_plan::{
    node::{launch, state::HostFiles},
    observed::{Observed, Pod},
};

use crate::{
    modes::{self, Seen},
    observe::{Clarity, Sight},
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
    seen: Seen,
    sight: &Sight<'_>,
) -> Modes<CertificatesMode> {
    if recorded.mode != CertificatesMode::HostTrusted {
        return modes::next(recorded, wanted, seen);
    }
    let said = || sight.pods.iter().map(|pod| sight.host_files(pod));
    let is_good = |files: &HostFiles| files.not_after.is_some() && files.problem.is_none();
    let current = seen.current && said().flatten().all(|files| !files.shown);
    let whole = seen.whole && said().all(|files| files.is_some_and(is_good));
    modes::next(recorded, wanted, Seen { current, whole })
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

/// What the pods' certificates are like.
pub fn condition(modes: Modes<CertificatesMode>, observed: &Observed<Zookeeper>, sight: &Sight<'_>) -> Draft {
    if let Some(why) = &observed.issuer {
        let message = format!("the authority does not come from the issuer yet, the one before stays in use: {why}");
        return Draft::fails(CertificatesReady, Reason::CertificatePending, message);
    }
    if sight.clarity == Clarity::Blind {
        let message = "no member has asked for a certificate yet";
        return Draft::unknown(CertificatesReady, Reason::NotYetReported, message);
    }
    let pods = || sight.pods.iter().filter(|pod| !pod.terminating);
    let names = |pods: Vec<&Pod>| pods.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>().join(", ");
    let without: Vec<&Pod> = pods().filter(|pod| pod.certificate.is_none()).collect();
    let over = |pod: &&Pod| pod.certificate.as_ref().is_some_and(|it| it.not_after < observed.now);
    let expired: Vec<&Pod> = pods().filter(over).collect();
    if !expired.is_empty() {
        let message = format!("the certificates of {} have expired", names(expired));
        return Draft::fails(CertificatesReady, Reason::CertificateExpired, message);
    }
    if !without.is_empty() {
        let message = format!("{} have not asked for a certificate yet", names(without));
        return Draft::fails(CertificatesReady, Reason::CertificatePending, message);
    }
    let uses_files = modes.mode != CertificatesMode::Issued;
    let problem = |pod: &Pod| {
        let files = sight.host_files(pod)?;
        let used = if files.shown { "what was good before stays in use" } else { "a certificate of tf-ca is used" };
        Some(format!("{}: {}; {used}", pod.name, files.problem.as_ref()?))
    };
    let problems: Vec<String> = pods().filter(|_| uses_files).filter_map(problem).collect();
    if !problems.is_empty() {
        return Draft::fails(CertificatesReady, Reason::CertificateInvalid, problems.join(". "));
    }
    let ends = |pod: &Pod| {
        let of_node = sight.host_files(pod).and_then(|files| files.not_after);
        [Some(pod.certificate.as_ref()?.not_after), of_node].into_iter().flatten().min()
    };
    let end = pods().filter_map(ends).min().map(|end| end.to_string()).unwrap_or_default();
    let rotation = observed.rotation.as_ref().map(|waits| format!("; the authority is being replaced: {waits}"));
    let source = if modes.mode == CertificatesMode::Host { ", that of its node's files" } else { "" };
    let message = format!("every member has one{source}; the first ends at {end}{}", rotation.unwrap_or_default());
    Draft::holds(CertificatesReady, Reason::Succeeded, message)
}
