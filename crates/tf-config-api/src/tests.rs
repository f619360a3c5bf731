//! Decisions against a model of the API: what is wanted comes true, once, and nobody else's is touched.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{
    call::Call,
    decide::{Decision, Scope, Seen, Wanted, Within, decide},
    mark::Owner,
    record::{FqName, Ownership, Property, Record, Reference, Setting},
    types::{self, BGP_ROUTER, GLOBAL_SYSTEM_CONFIG, SUB_CLUSTER},
};

fn owner(name: &str) -> Owner {
    Owner { kind: "Control".into(), namespace: "tf".into(), name: name.into(), uid: format!("uid-{name}") }
}

/// Control nodes by the last byte of their addresses, in a sub-cluster, referred to by everybody's settings.
fn wanted(name: &str, asn: Setting, nodes: &[u8]) -> Wanted {
    let routers = nodes.iter().map(|node| Record {
        kind: BGP_ROUTER,
        name: types::bgp_router(&format!("n{node}")),
        ownership: Ownership::Ours,
        properties: BTreeMap::from([(
            "bgp_router_parameters",
            Property::Fields(BTreeMap::from([
                ("address", Setting::stated(format!("10.0.0.{node}"))),
                ("autonomous_system", asn.clone()),
                ("vendor", Setting::usual("contrail")),
            ])),
        )]),
        references: vec![Reference { kind: SUB_CLUSTER, to: vec!["edge".into()], relaxed: false }],
    });
    let cluster = Record {
        kind: SUB_CLUSTER,
        name: vec!["edge".into()],
        ownership: Ownership::Ours,
        properties: BTreeMap::from([("sub_cluster_asn", Property::Whole(asn.clone()))]),
        references: Vec::new(),
    };
    let system = Record {
        kind: GLOBAL_SYSTEM_CONFIG,
        name: types::system(),
        ownership: Ownership::Shared,
        properties: BTreeMap::new(),
        references: (nodes.iter())
            .map(|node| Reference { kind: BGP_ROUTER, to: types::bgp_router(&format!("n{node}")), relaxed: true })
            .collect(),
    };
    let scope = |kind, within, refers: &[_], may_stay| Scope { kind, within, refers: refers.to_vec(), may_stay };
    Wanted {
        owner: owner(name),
        scopes: vec![
            scope(SUB_CLUSTER, Within::Anything, &[], true),
            scope(BGP_ROUTER, Within::Object(types::fabric_instance()), &[SUB_CLUSTER, BGP_ROUTER], false),
            scope(GLOBAL_SYSTEM_CONFIG, Within::Anything, &[BGP_ROUTER], false),
        ],
        records: [cluster].into_iter().chain(routers).chain([system]).collect(),
        kept: BTreeSet::new(),
    }
}

/// The API as far as decisions know it, with what its schema asks for.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    objects: Vec<Seen>,
    made: usize,
    relaxed: BTreeSet<(String, String)>,
}

impl Model {
    fn new() -> Self {
        let system = Seen {
            kind: GLOBAL_SYSTEM_CONFIG,
            uuid: "system".into(),
            name: types::system(),
            properties: Map::from_iter([("autonomous_system".to_owned(), json!(64512))]),
        };
        Self { objects: vec![system], made: 0, relaxed: BTreeSet::new() }
    }

    fn with_foreign(mut self, node: &str, address: &str) -> Self {
        let properties = json!({"bgp_router_parameters": {"address": address}});
        let Value::Object(properties) = properties else { return self };
        let (kind, name) = (BGP_ROUTER, types::bgp_router(node));
        self.objects.push(Seen { kind, uuid: format!("foreign-{node}"), name, properties });
        self
    }

    fn at(&mut self, uuid: &str) -> &mut Seen {
        self.objects.iter_mut().find(|seen| seen.uuid == uuid).expect("an object")
    }

    fn router(&self, node: &str) -> Option<&Seen> {
        self.objects.iter().find(|seen| seen.name == types::bgp_router(node))
    }

