//! `cassandra.yaml`, the same for Cassandra 3.11 to 5.0.
//!
//! Values are those of the Go tf-operator's file (upstream `templates/cassandra_config.go`), so that a ring that is taken
//! over goes on as it was. What it said and the server assumes anyway is left out. Later servers know keys by other names and
//! take the old ones, too; only Thrift's are gone, and an unknown key keeps a server from starting, so they are Java's properties
//! ([`super::jvm`], docs/adr/0027). A real 5.0.9 starts with it.

use std::collections::BTreeMap;

use serde::Serialize;
use tf_agent_api::node;
use tf_api::{CassandraConfiguration, MemtableAllocation, schema::Port};
use tf_config_files::{Unrepresentable, yaml};

use super::DATA_DIR;

/// What the files of a ring's members have in common. Deliberately not `Debug`: it holds passwords.
pub struct Ring<'a> {
    /// Name of the ring.
    pub cluster_name: &'a str,
    /// Settings of the spec.
    pub spec: &'a CassandraConfiguration,
    /// Password of [`node::KEYSTORE`] and of the key in it.
    pub keystore_password: &'a str,
    /// Password of [`node::TRUSTSTORE`].
    pub truststore_password: &'a str,
    /// Whether clients have to log in.
    pub asks: bool,
}

/// Whom a server lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientListener {
    /// Clients.
    Clients,
    /// Its agent alone, by the loopback address and the certificate of a member, and without a password: none is known yet.
    Agent,
}

/// Beginning of the line with the seeds. A server looks for a ring there when it starts. Later it takes them for nothing but one more server to gossip
/// with now and then (`Gossiper.doGossipToSeed`, 3.11), and hears of all others from those that it knows.
pub const SEEDS: &str = "  - seeds: ";
/// The loopback address.
const LOOPBACK: &str = "127.0.0.1";

