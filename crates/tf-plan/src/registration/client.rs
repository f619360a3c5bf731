//! What a component registers, in its plan.

use tf_api::{
    Managed,
    contract::{ConditionType, Draft, Reason},
};
use tf_config_api::decide::Wanted;

use super::{Api, Registration};
use crate::{connection::Connection, external_tls, keystone::Keystone, observed::Observed, plan::Plan};

/// How a component reaches the config API.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// Where it is.
    pub connection: &'a Connection,
    /// The endpoint of REST.
    pub endpoint: &'a str,
}

impl Client<'_> {
    /// Adds to a plan what shall be in the API, which is asked as whom the resource logs in. Without the password that is needed nothing is
    /// registered, and everything else goes on.
    pub fn register<Cr: Managed>(&self, plan: &mut Plan, cr: &Cr, observed: &Observed<Cr>, wanted: Wanted) {
        match Keystone::of(cr.common().auth_parameters.as_ref(), cr.home(), &observed.secrets) {
            Err(not_ready) => impossible(plan, not_ready.message),
            Ok(keystone) => {
                let api = Api {
                    hosts: self.connection.hosts(self.endpoint),
                    port: self.connection.port(self.endpoint).unwrap_or_default(),
                    tls: self.connection.tls(self.endpoint),
                    ca: self.connection.credentials.text(external_tls::CA).map(str::to_owned),
                    // A token is good in every region.
                    keystone: keystone.map(|keystone| Keystone { region: String::new(), public_port: 0, ..keystone }),
                };
                plan.registration = Some(Registration { wanted, api, is_early: false });
            }
        }
    }
}

/// Says in a plan that nothing can be registered until a person changes something.
pub fn impossible(plan: &mut Plan, why: String) {
    plan.drafts.push(Draft::fails(ConditionType::Provisioned, Reason::ProvisioningFailed, why));
}
