//! What holds whatever the situation.

use crate::support::{self, Planned, World, is_ini, named};
use proptest::prelude::*;
use serde_json::{Value, json};
use tf_config_files::read;
use tf_testing::{invariants, strategies::addresses};

/// Text that careless writers break.
fn password() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[A-Za-z0-9._-]{1,40}", 1 => "[ -~]{1,40}", 1 => "[#%;=&+<>\"'\\\\é😀\n\t(){}\\[\\]a-c]{0,24}"]
}

fn containers() -> impl Strategy<Value = Vec<Value>> {
    let names = ["devicemanager", "dnsmasq", "schematransformer", "servicemonitor", "nodemanager", "nodeinit", "other"];
    let some = prop::sample::subsequence(names.to_vec(), 0..=names.len());
    (any::<bool>(), some).prop_map(|(listed, some)| {
        let api = std::iter::once("api");
        if listed { api.chain(some).map(|name| json!({"name": name})).collect() } else { Vec::new() }
    })
}

fn auth() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        Just(json!({"authMode": "noauth", "keystoneSecretName": "ks"})),
        Just(json!({"authMode": "keystone", "keystoneSecretName": "ks"})),
        password().prop_map(|password| json!({
            "authMode": "keystone",
            "keystoneAuthParameters": {"adminPassword": password, "address": "fd00::5", "insecure": false},
        })),
    ]
}

prop_compose! {
    fn world()(
        nodes in addresses(4),
        cassandra in addresses(4),
        cql_port in prop_oneof![Just(9041_u16), Just(9042)],
        zookeeper in addresses(4),
        rabbitmq in addresses(4),
        analytics in prop_oneof![Just(Vec::new()), addresses(4)],
        rabbit in password(),
        keystone in password(),
        ready in any::<bool>(),
    ) -> World {
        let secrets = [("ks".to_owned(), [("password".to_owned(), keystone)].into())].into();
        let rabbitmq_login = ["user".to_owned(), rabbit, "/".to_owned()];
        let namespace = "prod".to_owned();
        World { namespace, nodes, cassandra, cql_port, zookeeper, rabbitmq, analytics, ready, rabbitmq_login, secrets }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn plans_are_complete_or_say_why_not(
        world in world(),
        name in "[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?",
        workers in 1_u32..12,
        admin_port in 1_u16..,
        fabric in prop::option::of("[0-9]{1,3}\\.0\\.2\\.1"),
        containers in containers(),
        auth in auth(),
        initialized in any::<bool>(),
    ) {
        let mut service = json!({
            "apiWorkerCount": workers, "apiAdminPort": admin_port, "fabricMgmtIP": fabric, "containers": containers,
        });
        service.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let spec = json!({"commonConfiguration": {"authParameters": auth}, "serviceConfiguration": service});
        let mut config = named("prod", &name, spec);
        if initialized {
            config = support::initialized(&config);
        }
        let Some(plan) = invariants::sound(|| world.plan(&config), &[world.rabbitmq_login[1].as_str(), world.secrets["ks"]["password"].as_str()]) else { return Ok(()) };
        prop_assert!(initialized || world.ready, "a bring-up with services that are not ready");
        let planned = Planned(plan);
        for (key, text) in planned.files() {
            prop_assert!(key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)), "{}", key);
            if is_ini(&key) {
                let file = read::python(&text);
                prop_assert!(file.is_ok(), "{}: {:?}", key, file.err());
            }
        }
        for address in &world.nodes {
            let key = format!("contrail-api-0.conf.{}", address.replace(':', "-"));
            let defaults = planned.defaults(&key);
            prop_assert_eq!(&defaults["rabbit_password"], &world.rabbitmq_login[1]);
            prop_assert_eq!(defaults["cassandra_server_list"].split(' ').count(), world.cassandra.len());
            let last = format!("contrail-api-{}.conf.{}", workers - 1, address.replace(':', "-"));
            prop_assert!(planned.files().contains_key(&last));
        }
    }
}
