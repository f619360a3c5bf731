//! What collectors and the API of a resource are stated by, and the parts that their files have in common.

use tf_api::{
    AnalyticsConfiguration,
    common::{AaaMode, LogLevel},
    contract::{Endpoint, MemberStatus, Protocol},
};
use tf_config_files::{Section, Settings as _, url::authority};
use tf_contrail::services::{COLLECTOR, Cassandra, Login};
use tf_plan::{
    build::configuration::Files,
    component::Agents,
    connection::Connection,
    external_tls::{ExternalTls, File},
    keystone::{self, Keystone},
    not_ready::NotReady,
};

use crate::{
    config::REDIS_PASSWORD,
    login, member,
    services::{Kafka, Services},
};

/// Everything that the daemons of one resource are stated by.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// The spec.
    pub spec: &'a AnalyticsConfiguration,
    /// Level of the logs.
    pub log_level: LogLevel,
    /// What the daemons connect to.
    pub services: &'a Services,
    /// The database of analytics, if there is one.
    pub database: Option<&'a Cassandra>,
    /// Where alarms are made, if they are.
    pub kafka: Option<&'a Kafka>,
    /// Keystone, if it authenticates users.
    pub keystone: Option<&'a Keystone>,
    /// Who is let in at the API's port for administration.
    pub login: &'a Login,
    /// Members, in the order they joined.
    pub members: &'a [MemberStatus],
    /// How the members' agents are reached.
    pub agents: &'a Agents,
}

impl Cluster<'_> {
    /// The files that several daemons read.
    ///
    /// # Errors
    /// When a value cannot be expressed in a file.
    pub fn shared(&self) -> Result<Files, NotReady> {
        let mut files = member::library(self.services, self.keystone)?;
        if self.keystone.is_none() {
            files.shared_secret(keystone::FILE, login::file(self.login)?);
        }
        files.external_tls(self.external_tls());
        if let Some(password) = &self.services.redis.password {
            files.shared_secret(REDIS_PASSWORD, password.clone());
        }
        Ok(files)
    }

    /// The collectors of the members, to which everything beside them reports.
    pub fn own_collectors(&self) -> Connection {
        let mut nodes: Vec<String> = self.members.iter().map(|member| member.address.clone()).collect();
        nodes.sort_unstable();
        let port = self.spec.collector_port.get();
        let endpoint =
            Endpoint { name: COLLECTOR.into(), protocol: Protocol::Tcp, port, tls: true, service: None, nodes };
        Connection { endpoints: [(COLLECTOR.to_owned(), endpoint)].into(), ..Connection::default() }
    }

    /// Files for TLS to services of other authorities.
    pub fn external_tls(&self) -> Vec<File> {
        let stores = [self.database.map(|it| &it.external_tls), self.kafka.map(|it| &it.external_tls)];
        let stores = stores.into_iter().flatten().flat_map(ExternalTls::files);
        self.services.external_tls().into_iter().chain(stores).collect()
    }

    /// Hours that data is kept.
    pub fn lifetimes(&self, defaults: &mut Section) {
        let spec = self.spec;
        defaults
            .set("analytics_data_ttl", spec.analytics_data_ttl)
            .set("analytics_config_audit_ttl", spec.analytics_config_audit_ttl)
            .set("analytics_statistics_ttl", spec.analytics_statistics_ttl)
            .set("analytics_flow_ttl", spec.analytics_flow_ttl);
    }

    /// Who may do what: what the spec says, else what suits the authentication.
    pub fn aaa_mode(&self) -> AaaMode {
        let usual = if self.keystone.is_some() { AaaMode::Rbac } else { AaaMode::NoAuth };
        self.spec.aaa_mode.unwrap_or(usual)
    }

    /// Collectors with port, in the order the members joined.
    pub fn collectors(&self) -> Vec<String> {
        let port = self.spec.collector_port.get();
        self.members.iter().map(|member| authority(&member.address, port)).collect()
    }
}
