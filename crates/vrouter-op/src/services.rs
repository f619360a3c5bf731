//! The services that agents talk to, live or as they were last known.
//!
//! All of them are optional: an agent retries for ever (docs/upstream/daemons.md#start-order), so a vRouter comes up without any. That makes
//! them dangerous too, because a reference that cannot be resolved for a moment must not empty the list of control nodes on
//! every node of the cluster. So what is in use is kept in a ConfigMap of the resource, and used again whenever nothing
//! better is known (consumer rule 2 of the status contract). Who has no such ConfigMap yet waits until it can be seen what there is.

use std::collections::BTreeMap;

use tf_api::{
    Vrouter,
    contract::{ConditionType, Endpoint, Reason},
    dependencies::{DependencySource, ResourceReference},
    kinds::{ANALYTICS, CONFIG, CONTROL},
    ports,
};
use tf_config_files::url::authority;
use tf_contrail::{sandesh, services::dependency};
use tf_plan::{
    build::identity::Identity,
    connection::Connection,
    dependency::{Dependency, Need, Resolved, endpoint_of_map},
    external_tls::{ExternalTls, Service},
    not_ready::NotReady,
};

use crate::parameters::{Name, Parameters};

/// XMPP of the control nodes.
pub const XMPP: &str = "xmpp";
/// DNS of the control nodes.
pub const DNS: &str = "dns";
/// REST of Config.
pub const API: &str = "api";
/// Collectors of Analytics.
pub const COLLECTOR: &str = "collector";

/// Services a resource may use.
pub fn dependencies(cr: &Vrouter) -> Vec<Dependency> {
    let named = &cr.spec.dependencies;
    let instance = cr.spec.service_configuration.control_instance.as_deref().filter(|name| !name.is_empty());
    let control = named.control.clone().or_else(|| {
        let reference = ResourceReference { name: instance?.to_owned(), namespace: None };
        Some(DependencySource { reference: Some(reference), ..DependencySource::default() })
    });
    let optional = |condition, kind, source, endpoint| dependency(condition, kind, source, endpoint, Need::Optional);
    vec![
        optional(ConditionType::ControlReady, CONTROL, control.as_ref(), XMPP),
        optional(ConditionType::ConfigApiReady, CONFIG, named.config.as_ref(), API),
        optional(ConditionType::CollectorReady, ANALYTICS, named.analytics.as_ref(), COLLECTOR),
    ]
}

/// Name of the ConfigMap that keeps what is in use.
pub fn map_name(identity: &Identity) -> String {
    identity.object_name("services")
}

/// Services in use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Services {
    /// Control nodes, with `xmpp` and, where they publish it, `dns`.
    pub control: Option<Connection>,
    /// Config, with `api`.
    pub config: Option<Connection>,
    /// Analytics, with `collector`.
    pub analytics: Option<Connection>,
}

impl Services {
    /// What is published now, else what is `remembered`. Config and Analytics are forgotten when nothing asks for them any
    /// more; control nodes never are, because an address that does not answer does no harm and none at all does.
    pub fn find(resolved: &Resolved, remembered: Option<&BTreeMap<String, String>>) -> Self {
        let find = |condition, endpoints: &[&str]| {
            let live = resolved.connection(condition).cloned();
            live.or_else(|| recall(endpoints, remembered?)).map(|connection| Connection {
                endpoints: connection
                    .endpoints
                    .into_iter()
                    .filter(|(name, _)| endpoints.contains(&name.as_str()))
                    .collect(),
                ..connection
            })
        };
        let requested = |condition| {
            resolved.drafts.iter().any(|draft| draft.kind == condition && draft.reason != Reason::NotRequested)
        };
        Self {
            control: find(ConditionType::ControlReady, &[XMPP, DNS]),
            config: find(ConditionType::ConfigApiReady, &[API]).filter(|_| requested(ConditionType::ConfigApiReady)),
            analytics: find(ConditionType::CollectorReady, &[COLLECTOR])
                .filter(|_| requested(ConditionType::CollectorReady)),
        }
    }

