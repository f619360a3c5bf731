//! Names, labels, annotations and finalizers that are part of the API.
//!
//! Object names, label keys and selectors are those of the Go tf-operator (`<name>-<type>-statefulset`,
//! `tf_manager=<type>`, `<type>=<name>`), so that its installations can be adopted; the recommended
//! `app.kubernetes.io/*` labels are added.

/// Label whose value is the lower-case kind.
pub const LABEL_TYPE: &str = "tf_manager";
/// Label of a Node on which pods of a vRouter change something that has to be undone when they go: its namespace and name, `tf.vrouter1`.
pub const LABEL_VROUTER: &str = "tf.tungsten.io/vrouter";
/// Taint of a Node that has no agent of the vRouter that serves in this boot.
pub const TAINT_AGENT_NOT_READY: &str = "tf.tungsten.io/agent-not-ready";
/// Taint of a node from which pods are evicted, so that its kernel module can be loaded again.
pub const TAINT_DRAIN: &str = "tf.tungsten.io/drain";
/// Annotation of a Node: its `status.nodeInfo.bootID` when its agent served first in that boot.
pub const ANNOTATION_SERVED_BOOT: &str = "tf.tungsten.io/agent-served-boot";
/// Recommended label: what runs.
pub const LABEL_NAME: &str = "app.kubernetes.io/name";
/// Recommended label: which instance of it.
pub const LABEL_INSTANCE: &str = "app.kubernetes.io/instance";
/// Recommended label: which part of the whole.
pub const LABEL_COMPONENT: &str = "app.kubernetes.io/component";
/// Recommended label: the whole.
pub const LABEL_PART_OF: &str = "app.kubernetes.io/part-of";
/// Recommended label: which operator owns the object. Every watch on children selects by it.
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`LABEL_PART_OF`].
pub const PART_OF: &str = "tungsten-fabric";

/// Annotation on a pod template: hash of everything a change of which needs a new pod.
pub const ANNOTATION_RESTART_HASH: &str = "tf.tungsten.io/restart-hash";
/// Annotation on a pod: hash of the configuration that `tf-node` shall run with.
pub const ANNOTATION_ACTIVE_CONFIG: &str = "tf.tungsten.io/active-config";
/// Annotation on a pod: hash of the certificate and authorities with which `tf-node` shall start those daemons anew that read them when they
/// start and never again.
pub const ANNOTATION_ACTIVE_CERTIFICATE: &str = "tf.tungsten.io/active-certificate";
/// Annotation on a ConfigMap or Secret with files: hash of its content.
pub const ANNOTATION_CONFIG_HASH: &str = "tf.tungsten.io/config-hash";
/// Annotation on a resource: any change makes the operator look again.
pub const ANNOTATION_RECONCILE: &str = "tf.tungsten.io/reconcile";
/// Annotation on a resource: `true` suspends reconciling, as `spec.paused` does.
pub const ANNOTATION_PAUSED: &str = "tf.tungsten.io/paused";
/// Annotation on a resource: `true` stops all its servers and keeps everything else of it, until the annotation is taken away.
pub const ANNOTATION_HIBERNATE: &str = "tf.tungsten.io/hibernate";
/// Annotation on a resource, a namespace or a definition: with `true` the API server refuses to delete it, by a policy of the
/// charts.
pub const ANNOTATION_DELETION_PROTECTION: &str = "tf.tungsten.io/deletion-protection";
/// Annotation on a resource: each new value replaces its pods, one after the other as any change of their template does. The
/// value says nothing; the time is a good one.
pub const ANNOTATION_RESTART: &str = "tf.tungsten.io/restart";
/// On a workload whose pods the API server refuses: when its operator last had its controller try again (RFC 3339).
pub const ANNOTATION_RETRIED: &str = "tf.tungsten.io/retried";
/// Annotation on a Cassandra: each new value has a backup of that name made.
pub const ANNOTATION_BACKUP: &str = "tf.tungsten.io/backup";
/// Annotation on a Rabbitmq: release of the servers of the Go tf-operator that are to be taken over, such as `3.10`.
pub const ANNOTATION_FORMER_RELEASE: &str = "tf.tungsten.io/former-release";
/// Annotation on a member's certificate request: number of the bundle of authorities that the member goes by.
pub const ANNOTATION_BUNDLE_REVISION: &str = "tf.tungsten.io/bundle-revision";
/// Label on cluster-scoped objects: namespace of the resource they belong to.
pub const LABEL_OWNER_NAMESPACE: &str = "tf.tungsten.io/owner-namespace";
/// Label on cluster-scoped objects: uid of the resource they belong to.
pub const LABEL_OWNER_UID: &str = "tf.tungsten.io/owner-uid";
/// Label on CRDs: served versions that carry status contract v1.
pub const LABEL_CONTRACT: &str = "tf.tungsten.io/contract-v1";

/// Node label of control-plane nodes since Kubernetes 1.20.
pub const NODE_CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// Node label of control-plane nodes up to Kubernetes 1.23, and in the Go tf-operator's manifests.
pub const NODE_MASTER: &str = "node-role.kubernetes.io/master";

/// Signer of members' certificate requests.
pub const MEMBER_SIGNER: &str = "tf.tungsten.io/member";
/// Secret with the authority of a namespace that signs members' certificates, and ConfigMap with the certificates of the
/// authorities that members trust.
pub const AUTHORITY: &str = "tf-ca";
/// Annotation on a pod: when its certificate ends and who signed it, noted before the certificate is handed out.
pub const ANNOTATION_CERTIFICATE: &str = "tf.tungsten.io/certificate";
/// Annotation on a pod while an authority is being replaced: number of the bundle that it goes by, and who signed the certificate
/// it holds. Noted by the operator that calls its agent, for all operators of the namespace.
pub const ANNOTATION_TRUSTS: &str = "tf.tungsten.io/trusts";
/// Annotation on the Secret [`AUTHORITY`]: each new value has the generated authority replaced. The value says nothing; the time
/// is a good one.
pub const ANNOTATION_ROTATE: &str = "tf.tungsten.io/rotate";
/// Annotation on the Secret [`AUTHORITY`] while its authority comes from an issuer outside: which one.
pub const ANNOTATION_ISSUER: &str = "tf.tungsten.io/issuer";

/// Name the Go tf-operator used for the config database.
pub const CONFIGDB: &str = "configdb1";
/// Name the Go tf-operator used for the analytics database.
pub const ANALYTICSDB: &str = "analyticsdb1";
