//! What holds whatever the situation.

use crate::support::{Planned, World, initialized, named};
use proptest::prelude::*;
use serde_json::json;
use tf_sim::kubernetes::options::Options;
use tf_testing::{invariants, strategies::addresses};

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
        nodes in addresses(6),
        cassandra in addresses(6),
        rabbitmq in addresses(6),
        analytics in prop_oneof![Just(Vec::new()), addresses(6)],
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
        let Some(plan) = invariants::sound(|| world.plan(&kubemanager), &[world.password.as_str(), world.token.as_str()]) else { return Ok(()) };
        prop_assert!(initialized_already || world.ready, "a bring-up with services that are not ready");
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
