//! The ports of a member. All but the port mapper's follow from the one for AMQP.

use tf_agent_api::node;
use tf_api::{contract::Reason, schema::Port};
use tf_plan::not_ready::NotReady;

/// Ports of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// AMQP over TLS.
    pub amqp: Port,
    /// Management, 10000 above.
    pub management: Port,
    /// Erlang distribution, 20000 above.
    pub distribution: Port,
    /// Metrics, 10019 above: 15692, where they usually are, with the default port.
    pub prometheus: Port,
    /// The member's node agent, 10020 above.
    pub agent: Port,
    /// Erlang port mapper.
    pub epmd: Port,
}

impl Ports {
    /// The ports that follow from that for AMQP, and that of the port mapper.
    ///
    /// # Errors
    /// `InvalidSpec` when one of them does not exist or two are the same. The schema refuses most of it.
    pub fn of(amqp: Port, epmd: Port) -> Result<Self, NotReady> {
        let above = |offset| {
            amqp.get().checked_add(offset).map(Port).ok_or_else(|| {
                NotReady::invalid(
                    Reason::InvalidSpec,
                    "serviceConfiguration.port has to be at most 45535: the cluster uses the port 20000 above it",
                )
            })
        };
        let ports = Self {
            amqp,
            management: above(10_000)?,
            distribution: above(20_000)?,
            prometheus: above(10_019)?,
            agent: above(10_020)?,
            epmd,
        };
        match ports.named().iter().find(|(name, port)| *name != "epmd" && *port == epmd) {
            Some((name, port)) => Err(NotReady::invalid(
                Reason::InvalidSpec,
                format!("serviceConfiguration.erlEpmdPort is {port}, which {name} uses; choose another"),
            )),
            None => Ok(ports),
        }
    }

    /// The ports with their names in pods and Services.
    pub fn named(&self) -> Vec<(&'static str, Port)> {
        vec![
            ("amqp", self.amqp),
            ("management", self.management),
            ("distribution", self.distribution),
            ("prometheus", self.prometheus),
            (node::AGENT_PORT, self.agent),
            ("epmd", self.epmd),
        ]
    }
}