    fn apply(&mut self, call: &Call) {
        match call {
            Call::Create { kind, name, body } => {
                assert!(!self.objects.iter().any(|seen| seen.kind == *kind && seen.name == *name), "made twice");
                self.made += 1;
                let mut properties = body.clone();
                properties.remove("fq_name");
                let uuid = format!("made-{}", self.made);
                self.objects.push(Seen { kind: *kind, uuid, name: name.clone(), properties });
            }
            Call::Update { uuid, body, .. } => self.at(uuid).properties.extend(body.clone()),
            Call::Refer { uuid, to_kind, to, adds, .. } => {
                assert!(self.objects.iter().any(|seen| seen.kind == *to_kind && seen.name == *to), "unknown {to:?}");
                let list = self.at(uuid).properties.entry(to_kind.references()).or_insert_with(|| json!([]));
                let list = list.as_array_mut().expect("a list");
                list.retain(|reference| reference["to"] != json!(to));
                if *adds {
                    list.push(json!({"to": to, "attr": null}));
                }
            }
            Call::Relax { holder, uuid, .. } => {
                self.relaxed.insert((holder.clone(), uuid.clone()));
            }
            Call::Delete { kind, name, uuid, may_stay } => {
                let refers = |seen: &Seen| {
                    let list = seen.properties.get(&kind.references()).and_then(Value::as_array);
                    list.into_iter().flatten().any(|reference| reference["to"] == json!(name))
                };
                let holders: Vec<String> =
                    self.objects.iter().filter(|seen| refers(seen)).map(|seen| seen.uuid.clone()).collect();
                let is_relaxed = |holder: &String| self.relaxed.contains(&(holder.clone(), uuid.clone()));
                if *may_stay && !holders.iter().all(is_relaxed) {
                    return;
                }
                assert!(holders.iter().all(is_relaxed), "409: {holders:?}");
                self.objects.retain(|seen| seen.uuid != *uuid);
                for holder in holders {
                    let list = self.at(&holder).properties.get_mut(&kind.references()).and_then(Value::as_array_mut);
                    list.expect("a list").retain(|reference| reference["to"] != json!(name));
                }
            }
        }
    }

    /// Decides and applies until nothing is left to do. `limit`: so many calls, and then it is as if somebody were killed.
    fn carry_out(&mut self, wanted: &Wanted, limit: usize) -> usize {
        let mut applied = 0;
        for _ in 0..5 {
            let calls: Vec<Call> = decide(wanted, &self.objects).waves.into_iter().flatten().collect();
            if calls.is_empty() {
                return applied;
            }
            for call in calls {
                if applied == limit {
                    return applied;
                }
                self.apply(&call);
                applied += 1;
            }
        }
        panic!("it has no end: {:?}", decide(wanted, &self.objects));
    }
}

const ALL: usize = usize::MAX;

#[test]
fn nodes_are_registered_and_those_that_left_are_not_any_more() {
    let mut model = Model::new();
    // A sub-cluster, two routers, and a reference to each that does not hold it.
    assert_eq!(model.carry_out(&wanted("a", Setting::usual(64512), &[1, 2]), ALL), 3 + 2 + 2 + 2);
    let system = model.at("system");
    assert_eq!(system.properties["bgp_router_refs"].as_array().map(Vec::len), Some(2));
    assert!(!system.properties.contains_key("annotations"), "what says nothing leaves no mark");
    model.carry_out(&wanted("a", Setting::usual(64512), &[2]), ALL);
    assert!(model.router("n1").is_none() && model.router("n2").is_some());
    model.carry_out(&wanted("a", Setting::usual(64512), &[]).nothing(), ALL);
    let before = Model::new();
    assert_eq!(model.objects.len(), before.objects.len(), "{:?}", model.objects);
}

#[test]
fn one_whose_node_still_serves_is_kept() {
    let mut model = Model::new();
    model.carry_out(&wanted("a", Setting::usual(64512), &[1, 2]), ALL);
    let mut less = wanted("a", Setting::usual(64512), &[2]);
    less.kept.insert(types::bgp_router("n1"));
    assert!(decide(&less, &model.objects).waves.is_empty());
}

#[test]
fn another_ones_object_that_differs_is_told_of_and_left_alone() {
    let mut model = Model::new().with_foreign("n1", "10.0.0.9").with_foreign("n2", "10.0.0.2");
    let foreign: Vec<Seen> = model.objects.iter().filter(|seen| seen.kind == BGP_ROUTER).cloned().collect();
    let wanted = wanted("a", Setting::usual(64512), &[1, 2, 3]);
    model.carry_out(&wanted, ALL);
    let decision = decide(&wanted, &model.objects);
    assert_eq!(
        decision.troubles,
        ["bgp-router default-domain:default-project:ip-fabric:__default__:n1 was not made by this operator, and its \
             bgp_router_parameters.address is \"10.0.0.9\" where \"10.0.0.1\" is wanted; it is left alone: correct or delete it in \
             the config API"]
    );
    assert_eq!(decision.missing, 1);
    assert!(foreign.iter().all(|seen| model.objects.contains(seen)), "{:?}", model.objects);
}

