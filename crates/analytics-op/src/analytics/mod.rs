//! Analytics: collectors and the API.

pub mod cluster;
pub mod database;
pub mod plan;

use tf_api::{
    Analytics,
    contract::ConditionType,
    kinds::{ANALYTICS, ANALYTICS_ALARM, CASSANDRA, CONFIG, QUERY_ENGINE, RABBITMQ, REDIS, ZOOKEEPER},
};
use tf_plan::{
    component::{self, Agents},
    credentials::Credential,
    declaration::Declaration,
    dependency::Dependency,
    keystone::{self, Keystone},
    not_ready::NotReady,
    observed::Observed,
    plan::{Availability, Plan},
    procedure::AgentReport,
    references::References,
};

use crate::{
    daemons::{self, api},
    login, peer,
};

/// The Analytics component.
pub struct Component;

impl component::Component for Component {
    type Cr = Analytics;

    /// Daemons report to any collector, and every member serves the whole API (docs/upstream/daemons.md#members).
    const AVAILABILITY: Availability = Availability::Any;

    fn declaration() -> Declaration {
        let query_engine = "where there is one, collectors store what they receive";
        let alarm = "its Kafka receives the state from which alarms are made";
        crate::declaration(
            ANALYTICS,
            vec![
                peer(CASSANDRA, ConditionType::CassandraReady, "the configuration is read from it"),
                peer(ZOOKEEPER, ConditionType::ZookeeperReady, "the daemons share out their work in it"),
                peer(RABBITMQ, ConditionType::RabbitmqReady, "delivers changes of the configuration"),
                peer(REDIS, ConditionType::RedisReady, "the current state of everything is kept in it"),
                peer(CONFIG, ConditionType::ConfigApiReady, "the daemons and the operator ask it"),
                peer(QUERY_ENGINE, ConditionType::QueryEngineReady, query_engine),
                peer(ANALYTICS_ALARM, ConditionType::AnalyticsAlarmReady, alarm),
            ],
        )
    }

    fn references(cr: &Analytics) -> References {
        keystone::references(cr)
    }

    fn credentials(cr: &Analytics) -> Vec<Credential> {
        login::credentials(cr)
    }

    fn login(cr: &Analytics, observed: &Observed<Analytics>) -> Option<Keystone> {
        Keystone::named(cr, observed)
    }

    fn dependencies(cr: &Analytics) -> Vec<Dependency> {
        plan::dependencies(cr)
    }

    fn agents(cr: &Analytics, cluster_domain: &str) -> Option<Agents> {
        plan::agents(cr, cluster_domain).ok()
    }

    fn agent_report(cr: &Analytics, observed: &Observed<Analytics>) -> Option<AgentReport> {
        daemons::members(api::CONTAINER.name).agent_report(cr, observed)
    }

    fn plan(cr: &Analytics, observed: &Observed<Analytics>) -> Result<Plan, NotReady> {
        plan::plan(cr, observed)
    }
}
