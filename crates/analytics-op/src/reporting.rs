//! What AnalyticsAlarm and AnalyticsSnmp have in common: their daemons read the configuration and report to the collectors of Analytics.

use tf_api::{
    Managed,
    common::{LogLevel, PodConfiguration},
    contract::{ConditionType, Reason},
    dependencies::DependencySource,
    kinds::ANALYTICS,
};
use tf_contrail::{
    daemon::LOG_DIR,
    sandesh,
    services::{COLLECTOR, over_ipv4, unusable},
};
use tf_plan::{
    build::configuration::Files,
    connection::Connection,
    dependency::{Dependency, Need, Resolved},
    external_tls::File,
    keystone::Keystone,
    not_ready::NotReady,
    observed::Observed,
};

use crate::{
    member,
    services::{self, DAEMONS, Services, Sources},
};

/// What they depend on. `analytics`: what the spec says of Analytics.
pub fn dependencies(sources: Sources<'_>, analytics: Option<&DependencySource>) -> Vec<Dependency> {
    let mut all = services::dependencies(sources);
    let collector = ConditionType::CollectorReady;
    all.push(tf_contrail::services::dependency(collector, ANALYTICS, analytics, COLLECTOR, Need::BringUp));
    all
}

/// What their files depend on beside the spec of the kind.
pub struct Surroundings {
    /// What the daemons connect to, Analytics apart.
    pub services: Services,
    /// Analytics.
    pub analytics: Connection,
    /// Where people are known, if the cluster has that.
    pub keystone: Option<Keystone>,
    /// The directory of logs.
    pub log_dir: String,
    /// What is logged.
    pub level: LogLevel,
}

impl Surroundings {
    /// Of a resource with this configuration, whose spec states that path for logs.
    ///
    /// # Errors
    /// When a service is not usable yet, an input is missing, or the path is none.
    pub fn of<Cr: Managed>(
        cr: &Cr,
        common: &PodConfiguration,
        log_path: Option<&str>,
        observed: &Observed<Cr>,
        resolved: Result<Resolved, NotReady>,
    ) -> Result<Self, NotReady> {
        let log_dir = log_dir(log_path)?;
        let keystone = Keystone::let_in(cr, observed)?;
        let resolved = resolved?;
        let mut services = Services::of(&resolved)?;
        let analytics = reachable(&resolved, &mut services.notes)?;
        let level = common.log_level.unwrap_or_default();
        Ok(Self { services, analytics, keystone, log_dir, level })
    }

    /// The files that several daemons read.
    ///
    /// # Errors
    /// When a value cannot be expressed in a file.
    pub fn shared(&self) -> Result<Files, NotReady> {
        let mut files = member::library(&self.services, self.keystone.as_ref())?;
        files.external_tls(self.external_tls());
        Ok(files)
    }

    /// Files for TLS to services of other authorities.
    pub fn external_tls(&self) -> Vec<File> {
        [self.services.external_tls(), sandesh::external_tls(Some(&self.analytics)).files()].concat()
    }
}

/// Analytics, as the daemons reach it.
fn reachable(resolved: &Resolved, notes: &mut Vec<String>) -> Result<Connection, NotReady> {
    let connection = resolved.connection(ConditionType::CollectorReady).cloned().unwrap_or_default();
    over_ipv4(connection, COLLECTOR, "collectors", DAEMONS, notes)
        .map_err(|message| unusable(ConditionType::CollectorReady, message))
}

/// The directory that the spec states for logs, in which the volume for them is.
fn log_dir(stated: Option<&str>) -> Result<String, NotReady> {
    let stated = stated.map(|path| path.trim_end_matches('/')).filter(|path| !path.is_empty()).unwrap_or(LOG_DIR);
    let is_path = stated.starts_with('/') && !stated.split('/').any(|part| part == "..") && !stated.contains(':');
    if is_path && (stated == "/var/log" || stated.starts_with("/var/log/")) {
        return Ok(stated.to_owned());
    }
    let message = format!("serviceConfiguration.logFilePath is {stated:?}; name a directory in /var/log");
    Err(NotReady::invalid(Reason::InvalidSpec, message))
}

/// Whether messages go to the file at once. To the daemons every text means yes, so for no the option is left out.
pub fn log_local(stated: Option<&str>) -> bool {
    !stated.is_some_and(|text| ["0", "false", "no", "off"].contains(&text.to_ascii_lowercase().as_str()))
}