    /// Every endpoint in use, to be remembered.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        let connections = [&self.control, &self.config, &self.analytics];
        connections.into_iter().flatten().flat_map(|connection| connection.endpoints.values().cloned()).collect()
    }

    /// What is the config API's own of TLS, where its hosts are those that were found.
    pub fn config_foreign(&self, parameters: &Parameters) -> ExternalTls {
        let found = self.config.as_ref().filter(|_| parameters.items(Name::ConfigNodes).is_empty());
        found.map(|connection| ExternalTls::of(Service::Config, connection)).unwrap_or_default()
    }

    /// The same of collectors.
    pub fn collectors_foreign(&self, parameters: &Parameters) -> ExternalTls {
        let is_named = |name: &Name| !parameters.items(*name).is_empty();
        let named = [Name::CollectorServers, Name::AnalyticsNodes].iter().any(is_named);
        sandesh::external_tls(self.analytics.as_ref().filter(|_| !named))
    }

    /// Hosts of the control nodes.
    pub fn control_hosts(&self, parameters: &Parameters) -> Vec<String> {
        named_or_found(parameters, &[Name::ControlNodes], self.control.as_ref(), XMPP)
    }

    /// Hosts of Config.
    pub fn config_hosts(&self, parameters: &Parameters) -> Vec<String> {
        named_or_found(parameters, &[Name::ConfigNodes], self.config.as_ref(), API)
    }

    /// Port of Config.
    ///
    /// # Errors
    /// When the spec gives no port.
    pub fn config_port(&self, parameters: &Parameters) -> Result<u16, NotReady> {
        port(parameters, Name::ConfigApiPort, self.config.as_ref(), API, ports::CONFIG_API.get())
    }

    /// Control nodes with the port for agents.
    ///
    /// # Errors
    /// When the spec gives no port.
    pub fn xmpp_servers(&self, parameters: &Parameters) -> Result<Vec<String>, NotReady> {
        let default = ports::CONTROL_XMPP.get();
        let port = port(parameters, Name::XmppServerPort, self.control.as_ref(), XMPP, default)?;
        Ok(servers(parameters, Name::XmppServers, || self.control_hosts(parameters), port))
    }

    /// DNS servers. They run beside the control nodes, so their hosts are the same where nothing else is stated.
    ///
    /// # Errors
    /// When the spec gives no port.
    pub fn dns_servers(&self, parameters: &Parameters) -> Result<Vec<String>, NotReady> {
        let published = self.control.as_ref().is_some_and(|control| !control.hosts(DNS).is_empty());
        let endpoint = if published { DNS } else { XMPP };
        let hosts =
            || named_or_found(parameters, &[Name::DnsNodes, Name::ControlNodes], self.control.as_ref(), endpoint);
        let port = port(parameters, Name::DnsServerPort, self.control.as_ref(), DNS, ports::DNS.get())?;
        Ok(servers(parameters, Name::DnsServers, hosts, port))
    }

    /// Collectors.
    ///
    /// # Errors
    /// When the spec gives no port.
    pub fn collectors(&self, parameters: &Parameters) -> Result<Vec<String>, NotReady> {
        let analytics = self.analytics.as_ref();
        let port = port(parameters, Name::CollectorPort, analytics, COLLECTOR, ports::COLLECTOR.get())?;
        let hosts = || named_or_found(parameters, &[Name::AnalyticsNodes], analytics, COLLECTOR);
        Ok(servers(parameters, Name::CollectorServers, hosts, port))
    }
}

fn recall(endpoints: &[&str], remembered: &BTreeMap<String, String>) -> Option<Connection> {
    let endpoints: BTreeMap<String, Endpoint> =
        endpoints.iter().filter_map(|name| Some(((*name).to_owned(), endpoint_of_map(name, remembered)?))).collect();
    (!endpoints.is_empty()).then(|| Connection { endpoints, ..Connection::default() })
}

fn named_or_found(
    parameters: &Parameters,
    names: &[Name],
    connection: Option<&Connection>,
    endpoint: &str,
) -> Vec<String> {
    names
        .iter()
        .map(|name| parameters.items(*name))
        .find(|hosts| !hosts.is_empty())
        .or_else(|| connection.map(|connection| connection.hosts(endpoint)))
        .unwrap_or_default()
}

fn port(
    parameters: &Parameters,
    name: Name,
    connection: Option<&Connection>,
    endpoint: &str,
    default: u16,
) -> Result<u16, NotReady> {
    let published = connection.and_then(|connection| connection.port(endpoint));
    Ok(parameters.port(name)?.or(published).unwrap_or(default))
}

fn servers(parameters: &Parameters, list: Name, hosts: impl Fn() -> Vec<String>, port: u16) -> Vec<String> {
    let named = parameters.items(list);
    if named.is_empty() { hosts().iter().map(|host| authority(host, port)).collect() } else { named }
}
