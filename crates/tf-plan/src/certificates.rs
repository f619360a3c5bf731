//! What a resource says of its members' certificates.

use std::{fmt, ops::RangeInclusive, time::Duration};

use jiff::SignedDuration;
use tf_api::{
    common::PodConfiguration,
    contract::{ConditionType::CertificatesReady, Draft, Reason},
    kinds::CertificatesMode,
};
use tf_pki::{
    authority::AUTHORITY_LIFETIME,
    member::{DEFAULT_LIFETIME, SHORTEST_LIFETIME},
};

use crate::{
    not_ready::NotReady,
    observed::{Observed, Pod},
    reports::{AgentCoverage, Reports},
    text::{shorten, shorten_messages},
};

/// How long a resource wants its members' certificates to be good; none if it does not say.
///
/// # Errors
/// When that is no duration, or none within these bounds.
pub fn lifetime(common: &PodConfiguration, bounds: RangeInclusive<Duration>) -> Result<Option<Duration>, NotReady> {
    let stated = common.certificates.as_ref().and_then(|certificates| certificates.duration.as_deref());
    let Some(stated) = stated else { return Ok(None) };
    let minutes = |bound: &Duration| format!("{}m", bound.as_secs() / 60);
    let lifetime = stated.parse::<SignedDuration>().ok().and_then(|duration| Duration::try_from(duration).ok());
    match lifetime.filter(|lifetime| bounds.contains(lifetime)) {
        Some(lifetime) => Ok(Some(lifetime)),
        None => Err(NotReady::invalid(
            Reason::InvalidSpec,
            format!(
                "spec.commonConfiguration.certificates.duration: {stated} is no duration from {} to {}, such as 2160h",
                minutes(bounds.start()),
                minutes(bounds.end())
            ),
        )),
    }
}

/// Looks whether members can have certificates as a resource asks for them.
///
/// # Errors
/// `InvalidSpec` when it names nobody who could sign them, or says what is no duration or none that they can have.
pub fn check(common: &PodConfiguration) -> Result<(), NotReady> {
    issuer(common)?;
    lifetime_of_members(common).map(drop)
}

/// How long the certificates of a resource's members are good, in seconds. Of one that [`check`] refuses, as long as those that say nothing.
pub fn lifetime_seconds(common: &PodConfiguration) -> u32 {
    lifetime_of_members(common).unwrap_or(DEFAULT_LIFETIME).as_secs().try_into().unwrap_or(u32::MAX)
}

fn lifetime_of_members(common: &PodConfiguration) -> Result<Duration, NotReady> {
    Ok(lifetime(common, SHORTEST_LIFETIME..=AUTHORITY_LIFETIME)?.unwrap_or(DEFAULT_LIFETIME))
}

/// That the files of nodes have no effect, where they are asked for and members do not use them.
pub fn host_files_ignored(common: &PodConfiguration) -> Option<String> {
    common.certificates.as_ref()?.host_files.as_ref()?;
    let why = "members use certificates of tf-ca in this release";
    Some(format!("spec.commonConfiguration.certificates.hostFiles: {why}"))
}

/// The API group of cert-manager, and of its own issuers.
pub const CERT_MANAGER: &str = "cert-manager.io";

/// An issuer of cert-manager, or of an extension of it (cert-manager, `CertificateSpec.issuerRef`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// Its API group.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its name; in the namespace of the resource if the kind has one.
    pub name: String,
}

/// As [`issuer`] reads it, without what need not be said.
impl fmt::Display for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, kind, name } = self;
        if group == CERT_MANAGER { write!(f, "{kind}/{name}") } else { write!(f, "{kind}.{group}/{name}") }
    }
}

/// The issuer that a resource wants for the authority of its namespace; none if it names none.
///
/// # Errors
/// When the text names no issuer.
pub fn issuer(common: &PodConfiguration) -> Result<Option<Issuer>, NotReady> {
    let stated = common.certificates.as_ref().and_then(|certificates| certificates.issuer.as_deref());
    let Some(stated) = stated else { return Ok(None) };
    read_issuer(stated).map(Some).ok_or_else(|| {
        NotReady::invalid(
            Reason::InvalidSpec,
            format!(
                "spec.commonConfiguration.certificates.issuer: {stated} names no issuer; write NAME or Issuer/NAME for one of the \
                 namespace, ClusterIssuer/NAME for one of the cluster, KIND.GROUP/NAME for one of another group"
            ),
        )
    })
}

fn read_issuer(text: &str) -> Option<Issuer> {
    let (kind, name) = text.split_once('/').unwrap_or(("Issuer", text));
    let (kind, group) = kind.split_once('.').unwrap_or((kind, CERT_MANAGER));
    let is_kind = kind.starts_with(|first: char| first.is_ascii_uppercase())
        && kind.chars().all(|letter| letter.is_ascii_alphanumeric());
    let is_good = is_kind && is_subdomain(group) && is_subdomain(name);
    is_good.then(|| Issuer { group: group.into(), kind: kind.into(), name: name.into() })
}

