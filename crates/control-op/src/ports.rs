//! The ports of a member: those of the spec, those that the daemons have built in, and that of the node agent.

use tf_api::{ControlConfiguration, contract::Reason, ports, schema::Port};
use tf_contrail::nodemanager::NodeType;
use tf_plan::{component::Agents, not_ready::NotReady};

/// Ports that no field of the spec moves, with who has them (docs/upstream/daemons.md#ports).
const BUILT_IN: [(Port, &str); 4] = [
    (ports::CONTROL_INTROSPECT, "introspection of contrail-control"),
    (ports::DNS_XMPP, "contrail-dns, for agents"),
    (ports::NAMED_CONTROL, "contrail-named, for contrail-dns"),
    (NodeType::Control.port(), "the node manager"),
];

/// Port of the node agents, above the one that the vRouters' agents connect to.
///
/// # Errors
/// `InvalidSpec` when there is none so high, or something else has it.
pub fn agent(spec: &ControlConfiguration) -> Result<Port, NotReady> {
    let port = Agents::port_above("xmppPort", spec.xmpp_port)?;
    let mut taken = fields(spec).into_iter().map(|(name, port)| (port, format!("serviceConfiguration.{name}")));
    match taken.find(|(other, _)| *other == port) {
        Some((_, field)) => Err(invalid(format!(
            "the port {port} of node agents would be that of {field}; choose another one, or another xmppPort"
        ))),
        None => Ok(port),
    }
}

/// Whether each listener has a port of its own.
///
/// # Errors
/// `InvalidSpec` with the field whose port somebody else has.
pub fn check(spec: &ControlConfiguration) -> Result<(), NotReady> {
    let fields = fields(spec);
    for (index, (name, port)) in fields.iter().enumerate() {
        if let Some((_, who)) = BUILT_IN.iter().find(|(built_in, _)| built_in == port) {
            return Err(invalid(format!(
                "serviceConfiguration.{name} is {port}, which is that of {who} and cannot be moved; choose another one"
            )));
        }
        // The definition refuses it, too, where it is asked.
        if let Some((other, _)) = fields[..index].iter().find(|(_, other)| other == port) {
            return Err(invalid(format!(
                "serviceConfiguration.{name} and serviceConfiguration.{other} are both {port}; choose another one"
            )));
        }
    }
    Ok(())
}

fn fields(spec: &ControlConfiguration) -> [(&'static str, Port); 4] {
    [
        ("bgpPort", spec.bgp_port),
        ("xmppPort", spec.xmpp_port),
        ("dnsPort", spec.dns_port),
        ("dnsIntrospectPort", spec.dns_introspect_port),
    ]
}

fn invalid(message: String) -> NotReady {
    NotReady::invalid(Reason::InvalidSpec, message)
}
