//! Who made a request, from what the API server recorded of it.

use std::{collections::BTreeMap, fmt};

use super::{Denial, DenialReason};
use crate::name::shown;

const USER_PREFIX: &str = "system:serviceaccount:";
const GROUP_PREFIX: &str = "system:serviceaccounts:";
// Keys of `spec.extra` for tokens bound to a pod (Kubernetes, "Managing Service Accounts"; nodes since 1.32).
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const NODE_UID: &str = "authentication.kubernetes.io/node-uid";

/// The user of a CertificateSigningRequest; only the API server writes these fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requester {
    /// `spec.username`.
    pub username: String,
    /// `spec.groups`.
    pub groups: Vec<String>,
    /// `spec.extra`.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceAccount {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What a token says about the pod it is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodToken {
    /// Name of the pod.
    pub pod: String,
    /// Uid of the pod.
    pub pod_uid: String,
    /// Name of its node.
    pub node: String,
    /// Uid of its node.
    pub node_uid: String,
}

impl Requester {
    /// The service account that asks, if one does. Several operators serve one signer; this tells whose request it is: that of
    /// the operator one of whose resources has this account. Others leave it alone.
    pub fn account(&self) -> Option<ServiceAccount> {
        let (namespace, name) = self.username.strip_prefix(USER_PREFIX)?.split_once(':')?;
        let sound = !namespace.is_empty() && !name.is_empty() && !name.contains(':');
        sound.then(|| ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// Whether the token says that it is of the pod with this name.
    pub fn is_of(&self, pod: &str) -> bool {
        self.extra.get(POD_NAME).is_some_and(|names| names.iter().any(|name| name == pod))
    }

    /// The pod that asks, if it is one of `account`.
    pub(super) fn pod(&self, account: &ServiceAccount) -> Result<PodToken, Denial> {
        let in_group = self.groups.contains(&format!("{GROUP_PREFIX}{}", account.namespace));
        if self.account().as_ref() != Some(account) || !in_group {
            let message = format!("{} is not service account {account}", shown(&self.username));
            return Err(Denial::new(DenialReason::ForeignRequester, message));
        }
        Ok(PodToken {
            pod: self.only(POD_NAME)?,
            pod_uid: self.only(POD_UID)?,
            node: self.only(NODE_NAME)?,
            node_uid: self.only(NODE_UID)?,
        })
    }

    /// The one value of a key.
    fn only(&self, key: &str) -> Result<String, Denial> {
        match self.extra.get(key).map(Vec::as_slice) {
            Some([value]) if !value.is_empty() => Ok(value.clone()),
            _ => Err(Denial::new(DenialReason::UnboundToken, format!("the token has not one value of {key}"))),
        }
    }
}
