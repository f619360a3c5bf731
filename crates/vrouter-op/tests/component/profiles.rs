//! VrouterProfiles: which parameters count on the nodes of a group, and where they are stated.

use serde_json::{Value, json};
use tf_api::{Vrouter, contract::ConditionType};
use tf_plan::{
    not_ready::{NotReady, Obstacle},
    object::{CONFIG_MAP, DAEMON_SET, SECRET},
    observed::{Node, Observed, Pod, Source, Spec},
    plan::Plan,
};

use crate::world::{files, observed, plan, vrouter};

fn with(profiles: &Value) -> Observed<Vrouter> {
    let specs = profiles.as_object().expect("profiles").iter();
    let specs = specs.map(|(name, spec)| (name.clone(), Spec::new(spec.clone()))).collect();
    Observed { specs: [("VrouterProfile".to_owned(), Source::Known(specs))].into(), ..observed() }
}

/// Groups a and b, of which a has profiles and further fields.
fn groups(profiles: &[&str], own: Value) -> Value {
    let mut first = json!({"name": "a", "nodeSelector": {"tier": "a"}, "profiles": profiles});
    for (key, value) in own.as_object().expect("fields") {
        first[key] = value.clone();
    }
    json!({"groups": [first, {"name": "b", "nodeSelector": {"tier": "b"}}]})
}

fn planned(spec: Value, profiles: &Value) -> Plan {
    plan(&vrouter(spec), &with(profiles)).expect("a plan")
}

fn refused(profiles: &[&str], specs: &Value) -> NotReady {
    plan(&vrouter(groups(profiles, json!({}))), &with(specs)).expect_err("it is refused")
}

/// A node of each group with an agent: n1 of a, n2 of b.
fn with_agents(seen: &mut Observed<Vrouter>) {
    let node = |name: &str, tier: &str, address: &str| Node {
        name: name.into(),
        address: Some(address.into()),
        labels: [("tier".to_owned(), tier.to_owned())].into(),
        ..Node::default()
    };
    seen.nodes = Source::Known(vec![node("n1", "a", "10.0.0.1"), node("n2", "b", "10.0.0.2")]);
    let pod = |name: &str, node: &str| Pod {
        name: name.into(),
        uid: name.into(),
        node: Some(node.into()),
        ready: true,
        ..Pod::default()
    };
    seen.pods =
        Source::Known(vec![pod("vrouter1-a-vrouter-daemonset-x", "n1"), pod("vrouter1-b-vrouter-daemonset-y", "n2")]);
}

/// What counts on nodes of group a.
fn listed(plan: &Plan) -> Vec<String> {
    let map = plan.objects.iter().find(|it| it.kind == CONFIG_MAP && it.name.ends_with("-parameters")).expect("a list");
    let text = map.body["data"]["a"].as_str().expect("group a");
    text.lines().map(str::to_owned).collect()
}

fn line<'a>(lines: &'a [String], name: &str) -> &'a str {
    let found = lines.iter().find(|line| line.split(['=', ' ']).next() == Some(name));
    assert!(found.is_some(), "no {name} in {lines:#?}");
    found.map(String::as_str).unwrap_or_default()
}

#[test]
fn a_later_profile_wins_and_profiles_win_over_the_spec_of_the_vrouter() {
    let profiles = json!({
        "first": {"kernelMode": {"moreConfig": {"SUBCLUSTER": "one", "VROUTER_AGENT__DEFAULT__mtu": "1400"}}},
        "second": {"other": {"moreConfig": {"SUBCLUSTER": "two"}}},
    });
    let mut spec = groups(&["first", "second"], json!({}));
    spec["serviceConfiguration"] = json!({"subcluster": "field", "envVariablesConfig": {"SUBCLUSTER": "variable"}});
    let plan = planned(spec, &profiles);
    let lines = listed(&plan);
    assert_eq!(line(&lines, "SUBCLUSTER"), "SUBCLUSTER  # VrouterProfile second: other.moreConfig[SUBCLUSTER]");
    let option =
        "VROUTER_AGENT__DEFAULT__mtu  # VrouterProfile first: kernelMode.moreConfig[VROUTER_AGENT__DEFAULT__mtu]";
    assert_eq!(line(&lines, "VROUTER_AGENT__DEFAULT__mtu"), option);
    let file = |group: &str| {
        let secrets = plan.objects.iter().filter(|it| it.kind == SECRET && it.name.contains(&format!("-{group}-")));
        let part = Plan { objects: secrets.cloned().collect(), ..Plan::default() };
        files(&part)["contrail-vrouter-agent.conf.node"].clone()
    };
    assert!(file("a").contains("subcluster_name = two") && file("a").contains("mtu = 1400"), "{}", file("a"));
    assert!(file("b").contains("subcluster_name = variable") && !file("b").contains("1400"), "{}", file("b"));
}

