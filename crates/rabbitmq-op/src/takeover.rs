//! A cluster that the Go tf-operator made.
//!
//! What members of both operators have to have in common is read from its files ([`PinnedFiles`]). Here is what would keep new members from
//! going on in the place of the former ones, and what a new one has to see of them before the next one is replaced.

use std::ops::RangeInclusive;

use tf_api::{Managed as _, Rabbitmq, Resource as _, contract::MemberStatus, names::ANNOTATION_FORMER_RELEASE};
use tf_plan::{
    build::storage,
    member_set::MemberSet,
    not_ready::NotReady,
    observed::{Observed, Pod},
    plan::Plan,
    references::References,
    reports::{Reports, pod_of},
    step::Step,
    takeover::data::{self, Place, Trusting, invalid},
    takeover::is_legacy,
};

use crate::{
    config,
    nodes::Node,
    pinned::PinnedFiles,
    plan::{CONTAINER, LEGACY_NAME, directory},
    procedure::facts,
};

/// Releases that the members' files are for: before, servers know nothing of `distribution.listener`, and do not start; later ones mirror no
/// queues (`rabbit.schema` of 3.9.0 and 3.10.7; docs/upstream/rabbitmq.md#mirrors).
const RELEASES: (u32, RangeInclusive<u32>) = (3, 10..=13);
/// Its clients check who serves, and its servers who asks: both know one authority (docs/upstream/go-operator.md#tls).
const CLIENTS: Trusting = Trusting { refuse: "their clients talk to no server", page: "docs/rabbitmq.md" };

/// Whether a cluster is being taken over.
fn is_beginning(member_set: &MemberSet<'_, Rabbitmq>) -> bool {
    member_set.is_mixed() && !member_set.cr.is_initialized()
}

/// What [`check`] looks at besides the members' files.
pub fn references(cr: &Rabbitmq) -> References {
    if cr.is_initialized() { References::default() } else { data::references() }
}

/// Sees to it that new pods can go on in the place of the former ones.
///
/// # Errors
/// When they could not.
pub fn check(
    member_set: &MemberSet<'_, Rabbitmq>,
    observed: &Observed<Rabbitmq>,
    pinned_files: &PinnedFiles<'_>,
) -> Result<(), NotReady> {
    let cr = member_set.cr;
    if !is_beginning(member_set) {
        return Ok(());
    }
    let pods = observed.pods.known().map(Vec::as_slice).unwrap_or_default();
    let is_recorded = cr.contract().is_some_and(|contract| !contract.members.is_empty());
    // From the first pod on it is for the user to say: it may not run under this operator, and another one of the same release may.
    if let Some(chosen) = member_set.container(CONTAINER).filter(|_| !is_recorded) {
        data::keeps_image(pods, CONTAINER, &chosen.image)?;
        let stated = cr.meta().annotations.as_ref().and_then(|all| all.get(ANNOTATION_FORMER_RELEASE));
        is_ours(stated.map(String::as_str))?;
    }
    let usual = directory(&member_set.identity, "/var/lib/contrail");
    let storage = cr.spec.common_configuration.storage.as_ref();
    let ours = storage::directory(storage, &usual);
    let place = Place {
        mount: config::DATA_DIR,
        ours: ours.as_deref(),
        storage,
        is_usual: storage::adopts(&[LEGACY_NAME], &member_set.identity),
        legacy: "/var/lib/contrail/rabbitmq",
    };
    data::finds_data(pods, &place)?;
    pinned_files.untold(member_set.members()).map_or(Ok(()), |why| Err(invalid(&why)))?;
    data::trusts(observed, CLIENTS)
}

/// Whether data of a release can be used. Which release an image holds is known only to a person who looked, and a first pod that
/// does not start would be the only one of some clusters.
fn is_ours(stated: Option<&str>) -> Result<(), NotReady> {
    let (line, minors) = RELEASES;
    let lines = format!("{line}.{} to {line}.{}", minors.start(), minors.end());
    let Some(stated) = stated else {
        return Err(invalid(&format!(
            "the release of their servers is not known, and data of releases before {line}.{} cannot be used; find it out (docs/rabbitmq.md says \
             how) and set the annotation {ANNOTATION_FORMER_RELEASE}, for example to {line}.{}",
            minors.start(),
            minors.start()
        )));
    };
    let mut numbers = stated.trim().split('.').map(str::parse::<u32>);
    let parsed = (numbers.next(), numbers.next());
    if matches!(parsed, (Some(Ok(major)), Some(Ok(minor))) if major == line && minors.contains(&minor)) {
        return Ok(());
    }
    Err(invalid(&format!(
        "the annotation {ANNOTATION_FORMER_RELEASE} says {stated:?}, and servers of {lines} alone can be gone on with; begin a new cluster \
         instead (docs/rabbitmq.md says how)"
    )))
}

/// Leaves a former member that serves where it is while a new one does not have it in its cluster: that one may have begun its own.
pub fn spare(plan: &mut Plan, nodes: &[Node], reports: &Reports<'_>) {
    let Some(Step::Restart(target)) = &plan.step else { return };
    let is_spared = |pod: &Pod| pod.uid == target.uid && pod.ready && is_legacy(pod);
    let unseen = || unseen(&plan.members, nodes, reports);
    if let Some(why) = reports.pods.iter().any(is_spared).then(unseen).flatten() {
        plan.under_way = Some(format!("pod {} is not replaced now: {why}", target.pod));
        plan.step = None;
    }
}

/// A former member that a new one does not have in its cluster, for people.
fn unseen(members: &[MemberStatus], nodes: &[Node], reports: &Reports<'_>) -> Option<String> {
    let pod = |member| pod_of(member, reports.pods);
    let seen: Vec<_> = members.iter().filter_map(pod).filter_map(|pod| facts(pod, reports)).collect();
    let formers = members.iter().zip(nodes).filter(|(member, _)| pod(member).is_some_and(is_legacy));
    formers.map(|(_, node)| node.name()).find_map(|name| {
        let blind = seen.iter().find(|facts| !facts.nodes.contains_key(&name))?;
        Some(format!("{name} is not in the cluster of {}", blind.name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_whose_release_our_files_are_not_for_are_not_begun_with() {
        for fit in ["3.10", "3.10.7", " 3.13.0 ", "3.12.14"] {
            assert!(is_ours(Some(fit)).is_ok(), "{fit}");
        }
        for unfit in ["3.7.28", "3.9.29", "3.8", "4.0.1", "4.10", "3", "", "latest", "3.x"] {
            let why = is_ours(Some(unfit)).unwrap_err().message;
            assert!(why.contains("3.10 to 3.13 alone") && why.contains("begin a new cluster"), "{unfit}: {why}");
        }
        let why = is_ours(None).unwrap_err().message;
        assert!(why.contains("set the annotation tf.tungsten.io/former-release, for example to 3.10"), "{why}");
    }
}
