//! What holds whatever the situation.

use crate::support::{Planned, World, initialized, launch_of, named, options_of};
use proptest::prelude::*;
use serde_json::json;
use tf_testing::{invariants, strategies::addresses};

/// Text that careless writers break.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[A-Za-z0-9._-]{12,40}", 1 => "[ -~]{12,40}", 1 => "[#%;=&+<>\"'\\\\é😀\n\t`$(){}\\[\\]a-c\u{2028}/]{12,24}"]
}

prop_compose! {
    fn world()(
        nodes in addresses(6),
        config in addresses(6),
        cassandra in addresses(6),
        redis in addresses(6),
        analytics in prop_oneof![Just(Vec::new()), addresses(6)],
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
        let Some(plan) = invariants::sound(|| world.plan(&webui), &[world.redis_password.as_str(), world.login.as_str()]) else { return Ok(()) };
        prop_assert!(initialized_already || world.ready, "a bring-up with services that are not ready");
        let members: Vec<String> = plan.members.iter().map(|member| member.address.clone()).collect();
        let planned = Planned(plan);
        for address in members {
            let options = options_of(&planned, &address);
            prop_assert_eq!(&options.users[0][1], &world.login);
            prop_assert_eq!(&options.users[0][0], user.as_deref().unwrap_or("admin"));
            prop_assert_eq!(&options.listen, &vec![address.clone()]);
            prop_assert_eq!(&options.cassandra.hosts, &world.cassandra);
            prop_assert_eq!(options.analytics.is_none(), world.analytics.is_empty());
            prop_assert_eq!(planned.file("redis-password"), world.redis_password.as_str());
            let host = launch_of(&planned, "webuiweb", &address).relay.unwrap().host;
            prop_assert!(host == address || !world.redis.contains(&address) && host == world.redis[0]);
        }
    }
}
