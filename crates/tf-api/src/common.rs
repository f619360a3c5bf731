//! Configuration that every kind shares: `spec.commonConfiguration` and the container list.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::schema::{Sensitive, rule};

/// Log level of the daemons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Progress.
    #[default]
    Info,
    /// Everything.
    Debug,
    /// Oddities.
    Warning,
    /// Failures.
    Error,
    /// Failures that stop the service.
    Critical,
    /// Nothing below emergencies.
    None,
}

/// Who authenticates users of the config API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuthMode {
    /// Nobody; the API is open.
    #[default]
    Noauth,
    /// OpenStack Keystone.
    Keystone,
}

/// Who may do what in the config and analytics APIs (`aaa_mode`). The daemons know `no-auth`; the Go tf-operator's schema
/// allowed only `noauth`, which means the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AaaMode {
    /// Everybody everything, in the Go tf-operator's spelling.
    #[serde(rename = "noauth")]
    NoauthOldSpelling,
    /// Everybody everything.
    #[serde(rename = "no-auth")]
    NoAuth,
    /// The administrator's role everything, others nothing.
    #[serde(rename = "cloud-admin")]
    CloudAdmin,
    /// By role and rule.
    #[serde(rename = "rbac")]
    Rbac,
}

impl AaaMode {
    /// Whether everybody may do everything.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::NoauthOldSpelling | Self::NoAuth)
    }

    /// The value for a daemon's configuration file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoauthOldSpelling | Self::NoAuth => "no-auth",
            Self::CloudAdmin => "cloud-admin",
            Self::Rbac => "rbac",
        }
    }
}

/// How to reach Keystone and as whom.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KeystoneAuthParameters {
    /// Version of the Identity API: v3 or v2.0. Default v3.
    pub api_version: Option<KeystoneVersion>,
    /// Address of Keystone. Default 127.0.0.1.
    #[schemars(length(max = 253))]
    pub address: Option<String>,
    /// Password of the administrator. Better: keystoneSecretName, so that it is not stored in the resource.
    pub admin_password: Option<Sensitive>,
    /// Port that all daemons but the web UI use. Default: the value of `port`, and 35357 with apiVersion v2.0.
    #[schemars(range(min = 1, max = 65535))]
    pub admin_port: Option<u16>,
    /// Project of the administrator. Default admin.
    pub admin_tenant: Option<String>,
    /// Name of the administrator. Default admin.
    pub admin_username: Option<String>,
    /// Protocol, http or https. Default https.
    pub auth_protocol: Option<String>,
    /// Whether Keystone's certificate is accepted unchecked. Default true, and false where the Secret of keystoneSecretName has a ca.crt.
    pub insecure: Option<bool>,
    /// Port of the public API, for all daemons where adminPort is not set. Default 5000.
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<u16>,
    /// Domain of the project. Default Default.
    pub project_domain_name: Option<String>,
    /// Region. Default RegionOne.
    pub region: Option<String>,
    /// Domain of the user. Default Default.
    pub user_domain_name: Option<String>,
}

/// Versions of the Identity API of OpenStack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum KeystoneVersion {
    /// With domains.
    #[default]
    #[serde(rename = "v3")]
    V3,
    /// Without. OpenStack has none since its release Queens.
    #[serde(rename = "v2.0")]
    V2,
}

/// Authentication of users of the config API.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthParameters {
    /// Whether users are authenticated, and by whom. Default noauth.
    pub auth_mode: Option<AuthMode>,
    /// How to reach Keystone and as whom.
    pub keystone_auth_parameters: Option<KeystoneAuthParameters>,
    /// Secret in the same namespace whose key password holds the administrator's password. A key ca.crt holds the certificates against which Keystone's own
    /// is checked; default: the authority of the namespace.
    #[schemars(length(max = 253))]
    pub keystone_secret_name: Option<String>,
}

/// A volume claim per member.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStorage {
    /// Storage class; the cluster's default if absent. It cannot be changed.
    #[schemars(length(max = 253))]
    pub class: Option<String>,
    /// Size as a Kubernetes quantity, for example 20Gi. With a larger one the claims grow, if their class allows it; they never shrink.
    #[schemars(length(max = 32), regex(pattern = r"^[0-9]+(\.[0-9]+)?([KMGTPE]i?|k)?$"))]
    pub size: String,
}

/// A directory of the node.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostPathStorage {
    /// Absolute path on the node. Each member gets the directory of its own node.
    #[schemars(length(max = 1024), regex(pattern = r"^/[^:]*$"))]
    pub path: Option<String>,
}

/// An empty marker object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Empty {}

/// Where a member keeps its data. At most one of the fields; a directory of the node if none is given.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [rule("[has(self.hostPath), has(self.persistentVolumeClaim), has(self.emptyDir)].filter(x, x).size() <= 1", "storage takes one of hostPath, persistentVolumeClaim and emptyDir; remove the others")]))]
pub struct Storage {
    /// A directory of the node.
    pub host_path: Option<HostPathStorage>,
    /// A volume claim per member.
    pub persistent_volume_claim: Option<ClaimStorage>,
    /// Storage that is lost with the pod; for tests.
    pub empty_dir: Option<Empty>,
}

/// A variable of a container's environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Variable {
    /// Name of the variable.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Value of the variable.
    #[serde(default)]
    pub value: String,
}

