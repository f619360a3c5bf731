//! In a cluster in machines of another one: services of an authority that the namespace's own knows nothing of.

#![expect(clippy::unwrap_used, reason = "a situation that cannot be made is a failing test")]

use std::{collections::BTreeMap, path::Path};

use crate::support::initialized;
use kubemanager_op::Component;
use tf_agent_api::launch::{Launch, OnChange};
use tf_api::{
    Kubemanager,
    contract::{ConditionType, Reason},
};
use tf_config_files::read;
use tf_plan::{component::Component as _, external_tls, object::SECRET, observed::Observed, secret::SecretData};
use tf_sim::kubernetes::options::Options;
use tf_testing::{
    golden,
    operators::repository,
    situation::{Planned, foreign as another},
};

const SITUATION: &str = "nested-in-another-cluster";

fn situation() -> (Kubemanager, Observed<Kubemanager>) {
    golden::situation::<Component>(env!("CARGO_MANIFEST_DIR"), SITUATION)
}

fn planned(cr: &Kubemanager, observed: &Observed<Kubemanager>) -> Planned {
    Planned(Component::plan(cr, observed).unwrap())
}

fn is(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|it| it == extension)
}

fn names(launch: &Launch) -> BTreeMap<&str, OnChange> {
    let foreign = launch.files.iter().filter(|(name, _)| is(name, "crt") || is(name, "key"));
    foreign.map(|(name, what)| (name.as_str(), *what)).collect()
}

#[test]
fn the_example_is_what_is_recorded() {
    let example: Kubemanager = golden::parse(&repository().join("examples/kubemanager-nested.yaml"));
    assert_eq!(example.spec, situation().0.spec);
}

#[test]
fn a_daemon_that_is_played_strictly_goes_by_the_authorities_of_the_other_cluster() {
    let (cr, observed) = situation();
    let planned = planned(&cr, &observed);
    let options = Options::read(&planned.file("contrail-kubernetes.conf.10.0.0.1")).unwrap();
    let path = |file: &str| std::path::PathBuf::from(format!("/etc/contrail/{file}"));
    assert_eq!(options.cassandra.authorities, Some(path("cassandra-ca.crt")));
    let bus = options.rabbitmq.tls.unwrap();
    assert_eq!(bus.authorities, Some(path("rabbitmq-ca.crt")));
    let (collectors, authorities) = options.collector_tls.unwrap();
    assert_eq!(authorities, path("analytics-ca.crt"));
    for (shown, service) in [(bus.pair.unwrap(), "rabbitmq"), (collectors, "analytics")] {
        let pair = (path(&format!("{service}-client.crt")), path(&format!("{service}-client.key")));
        assert_eq!((shown.certificate, shown.key), pair);
    }
    // Introspection is of this cluster.
    assert_eq!(options.introspect_pair.unwrap().certificate, path("").join(tf_agent_api::node::CERTIFICATE));
    let library = read::python(&planned.file("vnc_api_lib.ini")).unwrap();
    assert_eq!(library["global"]["cafile"], "/etc/contrail/config-ca.crt");
}

#[test]
fn each_file_is_that_of_its_secret_and_the_daemon_starts_anew_for_another_one() {
    let (cr, mut observed) = situation();
    let cr = initialized(&cr);
    let before = planned(&cr, &observed);
    let launch = before.launch("kubemanager.launch");
    let expected = [
        "analytics-ca.crt",
        "analytics-client.crt",
        "analytics-client.key",
        "cassandra-ca.crt",
        "config-ca.crt",
        "rabbitmq-ca.crt",
        "rabbitmq-client.crt",
        "rabbitmq-client.key",
    ];
    assert_eq!(names(&launch), expected.map(|name| (name, OnChange::Restart)).into());
    for name in expected {
        assert_eq!(before.secret().contains_key(name), is(name, "key"), "{name}");
        assert_eq!(before.open().contains_key(name), is(name, "crt"), "{name}");
    }
    let secret = another();
    observed.secrets.insert("outer-analytics".into(), secret.clone().into_iter().collect());
    let after = planned(&cr, &observed);
    let changed = before.0.objects.iter().zip(&after.0.objects).filter(|(before, after)| before != after);
    let names: Vec<_> = changed.map(|(object, _)| object.name.as_str()).collect();
    assert_eq!(names, ["kubemanager1-kubemanager-files", "kubemanager1-kubemanager-secret-files"]);
    assert_eq!(after.secret()["analytics-client.key"], secret["tls.key"]);
    assert!(
        after.0.objects.iter().filter(|it| it.kind != SECRET).all(|it| !it.body.to_string().contains("PRIVATE KEY"))
    );
}

#[test]
fn what_is_no_certificate_is_told_and_changes_nothing() {
    let (cr, observed) = situation();
    for (secret, condition) in
        [("outer-config", ConditionType::ConfigApiReady), ("outer-analytics", ConditionType::CollectorReady)]
    {
        let mut observed = observed.clone();
        let spoilt: SecretData = [(external_tls::CA.to_owned(), "MIIB".to_owned())].into_iter().collect();
        observed.secrets.insert(secret.into(), spoilt);
        let waiting = Component::plan(&initialized(&cr), &observed).unwrap_err();
        assert_eq!(waiting.reason, Reason::SecretInvalid);
        let told = waiting.drafts.iter().find(|draft| draft.kind == condition).unwrap();
        let (is_true, message) = (told.is_true(), &told.message);
        assert!(!is_true && message.contains(&format!("Secret {secret} of the external")), "{message}");
        observed.secrets.remove(secret);
        assert_eq!(Component::plan(&cr, &observed).unwrap_err().reason, Reason::SecretNotFound, "{secret}");
    }
}

#[test]
fn a_pair_for_who_is_shown_none_is_told() {
    let (cr, mut observed) = situation();
    assert_eq!(planned(&cr, &observed).0.ignored, [] as [String; 0]);
    observed.secrets.insert("outer-config".into(), another().into_iter().collect());
    let plan = planned(&cr, &observed);
    let told: Vec<_> = plan.0.ignored.iter().map(|line| line.split(": ").next().unwrap()).collect();
    let expected = ["cassandra", "config"].map(|it| format!("spec.dependencies.{it}.external.secretRef"));
    assert_eq!(told, expected);
    assert!(!plan.files().contains_key("config-client.crt"));
}
