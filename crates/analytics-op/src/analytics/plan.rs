//! Desired state of collectors and the API.

use serde_json::{Map, json};
use tf_api::{
    Analytics, Managed as _,
    contract::{ConditionType, Draft, Protocol},
    kinds::{ANALYTICS, ANALYTICS_ALARM},
};
use tf_config_api::types::{ANALYTICS_NODE, DATABASE_NODE};
use tf_contrail::{
    daemon::{self, Daemons, Entry},
    nodemanager::{self, NodeType},
    services::{COLLECTOR as COLLECTOR_ENDPOINT, CQL, Cassandra, over_ipv4},
};
use tf_pki::member::service_names;
use tf_plan::{
    build::{identity::Identity, publish, service},
    component::Agents,
    connection::Connection,
    dependency::{self, Dependency, Need, Resolved},
    images::Builtin,
    keystone::{self, Keystone},
    member_set::{MemberSet, Parts},
    not_ready::NotReady,
    observed::Observed,
    plan::Plan,
};

use super::{cluster::Cluster, database};
use crate::{
    OPERATOR,
    daemons::{api, collector, members, node_manager},
    login,
    member::{self, GRACE_SECONDS},
    registration::{self, Nodes},
    services::{self, DAEMONS, KAFKA, Kafka, Services, Sources},
};

/// What an Analytics needs, and what it uses when it is there.
pub fn dependencies(cr: &Analytics) -> Vec<Dependency> {
    let from = &cr.spec.dependencies;
    let mut all = services::dependencies(Sources {
        cassandra: from.config_database.as_ref(),
        zookeeper: from.zookeeper.as_ref(),
        rabbitmq: from.rabbitmq.as_ref(),
        redis: from.redis.as_ref(),
        config: from.config.as_ref(),
    });
    let alarm = tf_contrail::services::dependency(
        ConditionType::AnalyticsAlarmReady,
        ANALYTICS_ALARM,
        from.analytics_alarm.as_ref(),
        KAFKA,
        // It waits for collectors itself.
        Need::Optional,
    );
    all.extend([database::dependency_of(cr), alarm]);
    all
}

/// Plans collectors and the API.
///
/// # Errors
/// When a service is not usable yet, an input is missing, there are no members to plan for, or the spec asks for what cannot be.
pub fn plan(cr: &Analytics, observed: &Observed<Analytics>) -> Result<Plan, NotReady> {
    let absent = database::is_absent(cr, observed);
    let mut used = dependencies(cr);
    used.retain(|it| matches!(absent, Ok(None)) || it.condition != ConditionType::AnalyticsDatabaseReady);
    let (resolved, mut drafts) = dependency::resolve_for(&used, cr, observed);
    drafts.extend(absent.iter().flatten().cloned());
    let desired = || {
        absent?;
        let keystone = Keystone::let_in(cr, observed)?;
        let resolved = resolved?;
        let services = Services::of(&resolved)?;
        carry_out(cr, observed, &resolved, services, keystone.as_ref(), drafts.clone())
    };
    desired().map_err(|not_ready| not_ready.with_drafts(drafts.clone()))
}

/// The plan, once everything it depends on is there.
fn carry_out(
    cr: &Analytics,
    observed: &Observed<Analytics>,
    resolved: &Resolved,
    mut services: Services,
    keystone: Option<&Keystone>,
    drafts: Vec<Draft>,
) -> Result<Plan, NotReady> {
    let spec = &cr.spec.service_configuration;
    let table = table();
    let needed = [api::CONTAINER.name, collector::CONTAINER.name];
    let mut member_set = member::prepare(cr, observed, &table, &needed, &spec.containers)?;
    let stored = resolved.connection(ConditionType::AnalyticsDatabaseReady);
    let (database, kafka) = optional(resolved, &mut services.notes);
    member_set.membership.notes.extend(services.notes.iter().cloned());
    member_set.membership.notes.extend(far_from_redis(&member_set, &services));
    let login = login::of(cr, observed, keystone)?;
    member_set.membership.notes.extend(login::note(&login));
    let agents = agents(cr, &observed.operator.cluster_domain)?;
    let cluster = Cluster {
        spec,
        log_level: cr.spec.common_configuration.log_level.unwrap_or_default(),
        services: &services,
        database: database.as_ref(),
        kafka: kafka.as_ref(),
        keystone,
        login: &login,
        members: member_set.members(),
        agents: &agents,
    };
    let closed = closed(&cluster);
    let daemons = Daemons::of(&table, &member_set.containers, &cluster)?;
    let shared = cluster.shared()?;
    member_set.membership.notes.extend(closed);
    let service_name = front(&member_set.identity);
    let host = member_set.service_host(&service_name);
    let mut rest = member_set.endpoint(services::API, Protocol::Https, spec.analytics_port, true);
    rest.service = Some(host.clone());
    let collectors = member_set.endpoint(COLLECTOR_ENDPOINT, Protocol::Tcp, spec.collector_port, true);
    let front = service::cluster(&member_set.identity, &service_name, &[(services::API, spec.analytics_port)]);
    // A client that asks as Keystone's administrator has that login from where it is kept.
    let own = keystone.is_none().then_some(&login);
    let kept = own.map(|own| publish::credentials(&member_set.identity, &login::secret(cr), &login::kept(own)));
    let parts = Parts {
        objects: [Some(front), kept].into_iter().flatten().collect(),
        endpoints: vec![rest, collectors],
        connection: own.map(|own| (services::API, "analytics", login::published(own))),
        grace_seconds: GRACE_SECONDS,
        ignored: ignored(cr, observed),
        drafts,
        // Its name is known without asking for the address, which the Go tf-operator published here.
        own_status: Map::from_iter([("endpoint".to_owned(), json!(host))]),
        ..daemons.parts(daemon::logs("analytics", ANALYTICS, &member_set.identity), shared)
    };
    member_set.roll_out(parts, &members(api::CONTAINER.name), |plan| {
        let nodes = [
            Nodes::members(plan, ANALYTICS_NODE, "analytics_node_ip_address"),
            Nodes {
                kind: DATABASE_NODE,
                property: "database_node_ip_address",
                all: stored.map(nodes_of).unwrap_or_default(),
            },
        ];
        registration::complete(plan, cr, observed, &services.config, &nodes);
    })
}

