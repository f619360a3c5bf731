//! What holds whatever the situation.

use std::collections::BTreeSet;

use crate::support::{Planned, World, initialized, named};
use proptest::{collection::btree_set, prelude::*};
use serde_json::json;
use tf_plan::object::SECRET;
use tf_sim::kubernetes::options::Options;

/// The API server's limit for a ConfigMap or Secret.
const OBJECT_LIMIT: usize = 1024 * 1024;

fn addresses() -> impl Strategy<Value = Vec<String>> {
    let four = btree_set(1_u8..=250, 1..8).prop_map(|all| all.iter().map(|n| format!("10.0.0.{n}")).collect());
    let six = btree_set(1_u16.., 1..8).prop_map(|all| all.iter().map(|n| format!("fd00::{n:x}")).collect());
    prop_oneof![6 => four, 1 => six]
}

/// Text that careless writers break.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[A-Za-z0-9._-]{1,40}", 1 => "[ -~]{1,40}", 1 => "[#%;=&+<>\"'\\\\é😀\n\t(){}\\[\\]a-c]{0,24}"]
}

/// What kubeadm might have stored.
fn kubeadm() -> impl Strategy<Value = String> {
    let subnet = || prop_oneof![4 => "10\\.[0-9]{1,2}\\.0\\.0/1[2-9]", 1 => Just("fd00::/64".to_owned()), 1 => Just("x".to_owned())];
    let endpoint = prop_oneof![
        Just(String::new()),
        "[a-z]{1,8}\\.example\\.org:[1-9][0-9]{0,3}",
        Just("[fd00::1]:6443".to_owned())
    ];
    (subnet(), subnet(), endpoint, "[a-z]{1,12}").prop_map(|(pods, services, endpoint, name)| {
        json!({
            "clusterName": name, "controlPlaneEndpoint": endpoint,
            "networking": {"podSubnet": pods, "serviceSubnet": services},
        })
        .to_string()
    })
}

prop_compose! {
    fn world()(
        nodes in addresses(),
        cassandra in addresses(),
        rabbitmq in addresses(),
        analytics in prop_oneof![Just(Vec::new()), addresses()],
        password in text(),
        token in prop_oneof![4 => "[A-Za-z0-9_-]{20,60}\\.[A-Za-z0-9_-]{20,60}", 1 => text()],
        kubeadm in kubeadm(),
        ready in any::<bool>(),
    ) -> World {
        World { namespace: "prod".into(), nodes, cassandra, rabbitmq, analytics, ready, password, token, kubeadm, ..World::default() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn plans_are_complete_or_say_why_not(
        world in world(),
        name in "[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?",
        server in prop::option::of(text()),
        pods in prop::option::of("10\\.[0-9]{1,2}\\.0\\.0/[0-9]{1,2}"),
        network in prop::option::of(text()),
        nested in any::<bool>(),
        initialized_already in any::<bool>(),
    ) {
        let network = network.map(|name| json!({"domain": "d", "project": "p", "name": name}).to_string());
        let mut service = json!({"kubernetesAPIServer": server, "podSubnet": pods, "clusterNetwork": network, "nestedMode": nested});
        service.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let world = World { name: name.clone(), ..world };
        let mut kubemanager = named("prod", &name, json!({"serviceConfiguration": service}));
        if initialized_already {
            kubemanager = initialized(&kubemanager);
        }
        let result = world.plan(&kubemanager);
        prop_assert_eq!(&result, &world.plan(&kubemanager), "planning twice gives two results");
        let secrets = [&world.password, &world.token];
        let hidden = |text: &str| secrets.iter().all(|secret| secret.len() < 12 || !text.contains(secret.as_str()));
        let plan = match result {
            Ok(plan) => plan,
            Err(not_ready) => {
                prop_assert!(!not_ready.message.is_empty() && hidden(&not_ready.message));
                return Ok(());
            }
        };
        prop_assert!(initialized_already || world.ready, "a bring-up with services that are not ready");
        let names: BTreeSet<_> = plan.objects.iter().map(|object| (object.kind, object.name.clone())).collect();
        prop_assert_eq!(names.len(), plan.objects.len(), "two objects have one name");
        for object in &plan.objects {
            prop_assert!(object.name.len() <= 63, "{}", object.name);
            let text = object.body.to_string();
            prop_assert!(text.len() < OBJECT_LIMIT && (object.kind == SECRET || hidden(&text)), "{}", object.name);
        }
        let members: Vec<String> = plan.members.iter().map(|member| member.address.clone()).collect();
        prop_assert!(!nested || members.len() == 1);
        let planned = Planned(plan);
        for address in members {
            let options = Options::read(&planned.file(&format!("contrail-kubernetes.conf.{}", address.replace(':', "-"))));
            prop_assert!(options.is_ok(), "{:?}", options.err());
            let options = options.unwrap();
            prop_assert_eq!(&options.rabbitmq.password, &world.password);
            prop_assert_eq!(options.token.as_ref(), Some(&world.token));
            prop_assert_eq!(options.address.to_string(), address);
            prop_assert_eq!(options.election.is_none(), nested);
            let written = options.objects[1].as_ref().map(|network| json!(network));
            prop_assert_eq!(written, network.as_ref().map(|text| serde_json::from_str(text).unwrap()));
        }
    }
}
