//! What the operators need of a kind without knowing which one it is.

use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::NamespaceResourceScope;
use serde::{Serialize, de::DeserializeOwned};

pub use kube::{Resource, ResourceExt};

use crate::{common::PodConfiguration, contract::Contract, kind::KindInfo};

/// A custom resource of ours that an operator reconciles.
pub trait Managed:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// The kind's names.
    const INFO: KindInfo;

    /// `spec.commonConfiguration`.
    fn common(&self) -> &PodConfiguration;
    /// `spec.paused`.
    fn spec_paused(&self) -> bool;
    /// `spec.version`.
    fn version(&self) -> Option<&str>;
    /// The contract part of `status`, if a status was ever written.
    fn contract(&self) -> Option<&Contract>;

    /// Whether reconciling is suspended, by the spec or by [`ANNOTATION_PAUSED`](crate::names::ANNOTATION_PAUSED).
    fn paused(&self) -> bool {
        self.spec_paused() || self.is_annotated(crate::names::ANNOTATION_PAUSED)
    }

    /// When what it stores is no longer safe unless it was looked after, in status where the kind has such a thing.
    fn upkeep_by(&self) -> Option<&Time> {
        None
    }

    /// Whether it was available once: its servers hold something.
    fn is_initialized(&self) -> bool {
        self.contract().is_some_and(|contract| contract.initialized == Some(true))
    }

    /// Whether its servers shall not run, see [`ANNOTATION_HIBERNATE`](crate::names::ANNOTATION_HIBERNATE).
    fn hibernates(&self) -> bool {
        self.is_annotated(crate::names::ANNOTATION_HIBERNATE)
    }

    /// Whether this annotation is `true`.
    fn is_annotated(&self, annotation: &str) -> bool {
        let annotations = self.meta().annotations.as_ref();
        annotations.and_then(|all| all.get(annotation)).is_some_and(|value| value == "true")
    }

    /// What [`ANNOTATION_RESTART`](crate::names::ANNOTATION_RESTART) says.
    fn restart(&self) -> Option<String> {
        self.meta().annotations.as_ref()?.get(crate::names::ANNOTATION_RESTART).cloned()
    }

    /// Namespace of the resource; empty for a manifest that names none.
    fn home(&self) -> &str {
        self.meta().namespace.as_deref().unwrap_or_default()
    }

    /// Name of the resource; empty for a manifest that names none.
    fn title(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    /// The lower-case kind, part of object names and labels.
    fn type_name() -> String {
        Self::INFO.kind.to_lowercase()
    }
}

/// Implements [`Managed`] for kinds whose spec has the common fields.
macro_rules! managed {
    ($($kind:ident = $info:ident $({ $($own:item)* })?),* $(,)?) => {
        $(impl $crate::resource::Managed for $crate::kinds::$kind {
            const INFO: $crate::kind::KindInfo = $crate::kinds::$info;

            fn common(&self) -> &$crate::common::PodConfiguration {
                &self.spec.common_configuration
            }

            fn spec_paused(&self) -> bool {
                self.spec.paused
            }

            fn version(&self) -> Option<&str> {
                self.spec.version.as_deref()
            }

            fn contract(&self) -> Option<&$crate::contract::Contract> {
                self.status.as_ref().map(|status| &status.contract)
            }

            $($($own)*)?
        })*
    };
}
pub(crate) use managed;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Manager, Zookeeper, names::ANNOTATION_PAUSED};

    fn is_paused<Cr: Managed>(annotation: Option<&str>, spec: bool) -> bool {
        let annotations = annotation.map(|value| json!({ ANNOTATION_PAUSED: value }));
        let kind = Cr::INFO.kind;
        let resource = json!({
            "apiVersion": "tf.tungsten.io/v1alpha1", "kind": kind,
            "metadata": { "name": "a", "annotations": annotations }, "spec": { "paused": spec },
        });
        serde_json::from_value::<Cr>(resource).unwrap().paused()
    }

    #[test]
    fn the_spec_and_the_annotation_pause_alike() {
        for paused in [is_paused::<Manager>, is_paused::<Zookeeper>] {
            assert!(!paused(None, false) && !paused(Some("false"), false));
            assert!(paused(Some("true"), false) && paused(None, true) && paused(Some("false"), true));
        }
    }
}
