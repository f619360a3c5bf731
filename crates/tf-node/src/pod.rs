//! Who this pod is, from the variables that `tf_plan::build::pod` sets.

use std::{env, net::IpAddr};

use anyhow::{Context as _, Result};

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
        let text = env::var("POD_IP").context("POD_IP is not set")?;
        let address = text.parse().context("POD_IP is not an address")?;
        let variable = |name| env::var(name).unwrap_or_default();
        Ok(Self { name: variable("POD_NAME"), node: variable("NODE_NAME"), address })
    }
}
