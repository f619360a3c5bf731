//! The pod template all components share.
//!
//! Pods use their node's network, get no API token, tolerate every taint and run each daemon through the node agent. A
//! container gets the restricted security context unless its daemon needs more, and then no more than it needs.

use std::{collections::BTreeMap, net::Ipv4Addr};

use k8s_openapi::{
    api::core::v1::{
        Affinity, Capabilities, ConfigMapProjection, ConfigMapVolumeSource, Container, ContainerPort,
        DownwardAPIVolumeFile, DownwardAPIVolumeSource, EnvFromSource, EnvVar, EnvVarSource, ExecAction, HTTPGetAction,
        KeyToPath, Lifecycle, LifecycleHandler, LocalObjectReference, ObjectFieldSelector, PodSecurityContext, PodSpec,
        PodTemplateSpec, Probe, ProjectedVolumeSource, ResourceRequirements, SeccompProfile, SecretEnvSource,
        SecretVolumeSource, SecurityContext, ServiceAccountTokenProjection, Toleration, Volume, VolumeMount,
        VolumeProjection,
    },
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};
use serde_json::{Value, json};
use tf_agent_api::{
    family::{self, IpFamily},
    node,
};
use tf_api::{
    common::{ContainerOverrides, PodConfiguration, PodOverrides},
    contract::Reason,
    names,
    schema::Port,
};

use crate::{
    build::{
        configuration,
        identity::Identity,
        storage::{empty_dir, memory_dir},
    },
    hash,
    images::Chosen,
    not_ready::NotReady,
    placement,
};

const CONFIG: &str = "config";
const SECRETS: &str = "secrets";
const CERTIFICATES: &str = "certificates";
const TRUST: &str = "trust";
const TOKEN: &str = "token";
const POD_INFO: &str = "pod-info";
/// The init container that brings the node agent.
pub const AGENT: &str = "tf-node";

/// Seconds a pod's token is good for; the kubelet renews it in time. What it asks for where a token is mounted by itself.
const TOKEN_SECONDS: i64 = 3607;

/// What a daemon may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Privileges {
    /// Nothing: not root, no capability.
    Restricted,
    /// Root inside the container with these capabilities and no other.
    Root(&'static [&'static str]),
    /// Everything; for what works on the node itself.
    Host,
}

/// A container that runs a daemon.
#[derive(Clone, Debug, PartialEq)]
pub struct DaemonContainer {
    /// Name of container and daemon.
    pub name: &'static str,
    /// Image reference.
    pub image: String,
    /// Command of the spec instead of the built-in one; empty for the built-in one.
    pub command: Vec<String>,
    /// Named ports it listens on. On the node's network the scheduler keeps two users of a port apart.
    pub ports: Vec<(&'static str, Port)>,
    /// Environment.
    pub env: Vec<(String, String)>,
    /// Mounts besides those every daemon has.
    pub mounts: Vec<VolumeMount>,
    /// What it may do.
    pub privileges: Privileges,
    /// Whether the node agent can probe that it serves.
    pub probed: bool,
    /// Whether it has to be taken out of service before it is stopped.
    pub drained: bool,
    /// Requests and limits.
    pub resources: Option<ResourceRequirements>,
    /// Whether its node agent gets the member's certificate and serves the agent API: one daemon of a pod at most.
    pub speaks_for_pod: bool,
}

impl DaemonContainer {
    /// The restricted, probed container without ports that was chosen.
    pub fn of(chosen: &Chosen) -> Self {
        Self::new(chosen.name, chosen.image.clone(), chosen.command.clone())
    }

