//! What of a ring is disturbed: its sizes and its configuration.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tf_api::contract::MemberStatus;

use super::writer::Writer;
use super::{COMPACTORS, JMX_PORT, STORE, on_a_small_machine, repairs, ring, table, with_compactors};
use crate::{
    crash::{Common, Configuration, Name, Round, Site, Subject, Wish as _, servers, tests_of},
    store::Store,
    tls::Access,
};

/// Grow by two, and shrink by one, twice.
const SIZES: Round<Common> = Round {
    name: Name::CassandraSizes,
    wishes: &[Common::members(3), Common::members(2), Common::members(1)],
    other: Common::members(2).with(Configuration::Another),
};

/// Change the configuration, and change it back.
const CHANGES: Round<Common> = Round {
    name: Name::CassandraChanges,
    wishes: &[Common::members(3).with(Configuration::Other), Common::members(3)],
    other: Common::members(3).with(Configuration::Another),
};

#[derive(Default)]
struct Ring;

impl Subject for Ring {
    type Component = cassandra_op::Component;
    type Wish = Common;
    type Clients = Writer;

    const STORE: Store = STORE;
    const IMAGES: &'static [&'static str] = &[];
    // Up to two members join, each with the repair of what all hold.
    const LIMIT: Duration = Duration::from_mins(20);
    // Java starts for each question.
    const SAID: Duration = Duration::from_mins(1);

    fn spec(wish: Common) -> Value {
        with_compactors(on_a_small_machine(wish.spec()), wish.configuration.number())
    }

    async fn ask(&mut self, site: &Site, wish: Common, members: &[MemberStatus]) -> Result<()> {
        // What was founded anew has none yet.
        table(&Access::of(&site.client).await?, &servers(members)?).await?;
        ring(&site.lab, &site.client, members.len()).await?;
        for pod in STORE.pods(&site.client).await?.keys() {
            let (level, number) = (wish.configuration.level(), COMPACTORS + wish.configuration.number());
            let compactors = STORE.exec(&site.lab, pod, &["nodetool", "-p", JMX_PORT, "getconcurrentcompactors"])?;
            ensure!(compactors.contains(&number.to_string()), "{pod} has not {number}: {compactors}");
            let levels = STORE.exec(&site.lab, pod, &["nodetool", "-p", JMX_PORT, "getlogginglevels"])?;
            let root = levels.lines().find_map(|line| line.strip_prefix("ROOT")).context("no root logger")?;
            ensure!(root.trim().eq_ignore_ascii_case(level), "{pod} logs {root}, not {level}");
        }
        let repaired = repairs(&site.lab, &site.client).await?;
        // A keyspace that was made with all of these members there needs none.
        let is_whole = repaired.iter().all(|factor| *factor == repaired[0]);
        ensure!(is_whole && repaired[0].is_none_or(|factor| factor == members.len()), "repaired: {repaired:?}");
        Ok(())
    }

    async fn clients(&self, site: &Site) -> Result<Writer> {
        Ok(Writer::begin(&Access::of(&site.client).await?, &site.lab.real_nodes()?.addresses()?))
    }

    async fn end(writer: Writer, servers: &[IpAddr]) -> Result<String> {
        let summary = writer.among(servers).end().await?;
        ensure!(summary.lost == 0, "{summary}");
        Ok(summary.to_string())
    }
}

tests_of!(sizes, Ring, SIZES);
tests_of!(changes, Ring, CHANGES);
