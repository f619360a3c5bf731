//! Default ports, one source for schema, servers, clients, probes and documentation.
//!
//! Values are those of the Go tf-operator, because its installations are adopted
//! (upstream `pkg/apis/tf/v1alpha1/defaults.go`).

use crate::schema::Port;

/// Cassandra Thrift of the config database; only servers before 4.0 open it.
pub const CASSANDRA_THRIFT: Port = Port(9161);
/// Cassandra CQL of the config database.
pub const CASSANDRA_CQL: Port = Port(9041);
/// Cassandra internode.
pub const CASSANDRA_STORAGE: Port = Port(7012);
/// Cassandra internode over TLS.
pub const CASSANDRA_SSL_STORAGE: Port = Port(7013);
/// Cassandra JMX, on loopback.
pub const CASSANDRA_JMX: Port = Port(7201);
/// Cassandra Reaper application.
pub const REAPER_APP: Port = Port(8071);
/// Cassandra Reaper administration.
pub const REAPER_ADMIN: Port = Port(8072);
/// ZooKeeper client.
pub const ZOOKEEPER_CLIENT: Port = Port(2181);
/// ZooKeeper quorum (the API calls it `electionPort`, as the Go tf-operator did).
pub const ZOOKEEPER_QUORUM: Port = Port(2888);
/// ZooKeeper leader election (the API calls it `serverPort`).
pub const ZOOKEEPER_ELECTION: Port = Port(3888);
/// ZooKeeper AdminServer.
pub const ZOOKEEPER_ADMIN: Port = Port(2182);
/// RabbitMQ AMQP over TLS. Management is 10000 above, Erlang distribution 20000 above.
pub const RABBITMQ_AMQP: Port = Port(5673);
/// RabbitMQ Erlang port mapper.
pub const RABBITMQ_EPMD: Port = Port(4371);
/// Redis.
pub const REDIS: Port = Port(6389);
/// Config API.
pub const CONFIG_API: Port = Port(8082);
/// Config API administration on loopback.
pub const CONFIG_API_ADMIN: Port = Port(8095);
/// Config API introspect.
pub const CONFIG_API_INTROSPECT: Port = Port(8084);
/// Schema transformer introspect.
pub const SCHEMA_INTROSPECT: Port = Port(8087);
/// Service monitor introspect.
pub const SVC_MONITOR_INTROSPECT: Port = Port(8088);
/// Device manager introspect.
pub const DEVICE_MANAGER_INTROSPECT: Port = Port(8096);
/// Control BGP.
pub const CONTROL_BGP: Port = Port(179);
/// Control XMPP.
pub const CONTROL_XMPP: Port = Port(5269);
/// Control introspect.
pub const CONTROL_INTROSPECT: Port = Port(8083);
/// DNS.
pub const DNS: Port = Port(53);
/// DNS introspect.
pub const DNS_INTROSPECT: Port = Port(8092);
/// XMPP of the DNS daemon, for agents; it cannot be moved.
pub const DNS_XMPP: Port = Port(8093);
/// Control channel of the name server on loopback; it cannot be moved.
pub const NAMED_CONTROL: Port = Port(8094);
/// Analytics API.
pub const ANALYTICS_API: Port = Port(8081);
/// Analytics API introspect.
pub const ANALYTICS_API_INTROSPECT: Port = Port(8090);
/// Collector.
pub const COLLECTOR: Port = Port(8086);
/// Collector introspect.
pub const COLLECTOR_INTROSPECT: Port = Port(8089);
/// Query engine introspect.
pub const QUERY_ENGINE_INTROSPECT: Port = Port(8091);
/// Alarm generator introspect.
pub const ALARM_GEN_INTROSPECT: Port = Port(5995);
/// SNMP collector introspect.
pub const SNMP_COLLECTOR_INTROSPECT: Port = Port(5920);
/// Topology introspect.
pub const TOPOLOGY_INTROSPECT: Port = Port(5921);
/// Node agents of query engines: as far above introspect as others are above the port for clients, of which there is none.
pub const QUERY_ENGINE_AGENT: Port = Port(18111);
/// Node agents of alarm generators, likewise.
pub const ALARM_GEN_AGENT: Port = Port(16015);
/// Node agents of SNMP collectors, likewise.
pub const SNMP_COLLECTOR_AGENT: Port = Port(15940);
/// Kafka.
pub const KAFKA: Port = Port(9092);
/// Kube-manager introspect.
pub const KUBE_MANAGER_INTROSPECT: Port = Port(8108);
/// Node agents of kube-manager's members: as far above introspect as others are above the port for clients, of which there is none.
pub const KUBE_MANAGER_AGENT: Port = Port(18128);
/// Web UI over HTTPS.
pub const WEBUI_HTTPS: Port = Port(8143);
/// Web UI over HTTP (redirects).
pub const WEBUI_HTTP: Port = Port(8180);
/// Node agents of the web UI's members.
pub const WEBUI_AGENT: Port = Port(18163);
/// What the web UI's server tells its job server, on loopback.
pub const WEBUI_JOBS: Port = Port(3000);
/// The jobs of the web UI for people, on loopback.
pub const WEBUI_KUE: Port = Port(3002);
/// Where members of the web UI find Redis, on loopback: 10000 above that of Redis itself.
pub const WEBUI_REDIS: Port = Port(16389);
/// vRouter agent introspect.
pub const AGENT_INTROSPECT: Port = Port(8085);
/// vRouter agent REST for the CNI plugin.
pub const AGENT_PORT_API: Port = Port(9091);
/// Node manager introspect, by node type.
pub const NODEMGR_CONFIG: Port = Port(8100);
/// Node manager of control nodes.
pub const NODEMGR_CONTROL: Port = Port(8101);
/// Node manager of vRouter nodes.
pub const NODEMGR_VROUTER: Port = Port(8102);
/// Node manager of analytics database nodes.
pub const NODEMGR_DATABASE: Port = Port(8103);
/// Node manager of analytics nodes.
pub const NODEMGR_ANALYTICS: Port = Port(8104);
/// Node manager of config database nodes.
pub const NODEMGR_CONFIG_DATABASE: Port = Port(8112);
/// Node manager of alarm nodes.
pub const NODEMGR_ANALYTICS_ALARM: Port = Port(8113);
/// Node manager of SNMP nodes.
pub const NODEMGR_ANALYTICS_SNMP: Port = Port(8114);
