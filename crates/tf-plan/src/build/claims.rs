//! The volume claims of a StatefulSet's members, made before their pods and grown when the spec asks for more (ADR 0056).
//!
//! The API server lets nobody change the claim templates of a StatefulSet, which takes claims of the right names as it finds them. So the template
//! stays as it is, and the claims themselves are as the spec says. None of them is ever deleted, and none goes with the resource: what is
//! in them is the user's.

use std::cmp::Ordering;

use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};

use super::{
    identity::Identity,
    quantity::{STORAGE, bytes, storage},
};
use crate::{
    object::{Object, PERSISTENT_VOLUME_CLAIM},
    observed::{Claim, Observed},
};

/// The claims of a resource, and what there is to say of them.
#[derive(Debug, Default)]
pub struct Claims {
    /// For the StatefulSet.
    pub template: Option<PersistentVolumeClaim>,
    /// One for each member.
    pub objects: Vec<Object>,
    /// Volumes that are smaller than the spec says, for people.
    pub growing: Option<String>,
    /// Claims without a volume, for people.
    pub unbound: Option<String>,
    /// Volumes that are larger, for people.
    pub ignored: Option<String>,
}

impl Claims {
    /// Those of `members` members of the StatefulSet of this name. `claim` is as the spec says.
    pub fn of<Cr>(
        identity: &Identity,
        claim: &PersistentVolumeClaim,
        set: &str,
        members: usize,
        observed: &Observed<Cr>,
    ) -> Self {
        let wanted = storage(claim);
        let (mut objects, mut smaller, mut larger) = (Vec::new(), Vec::new(), Vec::new());
        let mut unbound = Vec::new();
        for ordinal in 0..members {
            let name = format!("{}-{set}-{ordinal}", claim.metadata.name.as_deref().unwrap_or_default());
            let live = observed.claims.get(&name);
            let capacity = live.and_then(|live| live.capacity.as_deref());
            unbound.extend(live.and_then(|live| live.unbound.as_ref()).map(|why| (name.clone(), why)));
            let mut asked = wanted;
            if let Some(capacity) = capacity {
                match bytes(capacity).cmp(&bytes(wanted)) {
                    Ordering::Less => smaller.push(format!("{name} has {capacity}{}", why(live))),
                    Ordering::Equal => {}
                    Ordering::Greater => {
                        larger.push(format!("{name} has {capacity}"));
                        asked = capacity;
                    }
                }
            }
            objects.push(member(identity, name, of_size(claim, asked)));
        }
        let said = |of: &[String], what: &str| (!of.is_empty()).then(|| format!("{what} {wanted}: {}", of.join(", ")));
        let founded = observed.workloads.get(set).and_then(|live| live.claim.as_deref());
        Self {
            template: Some(of_size(claim, founded.unwrap_or(wanted))),
            objects,
            unbound: unbound.first().map(|(name, why)| {
                let more = if unbound.len() > 1 { format!(", like {} more", unbound.len() - 1) } else { String::new() };
                let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
                let class = class.map_or_else(|| "the default class".to_owned(), |class| format!("class {class}"));
                format!(
                    "claim {name} of {class} is not bound to a volume{more}: {why}; create the class or the volume, or, while no member has served, \
                     correct storage.persistentVolumeClaim.class and delete StatefulSet {set} and these claims"
                )
            }),
            growing: said(&smaller, "volumes grow to"),
            ignored: said(&larger, "storage.persistentVolumeClaim.size: volumes cannot shrink to"),
        }
    }
}

/// The claim of a member, which the StatefulSet takes by its name. It has no owner, and one that is refused holds nothing else up.
fn member(identity: &Identity, name: String, claim: PersistentVolumeClaim) -> Object {
    let metadata = ObjectMeta {
        name: Some(name),
        namespace: Some(identity.namespace.clone()),
        labels: Some(identity.labels()),
        ..ObjectMeta::default()
    };
    let claim = PersistentVolumeClaim { metadata, ..claim };
    Object { independent: true, ..Object::new(PERSISTENT_VOLUME_CLAIM, &claim) }
}

/// What its driver or the kubelet says of a claim that grows.
fn why(live: Option<&Claim>) -> String {
    live.and_then(|live| live.waits.as_deref()).map(|waits| format!(" ({waits})")).unwrap_or_default()
}

