//! What has to be done so that `vhost0` takes the place of the uplink, or gives it back: an ordered list of steps, each of which
//! can be undone. Pure.

pub(crate) mod moves;
mod restore;
pub(crate) mod switch;

use serde::{Deserialize, Serialize};

use crate::facts::{
    addresses::{Address, Flag},
    neighbours::Neighbour,
    routes::Route,
    rules::Rule,
};

pub use restore::restore;
pub use switch::{NoPlan, switch};

/// An ordered list of steps. Empty where everything is as it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The interface that `vhost0` takes the place of, or several that it is above, separated by commas.
    pub uplink: String,
    /// Steps in their order.
    pub steps: Vec<Step>,
}

/// One step. Each may be done again, and its inverse too, without an effect: so a plan can be undone from any point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Makes `vhost0`. From here on it exists, and nothing arrives on it.
    CreateVhost {
        /// MAC address of the uplink.
        mac: String,
        /// MTU of the uplink.
        mtu: u32,
    },
    /// Removes `vhost0`.
    RemoveVhost {
        /// MAC address that it had.
        mac: String,
        /// MTU that it had.
        mtu: u32,
    },
    /// Writes a kernel setting of an interface.
    SetSysctl {
        /// The interface.
        link: String,
        /// `ipv4.rp_filter` and so on.
        name: String,
        /// The new value.
        value: String,
        /// The value before. None where the interface did not exist: nothing is set back then.
        before: Option<String>,
    },
    /// Sets `vhost0` up.
    SetUp,
    /// Adds an address to the interface that it names.
    AddAddress(Address),
    /// Deletes an address from the interface that it names.
    DeleteAddress(Address),
    /// Adds what is known of a neighbour, so that nothing waits for it to answer.
    AddNeighbour(Neighbour),
    /// Deletes what is known of a neighbour.
    DeleteNeighbour(Neighbour),
    /// Shows the uplink to the data plane.
    AddPhysical,
    /// Takes the uplink from the data plane.
    RemovePhysical,
    /// Connects `vhost0` with the uplink. From here on what arrives on the uplink arrives on `vhost0`.
    Attach,
    /// Disconnects them.
    Detach,
    /// Puts a route in the place of another one, in one act of the kernel.
    ReplaceRoute {
        /// The route that there is.
        from: Box<Route>,
        /// The same over other interfaces.
        to: Box<Route>,
    },
    /// Adds a rule.
    AddRule(Rule),
    /// Deletes a rule.
    DeleteRule(Rule),
}

impl Step {
    /// What undoes it. None where there is nothing to undo.
    pub fn inverse(&self) -> Option<Self> {
        Some(match self.clone() {
            Self::CreateVhost { mac, mtu } => Self::RemoveVhost { mac, mtu },
            Self::RemoveVhost { mac, mtu } => Self::CreateVhost { mac, mtu },
            Self::SetSysctl { link, name, value, before } => {
                Self::SetSysctl { link, name, value: before?, before: Some(value) }
            }
            Self::SetUp => return None,
            Self::AddAddress(address) => Self::DeleteAddress(address),
            Self::DeleteAddress(mut address) => {
                // `vhost0` still has it, which the check for duplicates would find.
                if address.address.addr().is_ipv6() {
                    address.flags.insert(Flag::NoDad);
                }
                Self::AddAddress(address)
            }
            Self::AddNeighbour(neighbour) => Self::DeleteNeighbour(neighbour),
            Self::DeleteNeighbour(neighbour) => Self::AddNeighbour(neighbour),
            Self::AddPhysical => Self::RemovePhysical,
            Self::RemovePhysical => Self::AddPhysical,
            Self::Attach => Self::Detach,
            Self::Detach => Self::Attach,
            Self::ReplaceRoute { from, to } => Self::ReplaceRoute { from: to, to: from },
            Self::AddRule(rule) => Self::DeleteRule(rule),
            Self::DeleteRule(rule) => Self::AddRule(rule),
        })
    }
}

impl Plan {
    /// The same plan on a node on which `vhost0` is connected with the uplink, or is not: it is connected if that is missing, and
    /// what is so already is no step, so that undoing the plan leaves it alone.
    #[must_use]
    pub fn connecting(mut self, is_attached: bool) -> Self {
        if is_attached {
            self.steps.retain(|step| !matches!(step, Step::AddPhysical | Step::Attach));
        } else if !self.steps.contains(&Step::Attach) {
            self.steps.extend([Step::AddPhysical, Step::Attach]);
        }
        self
    }

    /// The same for a plan that takes them apart.
    #[must_use]
    pub fn disconnecting(mut self, is_attached: bool) -> Self {
        if !is_attached {
            self.steps.retain(|step| !matches!(step, Step::Detach | Step::RemovePhysical));
        }
        self
    }

    /// What undoes the whole of it, from any point that it has come to.
    #[must_use]
    pub fn inverse(&self) -> Self {
        let steps = self.steps.iter().rev().filter_map(Step::inverse).collect();
        Self { uplink: self.uplink.clone(), steps }
    }
}