#[test]
fn the_gateway_of_a_group_wins_over_profiles_unless_the_group_says_otherwise() {
    let profiles = json!({"p": {"other": {"moreConfig": {"VROUTER_GATEWAY": "10.0.0.1"}}}});
    let of = |own| planned(groups(&["p"], own), &profiles);
    let alone = of(json!({}));
    assert_eq!(
        line(&listed(&alone), "VROUTER_GATEWAY"),
        "VROUTER_GATEWAY  # VrouterProfile p: other.moreConfig[VROUTER_GATEWAY]"
    );
    let own = of(json!({"vrouterGateway": "10.0.0.2"}));
    assert_eq!(line(&listed(&own), "VROUTER_GATEWAY"), "VROUTER_GATEWAY=10.0.0.2  # spec.groups[a].vrouterGateway");
    let overridden = of(json!({"vrouterGateway": "10.0.0.2", "override": true}));
    assert!(line(&listed(&overridden), "VROUTER_GATEWAY").contains("VrouterProfile p"));
    let said = "spec.groups[a].vrouterGateway: VrouterProfile p: other.moreConfig[VROUTER_GATEWAY] wins";
    assert!(overridden.ignored.iter().any(|it| it == said), "{:?}", overridden.ignored);
}

#[test]
fn a_changed_profile_changes_the_groups_that_name_it_and_no_other_one() {
    let of = |directory: &str| {
        let profiles =
            json!({"p": {"other": {"moreConfig": {"LOG_DIR": directory, "VROUTER_MODULE_OPTIONS": "vr_vrfs=8192"}}}});
        let sets = planned(groups(&["p"], json!({})), &profiles).objects;
        sets.into_iter().filter(|it| it.kind == DAEMON_SET).map(|it| it.body.to_string()).collect::<Vec<_>>()
    };
    let (one, two) = (of("/var/log/one"), of("/var/log/two"));
    assert!(one[0] != two[0] && one[1] == two[1]);
    assert!(one[0].contains("/var/log/one") && one[0].contains("vrouter1-a") && !one[1].contains("vr_vrfs"));
}

#[test]
fn mappings_of_several_profiles_are_merged_by_their_interfaces_and_registered_for_the_group_alone() {
    let mapping = |interface: &str, network: &str| json!({"physicalInterface": interface, "physicalNetwork": network});
    let profiles = json!({
        "base": {"sriov": {"numberOfVfs": 4, "virtualFunctionMappings": [mapping("ens1", "red"), mapping("ens2", "blue")]}},
        "more": {"sriov": {"numberOfVfs": 8, "virtualFunctionMappings": [mapping("ens2", "green")]}},
    });
    let mut seen = with(&profiles);
    with_agents(&mut seen);
    let plan = plan(&vrouter(groups(&["base", "more"], json!({}))), &seen).expect("a plan");
    let lines = listed(&plan);
    let path = "# VrouterProfile base, more: sriov.virtualFunctionMappings";
    assert_eq!(line(&lines, "SRIOV_PHYSICAL_INTERFACE"), format!("SRIOV_PHYSICAL_INTERFACE=ens1,ens2  {path}"));
    assert_eq!(line(&lines, "SRIOV_PHYSICAL_NETWORK"), format!("SRIOV_PHYSICAL_NETWORK=red,green  {path}"));
    assert_eq!(line(&lines, "SRIOV_VF"), format!("SRIOV_VF=4,8  {path}"));
    let records = plan.registration.expect("a registration").wanted.records;
    let networks = |node: &str| {
        let record = records.iter().find(|it| it.name.last().is_some_and(|name| name == node)).expect("a router");
        format!("{:?}", record.properties["virtual_router_sriov_physical_networks"])
    };
    assert!(networks("n1").contains("green") && !networks("n1").contains("blue"), "{}", networks("n1"));
    assert!(!networks("n2").contains("green"), "{}", networks("n2"));
}

#[test]
fn another_argument_or_variable_of_a_forwarder_is_another_pod_and_restarts_none_that_stays() {
    let set = |dpdk: Value| {
        let mut spec = groups(&["fast"], json!({}));
        spec["serviceConfiguration"] = json!({"physicalInterface": "ens1"});
        let mut seen = with(&json!({"fast": {"dpdk": dpdk}}));
        with_agents(&mut seen);
        let plan = plan(&vrouter(spec), &seen).expect("a plan");
        let template = plan.rollout.as_ref().expect("workloads").workloads[0].1.clone();
        let launch = files(&plan)["vrouteragentdpdk.launch"].clone();
        (template, launch)
    };
    let (template, launch) = set(json!({"coreMask": "0x3c", "hugePages1G": 4}));
    assert!(launch.contains("\"runsOn\": true"), "{launch}");
    for other in [
        json!({"coreMask": "0x3e", "hugePages1G": 4}),
        json!({"coreMask": "0x3c", "hugePages1G": 4, "moreConfig": {"DPDK_COMMAND_ADDITIONAL_ARGS": "--vr_mpls_labels 5120"}}),
    ] {
        assert_ne!(set(other.clone()).0, template, "{other}");
    }
}

