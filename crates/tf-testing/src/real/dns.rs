//! Names of Services: CoreDNS beside the API server, reached through the Service that pods of any cluster use.
//!
//! It is a process of the lab's, no pod: a cluster whose nodes are all off still has it, and no test has to leave room for it.
//! Who is cut from the API server is cut from it. Names of the world outside do not exist.

use std::net::IpAddr;
use std::path::Path;

use crate::{options::IpFamily, real::network::Network};

/// Where the server listens on [`Network::api_server`].
const PORT: u16 = 1053;

/// Configuration of a server that listens on `address` and looks names up with `kubeconfig`.
pub fn corefile(address: IpAddr, kubeconfig: &Path) -> String {
    let kubeconfig = kubeconfig.display();
    // Answers live for a second, so that tests need not wait for what was true before. The second block is apart since
    // `template` comes before `kubernetes` whatever their order here.
    format!(
        "\
cluster.local:{PORT} in-addr.arpa:{PORT} ip6.arpa:{PORT} {{
    bind {address}
    errors
    kubernetes {{
        kubeconfig {kubeconfig:?}
        ttl 1
    }}
}}
.:{PORT} {{
    bind {address}
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"
    )
}

/// The Service, and what the server may read.
pub fn manifest(network: Network) -> String {
    let (server, service) = (network.api_server(), network.family().dns_service());
    let family = match network.family() {
        IpFamily::V4 => "IPv4",
        IpFamily::V6 => "IPv6",
    };
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: kube-dns, namespace: kube-system}}
spec:
  clusterIP: '{service}'
  ports:
  - {{name: dns, port: 53, targetPort: {PORT}, protocol: UDP}}
  - {{name: dns-tcp, port: 53, targetPort: {PORT}, protocol: TCP}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: kube-dns, namespace: kube-system, labels: {{kubernetes.io/service-name: kube-dns}}}}
addressType: {family}
endpoints: [{{addresses: ['{server}'], conditions: {{ready: true}}}}]
ports:
- {{name: dns, port: {PORT}, protocol: UDP}}
- {{name: dns-tcp, port: {PORT}, protocol: TCP}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: 'system:coredns'}}
rules:
- {{apiGroups: [''], resources: [services, namespaces], verbs: [list, watch]}}
- {{apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: 'system:coredns'}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: 'system:coredns'}}
subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: 'system:coredns'}}]
"
    )
}
