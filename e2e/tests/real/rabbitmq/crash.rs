//! What of a cluster is disturbed: its sizes, its configuration, its nodes. One server alone keeps its configuration, since its queues would end
//! with it.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;
use tf_api::contract::MemberStatus;

use super::traffic::{Access, Traffic};
use super::{BACKLOG, STORE, backlog};
use crate::{
    crash::{Common, Configuration, Name, Round, Site, Subject, Wish as _, tests_of},
    store::{ROLL, Store},
};

/// Grow, and shrink.
const SIZES: Round<Common> =
    Round { name: Name::RabbitmqSizes, wishes: &[Common::members(3), Common::members(1)], other: Common::members(2) };

/// Change the configuration, and change it back.
const CHANGES: Round<Common> = Round {
    name: Name::RabbitmqChanges,
    wishes: &[Common::members(3).with(Configuration::Other), Common::members(3)],
    other: Common::members(3).with(Configuration::Another),
};

/// A node is replaced while the configuration changes, and another one while it changes back.
const NODES: Round<Common> = Round {
    name: Name::RabbitmqNodes,
    wishes: &[Common::members(3).with(Configuration::Other).on_another_node(), Common::members(3).on_another_node()],
    other: Common::members(3).with(Configuration::Another),
};

/// Whom a server takes for its cluster, who of them runs, from whom it was cut off, what it logs to its console, and a setting that it was started with.
/// The level of all outputs together would say `info` of one that was started with less, for the log of upgrades.
const SAYS: &str = "{length(rabbit_mnesia:cluster_nodes(all)), length(rabbit_mnesia:cluster_nodes(running)), \
                    rabbit_node_monitor:partitions(), maps:get(level, element(2, logger:get_handler_config(rmq_1_stdout))), \
                    proplists:get_value(backlog, element(2, application:get_env(rabbit, tcp_listen_options)))}.";

#[derive(Default)]
struct Cluster;

impl Subject for Cluster {
    type Component = rabbitmq_op::Component;
    type Wish = Common;
    type Clients = Traffic;

    const STORE: Store = STORE;
    const IMAGES: &'static [&'static str] = &[];
    const LIMIT: Duration = ROLL;
    // Erlang starts for each question.
    const SAID: Duration = Duration::from_mins(1);

    fn spec(wish: Common) -> Value {
        let mut spec = wish.spec();
        spec["serviceConfiguration"] = backlog(wish.configuration.number());
        spec
    }

    async fn ask(&mut self, site: &Site, wish: Common, members: &[MemberStatus]) -> Result<()> {
        let pods = STORE.pods(&site.client).await?;
        ensure!(pods.len() == members.len(), "{:?}", pods.keys());
        let Common { members, configuration, .. } = wish;
        let expected =
            format!("{{{members},{members},[],{},{}}}", configuration.level(), BACKLOG + configuration.number());
        for pod in pods.keys() {
            let says = STORE.exec(&site.lab, pod, &["rabbitmqctl", "eval", SAYS])?;
            ensure!(says.trim() == expected, "{pod} says {}, not {expected}", says.trim());
        }
        Ok(())
    }

    async fn clients(&self, site: &Site) -> Result<Traffic> {
        Traffic::begin(&Access::of(&site.client).await?, &site.lab.real_nodes()?.addresses()?).await
    }

    async fn end(traffic: Traffic, _servers: &[IpAddr]) -> Result<String> {
        let summary = traffic.end().await?;
        ensure!(summary.lost == 0, "{summary}");
        Ok(summary.to_string())
    }
}

tests_of!(sizes, Cluster, SIZES);
tests_of!(changes, Cluster, CHANGES);
tests_of!(nodes, Cluster, NODES);
