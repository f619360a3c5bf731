//! Cassandra: a ring of Cassandra servers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    common::{Container, HostPathStorage, PodConfiguration},
    contract::Status,
    dependencies::DependencySource,
    ports,
    schema::{Port, distinct},
};

/// A Cassandra ring.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tf.tungsten.io",
    version = "v1alpha1",
    kind = "Cassandra",
    plural = "cassandras",
    shortname = "tfcas",
    namespaced,
    status = "CassandraStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A Cassandra ring: the database of the configuration or of analytics."
)]
#[serde(rename_all = "camelCase", default)]
pub struct CassandraSpec {
    /// Settings common to the pods of every kind.
    pub common_configuration: PodConfiguration,
    /// Suspends reconciling while true; status is still updated.
    pub paused: bool,
    /// Release of the images: a tag as the registry lists it (`24.1`, `R21.4`, `latest`). Tags before 24 are taken from `tungstenfabric/contrail-*`, others from
    /// `opensdn/opensdn-*`; `tungstenfabric-TAG` and `opensdn-TAG` state which. Default: `latest`.
    #[schemars(length(max = 63))]
    pub version: Option<String>,
    /// Services this one uses, where they are not found by their usual names.
    pub dependencies: CassandraDependencies,
    /// Settings of Cassandra.
    pub service_configuration: CassandraConfiguration,
}

/// Services a Cassandra uses.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CassandraDependencies {
    /// Analytics, whose collectors receive the node's state.
    pub analytics: Option<DependencySource>,
}

/// Where Cassandra keeps data that is not flushed to disk yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemtableAllocation {
    /// On the Java heap.
    #[default]
    HeapBuffers,
    /// Cell values outside of the heap.
    OffheapBuffers,
    /// Whole cells outside of the heap.
    OffheapObjects,
}

/// Tuning of one server, under the names of `cassandra.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CassandraParameters {
    /// Limit of compaction in MiB/s for the whole server; 0 is no limit.
    #[schemars(range(min = 0, max = 65535))]
    pub compaction_throughput_mb_per_sec: u32,
    /// Compactions that run at the same time.
    #[schemars(range(min = 1, max = 65535))]
    pub concurrent_compactors: u32,
    /// Counter writes that run at the same time.
    #[schemars(range(min = 1, max = 65535))]
    pub concurrent_counter_writes: u32,
    /// Materialised view writes that run at the same time.
    #[schemars(range(min = 1, max = 65535))]
    pub concurrent_materialized_view_writes: u32,
    /// Reads that run at the same time.
    #[schemars(range(min = 1, max = 65535))]
    pub concurrent_reads: u32,
    /// Writes that run at the same time.
    #[schemars(range(min = 1, max = 65535))]
    pub concurrent_writes: u32,
    /// Where data that is not flushed yet is kept.
    pub memtable_allocation_type: MemtableAllocation,
    /// Threads that flush memtables to disk.
    #[schemars(range(min = 1, max = 65535))]
    pub memtable_flush_writers: u32,
}

impl Default for CassandraParameters {
    /// The Go tf-operator's values (`cassandra_types.go`).
    fn default() -> Self {
        Self {
            compaction_throughput_mb_per_sec: 16,
            concurrent_compactors: 1,
            concurrent_counter_writes: 32,
            concurrent_materialized_view_writes: 32,
            concurrent_reads: 32,
            concurrent_writes: 32,
            memtable_allocation_type: MemtableAllocation::default(),
            memtable_flush_writers: 2,
        }
    }
}

/// Whether servers ask clients for the user and the password that clients are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Authentication {
    /// They do not.
    #[default]
    None,
    /// They do. The password is generated.
    Password,
}

/// Where backups are kept, which every member mounts.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupVolume {
    /// A directory of each node, for what its own member holds.
    pub host_path: Option<HostPathStorage>,
    /// A volume that all members write to, so its access mode is ReadWriteMany.
    pub persistent_volume_claim: Option<ExistingClaim>,
}

/// A claim that exists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExistingClaim {
    /// Name of the PersistentVolumeClaim in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub claim_name: String,
}

/// A backup by what it is of.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreSource {
    /// Namespace of the Cassandra that it is of. Default: the namespace of this one.
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// Name of the Cassandra that it is of.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Name of the backup.
    #[schemars(length(min = 1, max = 63))]
    pub backup: String,
}

