//! Where a member keeps its data.

use k8s_openapi::{
    api::core::v1::{
        EmptyDirVolumeSource, HostPathVolumeSource, PersistentVolumeClaim, PersistentVolumeClaimSpec, Volume,
        VolumeResourceRequirements,
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use tf_api::common::Storage;

use crate::build::identity::Identity;

/// Volume name of a member's data.
pub const DATA: &str = "data";

/// A member's data: a volume of the pod, or a claim the StatefulSet makes per pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// A volume of the pod template.
    Volume(Box<Volume>),
    /// A claim template.
    Claim(Box<PersistentVolumeClaim>),
}

/// What the spec asks for; a directory of the node if it asks for nothing.
pub fn data(identity: &Identity, storage: Option<&Storage>, default_path: &str) -> Data {
    let storage = storage.cloned().unwrap_or_default();
    if let Some(claim) = storage.persistent_volume_claim {
        return Data::Claim(Box::new(PersistentVolumeClaim {
            metadata: ObjectMeta { name: Some(DATA.into()), labels: Some(identity.labels()), ..ObjectMeta::default() },
            spec: Some(PersistentVolumeClaimSpec {
                access_modes: Some(vec!["ReadWriteOnce".into()]),
                storage_class_name: claim.class,
                resources: Some(VolumeResourceRequirements {
                    requests: Some([("storage".to_owned(), Quantity(claim.size))].into()),
                    ..VolumeResourceRequirements::default()
                }),
                ..PersistentVolumeClaimSpec::default()
            }),
            ..PersistentVolumeClaim::default()
        }));
    }
    if storage.empty_dir.is_some() {
        return Data::Volume(Box::new(empty_dir(DATA)));
    }
    let path = storage.host_path.and_then(|host| host.path).unwrap_or_else(|| default_path.to_owned());
    Data::Volume(Box::new(host_path(DATA, &path)))
}

/// Directory of the node for data or logs of a resource. The Go tf-operator's path where a resource has the name and
/// namespace that it used, so that its installations are adopted; else one that no other resource shares.
pub fn node_directory(base: &str, legacy: &str, legacy_names: &[&str], identity: &Identity) -> String {
    if identity.namespace == "tf" && legacy_names.contains(&identity.name.as_str()) {
        format!("{base}/{legacy}")
    } else {
        format!("{base}/{}/{}-{}", identity.namespace, identity.type_name, identity.name)
    }
}

/// A directory of the node, made if it is missing.
pub fn host_path(name: &str, path: &str) -> Volume {
    Volume {
        name: name.into(),
        host_path: Some(HostPathVolumeSource { path: path.into(), type_: Some("DirectoryOrCreate".into()) }),
        ..Volume::default()
    }
}

/// A directory that goes with the pod.
pub fn empty_dir(name: &str) -> Volume {
    Volume { name: name.into(), empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() }
}

/// A directory in memory that goes with the pod.
pub fn memory_dir(name: &str) -> Volume {
    let source = EmptyDirVolumeSource { medium: Some("Memory".into()), ..EmptyDirVolumeSource::default() };
    Volume { name: name.into(), empty_dir: Some(source), ..Volume::default() }
}
