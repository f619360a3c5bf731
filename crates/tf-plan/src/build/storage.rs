//! Where a member keeps its data.

use k8s_openapi::{
    api::core::v1::{
        EmptyDirVolumeSource, HostPathVolumeSource, PersistentVolumeClaim, PersistentVolumeClaimSpec, Volume,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use tf_api::common::Storage;

use crate::build::{
    claims,
    identity::{self, Identity},
};

/// Longest name of a directory on the nodes' file systems (`NAME_MAX`).
const FILE_NAME_LIMIT: usize = 255;
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
        let template = PersistentVolumeClaim {
            metadata: ObjectMeta { name: Some(DATA.into()), labels: Some(identity.labels()), ..ObjectMeta::default() },
            spec: Some(PersistentVolumeClaimSpec {
                access_modes: Some(vec!["ReadWriteOnce".into()]),
                storage_class_name: claim.class,
                ..PersistentVolumeClaimSpec::default()
            }),
            ..PersistentVolumeClaim::default()
        };
        return Data::Claim(Box::new(claims::of_size(&template, &claim.size)));
    }
    if storage.empty_dir.is_some() {
        return Data::Volume(Box::new(empty_dir(DATA)));
    }
    let path = storage.host_path.and_then(|host| host.path).unwrap_or_else(|| default_path.to_owned());
    Data::Volume(Box::new(host_path(DATA, &path)))
}

/// The directory of the nodes that the spec asks for, `default_path` if it asks for nothing; none where data is elsewhere.
pub fn directory(storage: Option<&Storage>, default_path: &str) -> Option<String> {
    let storage = storage.cloned().unwrap_or_default();
    if storage.persistent_volume_claim.is_some() || storage.empty_dir.is_some() {
        return None;
    }
    let named = storage.host_path.and_then(|host| host.path);
    Some(named.map_or_else(|| default_path.to_owned(), |path| path.trim_end_matches('/').to_owned()))
}

/// Whether the resource has a name and namespace that the Go tf-operator used, so that it takes over what that left on the
/// nodes.
pub fn adopts(legacy_names: &[&str], identity: &Identity) -> bool {
    identity.namespace == "tf" && legacy_names.contains(&identity.name.as_str())
}

/// Directory of the node for data or logs of a resource. The Go tf-operator's path where the resource [`adopts`] its
/// installation; else one that no other resource shares.
pub fn node_directory(base: &str, legacy: &str, legacy_names: &[&str], identity: &Identity) -> String {
    if adopts(legacy_names, identity) {
        format!("{base}/{legacy}")
    } else {
        let name = identity::fit(&format!("{}-{}", identity.type_name, identity.name), FILE_NAME_LIMIT);
        format!("{base}/{}/{name}", identity.namespace)
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
