//! Names of Services: CoreDNS beside the API server, reached through the Service that pods of any cluster use.
//!
//! It is a process of the lab's, no pod: a cluster whose nodes are all off still has it, and no test has to leave room for it.
//! Who is cut from the API server is cut from it. Names of the world outside do not exist.

use std::net::Ipv4Addr;
use std::path::Path;

use crate::real::network::Network;

/// Address of the Service, the usual one.
pub const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);

/// Where the server listens on [`Network::api_server`].
const PORT: u16 = 1053;

/// Configuration of a server that listens on `address` and looks names up with `kubeconfig`.
pub fn corefile(address: Ipv4Addr, kubeconfig: &Path) -> String {
    let kubeconfig = kubeconfig.display();
    // Answers live for a second, so that tests need not wait for what was true before. The second block is apart since
    // `template` comes before `kubernetes` whatever their order here.
    format!(
        "\
cluster.local:{PORT} in-addr.arpa:{PORT} {{
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
    let server = network.api_server();
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: kube-dns, namespace: kube-system}}
spec:
  clusterIP: {SERVICE}
  ports:
  - {{name: dns, port: 53, targetPort: {PORT}, protocol: UDP}}
  - {{name: dns-tcp, port: 53, targetPort: {PORT}, protocol: TCP}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: kube-dns, namespace: kube-system, labels: {{kubernetes.io/service-name: kube-dns}}}}
addressType: IPv4
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