impl Ring<'_> {
    /// The file of the member with this address; `seeds` are those that this member goes by.
    ///
    /// # Errors
    /// When a value cannot be expressed in the file.
    pub fn yaml(
        &self,
        file: &str,
        address: &str,
        seeds: &[&str],
        listener: ClientListener,
    ) -> Result<String, Unrepresentable> {
        let spec = self.spec;
        let is_private = listener == ClientListener::Agent;
        let tuning = &spec.cassandra_parameters;
        yaml::render(
            file,
            &Document {
                cluster_name: self.cluster_name,
                num_tokens: 256,
                partitioner: "org.apache.cassandra.dht.Murmur3Partitioner",
                // Data centre and rack of existing data are datacenter1 and rack1; a snitch with others loses it.
                endpoint_snitch: "SimpleSnitch",
                authenticator: if self.asks && !is_private { "PasswordAuthenticator" } else { "AllowAllAuthenticator" },
                // Whoever is let in is a service of Tungsten Fabric, and makes keyspaces.
                authorizer: "AllowAllAuthorizer",
                seed_provider: [SeedProvider {
                    class_name: "org.apache.cassandra.locator.SimpleSeedProvider",
                    parameters: [BTreeMap::from([("seeds", seeds.join(","))])],
                }],
                listen_address: address,
                broadcast_address: address,
                rpc_address: if is_private { LOOPBACK } else { address },
                broadcast_rpc_address: address,
                // 3.11 encrypts what goes to the second of them, later servers what goes to the first.
                storage_port: spec.ssl_storage_port,
                ssl_storage_port: spec.ssl_storage_port,
                start_native_transport: true,
                native_transport_port: spec.cql_port,
                data_file_directories: [format!("{DATA_DIR}/data")],
                commitlog_directory: format!("{DATA_DIR}/commitlog"),
                hints_directory: format!("{DATA_DIR}/hints"),
                saved_caches_directory: format!("{DATA_DIR}/saved_caches"),
                commitlog_sync: "periodic",
                commitlog_sync_period_in_ms: 10_000,
                // A server that only stops to serve, which is Cassandra's default, would not begin again when a disk has room.
                disk_failure_policy: "die",
                commit_failure_policy: "die",
                concurrent_reads: tuning.concurrent_reads,
                concurrent_writes: tuning.concurrent_writes,
                concurrent_counter_writes: tuning.concurrent_counter_writes,
                concurrent_materialized_view_writes: tuning.concurrent_materialized_view_writes,
                concurrent_compactors: tuning.concurrent_compactors,
                compaction_throughput_mb_per_sec: tuning.compaction_throughput_mb_per_sec,
                memtable_flush_writers: tuning.memtable_flush_writers,
                memtable_allocation_type: tuning.memtable_allocation_type,
                internode_compression: "all",
                inter_dc_tcp_nodelay: false,
                gc_warn_threshold_in_ms: 1_000,
                server_encryption_options: ServerEncryption {
                    internode_encryption: "all",
                    require_client_auth: true,
                    stores: self.stores(),
                },
                client_encryption_options: ClientEncryption {
                    enabled: true,
                    optional: false,
                    // The clients of Tungsten Fabric have no certificate for CQL (docs/upstream/daemons.md#tls).
                    require_client_auth: is_private,
                    stores: self.stores(),
                },
            },
        )
    }

    fn stores(&self) -> Stores<'_> {
        Stores {
            keystore: node::KEYSTORE,
            keystore_password: self.keystore_password,
            truststore: node::TRUSTSTORE,
            truststore_password: self.truststore_password,
            store_type: "PKCS12",
        }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    cluster_name: &'a str,
    num_tokens: u16,
    partitioner: &'static str,
    endpoint_snitch: &'static str,
    authenticator: &'static str,
    authorizer: &'static str,
    seed_provider: [SeedProvider; 1],
    listen_address: &'a str,
    broadcast_address: &'a str,
    rpc_address: &'a str,
    broadcast_rpc_address: &'a str,
    storage_port: Port,
    ssl_storage_port: Port,
    start_native_transport: bool,
    native_transport_port: Port,
    data_file_directories: [String; 1],
    commitlog_directory: String,
    hints_directory: String,
    saved_caches_directory: String,
    commitlog_sync: &'static str,
    commitlog_sync_period_in_ms: u32,
    disk_failure_policy: &'static str,
    commit_failure_policy: &'static str,
    concurrent_reads: u32,
    concurrent_writes: u32,
    concurrent_counter_writes: u32,
    concurrent_materialized_view_writes: u32,
    concurrent_compactors: u32,
    compaction_throughput_mb_per_sec: u32,
    memtable_flush_writers: u32,
    memtable_allocation_type: MemtableAllocation,
    internode_compression: &'static str,
    inter_dc_tcp_nodelay: bool,
    gc_warn_threshold_in_ms: u32,
    server_encryption_options: ServerEncryption<'a>,
    client_encryption_options: ClientEncryption<'a>,
}

#[derive(Serialize)]
struct SeedProvider {
    class_name: &'static str,
    parameters: [BTreeMap<&'static str, String>; 1],
}

#[derive(Serialize)]
struct ServerEncryption<'a> {
    internode_encryption: &'static str,
    require_client_auth: bool,
    #[serde(flatten)]
    stores: Stores<'a>,
}

#[derive(Serialize)]
struct ClientEncryption<'a> {
    enabled: bool,
    optional: bool,
    require_client_auth: bool,
    #[serde(flatten)]
    stores: Stores<'a>,
}

