//! Ports that cannot be: two uses of one, and other ones than an ensemble that runs has in its list of members.

use tf_api::{Zookeeper, ZookeeperConfiguration, contract::Reason};
use tf_plan::not_ready::NotReady;

use crate::config;

/// Checks the ports of a resource.
///
/// # Errors
/// When they cannot be, with what to set.
pub fn check(cr: &Zookeeper) -> Result<(), NotReady> {
    agent_has_its_own(&cr.spec.service_configuration)?;
    are_those_of_the_list(cr)
}

/// The schema compares its default with nothing.
fn agent_has_its_own(spec: &ZookeeperConfiguration) -> Result<(), NotReady> {
    let admin = spec.admin_enabled.then_some(spec.admin_port);
    let tls = spec.tls.as_ref().and_then(|tls| tls.client_port);
    let others = [spec.client_port, spec.election_port, spec.server_port];
    let others = others.into_iter().chain(admin).chain(tls).chain(spec.metrics_port);
    let agent_port = config::agent_port(spec);
    if others.into_iter().any(|port| port == agent_port) {
        let message = format!(
            "spec.serviceConfiguration.agentPort: {} is used for something else, too; set another port",
            agent_port.get()
        );
        return Err(NotReady::invalid(Reason::InvalidSpec, message));
    }
    Ok(())
}

/// Servers bind the ports of the list and others look for them there, so a member that was started with other ones would serve
/// nobody. Until the list is known, the ensemble is being founded with what the spec says.
fn are_those_of_the_list(cr: &Zookeeper) -> Result<(), NotReady> {
    let ensemble = cr.status.as_ref().and_then(|status| status.own.ensemble.as_ref());
    let Some(listed) = ensemble.and_then(|ensemble| ensemble.ports) else { return Ok(()) };
    let spec = &cr.spec.service_configuration;
    let fields = [
        ("clientPort", spec.client_port, listed.client_port),
        ("electionPort", spec.election_port, listed.election_port),
        ("serverPort", spec.server_port, listed.server_port),
    ];
    let back: Vec<String> = fields
        .into_iter()
        .filter(|(_, wanted, listed)| wanted != listed)
        .map(|(field, _, listed)| format!("{field} back to {listed}"))
        .collect();
    if back.is_empty() {
        return Ok(());
    }
    let message = format!(
        "spec.serviceConfiguration: an ensemble that runs keeps its ports, and nothing is changed until you set {}",
        back.join(", ")
    );
    Err(NotReady::invalid(Reason::ImmutableFieldChanged, message))
}