/// A DNS subdomain, as names and groups are (RFC 1123, and Kubernetes, "Object Names and IDs").
fn is_subdomain(text: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(is_plain) && label.ends_with(is_plain) && label.chars().all(|it| is_plain(it) || it == '-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// What the pods' certificates are like.
pub fn condition<Cr>(
    mode: CertificatesMode,
    observed: &Observed<Cr>,
    reports: &Reports<'_>,
    clarity: AgentCoverage,
) -> Draft {
    if let Some(why) = &observed.issuer {
        let message = format!("the authority does not come from the issuer yet, the one before stays in use: {why}");
        return Draft::fails(CertificatesReady, Reason::CertificatePending, message);
    }
    if clarity == AgentCoverage::Unobserved {
        let message = "no member has asked for a certificate yet";
        return Draft::unknown(CertificatesReady, Reason::NotYetReported, message);
    }
    let pods = || reports.pods.iter().filter(|pod| !pod.terminating);
    let names = |pods: Vec<&Pod>| shorten(&pods.iter().map(|pod| pod.name.clone()).collect::<Vec<_>>());
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
    let unread = |pod: &Pod| Some(format!("{}: {}", pod.name, reports.of(pod)?.certificate.as_ref()?.unread.as_ref()?));
    let unread: Vec<String> = pods().filter_map(unread).collect();
    if !unread.is_empty() {
        return Draft::fails(CertificatesReady, Reason::CertificatePending, shorten_messages(&unread));
    }
    let uses_files = mode != CertificatesMode::Issued;
    let problem = |pod: &Pod| {
        let files = reports.host_files(pod)?;
        let used = if files.shown { "what was good before stays in use" } else { "a certificate of tf-ca is used" };
        Some(format!("{}: {}; {used}", pod.name, files.problem.as_ref()?))
    };
    let problems: Vec<String> = pods().filter(|_| uses_files).filter_map(problem).collect();
    if !problems.is_empty() {
        return Draft::fails(CertificatesReady, Reason::CertificateInvalid, shorten_messages(&problems));
    }
    let ends = |pod: &Pod| {
        let of_node = reports.host_files(pod).and_then(|files| files.not_after);
        [Some(pod.certificate.as_ref()?.not_after), of_node].into_iter().flatten().min()
    };
    let end = pods().filter_map(ends).min().map(|end| end.to_string()).unwrap_or_default();
    let rotation = observed.rotation.as_ref().map(|waits| format!("; the authority is being replaced: {waits}"));
    let source = if mode == CertificatesMode::Host { ", that of its node's files" } else { "" };
    let message = format!("every member has one{source}; the first ends at {end}{}", rotation.unwrap_or_default());
    Draft::holds(CertificatesReady, Reason::Succeeded, message)
}

#[cfg(test)]
mod tests {
    use tf_api::common::Certificates;

    use super::*;

    #[test]
    fn a_duration_is_read_as_kubernetes_writes_it_and_refused_outside_of_the_bounds() {
        let bounds = Duration::from_mins(10)..=Duration::from_hours(1000);
        let read = |duration: Option<&str>| {
            let certificates = Certificates { duration: duration.map(str::to_owned), ..Certificates::default() };
            let common = PodConfiguration { certificates: Some(certificates), ..PodConfiguration::default() };
            lifetime(&common, bounds.clone())
        };
        assert_eq!(read(None), Ok(None));
        for (text, seconds) in [("24h", 86_400), ("1h30m", 5400), ("600s", 600), ("1.5h", 5400)] {
            assert_eq!(read(Some(text)), Ok(Some(Duration::from_secs(seconds))), "{text}");
        }
        for text in ["9m", "1001h", "99999999999999999999h", "", "h", "-20m"] {
            let refused = read(Some(text)).unwrap_err();
            assert_eq!(refused.reason, Reason::InvalidSpec);
            assert!(refused.message.contains("from 10m to 60000m"), "{}", refused.message);
        }
    }

    #[test]
    fn an_issuer_is_read_with_what_need_not_be_said_and_refused_with_what_can_be_written() {
        let read = |text: &str| {
            let certificates = Certificates { issuer: Some(text.to_owned()), ..Certificates::default() };
            issuer(&PodConfiguration { certificates: Some(certificates), ..PodConfiguration::default() })
        };
        assert_eq!(issuer(&PodConfiguration::default()), Ok(None));
        for (text, [group, kind, name], said) in [
            ("corp", [CERT_MANAGER, "Issuer", "corp"], "Issuer/corp"),
            ("Issuer/corp.example", [CERT_MANAGER, "Issuer", "corp.example"], "Issuer/corp.example"),
            ("ClusterIssuer/corp", [CERT_MANAGER, "ClusterIssuer", "corp"], "ClusterIssuer/corp"),
            (
                "StepIssuer.certmanager.step.sm/ca",
                ["certmanager.step.sm", "StepIssuer", "ca"],
                "StepIssuer.certmanager.step.sm/ca",
            ),
        ] {
            let read = read(text).unwrap().unwrap();
            assert_eq!([read.group.as_str(), &read.kind, &read.name], [group, kind, name]);
            assert_eq!(read.to_string(), said);
        }
        for text in
            ["", "/", "Issuer/", "/corp", "issuer/corp", "A/b/c", "Corp", "Issuer./corp", "I.a..b/c", "c_d", "-c"]
        {
            let refused = read(text).unwrap_err();
            assert_eq!(refused.reason, Reason::InvalidSpec);
            assert!(refused.message.contains("ClusterIssuer/NAME"), "{text}: {}", refused.message);
        }
    }
}