/// What a member can run.
fn table<'a>() -> [Entry<Cluster<'a>>; 3] {
    [
        Entry { container: api::CONTAINER, daemon: api::daemon },
        Entry { container: collector::CONTAINER, daemon: collector::daemon },
        Entry {
            container: nodemanager::CONTAINER,
            daemon: |cluster, container| {
                let Cluster { log_level, members, .. } = *cluster;
                node_manager(NodeType::Analytics, log_level, &cluster.own_collectors(), members, container)
            },
        },
    ]
}

/// The containers that the spec may list.
pub fn containers() -> Vec<Builtin> {
    daemon::containers(&table())
}

/// The database of analytics and Kafka, where they are. One that the collectors could not reach is left out.
fn optional(resolved: &Resolved, notes: &mut Vec<String>) -> (Option<Cassandra>, Option<Kafka>) {
    let mut reachable = |condition, endpoint, service| {
        let connection = resolved.connection(condition)?.clone();
        match over_ipv4(connection, endpoint, service, DAEMONS, notes) {
            Ok(connection) => Some(connection),
            Err(message) => {
                notes.push(message);
                None
            }
        }
    };
    let database = reachable(ConditionType::AnalyticsDatabaseReady, CQL, "the Cassandra of analytics");
    let kafka = reachable(ConditionType::AnalyticsAlarmReady, KAFKA, "Kafka");
    (database.map(|it| Cassandra::of(&it, it.authorities(CQL)).of_analytics(&it)), kafka.map(|it| Kafka::of(&it)))
}

/// The members of a store by node and address, where their nodes are known.
fn nodes_of(connection: &Connection) -> Vec<(String, String)> {
    let node = |host: String| Some((connection.member_nodes.get(&host)?.clone(), host));
    connection.hosts(CQL).into_iter().filter_map(node).collect()
}

/// Results of queries are asked for at the Redis of the node that took the query (upstream `opserver.py`).
fn far_from_redis(member_set: &MemberSet<'_, Analytics>, services: &Services) -> Option<String> {
    let is_far = |address: &String| !services.redis.hosts.contains(address);
    let far: Vec<String> = member_set.addresses().into_iter().filter(is_far).collect();
    (!far.is_empty()).then(|| {
        format!(
            "there is no Redis on {}: the collectors there use that of another node, and results of queries have to be asked for elsewhere",
            far.join(", ")
        )
    })
}

/// A token is asked for in every other mode, and Keystone alone gives any (upstream `opserver.py`, `validate_user_token`). Unlike the config
/// API without Keystone this one keeps people out, so the mode stays as it is.
fn closed(cluster: &Cluster<'_>) -> Option<String> {
    let mode = cluster.aaa_mode();
    (cluster.keystone.is_none() && !mode.is_open()).then(|| {
        let mode = mode.as_str();
        format!(
            "with aaaMode {mode} the API refuses whoever has no token, and authMode is not keystone, which alone gives any; state Keystone in \
             authParameters, or leave aaaMode out to let everybody in"
        )
    })
}

/// How members' agents are reached, and what members are called: by their own names, and by that of the API's Service.
///
/// # Errors
/// `InvalidSpec` when there is no port for them.
pub fn agents(cr: &Analytics, cluster_domain: &str) -> Result<Agents, NotReady> {
    let port = Agents::port_above("analyticsPort", cr.spec.service_configuration.analytics_port)?;
    let mut agents = Agents::of(OPERATOR, cr, port, cluster_domain);
    agents.services.extend(service_names(&front(&Identity::of(OPERATOR, cr)), cr.home(), cluster_domain));
    Ok(agents)
}

/// Name of the API's Service.
fn front(identity: &Identity) -> String {
    identity.service_name("analytics")
}

/// Fields of the spec that are set and have no effect.
fn ignored(cr: &Analytics, observed: &Observed<Analytics>) -> Vec<String> {
    let keystone = keystone::ignored(cr.spec.common_configuration.auth_parameters.as_ref());
    keystone.into_iter().chain(member::ignored(cr, observed, &dependencies(cr))).collect()
}