#[test]
fn a_group_of_the_dpdk_mode_has_a_forwarder_and_the_others_have_the_kernel() {
    let profiles = json!({"fast": {"dpdk": {
        "coreMask": "0x3c", "cpuPinning": "2-3", "hugePages1G": 4,
        "moreConfig": {"DPDK_COMMAND_ADDITIONAL_ARGS": "--vr_mpls_labels 5120", "DPDK_UIO_DRIVER": "uio_pci_generic"},
    }}});
    let mut spec = groups(&["fast"], json!({}));
    spec["serviceConfiguration"] = json!({"vhost0": "Managed", "physicalInterface": "ens1"});
    let mut seen = with(&profiles);
    with_agents(&mut seen);
    let plan = plan(&vrouter(spec), &seen).expect("a plan");
    let sets: Vec<&Value> = plan.objects.iter().filter(|it| it.kind == DAEMON_SET).map(|it| &it.body).collect();
    let pod = |set: usize| &sets[set]["spec"]["template"]["spec"];
    let names = |set: usize, list: &str| -> Vec<String> {
        let containers = pod(set)[list].as_array().expect("containers").iter();
        containers.map(|it| it["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert!(names(0, "containers").contains(&"vrouteragentdpdk".to_owned()), "{:?}", names(0, "containers"));
    assert!(!names(0, "initContainers").iter().any(|it| it == "vhost0" || it.contains("kernel")));
    assert!(!names(1, "containers").contains(&"vrouteragentdpdk".to_owned()));
    assert!(names(1, "initContainers").contains(&"vhost0".to_owned()), "{:?}", names(1, "initContainers"));
    let containers = pod(0)["containers"].as_array().expect("containers");
    let of = |name: &str| containers.iter().find(|it| it["name"] == name).expect("a container");
    assert_eq!(of("vrouteragentdpdk")["resources"]["limits"], json!({"hugepages-1Gi": "4Gi"}));
    assert_eq!(of("vrouteragent")["resources"], json!(null), "the pages are the forwarder's");
    assert_eq!(of("vrouteragentdpdk")["image"].as_str().map(|it| it.contains("vrouter-agent-dpdk")), Some(true));
    let part = |group: &str| {
        let is_of = |it: &&tf_plan::object::Object| it.name.contains(&format!("-{group}-"));
        files(&Plan { objects: plan.objects.iter().filter(is_of).cloned().collect(), ..Plan::default() })
    };
    let launch = &part("a")["vrouteragentdpdk.launch"];
    for argument in ["forward", "--mode=dpdk", "--core-mask=2,3,4,5", "--service-cores=2,3", "--huge-pages-1g=4"] {
        assert!(launch.contains(&format!("\"{argument}\"")), "{argument} is not in {launch}");
    }
    assert!(launch.contains("--dpdk-driver=uio_pci_generic") && !launch.contains("vr_mpls_labels"), "{launch}");
    assert!(part("a")["vrouteragentdpdk.env"].contains("--vr_mpls_labels 5120"));
    let agent = &part("a")["contrail-vrouter-agent.conf.node"];
    assert!(agent.contains("platform = dpdk\nphysical_interface_address = {{node.pciAddresses}}\n"), "{agent}");
    assert!(!agent.contains("huge_page") && !part("b")["contrail-vrouter-agent.conf.node"].contains("platform"));
    let records = plan.registration.expect("a registration").wanted.records;
    let dpdk = |node: &str| {
        let record = records.iter().find(|it| it.name.last().is_some_and(|name| name == node)).expect("a router");
        format!("{:?}", record.properties["virtual_router_dpdk_enabled"])
    };
    assert!(dpdk("n1").contains("true") && dpdk("n2").contains("false"), "{} {}", dpdk("n1"), dpdk("n2"));
}

#[test]
fn a_profile_that_is_not_there_is_named_and_nothing_changes() {
    let why = refused(&["here", "gone"], &json!({"here": {}}));
    assert_eq!(why.obstacle, Obstacle::Waiting);
    assert_eq!(
        why.message,
        "VrouterProfile tf/gone does not exist, and spec.groups[a].profiles names it; create it, or take the name out. Until then nothing \
         changes"
    );
    assert!(why.drafts.iter().any(|draft| draft.kind == ConditionType::InputsReady && !draft.is_true()));
}

#[test]
fn what_a_profile_cannot_state_is_refused_with_its_place_and_without_its_value() {
    let more = |variable: &str| json!({"p": {"other": {"moreConfig": {variable: "mark-1"}}}});
    let mapping = json!([{"physicalInterface": "ens1", "physicalNetwork": "red"}]);
    for (specs, expected) in [
        (
            more("HUGE_PAGE_2MB"),
            "VrouterProfile p: other.moreConfig[HUGE_PAGE_2MB] is no parameter of the vRouter; write HUGE_PAGES_2MB, or",
        ),
        (
            more("key1"),
            "VrouterProfile p: other.moreConfig[key1] is no parameter of the vRouter; write VROUTER_AGENT__SECTION__OPTION",
        ),
        (
            more("AGENT_MODE"),
            "VrouterProfile p: other.moreConfig[AGENT_MODE] states what the fields dpdk and kernelMode are for",
        ),
        (
            more("VROUTER_HOSTNAME"),
            "VrouterProfile p: other.moreConfig[VROUTER_HOSTNAME] is the same for all nodes of a Vrouter",
        ),
        (
            more("KEYSTONE_AUTH_HOST"),
            "VrouterProfile p: other.moreConfig[KEYSTONE_AUTH_HOST] is the same for all nodes",
        ),
        (more("XMPP_SERVER_PORT"), "VrouterProfile p: other.moreConfig[XMPP_SERVER_PORT]: use a port number"),
        (
            json!({"p": {"dpdk": {"coreMask": "2"}}}),
            "VrouterProfile p: dpdk.coreMask: write a mask with 0x, or a list with a comma or a dash",
        ),
        (
            json!({"p": {"dpdk": {"coreMask": "0x3c", "cpuPinning": "2-4"}}}),
            "VrouterProfile p: dpdk.coreMask: two CPUs at least have to be left for forwarding",
        ),
        (
            json!({"p": {"dpdk": {"coreMask": "0x3c", "moreConfig": {"CPU_CORE_MASK": "mark-3"}}}}),
            "VrouterProfile p: dpdk.moreConfig[CPU_CORE_MASK] and dpdk.coreMask state the same; state one of both",
        ),
        (
            json!({"p": {"dpdk": {"moreConfig": {"DPDK_UIO_DRIVER": "mark 4"}}}}),
            "VrouterProfile p: dpdk.moreConfig[DPDK_UIO_DRIVER]: use the name of a driver",
        ),
        (
            json!({"p": {"dpdk": {"moreConfig": {"PHYSICAL_INTERFACE": "mark-5,mark-6"}}}}),
            "VrouterProfile p: dpdk.moreConfig[PHYSICAL_INTERFACE]: the DPDK mode takes one interface",
        ),
        (
            json!({"p": {"dpdk": {"coreMask": 5}}}),
            "VrouterProfile tf/p, which spec.groups[a].profiles names, is not of this release's schema",
        ),
        (
            json!({"p": {"sriov": {"virtualFunctionMappings": mapping, "moreConfig": {"SRIOV_VF": "mark-2"}}}}),
            "VrouterProfile p: sriov.moreConfig[SRIOV_VF] and sriov.virtualFunctionMappings state the same",
        ),
    ] {
        let why = refused(&["p"], &specs);
        assert!(why.message.starts_with(expected), "{}", why.message);
        assert!(!format!("{why:?}").contains("mark-"), "{}", why.message);
    }
    let both = json!({"p": {"dpdk": {"coreMask": "0x3c"}}, "q": {"kernelMode": {}}});
    let why = refused(&["p", "q"], &both).message;
    assert!(why.starts_with("spec.groups[a].profiles: p is for DPDK and q for the kernel"), "{why}");
    let counts = json!({"p": {"sriov": {"virtualFunctionMappings": [
        {"physicalInterface": "ens1", "physicalNetwork": "red", "numberOfVfs": 4},
        {"physicalInterface": "ens2", "physicalNetwork": "blue"},
    ]}}});
    let why = refused(&["p"], &counts).message;
    assert!(why.starts_with("VrouterProfile p: sriov.virtualFunctionMappings[ens2] has no numberOfVfs"), "{why}");
}

#[test]
fn secrets_of_profiles_are_in_secrets_alone() {
    let profiles = json!({"p": {"other": {"moreConfig": {
        "METADATA_PROXY_SECRET": "mark-secret", "VROUTER_MODULE_OPTIONS": "mark-options", "VROUTER_AGENT__DEFAULT__x": "mark-option",
    }}}});
    let plan = planned(groups(&["p"], json!({})), &profiles);
    for object in plan.objects.iter().filter(|object| object.kind != SECRET) {
        assert!(!object.body.to_string().contains("mark-"), "{} holds a secret", object.describe());
    }
    let said = format!("{:?} {:?} {:?} {:?}", plan.ignored, plan.notes, plan.drafts, with(&profiles).specs);
    assert!(!said.contains("mark-"), "{said}");
}