/// Where vRouters and their interfaces are.
fn vrouters() -> Vec<Scope> {
    let scope = |kind, within| Scope { kind, within, refers: Vec::new(), may_stay: true };
    vec![
        scope(types::VIRTUAL_ROUTER, Within::Object(types::system())),
        scope(types::VIRTUAL_MACHINE_INTERFACE, Within::Ours(types::VIRTUAL_ROUTER)),
    ]
}

#[test]
fn nothing_is_made_in_somebody_elses_that_contradicts() {
    let router = |name: FqName, kind| Record {
        kind,
        name,
        ownership: Ownership::Ours,
        properties: BTreeMap::from([("virtual_router_ip_address", Property::Whole(Setting::stated("10.0.0.1")))]),
        references: Vec::new(),
    };
    let interface = [types::in_system("n1"), vec!["vhost0".into()]].concat();
    let records = vec![
        router(types::in_system("n1"), types::VIRTUAL_ROUTER),
        router(interface, types::VIRTUAL_MACHINE_INTERFACE),
    ];
    let wanted = Wanted { owner: owner("a"), scopes: vrouters(), records, ..Wanted::default() };
    let seen = |address: &str| Seen {
        kind: types::VIRTUAL_ROUTER,
        uuid: "foreign".into(),
        name: types::in_system("n1"),
        properties: Map::from_iter([("virtual_router_ip_address".to_owned(), json!(address))]),
    };
    let decision = decide(&wanted, &[seen("10.0.0.9")]);
    assert!(decision.waves.is_empty() && decision.troubles.len() == 1 && decision.missing == 2, "{decision:?}");
    assert_eq!(decide(&wanted, &[seen("10.0.0.1")]).waves.concat().len(), 1, "it will do, and lacks the interface");
}

#[test]
fn what_is_taken_only_at_first_is_not_changed_but_told_of() {
    let wanted = |kind: &str| Wanted {
        owner: owner("a"),
        scopes: vrouters(),
        records: vec![Record {
            kind: types::VIRTUAL_ROUTER,
            name: types::in_system("n1"),
            ownership: Ownership::Ours,
            properties: BTreeMap::from([(
                "virtual_router_type",
                Property::Initial { value: json!(kind), absent: json!("embedded") },
            )]),
            references: Vec::new(),
        }],
        ..Wanted::default()
    };
    let mut model = Model::new();
    model.carry_out(&wanted("tor-service-node"), ALL);
    assert_eq!(model.at("made-1").properties["virtual_router_type"], "tor-service-node");
    assert_eq!(decide(&wanted("tor-service-node"), &model.objects), Decision::default());
    let changed = decide(&wanted("embedded"), &model.objects);
    assert!(changed.waves.is_empty() && changed.troubles[0].contains("delete it in the config API"), "{changed:?}");
    let mut model = Model::new();
    model.carry_out(&wanted("embedded"), ALL);
    assert!(model.at("made-1").properties.get("virtual_router_type").is_none());
    assert_eq!(decide(&wanted("embedded"), &model.objects), Decision::default());
}

#[test]
fn children_are_listed_of_what_is_ours_or_wanted_alone() {
    let mut wanted = wanted("a", Setting::usual(64512), &[1, 2]);
    let mut model = Model::new().with_foreign("n2", "10.0.0.2").with_foreign("n9", "10.0.0.9");
    let scope = Scope {
        kind: types::VIRTUAL_MACHINE_INTERFACE,
        within: Within::Ours(BGP_ROUTER),
        refers: vec![types::VIRTUAL_NETWORK],
        may_stay: true,
    };
    assert_eq!(wanted.listing(&scope, &[]), None);
    model.carry_out(&wanted, ALL);
    let ours = model.router("n1").unwrap().uuid.clone();
    let request = wanted.listing(&scope, &model.objects).unwrap();
    assert_eq!((request.method, request.path.as_str()), ("POST", "/list-bulk-collection"));
    let parents = request.body.unwrap()["parent_id"].as_str().unwrap().to_owned();
    assert_eq!(parents.split(',').collect::<BTreeSet<_>>(), ["foreign-n2", &ours].into());
    wanted.records.clear();
    let parents = wanted.listing(&scope, &model.objects).unwrap().body.unwrap()["parent_id"].clone();
    assert_eq!(parents, json!(ours), "what is to be deleted is ours");
}

#[test]
fn less_is_covered_as_long_as_what_is_left_out_is_kept() {
    let all = wanted("a", Setting::usual(64512), &[1, 2]);
    let mut less = all.clone();
    less.records.retain(|record| record.name != types::bgp_router("n2"));
    assert!(all.is_covered_by(&all) && !less.is_covered_by(&all), "it is to be deleted");
    assert!(!all.is_covered_by(&less), "it is to be made");
    less.kept.insert(types::bgp_router("n2"));
    assert!(less.is_covered_by(&all));
    let other = wanted("a", Setting::usual(64513), &[1, 2]);
    assert!(!other.is_covered_by(&all) && !all.clone().nothing().is_covered_by(&all));
}