/// The claim, asking for so much.
pub fn of_size(claim: &PersistentVolumeClaim, size: &str) -> PersistentVolumeClaim {
    let resources = VolumeResourceRequirements {
        requests: Some([(STORAGE.to_owned(), Quantity(size.to_owned()))].into()),
        ..VolumeResourceRequirements::default()
    };
    let spec = PersistentVolumeClaimSpec { resources: Some(resources), ..claim.spec.clone().unwrap_or_default() };
    PersistentVolumeClaim { spec: Some(spec), ..claim.clone() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tf_api::Zookeeper;

    use super::*;
    use crate::{
        build::storage::{self, Data},
        observed::Workload,
    };

    const SET: &str = "a-zookeeper-statefulset";

    /// The claims of two members of which the spec wants so much, when the StatefulSet was founded with 1Gi.
    fn claims(wanted: &str, first: Claim) -> Claims {
        let cr = json!({"apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Zookeeper", "metadata": {"name": "a", "namespace": "tf"}, "spec": {}});
        let cr: Zookeeper = serde_json::from_value(cr).unwrap();
        let identity = Identity::of("zookeeper-op", &cr);
        let storage = json!({"persistentVolumeClaim": {"size": wanted, "class": "fast"}});
        let Data::Claim(claim) = storage::data(&identity, serde_json::from_value(storage).ok().as_ref(), "/data")
        else {
            panic!("a claim");
        };
        let founded = Workload { claim: Some("1Gi".into()), ..Workload::default() };
        let observed: Observed<Zookeeper> = Observed {
            workloads: [(SET.to_owned(), founded)].into(),
            claims: [(format!("data-{SET}-0"), first)].into(),
            ..Observed::default()
        };
        Claims::of(&identity, &claim, SET, 2, &observed)
    }

    fn has(capacity: &str) -> Claim {
        Claim { capacity: Some(capacity.into()), ..Claim::default() }
    }

    fn asked(claims: &Claims) -> Vec<(&str, &str)> {
        let asked = claims.objects.iter().map(|object| {
            (object.name.as_str(), object.body["spec"]["resources"]["requests"]["storage"].as_str().unwrap())
        });
        asked.collect()
    }

    #[test]
    fn claims_are_as_the_spec_says_and_the_template_as_it_was() {
        let claims = claims("2Gi", has("1Gi"));
        assert_eq!(claims.template.as_ref().map(storage), Some("1Gi"));
        let names = [format!("data-{SET}-0"), format!("data-{SET}-1")];
        assert_eq!(asked(&claims), [(names[0].as_str(), "2Gi"), (names[1].as_str(), "2Gi")]);
        for object in &claims.objects {
            assert!(object.independent, "one that is refused holds nothing up");
            assert_eq!(object.body["metadata"]["ownerReferences"], json!(null), "it outlives the resource");
            assert_eq!(object.body["metadata"]["labels"]["zookeeper"], "a");
            assert_eq!(object.body["spec"]["storageClassName"], "fast");
            assert_eq!(object.body["spec"]["accessModes"], json!(["ReadWriteOnce"]));
        }
        assert_eq!(claims.growing, Some(format!("volumes grow to 2Gi: {} has 1Gi", names[0])));
        assert_eq!(claims.ignored, None);
    }

    #[test]
    fn a_volume_never_shrinks() {
        let claims = claims("1500Mi", has("2Gi"));
        assert_eq!(asked(&claims).into_iter().map(|(_, size)| size).collect::<Vec<_>>(), ["2Gi", "1500Mi"]);
        assert_eq!(claims.growing, None);
        let says = "storage.persistentVolumeClaim.size: volumes cannot shrink to 1500Mi: data-a-zookeeper-statefulset-0 has 2Gi";
        assert_eq!(claims.ignored.as_deref(), Some(says));
    }

    #[test]
    fn what_its_driver_says_of_a_volume_that_grows_is_told() {
        let waits = Some("FileSystemResizePending: start the pod again".to_owned());
        let claims = claims("2Gi", Claim { waits, ..has("1Gi") });
        let says = claims.growing.unwrap();
        assert!(says.ends_with("-0 has 1Gi (FileSystemResizePending: start the pod again)"), "{says}");
    }

    #[test]
    fn the_same_size_in_other_words_is_the_same_and_one_without_a_volume_is_waited_for_elsewhere() {
        for first in [has("2Gi"), Claim::default()] {
            let claims = claims("2048Mi", first);
            assert!(claims.growing.is_none() && claims.ignored.is_none(), "{claims:?}");
        }
    }
}
