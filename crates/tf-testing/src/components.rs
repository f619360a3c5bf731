//! The programs of a lab and their flags.
//!
//! Pure: from a folder, ports and options to command lines. A flag stands here because the lab needs it; where the
//! default would do, there is none.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    folder::Folder,
    options::{Options, Tier},
    ports::Ports,
    process::Spec,
};

/// What may be audited: everything but the renewals of node leases, which are most of all requests and nobody's to
/// count. Metadata level, each request once (a watch when it begins and when it ends).
pub const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
  - level: None
    namespaces: [kube-node-lease]
    resources: [{group: coordination.k8s.io, resources: [leases]}]
  - level: Metadata
";

/// How kwok plays nodes and pods.
pub const STAGES: &str = concat!(
    include_str!("../../../e2e/lab/stages/node.yaml"),
    "---\n",
    include_str!("../../../e2e/lab/stages/pod.yaml"),
);

/// A program of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Component {
    /// The store, one member.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// The simulator of nodes and their pods.
    Kwok,
    /// The DNS server of [real nodes](crate::real::dns).
    CoreDns,
}

impl Component {
    /// What a tier consists of, in the order it is started.
    pub fn of(tier: Tier) -> &'static [Self] {
        const ALL: [Component; 5] = [
            Component::Etcd,
            Component::ApiServer,
            Component::ControllerManager,
            Component::Scheduler,
            Component::Kwok,
        ];
        const REAL: [Component; 5] = [ALL[0], ALL[1], ALL[2], ALL[3], Component::CoreDns];
        match tier {
            Tier::Api => &ALL[..2],
            Tier::Controllers => &ALL[..3],
            Tier::Real => &REAL,
            Tier::Fleet => &ALL,
        }
    }

    /// Name of its process, log and kubeconfig.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
            Self::CoreDns => "coredns",
        }
    }

    /// The Kubernetes user it acts as, and that user's group: what a component may do follows from it.
    pub fn user(self) -> Option<(&'static str, Option<&'static str>)> {
        match self {
            Self::Etcd | Self::ApiServer => None,
            Self::ControllerManager => Some(("system:kube-controller-manager", None)),
            Self::Scheduler => Some(("system:kube-scheduler", None)),
            // kwok stands for kubelets of all nodes; there is no bootstrap role for that.
            Self::Kwok => Some(("kwok", Some("system:masters"))),
            Self::CoreDns => Some(("system:coredns", None)),
        }
    }
}

/// The executables.
#[derive(Clone, Debug)]
pub struct Programs {
    /// etcd and the Kubernetes components, chosen by the first argument.
    pub control_plane: PathBuf,
    /// The simulator; tier fleet only.
    pub kwok: Option<PathBuf>,
    /// The DNS server; tier real only.
    pub core_dns: Option<PathBuf>,
}

/// What to run as `component`. `None` only for what has no executable in this tier.
pub fn spec(
    component: Component,
    programs: &Programs,
    folder: &Folder,
    ports: Ports,
    options: &Options,
) -> Option<Spec> {
    let program = match component {
        Component::Kwok => programs.kwok.clone()?,
        Component::CoreDns => programs.core_dns.clone()?,
        _ => programs.control_plane.clone(),
    };
    // Six API servers beside each other lack processors rather than memory, and collect garbage half as often.
    let mut spec = Spec::new(component.name(), program).env("GOGC", "200");
    spec.own_group = options.background;
    Some(match component {
        Component::Etcd => spec.args([component.name()]).args(etcd(folder, ports)),
        Component::ApiServer => spec.args([component.name()]).args(api_server(folder, ports, options)),
        Component::ControllerManager => spec.args([component.name()]).args(controller_manager(folder, options)),
        Component::Scheduler => spec.args([component.name()]).args(scheduler(folder)),
        Component::CoreDns => spec.args(["-conf", &text(&folder.path().join("Corefile"))]),
        // Without HOME kwok would read the configuration of the developer, too.
        Component::Kwok => spec.args(kwok(folder, options)).env("HOME", text(folder.path())),
    })
}

fn etcd(folder: &Folder, ports: Ports) -> Vec<String> {
    let client = format!("https://127.0.0.1:{}", ports.etcd);
    let peer = format!("https://127.0.0.1:{}", ports.etcd_peer);
    let (ca, certificate, key) = (pki(folder, "ca.crt"), pki(folder, "etcd.crt"), pki(folder, "etcd.key"));
    vec![
        "--name=lab".into(),
        format!("--data-dir={}", text(&folder.path().join("etcd"))),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=lab={peer}"),
        format!("--trusted-ca-file={ca}"),
        format!("--cert-file={certificate}"),
        format!("--key-file={key}"),
        "--client-cert-auth".into(),
        format!("--peer-trusted-ca-file={ca}"),
        format!("--peer-cert-file={certificate}"),
        format!("--peer-key-file={key}"),
        "--peer-client-cert-auth".into(),
        // The data is worth nothing after the lab; a killed API server loses nothing by it, only a crash of the machine.
        "--unsafe-no-fsync".into(),
        "--log-level=warn".into(),
    ]
}

