//! Who in a namespace holds certificates while one authority replaces another.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{ListParams, ObjectMeta, Patch, PatchParams},
};
use serde_json::json;
use tf_api::names::{ANNOTATION_CERTIFICATE, ANNOTATION_TRUSTS, LABEL_PART_OF, PART_OF};
use tf_pki::{fingerprint::Fingerprint, rotation::Participant};
use tf_plan::observed::Agent;

use crate::error::RequestError;

/// Pods that are not over.
const LIVING: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Every pod of the namespace with a certificate, whichever operator looks after it. What this operator's `agents` say, by the
/// uids of their pods, is noted at the pods first.
///
/// # Errors
/// When pods cannot be read or written.
pub async fn participants(
    client: &Client,
    namespace: &str,
    trusted: &[Fingerprint],
    agents: &BTreeMap<String, Agent>,
) -> Result<Vec<Participant>, RequestError> {
    let api = Api::<Pod>::namespaced(client.clone(), namespace);
    let list = ListParams::default().labels(&format!("{LABEL_PART_OF}={PART_OF}")).fields(LIVING);
    let doing = format!("listing the pods of namespace {namespace} that have certificates");
    let pods = api.list_metadata(&list).await.map_err(RequestError::while_doing(doing))?;
    let mut participants = Vec::new();
    for pod in pods {
        let mut metadata = pod.metadata;
        let name = metadata.name.clone().unwrap_or_default();
        let uid = metadata.uid.clone().unwrap_or_default();
        let annotations = metadata.annotations.get_or_insert_default();
        if !annotations.contains_key(ANNOTATION_CERTIFICATE) {
            continue;
        }
        let said = agents.get(&uid).and_then(trusts);
        if let Some(said) = said.filter(|said| annotations.get(ANNOTATION_TRUSTS) != Some(said)) {
            let body = json!({"metadata": {"uid": uid, "annotations": {ANNOTATION_TRUSTS: said}}});
            let answer = api.patch_metadata(&name, &PatchParams::default(), &Patch::Merge(&body)).await;
            answer.map_err(RequestError::while_doing(format!("noting what pod {name} trusts")))?;
            annotations.insert(ANNOTATION_TRUSTS.to_owned(), said);
        }
        participants.push(participant(&metadata, trusted));
    }
    Ok(participants)
}

/// What an agent says, as it is noted.
fn trusts(agent: &Agent) -> Option<String> {
    let certificate = agent.status()?.certificate.as_ref()?;
    Some(format!("{} {}", certificate.revision, certificate.issuer.as_ref()?))
}

/// A pod by its notes. Where they do not tell, it may hold certificates of all authorities.
fn participant(pod: &ObjectMeta, trusted: &[Fingerprint]) -> Participant {
    let annotations = pod.annotations.as_ref();
    let note = |key| annotations.and_then(|annotations| annotations.get(key)).and_then(|note| note.split_once(' '));
    let issued = note(ANNOTATION_CERTIFICATE);
    let end = issued.and_then(|(end, _)| end.parse().ok()).unwrap_or(Timestamp::MAX);
    let signer = issued.and_then(|(_, signer)| fingerprint(signer));
    let trusts = note(ANNOTATION_TRUSTS);
    let loaded = trusts.and_then(|(revision, _)| revision.parse().ok()).unwrap_or_default();
    let holds = trusts.and_then(|(_, issuer)| fingerprint(issuer));
    let issuers = match (signer, holds) {
        (Some(signer), Some(holds)) => vec![signer, holds],
        _ => trusted.to_vec(),
    };
    let leaves = issuers.into_iter().map(|issuer| (issuer, end)).collect();
    Participant { name: pod.name.clone().unwrap_or_default(), running: true, loaded, leaves }
}

fn fingerprint(text: &str) -> Option<Fingerprint> {
    Fingerprint::try_from(text.to_owned()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(notes: &[(&str, String)]) -> ObjectMeta {
        let annotations = notes.iter().map(|(key, note)| ((*key).to_owned(), note.clone())).collect();
        ObjectMeta { name: Some("zookeeper-0".into()), annotations: Some(annotations), ..ObjectMeta::default() }
    }

    #[test]
    fn a_pod_counts_with_what_it_was_given_and_what_it_holds() {
        let [old, new] = ["old", "new"].map(|name| Fingerprint::of(name.as_bytes()));
        let issued = |signer| (ANNOTATION_CERTIFICATE, format!("2027-01-01T00:00:00Z {signer}"));
        let holds = |revision, issuer| (ANNOTATION_TRUSTS, format!("{revision} {issuer}"));
        let issuers = |pod: &ObjectMeta| participant(pod, &[new, old]).leaves.into_keys().collect::<Vec<_>>();
        let both = participant(&pod(&[issued(new), holds(2, old)]), &[new, old]);
        assert_eq!((both.loaded, both.leaves.len()), (2, 2), "the new one is on its way");
        assert_eq!(issuers(&pod(&[issued(new), holds(2, new)])), [new]);
        // Nobody noted yet what it holds, or in words that another release writes.
        let mut all = vec![new, old];
        all.sort();
        assert_eq!(issuers(&pod(&[issued(new)])), all);
        assert_eq!(issuers(&pod(&[issued(new), (ANNOTATION_TRUSTS, "two of them".into())])), all);
        assert_eq!(participant(&pod(&[issued(new)]), &[old]).loaded, 0);
    }

    #[test]
    fn what_a_silent_agent_said_before_stays() {
        assert_eq!(trusts(&Agent::Silent("no answer".into())), None);
    }
}
