//! Who this pod is, from the variables that `tf_plan::build::pod` sets.

use std::{env, net::IpAddr};

use anyhow::{Context as _, Result};
use tf_agent_api::family::{self, IpFamily};

/// The pod.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Name of its node.
    pub node: String,
    /// Address of the member.
    pub address: IpAddr,
}

impl Pod {
    /// Reads the variables.
    ///
    /// # Errors
    /// Without an address, as nobody's files could be found.
    pub fn from_environment() -> Result<Self> {
        let variable = |name| env::var(name).unwrap_or_default();
        let family: IpFamily = variable(family::POD_IP_FAMILY).parse().unwrap_or_default();
        let first = env::var("POD_IP").context("POD_IP is not set")?;
        // The kubelet gives a pod both, in the order of its node.
        let all = variable(family::POD_IPS);
        let address = family.first_of(all.split(',').filter(|address| !address.is_empty())).unwrap_or(&first);
        let address = address.parse().with_context(|| format!("the pod's address {address:?} is no IP address"))?;
        Ok(Self { name: variable("POD_NAME"), node: variable("NODE_NAME"), address })
    }
}
