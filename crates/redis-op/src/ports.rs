//! The ports of a member on its node.

use tf_agent_api::node;
use tf_api::{RedisConfiguration, contract::Reason, kinds::RedisMode, schema::Port};
use tf_plan::{component::Agents, not_ready::NotReady};

use crate::sentinel;

/// Ports of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Redis over TLS.
    pub redis: Port,
    /// The member's node agent, 10020 above: 16409 with the default port.
    pub agent: Port,
    /// The member's Sentinel over TLS, 20000 above as Redis's own are (26379 and 6379); none where each server is on its own.
    pub sentinel: Option<Port>,
}

/// How far above the port for clients that of the Sentinel is.
const SENTINEL_ABOVE: u16 = 20_000;

impl Ports {
    /// The port of the spec, and the one that follows from it.
    ///
    /// # Errors
    /// `InvalidSpec` when there is none for the agent or the Sentinel.
    pub fn of(spec: &RedisConfiguration) -> Result<Self, NotReady> {
        let redis = spec.redis_port;
        let sentinel = match spec.mode.unwrap_or_default() {
            RedisMode::Independent => None,
            RedisMode::Sentinel => Some(sentinel_above(redis)?),
        };
        Ok(Self { redis, agent: Agents::port_above("redisPort", redis)?, sentinel })
    }

    /// The ports with their names in pods and Services.
    pub fn named(&self) -> Vec<(&'static str, Port)> {
        vec![("redis", self.redis), (node::AGENT_PORT, self.agent)]
    }

    /// Those of the Sentinel.
    pub fn of_sentinel(&self) -> Vec<(&'static str, Port)> {
        self.sentinel.map(|port| (sentinel::CONTAINER, port)).into_iter().collect()
    }
}

fn sentinel_above(redis: Port) -> Result<Port, NotReady> {
    redis.get().checked_add(SENTINEL_ABOVE).map(Port).ok_or_else(|| {
        let highest = u16::MAX - SENTINEL_ABOVE;
        NotReady::invalid(
            Reason::InvalidSpec,
            format!(
                "serviceConfiguration.redisPort has to be at most {highest} in mode Sentinel: Sentinels use the port \
                 {SENTINEL_ABOVE} above it"
            ),
        )
    })
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
    #[test]
    fn the_sentinel_has_one_only_where_there_is_one() {
        let ports = |mode, port| {
            Ports::of(&RedisConfiguration { redis_port: Port(port), mode, ..RedisConfiguration::default() })
        };
        assert_eq!(ports(Some(RedisMode::Sentinel), 6389).unwrap().sentinel, Some(Port(26_389)));
        assert_eq!(ports(Some(RedisMode::Independent), 6389), ports(None, 6389));
        assert_eq!(ports(None, 50_000).unwrap().sentinel, None);
        assert_eq!(ports(Some(RedisMode::Sentinel), 45_535).unwrap().sentinel, Some(Port(u16::MAX)));
        let refused = ports(Some(RedisMode::Sentinel), 45_536).unwrap_err();
        assert!(refused.message.contains("at most 45535 in mode Sentinel"), "{refused:?}");
    }
}