/// Overrides for one container of the pods.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerOverrides {
    /// Name of the container.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Resource requests and limits.
    pub resources: Option<ResourceRequirements>,
    /// Variables added to, or replacing those of, the container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Vec<Variable>,
}

/// Labels and annotations added to the pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetadataOverrides {
    /// Labels added to the pods.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    #[schemars(extend("x-kubernetes-validations" = [rule("self.all(k, k != 'tf_manager' && !k.startsWith('app.kubernetes.io/') && !k.startsWith('tf.tungsten.io/'))", "tf_manager, app.kubernetes.io/* and tf.tungsten.io/* are set by the operator; use another label key")]))]
    pub labels: BTreeMap<String, String>,
    /// Annotations added to the pods.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    #[schemars(extend("x-kubernetes-validations" = [rule("self.all(k, !k.startsWith('tf.tungsten.io/'))", "tf.tungsten.io/* annotations are set by the operator; use another key")]))]
    pub annotations: BTreeMap<String, String>,
}

/// Overrides of the pod's own settings.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpecOverrides {
    /// Priority class. Default system-node-critical.
    #[schemars(length(max = 253))]
    pub priority_class_name: Option<String>,
    /// Seconds between the request to stop and the kill.
    #[schemars(range(min = 0, max = 86400))]
    pub termination_grace_period_seconds: Option<i64>,
    /// Scheduler. Default the cluster's.
    #[schemars(length(max = 253))]
    pub scheduler_name: Option<String>,
    /// Settings of single containers, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub containers: Vec<ContainerOverrides>,
}

/// Changes to the generated pod template. What the operator owns cannot be overridden.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodOverrides {
    /// Labels and annotations.
    pub metadata: Option<MetadataOverrides>,
    /// Settings of the pod and its containers.
    pub spec: Option<PodSpecOverrides>,
}

/// Where the members' certificates come from: the operator's own certificate authority, unless another source is named.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [rule("!has(self.hostFiles) || !has(self.issuer)", "certificates come from one source; remove issuer or hostFiles")]))]
pub struct Certificates {
    /// The issuer of cert-manager that signs the authority of the namespace: NAME or Issuer/NAME, ClusterIssuer/NAME, or
    /// KIND.GROUP/NAME. The authority, and with it the members' certificates, is the operators' own if absent.
    #[schemars(length(max = 253))]
    pub issuer: Option<String>,
    /// Daemons use the files in /etc/contrail/ssl of their node: certs/server-ADDRESS.crt, certs/server-key-ADDRESS.pem and
    /// ca-certs/ca-bundle.crt, as with the Go tf-operator's signer External. They are readable for the group 1999.
    pub host_files: Option<Empty>,
    /// Lifetime of a leaf certificate as a Kubernetes duration, for example 2160h.
    #[schemars(length(max = 32), regex(pattern = r"^([0-9]+(\.[0-9]+)?(h|m|s))+$"))]
    pub duration: Option<String>,
}

/// Settings common to the pods of every kind.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [rule(STORAGE_KIND_IS_IMMUTABLE, "the kind of storage cannot be changed on existing members; create a new resource and move the data")]))]
pub struct PodConfiguration {
    /// Authentication of users of the config API.
    pub auth_parameters: Option<AuthParameters>,
    /// Operating system family of the nodes; ubuntu builds the kernel module on the node.
    #[schemars(length(max = 63))]
    pub distribution: Option<String>,
    /// Names of Secrets used to pull images.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub image_pull_secrets: Vec<String>,
    /// Log level of the daemons. Default info.
    pub log_level: Option<LogLevel>,
    /// Labels of the nodes that hold members. Default: nodes with a control-plane or master role label.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations of the pods. Default: every NoSchedule and NoExecute taint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub tolerations: Vec<Toleration>,
    /// Whether pods use the network of their node. Default true.
    pub host_network: Option<bool>,
    /// Number of members. Default: as many as nodes match, up to the largest size that makes sense for the service. Cassandra
    /// and Zookeeper wait for so many nodes before they start; another number later adds or removes members one at a time.
    #[schemars(range(min = 1, max = 1000))]
    pub replicas: Option<i32>,
    /// Changes to the generated pod template.
    pub pod_overrides: Option<PodOverrides>,
    /// Where members keep their data. Default: a directory of the node.
    pub storage: Option<Storage>,
    /// Whether a NetworkPolicy protects the pods. Has no effect on pods in the node's network.
    pub network_policy: Option<bool>,
    /// How certificates are issued.
    pub certificates: Option<Certificates>,
}

/// CEL: no switch between node directories, claims and empty directories on an existing resource.
const STORAGE_KIND_IS_IMMUTABLE: &str = "(has(self.storage) && has(self.storage.persistentVolumeClaim)) == \
    (has(oldSelf.storage) && has(oldSelf.storage.persistentVolumeClaim)) && \
    (has(self.storage) && has(self.storage.emptyDir)) == (has(oldSelf.storage) && has(oldSelf.storage.emptyDir))";

/// Image and command of one container. The list both chooses and configures: with a list, only the named containers
/// run; without one, all of them with the images of the release.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Name of the container.
    #[schemars(length(max = 63))]
    pub name: Option<String>,
    /// Image reference.
    #[schemars(length(max = 1024))]
    pub image: Option<String>,
    /// Command instead of the built-in one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub command: Vec<String>,
}
