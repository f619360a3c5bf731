//! The ports of a member on its node.

use tf_api::{RedisConfiguration, schema::Port};
use tf_plan::{component::Agents, node, plan::NotReady};

/// Ports of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Redis over TLS.
    pub redis: Port,
    /// The member's node agent, 10020 above: 16409 with the default port.
    pub agent: Port,
}

impl Ports {
    /// The port of the spec, and the one that follows from it.
    ///
    /// # Errors
    /// `InvalidSpec` when there is none for the agent.
    pub fn of(spec: &RedisConfiguration) -> Result<Self, NotReady> {
        Ok(Self { redis: spec.redis_port, agent: Agents::port_above("redisPort", spec.redis_port)? })
    }

    /// The ports with their names in pods and Services.
    pub fn named(&self) -> Vec<(&'static str, Port)> {
        vec![("redis", self.redis), (node::AGENT_PORT, self.agent)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_has_a_port_of_its_own_or_the_spec_is_refused() {
        let ports = |port| Ports::of(&RedisConfiguration { redis_port: Port(port), ..RedisConfiguration::default() });
        assert_eq!(Ports::of(&RedisConfiguration::default()).unwrap().agent, Port(16_409));
        assert_eq!(ports(55_515).unwrap().agent, Port(u16::MAX));
        let refused = ports(55_516).unwrap_err();
        assert!(refused.message.contains("serviceConfiguration.redisPort has to be at most 55515"), "{refused:?}");
    }
}