    /// A restricted, probed daemon without ports.
    pub fn new(name: &'static str, image: String, command: Vec<String>) -> Self {
        Self {
            name,
            image,
            command,
            ports: Vec::new(),
            env: Vec::new(),
            mounts: Vec::new(),
            privileges: Privileges::Restricted,
            probed: true,
            drained: false,
            resources: None,
            speaks_for_pod: false,
        }
    }
}

/// Whether each listener of a pod has a port of its own: all are on the node's network.
///
/// # Errors
/// `InvalidSpec` with the two that would have the same.
pub fn ports_differ(daemons: &[DaemonContainer]) -> Result<(), NotReady> {
    let mut taken = BTreeMap::new();
    for daemon in daemons {
        for (name, port) in &daemon.ports {
            if let Some((other, theirs)) = taken.insert(*port, (daemon.name, *name)) {
                return Err(NotReady::invalid(
                    Reason::InvalidSpec,
                    format!(
                        "{other} ({theirs}) and {} ({name}) would both listen on port {port}: state another one in spec.serviceConfiguration",
                        daemon.name
                    ),
                ));
            }
        }
    }
    Ok(())
}

/// Everything a pod template is made of.
#[derive(Clone, Debug)]
pub struct PodShape<'a> {
    /// Whose pods.
    pub identity: &'a Identity,
    /// Settings of the spec.
    pub common: &'a PodConfiguration,
    /// Image of the node agent.
    pub agent_image: String,
    /// ServiceAccount of the pods.
    pub service_account: String,
    /// Init containers that run after the node agent is installed.
    pub init: Vec<Container>,
    /// Daemons.
    pub daemons: Vec<DaemonContainer>,
    /// Volumes besides those every pod has.
    pub volumes: Vec<Volume>,
    /// Mounts whose directories are given to the daemons' user before they start.
    pub owned_mounts: Vec<VolumeMount>,
    /// Mounts that the daemons' user may write to if that can be had: nothing that they are needed for keeps a daemon from starting.
    pub offered_mounts: Vec<VolumeMount>,
    /// Whether files with secrets exist.
    pub has_secret_files: bool,
    /// Where pods may be.
    pub affinity: Affinity,
    /// Whether containers see each other's processes.
    pub share_processes: bool,
    /// Seconds between the request to stop and the kill.
    pub grace_seconds: i64,
    /// The IP family of their addresses.
    pub family: IpFamily,
    /// Last wish that the pods be replaced, see `ANNOTATION_RESTART`.
    pub restart: Option<String>,
}

/// Builds the template and the hash of what a change of it has to restart pods for. The hash is an annotation of the
/// template, so that each pod tells what it was made from.
pub fn template(shape: &PodShape<'_>) -> (PodTemplateSpec, String) {
    let identity = shape.identity;
    let mut labels = identity.labels();
    let mut annotations = BTreeMap::new();
    let mut spec = pod_spec(shape);
    if let Some(overrides) = &shape.common.pod_overrides {
        apply_overrides(overrides, &mut labels, &mut annotations, &mut spec);
    }
    let restart_hash = restart_hash(&spec, shape.restart.as_deref());
    annotations.extend(shape.restart.iter().map(|wish| (names::ANNOTATION_RESTART.to_owned(), wish.clone())));
    annotations.insert(names::ANNOTATION_RESTART_HASH.to_owned(), restart_hash.clone());
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta { labels: Some(labels), annotations: Some(annotations), ..ObjectMeta::default() }),
        spec: Some(spec),
    };
    (template, restart_hash)
}

/// Where a pod may run matters when it is placed, not while it runs: a joining node restarts nobody. Nor does an upgrade
/// of the operator, which brings a new node agent for the pods that start after it.
fn restart_hash(spec: &PodSpec, wish: Option<&str>) -> String {
    let mut lasting = PodSpec { affinity: None, tolerations: None, scheduler_name: None, ..spec.clone() };
    for container in lasting.init_containers.iter_mut().flatten().filter(|container| container.name == AGENT) {
        container.image = None;
    }
    // Pods from before they knew both families have addresses of the family that the component has.
    let of_family = |variable: &EnvVar| matches!(variable.name.as_str(), family::POD_IPS | family::POD_IP_FAMILY);
    for container in &mut lasting.containers {
        container.env.iter_mut().for_each(|variables| variables.retain(|variable| !of_family(variable)));
    }
    let spec = serde_json::to_value(lasting).unwrap_or(Value::Null);
    // Where nothing was wished the hash is that of pods from before there were wishes.
    wish.map_or_else(|| hash::of_value(&spec), |wish| hash::of_value(&json!([spec, wish])))
}