/// Settings of Cassandra.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [distinct(PORTS_IN_USE, "port, cqlPort, storagePort, sslStoragePort, jmxLocalPort and, with reaperEnabled, reaperAppPort and reaperAdmPort must differ from each other")]))]
pub struct CassandraConfiguration {
    /// Containers to run, with image and command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub containers: Vec<Container>,
    /// Port of the Thrift service, which only servers before 4.0 have. Default 9161.
    pub port: Option<Port>,
    /// Port for CQL clients.
    pub cql_port: Port,
    /// Accepted for compatibility, has no effect: members use TLS, at sslStoragePort.
    pub storage_port: Port,
    /// Port between members with TLS.
    pub ssl_storage_port: Port,
    /// Port of JMX on the loopback address.
    pub jmx_local_port: Port,
    /// Accepted for compatibility, has no effect: members listen on the address of their node.
    #[schemars(length(max = 253))]
    pub listen_address: Option<String>,
    /// Whether a server of release 3.11 speaks Thrift, which later ones do not know. Default: true.
    #[serde(rename = "startRPC")]
    pub start_rpc: Option<bool>,
    /// Smallest Java heap, for example 512M or 8G. Default: maxHeapSize, or what fits the memory limit that podOverrides gives the
    /// container, or else what the server chooses by the node's memory.
    #[schemars(length(max = 16), regex(pattern = r"^([0-9]+[kKmMgGtT]?)?$"))]
    pub min_heap_size: Option<String>,
    /// Largest Java heap, for example 512M or 8G. Default: minHeapSize, or what fits the memory limit that podOverrides gives the
    /// container, or else what the server chooses by the node's memory.
    #[schemars(length(max = 16), regex(pattern = r"^([0-9]+[kKmMgGtT]?)?$"))]
    pub max_heap_size: Option<String>,
    /// Size in GB of the data's file system below which the node manager reports an alarm.
    #[serde(rename = "minimumDiskGB")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub minimum_disk_gb: u32,
    /// Whether each keyspace is repaired before its members forget what was deleted (gc_grace_seconds). False where something else does that.
    /// Default: true.
    pub automatic_repair: Option<bool>,
    /// Whether servers ask clients for a password. With either value clients are given one. Default: as the ring has it, and None for a new one.
    pub authentication: Option<Authentication>,
    /// Where backups are kept, which are made at the annotation tf.tungsten.io/backup. Default: nowhere.
    pub backup: Option<BackupVolume>,
    /// A backup on the volume of backup that a new ring takes in before it is Ready. Default: none, it begins empty.
    pub restore_from: Option<RestoreSource>,
    /// Accepted for compatibility, has no effect: whether Cassandra Reaper repairs the ring. The operator has it repaired, see `automaticRepair`.
    pub reaper_enabled: bool,
    /// Accepted for compatibility, has no effect: port of Reaper's user interface and API.
    pub reaper_app_port: Port,
    /// Accepted for compatibility, has no effect: port of Reaper's administration.
    pub reaper_adm_port: Port,
    /// Tuning of one server, under the names of cassandra.yaml.
    pub cassandra_parameters: CassandraParameters,
}

/// CEL: ports that the pods open.
const PORTS_IN_USE: &str = "[self.cqlPort, self.storagePort, self.sslStoragePort, self.jmxLocalPort] \
    + (has(self.port) ? [self.port] : []) \
    + (has(self.reaperEnabled) && self.reaperEnabled ? [self.reaperAppPort, self.reaperAdmPort] : [])";

impl Default for CassandraConfiguration {
    fn default() -> Self {
        Self {
            containers: Vec::new(),
            port: None,
            cql_port: ports::CASSANDRA_CQL,
            storage_port: ports::CASSANDRA_STORAGE,
            ssl_storage_port: ports::CASSANDRA_SSL_STORAGE,
            jmx_local_port: ports::CASSANDRA_JMX,
            listen_address: None,
            start_rpc: None,
            min_heap_size: None,
            max_heap_size: None,
            minimum_disk_gb: 4,
            automatic_repair: None,
            authentication: None,
            backup: None,
            restore_from: None,
            reaper_enabled: false,
            reaper_app_port: ports::REAPER_APP,
            reaper_adm_port: ports::REAPER_ADMIN,
            cassandra_parameters: CassandraParameters::default(),
        }
    }
}

/// Status of a Cassandra.
pub type CassandraStatus = Status<CassandraOwnStatus>;

/// Fields only Cassandra has.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CassandraOwnStatus {
    /// Ports in use, as the Go tf-operator published them.
    pub ports: Option<CassandraPorts>,
    /// Highest identity that a member was ever given; none is given twice.
    pub highest_id: Option<u32>,
    /// Identities of members that are on their way out of the ring.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<u32>,
    /// Whether servers ask clients for a password. Absent where clients were never given one.
    pub authentication: Option<Authentication>,
    /// Every keyspace has been repaired since then, seen from the last time that all members could be asked. Absent until each has been.
    pub repaired_since: Option<Time>,
    /// What was deleted may come back from then on, unless the next repair has succeeded. Absent where nothing is to be repaired, or somebody else does it.
    pub repair_by: Option<Time>,
    /// The last backups, the newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backups: Vec<BackupStatus>,
    /// The backup that the ring began with. Absent until all of it was taken in.
    pub restored: Option<RestoredStatus>,
    /// Name of a ring that was taken over from the Go tf-operator, as its servers have it on their disks. Absent with any other ring.
    pub cluster_name: Option<String>,
}

/// How far a backup is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BackupState {
    /// Members are at it, or it waits.
    #[default]
    Running,
    /// Every member has written what it holds.
    Complete,
    /// It did not succeed; the message says why, and whether it is tried again.
    Failed,
}

/// A backup.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupStatus {
    /// Its name.
    pub name: String,
    /// How far it is.
    pub state: BackupState,
    /// When it was asked for. What was acknowledged to clients before is in it.
    pub started: Option<Time>,
    /// When it was complete.
    pub completed: Option<Time>,
    /// Members that it is of, by their identities.
    pub members: Vec<u32>,
    /// Size of what all members wrote, in bytes.
    pub bytes: Option<i64>,
    /// What it waits for, or why it did not succeed.
    pub message: Option<String>,
}

/// A backup that was taken in.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoredStatus {
    /// Name of the backup.
    pub backup: String,
    /// The Cassandra that it is of, as namespace/name.
    pub of: String,
    /// When all of it was taken in.
    pub completed: Option<Time>,
}

/// Ports in use, as text.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CassandraPorts {
    /// Thrift port.
    pub port: Option<String>,
    /// CQL port.
    pub cql_port: Option<String>,
    /// JMX port.
    pub jmx_port: Option<String>,
}
