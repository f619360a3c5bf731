//! What holds whatever the situation.

use crate::support::{Planned, World, initialized, named};
use proptest::prelude::*;
use serde_json::{Value, json};
use tf_sim::control::options::{Daemon, Options};
use tf_testing::{invariants, strategies::addresses};

/// Text that careless writers break.
fn password() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[A-Za-z0-9._-]{1,40}", 1 => "[ -~]{1,40}", 1 => "[#%;=&+<>\"'\\\\é😀\n\t(){}\\[\\]a-c]{0,24}"]
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![4 => "([A-Za-z0-9+/]{4}){1,12}", 1 => "[ -~]{0,24}"]
}

fn containers() -> impl Strategy<Value = Vec<Value>> {
    let names = ["control", "dns", "named", "nodemanager", "provisioner", "other"];
    let some = prop::sample::subsequence(names.to_vec(), 0..=names.len());
    some.prop_map(|some| some.into_iter().map(|name| json!({"name": name})).collect())
}

prop_compose! {
    fn world()(
        nodes in addresses(6),
        cassandra in addresses(6),
        rabbitmq in addresses(6),
        analytics in prop_oneof![Just(Vec::new()), addresses(6)],
        password in password(),
        key in key(),
        ready in any::<bool>(),
    ) -> World {
        World { namespace: "prod".into(), nodes, cassandra, rabbitmq, analytics, ready, password, key, ..World::default() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn plans_are_complete_or_say_why_not(
        world in world(),
        name in "[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?",
        xmpp in prop_oneof![Just(5269_u16), 1_u16..],
        dns in prop_oneof![Just(53_u16), 1_u16..],
        given in prop::option::of(key()),
        subnet in prop::option::of("10\\.[0-9]{1,2}\\.0\\.0/[0-9]{1,2}"),
        containers in containers(),
        initialized_already in any::<bool>(),
    ) {
        let mut service = json!({
            "xmppPort": xmpp, "dnsPort": dns, "rndckey": given, "dataSubnet": subnet, "containers": containers,
        });
        service.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let world = World { name: name.clone(), ..world };
        let mut control = named("prod", &name, json!({"serviceConfiguration": service}));
        if initialized_already {
            control = initialized(&control);
        }
        let key = given.filter(|key| !key.is_empty()).unwrap_or_else(|| world.key.clone());
        let Some(plan) = invariants::sound(|| world.plan(&control), &[world.password.as_str(), key.as_str()]) else { return Ok(()) };
        prop_assert!(initialized_already || world.ready, "a bring-up with services that are not ready");
        let serves_dns = plan.endpoints.iter().any(|endpoint| endpoint.name == "dns-introspect");
        let planned = Planned(plan);
        // Nodes that are known by addresses outside the network are asked for others first.
        let subnet: Option<ipnet::IpNet> = subnet.map(|subnet| subnet.parse().unwrap());
        let is_known = |address: &&String| {
            subnet.is_none_or(|subnet| address.parse().is_ok_and(|address: std::net::IpAddr| subnet.contains(&address)))
        };
        for address in world.nodes.iter().filter(is_known) {
            let file = |name: &str| planned.file(&format!("{name}.{}", address.replace(':', "-")));
            let mut daemons = vec![(Daemon::Control, "contrail-control.conf")];
            daemons.extend(serves_dns.then_some((Daemon::Dns, "contrail-dns.conf")));
            for (daemon, name) in daemons {
                let options = Options::read(daemon, &file(name));
                prop_assert!(options.is_ok(), "{}: {:?}", name, options.err());
                let options = options.unwrap();
                prop_assert_eq!(&options.rabbitmq.password, &world.password);
                prop_assert_eq!(options.address.to_string(), address.clone());
                prop_assert!(options.named.is_none_or(|named| named.secret == key));
            }
        }
    }
}
