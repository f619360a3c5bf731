//! What of servers that copy one of them is disturbed: how many they are, and their configuration.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;
use tf_api::contract::MemberStatus;

use super::client::Login;
use super::journal::Journal;
use super::sentinel::{CONVERGED, with_sentinels};
use super::{ROLL, STORE};
use crate::{
    crash::{Common, Configuration, Name, Round, Site, Subject, Wish as _, servers, tests_of},
    store::Store,
};

/// Grow, and shrink.
const SIZES: Round<Common> = Round {
    name: Name::RedisSizes,
    wishes: &[Common::members(5), Common::members(3)],
    other: Common::members(3).with(Configuration::Another),
};

/// Another log level, which is told to servers and for which Sentinels are started anew, and back. Nothing else can be changed while clients stay.
const CHANGES: Round<Common> = Round {
    name: Name::RedisChanges,
    wishes: &[Common::members(3).with(Configuration::Other), Common::members(3)],
    other: Common::members(3).with(Configuration::Another),
};

#[derive(Default)]
struct Servers;

impl Subject for Servers {
    type Component = redis_op::Component;
    type Wish = Common;
    type Clients = Journal;

    const STORE: Store = STORE;
    const NODES: u32 = 5;
    const IMAGES: &'static [&'static str] = &[];
    const LIMIT: Duration = ROLL;
    // Sentinels learn of servers by and by.
    const SAID: Duration = CONVERGED;

    fn spec(wish: Common) -> Value {
        with_sentinels(wish.spec())
    }

    async fn ask(&mut self, site: &Site, wish: Common, members: &[MemberStatus]) -> Result<()> {
        let (login, addresses) = (Login::by_sentinel(&site.client).await?, servers(members)?);
        let counted = login.counted(&addresses).await?;
        ensure!(counted == (addresses.len() - 1, addresses.len()), "copies and Sentinels: {counted:?}");
        let level = redis_op::config::log_level(serde_json::from_value(wish.configuration.level().into())?);
        for address in addresses {
            let says = login.connect(address).await?.ask(&["CONFIG", "GET", "loglevel"]).await?;
            ensure!(says == format!("loglevel {level}"), "{address}: {says}");
        }
        Ok(())
    }

    async fn clients(&self, site: &Site) -> Result<Journal> {
        let login = Login::by_sentinel(&site.client).await?;
        let journal = Journal::begin(&login, &site.lab.real_nodes()?.addresses()?);
        journal.goes_on(CONVERGED).await?;
        Ok(journal)
    }

    async fn end(journal: Journal, servers: &[IpAddr]) -> Result<String> {
        let summary = journal.among(servers).end().await?;
        ensure!(summary.lost == 0 && summary.at_once == 0, "{summary}");
        Ok(summary.to_string())
    }
}

tests_of!(sizes, Servers, SIZES);
tests_of!(changes, Servers, CHANGES);
