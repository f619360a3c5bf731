//! `values.schema.json`: the shape of a chart's values, from these types.

use std::collections::BTreeMap;

use anyhow::Result;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

/// Values of every chart. What they mean stands in `chart/values.yaml`.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Values {
    name_override: String,
    fullname_override: String,
    registry: String,
    image: Image,
    image_pull_secrets: Vec<String>,
    #[schemars(range(min = 0))]
    replica_count: u32,
    crds: Crds,
    deletion_protection: bool,
    watch: Watch,
    rbac: Rbac,
    service_account: ServiceAccount,
    operands: Operands,
    #[schemars(length(min = 1))]
    cluster_domain: String,
    logging: Logging,
    #[schemars(range(min = 1, max = 65535))]
    port: u16,
    metrics: Metrics,
    bootstrap: bool,
    #[schemars(range(min = 1, max = 65535))]
    bootstrap_port: u16,
    api_server: ApiServer,
    resources: BTreeMap<String, Value>,
    priority_class_name: String,
    node_selector: BTreeMap<String, String>,
    tolerations: Vec<BTreeMap<String, Value>>,
    lost_node_seconds: u32,
    affinity: BTreeMap<String, Value>,
    pod_labels: BTreeMap<String, String>,
    pod_annotations: BTreeMap<String, String>,
    extra_env: Vec<BTreeMap<String, Value>>,
    /// Values an umbrella chart shares with its parts.
    global: Option<BTreeMap<String, Value>>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Image {
    registry: String,
    #[schemars(length(min = 1))]
    repository: String,
    tag: String,
    #[schemars(regex(pattern = r"^(sha256:[0-9a-f]{64})?$"))]
    digest: String,
    pull_policy: PullPolicy,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Crds {
    install: bool,
    keep: bool,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Watch {
    scope: Scope,
    namespaces: Vec<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum Scope {
    Namespace,
    Namespaces,
    Cluster,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Rbac {
    create: bool,
    aggregate: bool,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct ServiceAccount {
    create: bool,
    name: String,
    annotations: BTreeMap<String, String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Operands {
    prefix: String,
    tag: String,
    images: BTreeMap<String, String>,
    tf_node_image: String,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Logging {
    #[schemars(length(min = 1))]
    level: String,
    format: Format,
}

#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum Format {
    Json,
    Text,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Metrics {
    service: bool,
    alerts: bool,
    alert_labels: BTreeMap<String, String>,
    dashboard: bool,
    operators_dashboard: bool,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct ApiServer {
    host: String,
    #[schemars(range(min = 1, max = 65535))]
    port: u16,
}

/// The schema as text: draft 7, which every Helm 3 understands.
pub fn schema() -> Result<String> {
    let mut settings = SchemaSettings::draft07();
    settings.inline_subschemas = true;
    let schema = settings.into_generator().into_root_schema_for::<Values>();
    Ok(format!("{}\n", serde_json::to_string_pretty(&schema)?))
}
