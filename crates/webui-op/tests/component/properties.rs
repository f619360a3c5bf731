//! What holds whatever the situation.

use std::collections::BTreeSet;

use crate::support::{Planned, World, initialized, named};
use proptest::{collection::btree_set, prelude::*};
use serde_json::json;
use tf_plan::object::SECRET;

/// The API server's limit for a ConfigMap or Secret.
const OBJECT_LIMIT: usize = 1024 * 1024;

fn addresses() -> impl Strategy<Value = Vec<String>> {
    let four = btree_set(1_u8..=250, 1..8).prop_map(|all| all.iter().map(|n| format!("10.0.0.{n}")).collect());
    let six = btree_set(1_u16.., 1..8).prop_map(|all| all.iter().map(|n| format!("fd00::{n:x}")).collect());
    prop_oneof![6 => four, 1 => six]
}

/// Text that careless writers break.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[A-Za-z0-9._-]{12,40}", 1 => "[ -~]{12,40}", 1 => "[#%;=&+<>\"'\\\\é😀\n\t`$(){}\\[\\]a-c\u{2028}/]{12,24}"]
}

prop_compose! {
    fn world()(
        nodes in addresses(),
        config in addresses(),
        cassandra in addresses(),
        redis in addresses(),
        analytics in prop_oneof![Just(Vec::new()), addresses()],
        redis_password in text(),
        login in text(),
        ready in any::<bool>(),
    ) -> World {
        World { namespace: "prod".into(), nodes, config, cassandra, redis, analytics, ready, redis_password, login, ..World::default() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn plans_are_complete_or_say_why_not(
        world in world(),
        name in "[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?",
        user in prop::option::of(text()),
        initialized_already in any::<bool>(),
    ) {
        let world = World { name: name.clone(), ..world };
        let parameters = user.as_ref().map(|user| json!({"adminUsername": user}));
        let spec = json!({"commonConfiguration": {"authParameters": {"keystoneAuthParameters": parameters}}});
        let mut webui = named("prod", &name, spec);
        if initialized_already {
            webui = initialized(&webui);
        }
        let result = world.plan(&webui);
        prop_assert_eq!(&result, &world.plan(&webui), "planning twice gives two results");
        let hidden = |text: &str| [&world.redis_password, &world.login].iter().all(|secret| !text.contains(secret.as_str()));
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
        let planned = Planned(plan);
        for address in members {
            let options = planned.options(&address);
            prop_assert_eq!(&options.users[0][1], &world.login);
            prop_assert_eq!(&options.users[0][0], user.as_deref().unwrap_or("admin"));
            prop_assert_eq!(&options.listen, &vec![address.clone()]);
            prop_assert_eq!(&options.cassandra.hosts, &world.cassandra);
            prop_assert_eq!(options.analytics.is_none(), world.analytics.is_empty());
            prop_assert_eq!(planned.file("redis-password"), world.redis_password.as_str());
            let host = planned.launch("webuiweb", &address).relay.unwrap().host;
            prop_assert!(host == address || !world.redis.contains(&address) && host == world.redis[0]);
        }
    }
}
