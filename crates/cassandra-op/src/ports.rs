//! The ports of a member on its node.

use tf_agent_api::node;
use tf_api::{CassandraConfiguration, contract::Reason, schema::Port};
use tf_plan::{component::Agents, not_ready::NotReady};

use crate::config;

/// Port of the member's node agent: 19061 with the default port.
///
/// # Errors
/// `InvalidSpec` when there is none, or it is used for something else.
pub fn agent(spec: &CassandraConfiguration) -> Result<Port, NotReady> {
    let invalid = |why: String| NotReady::invalid(Reason::InvalidSpec, format!("serviceConfiguration.{why}"));
    let port = Agents::port_above("cqlPort", spec.cql_port)?;
    let used = open(spec).into_iter().chain([("jmxLocalPort", spec.jmx_local_port)]);
    match used.into_iter().find(|(_, other)| *other == port) {
        Some((name, _)) => {
            Err(invalid(format!("cqlPort: {name} uses {port}, where node agents have theirs; choose another")))
        }
        None => Ok(port),
    }
}

/// Ports that others connect to, less that of the node agent. `storagePort` is not among them: between members everything is
/// encrypted and goes to `sslStoragePort`, whichever of the two a release opens for that ([`crate::config::yaml`]).
pub fn open(spec: &CassandraConfiguration) -> Vec<(&'static str, Port)> {
    let thrift = config::thrift(spec).map(|port| ("thrift", port));
    [("cql", spec.cql_port), ("internode", spec.ssl_storage_port)].into_iter().chain(thrift).collect()
}

/// The same with that of the node agent.
///
/// # Errors
/// As [`agent`].
pub fn named(spec: &CassandraConfiguration) -> Result<Vec<(&'static str, Port)>, NotReady> {
    let agent = agent(spec)?;
    Ok(open(spec).into_iter().chain([(node::AGENT_PORT, agent)]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_has_a_port_of_its_own_or_the_spec_is_refused() {
        let spec = |cql: u16| CassandraConfiguration { cql_port: Port(cql), ..CassandraConfiguration::default() };
        assert_eq!(agent(&CassandraConfiguration::default()), Ok(Port(19_061)));
        assert!(agent(&spec(60_000)).unwrap_err().message.contains("at most 55515"));
        let meets = CassandraConfiguration { jmx_local_port: Port(19_061), ..CassandraConfiguration::default() };
        assert!(agent(&meets).unwrap_err().message.contains("jmxLocalPort"));
    }
}
