//! What a ring has to itself on its nodes: its directory and its ports ([`tf_plan::conflicts`]).

use tf_api::{Cassandra, Managed as _, schema::Port};
use tf_contrail::nodemanager;
use tf_plan::{
    conflicts::{Exclusive, NodeResources},
    selection,
};

use crate::{directory::used, ports, role::Role, takeover};

/// Rings among each other.
pub const RINGS: Exclusive<Cassandra> = Exclusive {
    resources: |cr| NodeResources { directory: used(cr), ports: ports(cr) },
    is_founded: |cr| cr.is_initialized() || takeover::is_recorded(cr),
};

/// Ports that the ring opens on its nodes, loopback ones included.
fn ports(cr: &Cassandra) -> Vec<Port> {
    let spec = &cr.spec.service_configuration;
    let manager = selection::lists(&spec.containers, nodemanager::CONTAINER.name)
        .then(|| Role::of(cr.title()).node_type().port());
    let loopback = [spec.jmx_local_port].into_iter().chain(manager);
    // Without one for its agents a ring is refused for that.
    let agent = ports::agent(spec).ok();
    ports::open(spec).into_iter().map(|(_, port)| port).chain(agent).chain(loopback).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A ring with ports of its own.
    fn ring(name: &str, path: Option<&str>, brought_up: bool, nodes: &[&str]) -> Cassandra {
        let base = 1000 * u16::from(name.as_bytes()[0] - b'`');
        let ports = json!({"port": base, "cqlPort": base + 1, "sslStoragePort": base + 2, "jmxLocalPort": base + 3});
        with_ports(name, path, brought_up, nodes, &ports)
    }

    fn with_ports(name: &str, path: Option<&str>, brought_up: bool, nodes: &[&str], ports: &Value) -> Cassandra {
        let members: Vec<_> = nodes.iter().map(|node| json!({"id": 1, "node": node, "address": "10.0.0.1"})).collect();
        serde_json::from_value(json!({
            "apiVersion": "tf.tungsten.io/v1alpha1",
            "kind": "Cassandra",
            "metadata": {"name": name, "namespace": "tf"},
            "spec": {"commonConfiguration": {"storage": {"hostPath": {"path": path}}}, "serviceConfiguration": ports},
            "status": {"initialized": brought_up, "members": members},
        }))
        .unwrap()
    }

    fn refused(cr: &Cassandra, sibling: &Cassandra) -> bool {
        let members = &cr.contract().unwrap().members;
        RINGS.check(cr, members, std::slice::from_ref(sibling)).is_err()
    }

    #[test]
    fn usual_names_do_not_meet() {
        let (config, analytics) = (ring("configdb1", None, true, &["a"]), ring("analyticsdb1", None, true, &["a"]));
        assert!(!refused(&config, &analytics) && !refused(&analytics, &config));
    }

    #[test]
    fn the_ring_that_was_brought_up_keeps_its_directory() {
        let config = ring("configdb1", Some("/var/lib/contrail/database/"), true, &["a", "b"]);
        let analytics = ring("analyticsdb1", None, false, &["b"]);
        assert!(refused(&analytics, &config));
        assert!(!refused(&config, &analytics));
    }

    #[test]
    fn of_two_new_rings_exactly_one_gives_way_even_before_the_other_has_members() {
        let (a, b) = (ring("a", Some("/d"), false, &[]), ring("b", Some("/d"), false, &["n"]));
        assert!(refused(&a, &b) ^ refused(&b, &a));
    }

    #[test]
    fn rings_on_different_nodes_may_use_the_same_path() {
        let (a, b) = (ring("a", Some("/d"), true, &["n"]), ring("b", Some("/d"), false, &["m"]));
        assert!(!refused(&b, &a));
    }

    #[test]
    fn the_younger_of_two_rings_with_one_port_names_the_older_one() {
        let config = with_ports("configdb1", None, true, &["a"], &json!({}));
        for ports in [json!({}), json!({"port": 1, "cqlPort": 2, "sslStoragePort": 3})] {
            let analytics = with_ports("analyticsdb1", None, false, &["a"], &ports);
            assert!(!refused(&config, &analytics), "{ports}");
            let members = &analytics.contract().unwrap().members;
            let why = RINGS.check(&analytics, members, std::slice::from_ref(&config)).unwrap_err().message;
            assert!(why.contains("port") && why.contains("Cassandra tf/configdb1"), "{why}");
        }
        let elsewhere = with_ports("analyticsdb1", None, false, &["b"], &json!({}));
        assert!(!refused(&elsewhere, &config));
        let without_thrift = json!({"startRPC": false, "cqlPort": 2, "sslStoragePort": 3, "jmxLocalPort": 4});
        assert!(!refused(&with_ports("analyticsdb1", None, false, &["a"], &without_thrift), &config));
    }
}