fn pod_spec(shape: &PodShape<'_>) -> PodSpec {
    let pull_secrets = &shape.common.image_pull_secrets;
    PodSpec {
        host_network: Some(true),
        dns_policy: Some("ClusterFirstWithHostNet".into()),
        restart_policy: Some("Always".into()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        service_account_name: Some(shape.service_account.clone()),
        priority_class_name: Some("system-node-critical".into()),
        termination_grace_period_seconds: Some(shape.grace_seconds),
        share_process_namespace: shape.share_processes.then_some(true),
        tolerations: Some(tolerations(shape.common)),
        affinity: Some(shape.affinity.clone()),
        image_pull_secrets: (!pull_secrets.is_empty())
            .then(|| pull_secrets.iter().map(|name| LocalObjectReference { name: name.clone() }).collect()),
        security_context: Some(PodSecurityContext {
            fs_group: Some(node::USER),
            seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".into(), localhost_profile: None }),
            ..PodSecurityContext::default()
        }),
        init_containers: Some([vec![install(shape)], shape.init.clone()].concat()),
        containers: shape.daemons.iter().map(|daemon| container(shape, daemon)).collect(),
        volumes: Some(volumes(shape)),
        ..PodSpec::default()
    }
}

fn tolerations(common: &PodConfiguration) -> Vec<Toleration> {
    if !common.tolerations.is_empty() {
        return placement::with_own_taint(&common.tolerations);
    }
    let every = |effect: &str| Toleration {
        operator: Some("Exists".into()),
        effect: Some(effect.into()),
        ..Toleration::default()
    };
    vec![every("NoSchedule"), every("NoExecute")]
}

/// Copies the agent into the pod and gives the data directories to the daemons' user: the one step that needs root.
fn install(shape: &PodShape<'_>) -> Container {
    let paths = |mounts: &[VolumeMount]| mounts.iter().map(|mount| mount.mount_path.clone()).collect::<Vec<_>>();
    let (owned, offered) = (paths(&shape.owned_mounts), paths(&shape.offered_mounts));
    Container {
        name: AGENT.into(),
        image: Some(shape.agent_image.clone()),
        image_pull_policy: Some("IfNotPresent".into()),
        command: Some(node::install(&owned, &offered)),
        security_context: Some(security_context(&Privileges::Root(&["CHOWN", "DAC_OVERRIDE", "FOWNER"]))),
        volume_mounts: Some(
            [&[mount(AGENT, node::INSTALL_DIR)], shape.owned_mounts.as_slice(), shape.offered_mounts.as_slice()]
                .concat(),
        ),
        ..Container::default()
    }
}

/// How the kubelet asks whether a daemon serves: the agent that speaks for the pod, on the node's loopback address. A probe by a program
/// would start one in the container each time.
fn readiness(shape: &PodShape<'_>, daemon: &DaemonContainer) -> Option<Probe> {
    let mut ports = shape.daemons.iter().flat_map(|daemon| &daemon.ports);
    let (_, agent) = ports.find(|(name, _)| *name == node::AGENT_PORT)?;
    Some(Probe {
        http_get: Some(HTTPGetAction {
            host: Some(Ipv4Addr::LOCALHOST.to_string()),
            path: Some(format!("{}{}", node::READY_PATH, daemon.name)),
            port: IntOrString::Int(agent.get().into()),
            scheme: Some("HTTP".into()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(5),
        timeout_seconds: Some(3),
        failure_threshold: Some(3),
        ..Probe::default()
    })
}

fn container(shape: &PodShape<'_>, daemon: &DaemonContainer) -> Container {
    let exec = |command: Vec<String>| Some(ExecAction { command: Some(command) });
    let command = if daemon.command.is_empty() { node::run(daemon.name) } else { daemon.command.clone() };
    Container {
        name: daemon.name.into(),
        image: Some(daemon.image.clone()),
        image_pull_policy: Some("IfNotPresent".into()),
        command: Some(command),
        env: Some(environment(shape.family, &daemon.env)),
        ports: (!daemon.ports.is_empty()).then(|| daemon.ports.iter().map(port).collect()),
        readiness_probe: daemon.probed.then(|| readiness(shape, daemon)).flatten(),
        lifecycle: daemon.drained.then(|| Lifecycle {
            pre_stop: Some(LifecycleHandler { exec: exec(node::drain(daemon.name)), ..LifecycleHandler::default() }),
            ..Lifecycle::default()
        }),
        resources: daemon.resources.clone(),
        security_context: Some(security_context(&daemon.privileges)),
        volume_mounts: Some([common_mounts(shape, daemon), daemon.mounts.clone()].concat()),
        ..Container::default()
    }
}

fn port((name, port): &(&'static str, Port)) -> ContainerPort {
    let number = i32::from(port.get());
    ContainerPort {
        name: Some((*name).into()),
        container_port: number,
        // On the node's network the API server defaults it to the same number; stated so that nothing differs.
        host_port: Some(number),
        protocol: Some("TCP".into()),
        ..ContainerPort::default()
    }
}

fn environment(family: IpFamily, own: &[(String, String)]) -> Vec<EnvVar> {
    let field = |name: &str, path: &str| EnvVar {
        name: name.into(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector { field_path: path.into(), api_version: Some("v1".into()) }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    };
    let fields = [
        field("POD_IP", "status.podIP"),
        field(family::POD_IPS, "status.podIPs"),
        field("POD_NAME", "metadata.name"),
        field("NODE_NAME", "spec.nodeName"),
    ];
    let other = (family != IpFamily::default()).then(|| (family::POD_IP_FAMILY.to_owned(), family.to_string()));
    let stated = other.iter().chain(own);
    let stated =
        stated.map(|(name, value)| EnvVar { name: name.clone(), value: Some(value.clone()), ..EnvVar::default() });
    fields.into_iter().chain(stated).collect()
}

/// The keys of a Secret as variables of an init container; daemons get theirs by [`node::environment_file`].
pub fn env_from(secret: &str) -> EnvFromSource {
    EnvFromSource {
        secret_ref: Some(SecretEnvSource { name: secret.into(), optional: None }),
        ..EnvFromSource::default()
    }
}

/// The security context that grants these privileges and no more.
pub fn security_context(privileges: &Privileges) -> SecurityContext {
    let dropped = |add: &[&str]| Capabilities {
        drop: Some(vec!["ALL".into()]),
        add: (!add.is_empty()).then(|| add.iter().map(|name| (*name).into()).collect()),
    };
    match privileges {
        Privileges::Restricted => SecurityContext {
            allow_privilege_escalation: Some(false),
            run_as_non_root: Some(true),
            run_as_user: Some(node::USER),
            run_as_group: Some(node::USER),
            capabilities: Some(dropped(&[])),
            ..SecurityContext::default()
        },
        Privileges::Root(capabilities) => SecurityContext {
            allow_privilege_escalation: Some(false),
            run_as_user: Some(0),
            run_as_group: Some(0),
            capabilities: Some(dropped(capabilities)),
            ..SecurityContext::default()
        },
        Privileges::Host => {
            SecurityContext { privileged: Some(true), run_as_user: Some(0), ..SecurityContext::default() }
        }
    }
}

/// A mount of a whole volume.
pub fn mount(volume: &str, path: &str) -> VolumeMount {
    VolumeMount { name: volume.into(), mount_path: path.into(), ..VolumeMount::default() }
}

/// A mount that cannot be written.
pub fn read_only(volume: &str, path: &str) -> VolumeMount {
    VolumeMount { read_only: Some(true), ..mount(volume, path) }
}

/// The mount of the node agent's binary, for init containers that start through it.
pub fn agent_mount() -> VolumeMount {
    read_only(AGENT, node::BINARY_DIR)
}

/// Volume of the files that one container's daemon reads: in memory because they hold passwords, one for each because the
/// containers run as different users. It outlives the container, so the agent goes on with what was active before.
fn files_volume(container: &str) -> String {
    format!("files-{container}")
}

fn common_mounts(shape: &PodShape<'_>, daemon: &DaemonContainer) -> Vec<VolumeMount> {
    let state = VolumeMount { sub_path: Some(node::STATES.into()), ..mount(AGENT, node::STATE_DIR) };
    let mut mounts = vec![
        agent_mount(),
        state,
        mount(&files_volume(daemon.name), node::RUN_DIR),
        read_only(CONFIG, node::CONFIG_DIR),
        read_only(POD_INFO, node::POD_INFO_DIR),
        mount(CERTIFICATES, node::CERTIFICATE_DIR),
        mount(TRUST, node::CA_DIR),
    ];
    if shape.has_secret_files {
        mounts.push(read_only(SECRETS, node::SECRET_DIR));
    }
    if daemon.speaks_for_pod {
        mounts.push(read_only(TOKEN, node::TOKEN_DIR));
    }
    mounts
}

fn volumes(shape: &PodShape<'_>) -> Vec<Volume> {
    let mut volumes = vec![
        empty_dir(AGENT),
        Volume {
            name: CONFIG.into(),
            config_map: Some(ConfigMapVolumeSource {
                name: configuration::config_map_name(shape.identity),
                default_mode: Some(0o444),
                ..ConfigMapVolumeSource::default()
            }),
            ..Volume::default()
        },
        Volume {
            name: POD_INFO.into(),
            downward_api: Some(DownwardAPIVolumeSource {
                items: Some(vec![DownwardAPIVolumeFile {
                    path: "annotations".into(),
                    field_ref: Some(ObjectFieldSelector {
                        field_path: "metadata.annotations".into(),
                        api_version: Some("v1".into()),
                    }),
                    ..DownwardAPIVolumeFile::default()
                }]),
                default_mode: Some(0o444),
            }),
            ..Volume::default()
        },
        memory_dir(CERTIFICATES),
    ];
    if shape.daemons.iter().any(|daemon| daemon.speaks_for_pod) {
        volumes.extend([trust(), token()]);
    } else {
        volumes.push(empty_dir(TRUST));
    }
    volumes.extend(shape.daemons.iter().map(|daemon| memory_dir(&files_volume(daemon.name))));
    if shape.has_secret_files {
        volumes.push(Volume {
            name: SECRETS.into(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(configuration::secret_name(shape.identity)),
                default_mode: Some(0o440),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        });
    }
    volumes.extend(shape.volumes.iter().cloned());
    volumes
}

/// The authorities that members trust. Pods start without them and learn of them later.
fn trust() -> Volume {
    Volume {
        name: TRUST.into(),
        config_map: Some(ConfigMapVolumeSource {
            name: names::AUTHORITY.into(),
            optional: Some(true),
            default_mode: Some(0o444),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// What the kubelet mounts for accounts whose token is mounted by itself, for one container instead of all: with it the node
/// agent asks for the member's certificate. The token is bound to the pod and good for an hour.
fn token() -> Volume {
    let token = ServiceAccountTokenProjection {
        path: "token".into(),
        expiration_seconds: Some(TOKEN_SECONDS),
        ..ServiceAccountTokenProjection::default()
    };
    let authority = KeyToPath { key: "ca.crt".into(), path: "ca.crt".into(), mode: None };
    let authority =
        ConfigMapProjection { name: "kube-root-ca.crt".into(), items: Some(vec![authority]), optional: None };
    let sources = vec![
        VolumeProjection { service_account_token: Some(token), ..VolumeProjection::default() },
        VolumeProjection { config_map: Some(authority), ..VolumeProjection::default() },
    ];
    Volume {
        name: TOKEN.into(),
        projected: Some(ProjectedVolumeSource { sources: Some(sources), default_mode: Some(0o440) }),
        ..Volume::default()
    }
}

fn apply_overrides(
    overrides: &PodOverrides,
    labels: &mut BTreeMap<String, String>,
    annotations: &mut BTreeMap<String, String>,
    spec: &mut PodSpec,
) {
    if let Some(metadata) = &overrides.metadata {
        annotations.extend(metadata.annotations.clone());
        // What the operator set stays, whatever an older schema let through.
        for (key, value) in &metadata.labels {
            labels.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    let Some(pod) = &overrides.spec else { return };
    if let Some(class) = &pod.priority_class_name {
        spec.priority_class_name = Some(class.clone());
    }
    if let Some(seconds) = pod.termination_grace_period_seconds {
        spec.termination_grace_period_seconds = Some(seconds);
    }
    if let Some(scheduler) = &pod.scheduler_name {
        spec.scheduler_name = Some(scheduler.clone());
    }
    for wanted in &pod.containers {
        if let Some(container) = spec.containers.iter_mut().find(|container| container.name == wanted.name) {
            override_container(wanted, container);
        }
    }
}

fn override_container(wanted: &ContainerOverrides, container: &mut Container) {
    if let Some(resources) = &wanted.resources {
        container.resources = Some(resources.clone());
    }
    let env = container.env.get_or_insert_default();
    for variable in &wanted.env {
        env.retain(|present| present.name != variable.name);
        env.push(EnvVar { name: variable.name.clone(), value: Some(variable.value.clone()), ..EnvVar::default() });
    }
}

/// What of the overrides has no effect, as paths: labels that the operator sets, and containers that the pod does not have.
pub fn ignored_overrides(identity: &Identity, common: &PodConfiguration, daemons: &[DaemonContainer]) -> Vec<String> {
    const PATH: &str = "spec.commonConfiguration.podOverrides";
    let own = identity.labels();
    let labels = common.pod_overrides.iter().filter_map(|o| o.metadata.as_ref()).flat_map(|metadata| &metadata.labels);
    let containers = common.pod_overrides.iter().filter_map(|o| o.spec.as_ref()).flat_map(|spec| &spec.containers);
    let labels = labels
        .filter(|(key, value)| own.get(*key).is_some_and(|own| own != *value))
        .map(|(key, _)| format!("{PATH}.metadata.labels[{key}]: the operator sets it"));
    let containers = containers
        .filter(|wanted| daemons.iter().all(|daemon| daemon.name != wanted.name))
        .map(|wanted| format!("{PATH}.spec.containers[{}]: no such container", wanted.name));
    labels.chain(containers).collect()
}

#[cfg(test)]
mod tests {
    use tf_api::Zookeeper;

    use super::*;
    use crate::images::{self, ImageOverrides};

    #[test]
    fn a_port_that_two_daemons_would_have_is_refused_with_both() {
        let daemon = |name, ports| DaemonContainer { ports, ..DaemonContainer::new(name, "image".into(), Vec::new()) };
        let api = daemon("api", vec![("https", Port(8082)), ("agent", Port(18082))]);
        let beside = |port| daemon("schema", vec![("introspect", Port(port))]);
        assert!(ports_differ(&[api.clone(), beside(8087)]).is_ok());
        let refused = ports_differ(&[api, beside(18082)]).unwrap_err();
        let told = "api (agent) and schema (introspect) would both listen on port 18082: state another one in spec.serviceConfiguration";
        assert_eq!((refused.reason, refused.message.as_str()), (Reason::InvalidSpec, told));
    }

    /// A pod with two daemons, as an operator of this version plans it.
    fn planned(operator_version: &str, image: &str) -> (PodTemplateSpec, String) {
        let cr = Zookeeper::default();
        let daemon = |name| DaemonContainer::new(name, image.into(), Vec::new());
        template(&PodShape {
            identity: &Identity::of("zookeeper-op", &cr),
            common: &PodConfiguration::default(),
            agent_image: images::tf_node(&ImageOverrides::default(), operator_version),
            service_account: "zk".into(),
            init: Vec::new(),
            daemons: vec![daemon("zookeeper"), daemon("nodemanager")],
            volumes: Vec::new(),
            owned_mounts: vec![mount("data", "/var/lib/zookeeper")],
            offered_mounts: Vec::new(),
            has_secret_files: true,
            affinity: Affinity::default(),
            share_processes: false,
            grace_seconds: 30,
            family: IpFamily::default(),
            restart: None,
        })
    }

    #[test]
    fn an_upgrade_of_the_operator_restarts_no_pod_and_brings_the_next_one_its_agent() {
        let ((old, hash), (new, hash_of_new)) = (planned("0.1.0", "a:1"), planned("0.2.0", "a:1"));
        assert_eq!(hash_of_new, hash);
        assert_ne!(new, old, "the image of the agent is the operator's");
        assert_ne!(planned("0.1.0", "a:2").1, hash, "that of a daemon matters");
    }
}
