//! The contract between a component and the runtime: everything a component is, as pure functions.

use tf_api::Managed;

use crate::{
    credentials::Credential,
    declaration::Declaration,
    dependency::Dependency,
    observed::Observed,
    plan::{Availability, NotReady, Plan},
};

/// Objects a resource refers to, so that the runtime can read and watch them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// Secrets in the resource's namespace.
    pub secrets: Vec<String>,
    /// ConfigMaps in the resource's namespace.
    pub config_maps: Vec<String>,
}

/// One operator's component. The runtime observes, calls these functions and acts; a component does no I/O.
pub trait Component: Send + Sync + 'static {
    /// The custom resource.
    type Cr: Managed;

    /// How many ready members make the service usable.
    const AVAILABILITY: Availability = Availability::Majority;

    /// What the component owns and reads.
    fn declaration() -> Declaration;

    /// Objects the spec refers to besides dependencies.
    fn references(cr: &Self::Cr) -> References {
        let _ = cr;
        References::default()
    }

    /// Services the resource needs.
    fn dependencies(cr: &Self::Cr) -> Vec<Dependency> {
        let _ = cr;
        Vec::new()
    }

    /// Credentials that must exist before planning. The runtime generates what is missing and never changes what exists.
    fn credentials(cr: &Self::Cr) -> Vec<Credential> {
        let _ = cr;
        Vec::new()
    }

    /// The desired state, or why there is none yet. Deterministic.
    fn plan(cr: &Self::Cr, observed: &Observed<Self::Cr>) -> Result<Plan, NotReady>;
}