#[test]
fn two_resources_share_a_sub_cluster_and_the_last_one_leaves_it_to_nobody() {
    let mut model = Model::new();
    let (first, second) = (wanted("a", Setting::stated(65001), &[1]), wanted("b", Setting::stated(65001), &[2]));
    model.carry_out(&first, ALL);
    model.carry_out(&second, ALL);
    let clusters = |model: &Model| model.objects.iter().filter(|seen| seen.kind == SUB_CLUSTER).count();
    assert_eq!(clusters(&model), 1);
    // It was made for the first, and the second still refers to it.
    let calls = decide(&first.clone().nothing(), &model.objects).waves.concat();
    assert!(calls.iter().any(|call| matches!(call, Call::Delete { may_stay: true, .. })), "{calls:?}");
    assert!(model.router("n2").is_some() && clusters(&model) == 1);
}

#[test]
fn a_resource_of_the_same_name_takes_over_what_the_former_one_left() {
    let mut model = Model::new();
    model.carry_out(&wanted("a", Setting::usual(64512), &[1]), ALL);
    let mut again = wanted("a", Setting::usual(64512), &[1, 2]);
    again.owner.uid = "uid-of-the-next".into();
    model.carry_out(&again, ALL);
    let text = model.router("n1").unwrap().properties["annotations"].to_string();
    assert!(text.contains("uid-of-the-next") && !text.contains("uid-a"), "{text}");
}

/// What a person may do to an object.
fn change() -> impl Strategy<Value = (bool, u32, Option<u32>)> {
    (any::<bool>(), 1..5_u32, proptest::option::of(1..4_u32))
}

fn nodes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::btree_set(1..6_u8, 0..5).prop_map(|set| set.into_iter().collect())
}

proptest! {
    /// After its calls a decision is empty, wherever somebody stopped before, and what is not ours is as it was.
    #[test]
    fn decisions_come_to_an_end_and_touch_nobody_elses(
        first in nodes(), second in nodes(), foreign in nodes(), limit in 0..20_usize, stated in any::<bool>(),
    ) {
        let setting = |asn: u32| if stated { Setting::stated(asn) } else { Setting::usual(asn) };
        let mut model = Model::new();
        for node in &foreign {
            model = model.with_foreign(&format!("n{node}"), "10.9.9.9");
        }
        let before: Vec<Seen> = model.objects.iter().filter(|seen| seen.kind == BGP_ROUTER).cloned().collect();
        model.carry_out(&wanted("a", setting(64512), &first), limit);
        model.carry_out(&wanted("a", setting(64513), &second), limit);
        let last = wanted("a", setting(64513), &second);
        model.carry_out(&last, ALL);
        prop_assert!(decide(&last, &model.objects).waves.is_empty());
        for seen in &before {
            prop_assert!(model.objects.contains(seen));
        }
        let ours: Vec<FqName> = model.objects.iter().filter(|seen| seen.kind == BGP_ROUTER && !before.contains(seen))
            .map(|seen| seen.name.clone()).collect();
        let expected: BTreeSet<FqName> =
            second.iter().filter(|node| !foreign.contains(node)).map(|node| types::bgp_router(&format!("n{node}"))).collect();
        prop_assert_eq!(ours.into_iter().collect::<BTreeSet<_>>(), expected);
        model.carry_out(&last.nothing(), ALL);
        prop_assert!(model.objects.iter().all(|seen| seen.uuid == "system" || before.contains(seen)));
    }

    /// A property that a person changed stays unless the spec states it, or says something else from then on.
    #[test]
    fn what_a_person_changed_is_kept((stated, asn, next) in change()) {
        let setting = |asn: u32| if stated { Setting::stated(asn) } else { Setting::usual(asn) };
        let mut model = Model::new();
        model.carry_out(&wanted("a", setting(1), &[1]), ALL);
        let uuid = model.router("n1").unwrap().uuid.clone();
        let parameters = &mut model.at(&uuid).properties["bgp_router_parameters"];
        parameters["autonomous_system"] = json!(asn);
        parameters["mine"] = json!("kept");
        let spec = next.unwrap_or(1);
        model.carry_out(&wanted("a", setting(spec), &[1]), ALL);
        let after = &model.router("n1").unwrap().properties["bgp_router_parameters"];
        let expected = if stated || spec != 1 { spec } else { asn };
        prop_assert_eq!(&after["autonomous_system"], &json!(expected));
        prop_assert_eq!(&after["mine"], &json!("kept"));
    }
}