fn api_server(folder: &Folder, ports: Ports, options: &Options) -> Vec<String> {
    let mut flags = vec![
        format!("--etcd-servers=https://127.0.0.1:{}", ports.etcd),
        format!("--etcd-cafile={}", pki(folder, "ca.crt")),
        format!("--etcd-certfile={}", pki(folder, "etcd.crt")),
        format!("--etcd-keyfile={}", pki(folder, "etcd.key")),
        format!("--bind-address={}", ports.api_server.ip()),
        format!("--secure-port={}", ports.api_server.port()),
        format!("--tls-cert-file={}", pki(folder, "kube-apiserver.crt")),
        format!("--tls-private-key-file={}", pki(folder, "kube-apiserver.key")),
        format!("--client-ca-file={}", pki(folder, "ca.crt")),
        "--authorization-mode=Node,RBAC".into(),
        // As OpenShift runs it: who sets an owner reference that blocks deletion must have a right to.
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement".into(),
        "--allow-privileged".into(),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".into(),
        format!("--service-account-key-file={}", pki(folder, "sa.pub")),
        format!("--service-account-signing-key-file={}", pki(folder, "sa.key")),
        format!("--service-cluster-ip-range={}", options.ip_family.service_range()),
        format!("--audit-policy-file={}", text(&folder.path().join("audit-policy.yaml"))),
        format!("--audit-log-path={}", text(&folder.audit_log())),
        // In megabytes; the default of 100 would move the log away under its reader.
        "--audit-log-maxsize=1000000".into(),
        "--profiling=false".into(),
    ];
    if options.tier == Tier::Real {
        // Pods reach it through the `kubernetes` Service; it reaches kubelets for logs and for commands in containers.
        flags.push(format!("--advertise-address={}", ports.api_server.ip()));
        flags.push(format!("--kubelet-client-certificate={}", pki(folder, "kubelet-client.crt")));
        flags.push(format!("--kubelet-client-key={}", pki(folder, "kubelet-client.key")));
        flags.push(format!("--kubelet-certificate-authority={}", pki(folder, "ca.crt")));
        flags.push("--kubelet-preferred-address-types=InternalIP".into());
    } else {
        // Must be of the Service range's family. Endpoints of the `kubernetes` Service may not be loopback addresses,
        // hence no reconciler; nothing in these tiers reaches the API server through the Service.
        flags.push(format!("--advertise-address={}", options.ip_family.kubernetes_service()));
        flags.push("--endpoint-reconciler-type=none".into());
    }
    if options.tier == Tier::Api {
        // The default ServiceAccount of a namespace is made by a controller; without it no pod could be created.
        flags.push("--disable-admission-plugins=ServiceAccount".into());
    }
    flags
}

fn controller_manager(folder: &Folder, options: &Options) -> Vec<String> {
    vec![
        kubeconfig(folder, Component::ControllerManager),
        "--leader-elect=false".into(),
        // Nobody scrapes it, so it need not listen.
        "--secure-port=0".into(),
        "--use-service-account-credentials".into(),
        format!("--root-ca-file={}", pki(folder, "ca.crt")),
        format!("--service-account-private-key-file={}", pki(folder, "sa.key")),
        format!("--cluster-signing-cert-file={}", pki(folder, "ca.crt")),
        format!("--cluster-signing-key-file={}", pki(folder, "ca.key")),
        format!("--service-cluster-ip-range={}", options.ip_family.service_range()),
        // A node is unhealthy when its lease was not renewed for so long. As by default: 50 s for leases of 40 s.
        format!("--node-monitor-grace-period={}s", options.node_lease_seconds * 5 / 4),
        // 20 a second by default: a DaemonSet on 500 nodes would wait for the rate limit of its controller.
        "--kube-api-qps=500".into(),
        "--kube-api-burst=1000".into(),
    ]
}

fn scheduler(folder: &Folder) -> Vec<String> {
    vec![
        kubeconfig(folder, Component::Scheduler),
        "--leader-elect=false".into(),
        "--secure-port=0".into(),
        "--kube-api-qps=500".into(),
        "--kube-api-burst=1000".into(),
    ]
}

fn kwok(folder: &Folder, options: &Options) -> Vec<String> {
    vec![
        kubeconfig(folder, Component::Kwok),
        format!("--config={}", text(&folder.path().join("stages.yaml"))),
        // By label, not by kwok's usual annotation: of a removed annotation it takes no notice.
        format!("--manage-nodes-with-label-selector={}", crate::nodes::MANAGED),
        format!("--node-lease-duration-seconds={}", options.node_lease_seconds),
        format!("--cidr={}", options.ip_family.pod_range()),
        // At INFO it logs every renewal of every lease.
        "--v=WARN".into(),
    ]
}

fn kubeconfig(folder: &Folder, component: Component) -> String {
    format!("--kubeconfig={}", text(&folder.kubeconfig(component.name())))
}

fn pki(folder: &Folder, file: &str) -> String {
    text(&folder.pki(file))
}

/// Paths of a lab as flags: a state folder whose name is not UTF-8 is refused where the lab is made.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
