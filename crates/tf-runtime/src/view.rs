//! What the page with the metrics shows of resources: read from what the process has in its memory, when somebody asks.

use std::sync::Arc;

use jiff::Timestamp;
use tf_agent_api::state::Status;
use tf_api::Managed;
use tf_pki::lifetime::Validity;
use tf_plan::observed::Pod;

use crate::{
    agents::Agents,
    caches::Caches,
    identity::Authorities,
    leader::Permit,
    metrics::{Facts, Snapshot},
    object::Key,
    registration::Registrar,
    watch::Primary,
};

/// Where all of it comes from.
pub struct View<Cr> {
    /// Resources and pods.
    pub caches: Arc<Caches<Cr>>,
    /// What agents say.
    pub agents: Arc<Agents>,
    /// Who signs.
    pub authorities: Arc<Authorities>,
    /// Who registers.
    pub registrar: Arc<Registrar>,
    /// Whether this process leads.
    pub permit: Permit,
}

impl<Cr: Managed> View<Cr> {
    /// What is known of the resources; none if another process leads, whose word counts.
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.permit.until()?;
        let resources = self.caches.primaries.select(|_, _| true).into_iter();
        let resources = resources.map(|(key, primary)| {
            let facts = match &*primary {
                Primary::Valid(cr) => self.facts(&key, cr),
                Primary::Undecodable { .. } => Facts::of(None),
            };
            (key, facts)
        });
        Some(Snapshot {
            kind: Cr::INFO.kind,
            resources: resources.collect(),
            authorities: self.authorities.validities(),
        })
    }

    fn facts(&self, key: &Key, cr: &Cr) -> Facts {
        let mut facts = Facts::of(cr.contract());
        facts.repair_late = cr.upkeep_by().map(|moment| moment.0);
        facts.unregistered = self.registrar.missing(key);
        if !self.caches.declaration.calls_agents || cr.meta().deletion_timestamp.is_some() {
            return facts;
        }
        let pods = self.caches.pods_of(key);
        facts.agents = Some(self.agents.answers(key));
        (facts.certificate_end, facts.certificate_late) =
            dates(&pods, |pod| self.agents.heard(&pod.uid)?.status().cloned());
        facts
    }
}

/// When the first certificate of these pods ends, and when the first one is late with its renewal. The operator notes only the end; the
/// rest is what agents say.
fn dates(pods: &[Pod], said: impl Fn(&Pod) -> Option<Status>) -> (Option<Timestamp>, Option<Timestamp>) {
    let (mut end, mut late) = (None, None);
    for pod in pods {
        let noted = pod.certificate.as_ref().map(|certificate| certificate.not_after);
        let status = said(pod).unwrap_or_default();
        let host = status.host_files.unwrap_or_default();
        let own = status.certificate.map(|own| (own.not_before, Some(own.not_after)));
        let spans = own.into_iter().chain([(host.not_before, host.not_after)]);
        let validities = spans.filter_map(|(begin, end)| Some(Validity { not_before: begin?, not_after: end? }));
        end = end.into_iter().chain(noted).chain(host.not_after).min();
        late = late.into_iter().chain(validities.map(|validity| validity.overdue())).min();
    }
    (end, late)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tf_agent_api::state::{Certificate, HostFiles};
    use tf_plan::observed;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pod(uid: &str, end: Option<i64>) -> Pod {
        let certificate = end.map(|end| observed::Certificate { not_after: at(end), issuer: "00ff".into() });
        Pod { uid: uid.into(), certificate, ..Pod::default() }
    }

    fn says(not_before: Option<i64>, not_after: i64) -> Status {
        let certificate = Certificate {
            not_before: not_before.map(at),
            not_after: at(not_after),
            issuer: None,
            revision: 1,
            unread: None,
            unused: None,
        };
        Status { certificate: Some(certificate), ..Status::default() }
    }

    #[test]
    fn of_several_certificates_the_first_end_counts_and_the_first_that_is_late() {
        let pods = [pod("a", Some(600)), pod("b", Some(900)), pod("c", None)];
        let said = BTreeMap::from([("a", says(Some(0), 600)), ("b", says(Some(300), 900))]);
        assert_eq!(dates(&pods, |pod| said.get(pod.uid.as_str()).cloned()), (Some(at(600)), Some(at(500))));
        assert_eq!(dates(&pods[2..], |_| None), (None, None));
    }

    #[test]
    fn nobody_is_late_by_the_word_of_an_agent_that_does_not_say_since_when() {
        let pods = [pod("a", Some(600))];
        assert_eq!(dates(&pods, |_| Some(says(None, 600))), (Some(at(600)), None));
    }

    #[test]
    fn the_files_of_a_node_count_like_certificates_of_the_operator() {
        let host_files = HostFiles { not_before: Some(at(0)), not_after: Some(at(60)), problem: None, shown: true };
        let said = Status { host_files: Some(host_files), ..says(Some(0), 600) };
        assert_eq!(dates(&[pod("a", Some(600))], |_| Some(said.clone())), (Some(at(60)), Some(at(50))));
    }
}
