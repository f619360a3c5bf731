//! The address that a node has, and the one that a pod on it has.
//!
//! A pod in the node's network keeps the address that the node had when it began: the kubelet sets `status.podIP` once (Kubernetes, `kubelet_pods.go`,
//! `generateAPIPodStatus`), and the server in it listens there. So files, certificates and endpoints of a member are those of its pod's address until the pod
//! is replaced, which happens when it is its turn.

use std::collections::BTreeMap;

use super::{Node, Observed, Pod, Source};

impl<Cr> Observed<Cr> {
    /// Has each node known by the address that the resource's pod on it uses, and marks pods whose node has another one ([`Pod::node_address`]).
    #[must_use]
    pub fn with_addresses_in_use(mut self) -> Self {
        let (Source::Known(nodes), Source::Known(pods)) = (&mut self.nodes, &mut self.pods) else { return self };
        let mut nodes: BTreeMap<String, &mut Node> = nodes.iter_mut().map(|node| (node.name.clone(), node)).collect();
        for pod in pods {
            let Some(node) = pod.node.as_ref().and_then(|name| nodes.get_mut(name)) else { continue };
            if is_elsewhere(pod, node) {
                pod.node_address = node.address.replace(pod.address.clone().unwrap_or_default());
            }
        }
        self
    }
}

/// Whether a pod has an address that its node does not have any more. Pods that another operator made, and those that end, do not count.
fn is_elsewhere(pod: &Pod, node: &Node) -> bool {
    let known = [&node.address, &node.other_address];
    let is_former = |address: &String| !known.contains(&&Some(address.clone()));
    node.address.is_some() && pod.template.is_some() && !pod.terminating && pod.address.as_ref().is_some_and(is_former)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(pod: Pod) -> Observed<()> {
        let node = |name: &str, address: &str| Node {
            name: name.into(),
            address: Some(address.into()),
            other_address: Some("fd00::9".into()),
            ..Node::default()
        };
        Observed {
            nodes: Source::Known(vec![node("a", "10.0.0.1"), node("b", "10.0.0.22")]),
            pods: Source::Known(vec![pod]),
            ..Observed::default()
        }
    }

    fn pod(address: Option<&str>) -> Pod {
        let (node, template) = (Some("b".to_owned()), Some("t".to_owned()));
        Pod { node, template, address: address.map(str::to_owned), ..Pod::default() }
    }

    fn addresses(pod: Pod) -> (Vec<String>, Option<String>) {
        let seen = observed(pod).with_addresses_in_use();
        let nodes = seen.nodes.known().unwrap().iter().filter_map(|node| node.address.clone()).collect();
        (nodes, seen.pods.known().unwrap()[0].node_address.clone())
    }

    #[test]
    fn a_node_is_known_by_the_address_of_its_pod_until_that_is_replaced() {
        let as_it_is = (vec!["10.0.0.1".to_owned(), "10.0.0.22".to_owned()], None);
        let in_use = (vec!["10.0.0.1".to_owned(), "10.0.0.2".to_owned()], Some("10.0.0.22".to_owned()));
        assert_eq!(addresses(pod(Some("10.0.0.2"))), in_use);
        for same in [Some("10.0.0.22"), Some("fd00::9"), None] {
            assert_eq!(addresses(pod(same)), as_it_is, "{same:?}");
        }
        assert_eq!(addresses(Pod { terminating: true, ..pod(Some("10.0.0.2")) }), as_it_is);
        assert_eq!(addresses(Pod { template: None, ..pod(Some("10.0.0.2")) }), as_it_is, "another operator's");
    }
}