/// PKCS #12 and not JKS, which only Java can write; 3.11 cannot read PEM.
#[derive(Serialize)]
struct Stores<'a> {
    keystore: &'static str,
    keystore_password: &'a str,
    truststore: &'static str,
    truststore_password: &'a str,
    store_type: &'static str,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rendered(spec: &CassandraConfiguration, address: &str, seeds: &[&str], password: &str) -> Value {
        let ring = Ring {
            cluster_name: "ContrailConfigDB",
            spec,
            keystore_password: password,
            truststore_password: "trust",
            asks: false,
        };
        read(&ring, address, seeds, ClientListener::Clients)
    }

    fn read(ring: &Ring<'_>, address: &str, seeds: &[&str], listener: ClientListener) -> Value {
        serde_saphyr::from_str(&ring.yaml("cassandra.yaml", address, seeds, listener).unwrap()).unwrap()
    }

    #[test]
    fn a_server_asks_everybody_for_a_password_or_is_reached_by_its_agent_alone() {
        let spec = CassandraConfiguration::default();
        let ring =
            Ring { cluster_name: "c", spec: &spec, keystore_password: "k", truststore_password: "t", asks: true };
        let facts = |listener| {
            let file = read(&ring, "10.0.0.1", &["10.0.0.1"], listener);
            let mutual = file["client_encryption_options"]["require_client_auth"].clone();
            [file["authenticator"].clone(), file["rpc_address"].clone(), mutual, file["broadcast_rpc_address"].clone()]
        };
        let clients = [json!("PasswordAuthenticator"), json!("10.0.0.1"), json!(false), json!("10.0.0.1")];
        assert_eq!(facts(ClientListener::Clients), clients);
        let agent = [json!("AllowAllAuthenticator"), json!("127.0.0.1"), json!(true), json!("10.0.0.1")];
        assert_eq!(facts(ClientListener::Agent), agent);
    }

    #[test]
    fn seeds_are_in_one_line_and_nothing_else_in_the_file_varies_with_them() {
        let spec = CassandraConfiguration::default();
        let ring = Ring {
            cluster_name: "c",
            spec: &spec,
            keystore_password: "key",
            truststore_password: "trust",
            asks: false,
        };
        let file = |seeds: &[&str]| ring.yaml("cassandra.yaml", "fd00::3", seeds, ClientListener::Clients).unwrap();
        let (one, three) = (file(&["fd00::1"]), file(&["fd00::1", "fd00::2", "fd00::3"]));
        assert_eq!(one.lines().count(), three.lines().count());
        for (one, three) in one.lines().zip(three.lines()).filter(|(one, three)| one != three) {
            assert!(one.starts_with(SEEDS) && three.starts_with(SEEDS), "{one}: {three}");
        }
        assert_ne!(one, three);
    }

    #[test]
    fn a_member_listens_on_its_own_address_and_knows_the_seeds_in_order() {
        let file = rendered(&CassandraConfiguration::default(), "fd00::3", &["fd00::2", "fd00::1"], "key");
        for key in ["listen_address", "broadcast_address", "rpc_address", "broadcast_rpc_address"] {
            assert_eq!(file[key], "fd00::3", "{key}");
        }
        assert_eq!(file["seed_provider"][0]["parameters"][0]["seeds"], "fd00::2,fd00::1");
    }

    #[test]
    fn the_ports_of_the_spec_are_in_the_file() {
        let spec = CassandraConfiguration {
            cql_port: Port(2),
            storage_port: Port(3),
            ssl_storage_port: Port(4),
            ..CassandraConfiguration::default()
        };
        let file = rendered(&spec, "10.0.0.1", &["10.0.0.1"], "key");
        let keys = ["native_transport_port", "storage_port", "ssl_storage_port"];
        assert_eq!(keys.map(|key| file[key].clone()), [json!(2), json!(4), json!(4)]);
    }

    #[test]
    fn nothing_is_in_the_file_that_a_release_does_not_know() {
        let file = rendered(&CassandraConfiguration::default(), "10.0.0.1", &["10.0.0.1"], "key");
        assert!(file.as_object().unwrap().keys().all(|key| !key.contains("rpc_port") && key != "start_rpc"));
    }

    #[test]
    fn both_sides_speak_tls_with_the_same_stores_and_whatever_password() {
        let password = "a\"b'c: #d %&<=ü{}[]*&!|>-?";
        let file = rendered(&CassandraConfiguration::default(), "10.0.0.1", &["10.0.0.1"], password);
        for side in ["server_encryption_options", "client_encryption_options"] {
            assert_eq!(file[side]["keystore_password"], password, "{side}");
            assert_eq!(file[side]["truststore_password"], "trust", "{side}");
            assert_eq!(file[side]["store_type"], "PKCS12", "{side}");
        }
        assert_eq!(file["server_encryption_options"]["internode_encryption"], "all");
        assert_eq!(file["client_encryption_options"]["optional"], false);
    }

    #[test]
    fn a_password_that_the_server_could_not_read_is_refused_without_showing_it() {
        let spec = CassandraConfiguration::default();
        let (keystore_password, truststore_password) = ("secret😀", "t");
        let ring = Ring { cluster_name: "c", spec: &spec, keystore_password, truststore_password, asks: false };
        let refused = ring.yaml("cassandra.yaml", "10.0.0.1", &["10.0.0.1"], ClientListener::Clients);
        let refused = refused.err().unwrap().to_string();
        assert!(refused.contains("keystore_password") && !refused.contains("secret"), "{refused}");
    }
}
