//! What the operators need of a kind without knowing which one it is.

use std::fmt::Debug;

use kube::core::NamespaceResourceScope;
use serde::{Serialize, de::DeserializeOwned};

pub use kube::{Resource, ResourceExt};

use crate::{common::PodConfiguration, contract::Contract, kinds::KindInfo};

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
    fn paused(&self) -> bool;
    /// `spec.version`.
    fn version(&self) -> Option<&str>;
    /// The contract part of `status`, if a status was ever written.
    fn contract(&self) -> Option<&Contract>;

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
    ($($kind:ident = $info:ident),* $(,)?) => {
        $(impl $crate::resource::Managed for $crate::kinds::$kind {
            const INFO: $crate::kinds::KindInfo = $crate::kinds::$info;

            fn common(&self) -> &$crate::common::PodConfiguration {
                &self.spec.common_configuration
            }

            fn paused(&self) -> bool {
                self.spec.paused
            }

            fn version(&self) -> Option<&str> {
                self.spec.version.as_deref()
            }

            fn contract(&self) -> Option<&$crate::contract::Contract> {
                self.status.as_ref().map(|status| &status.contract)
            }
        })*
    };
}
pub(crate) use managed;
