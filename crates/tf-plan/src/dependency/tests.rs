use serde_json::json;
use tf_api::{contract::NameReference, dependencies::ResourceReference, kinds::ZOOKEEPER};

use super::*;
use crate::{not_ready::Obstacle, observed::Source};

fn dependency(reference: Option<ResourceReference>) -> Dependency {
    Dependency {
        condition: ConditionType::ZookeeperReady,
        kind: Kind::custom(ZOOKEEPER),
        source: Some(DependencySource { reference, ..DependencySource::default() }),
        default_name: "zookeeper1",
        endpoint: "client",
        secret: SecretUse::Nothing,
        logs_in: false,
        need: Need::BringUp,
    }
}

fn reference(namespace: Option<&str>) -> ResourceReference {
    ResourceReference { name: "zk".into(), namespace: namespace.map(str::to_owned) }
}

fn unavailable(reason: Reason) -> Unavailable {
    Unavailable { reason, message: "nobody could look".into() }
}

fn draft(drafts: &[Draft], kind: ConditionType) -> Option<&Draft> {
    drafts.iter().find(|draft| draft.kind == kind)
}

#[test]
fn a_namespace_that_is_not_watched_is_not_one_in_which_nothing_exists() {
    let dependency = dependency(Some(reference(Some("c"))));
    let mut observed = Observed::<()>::default();
    let said = |observed: &Observed<()>| find(&dependency, "tf", observed).draft.message;
    assert_eq!(said(&observed), "Zookeeper c/zk does not exist");
    let message = "namespace c is not watched by this operator".to_owned();
    let why = Unavailable { reason: Reason::DependencyNotFound, message: message.clone() };
    observed.unseen.entry("Zookeeper".into()).or_default().insert("c".into(), why);
    let remedy = "have the operator watch it, or name another source in spec.dependencies";
    assert_eq!(said(&observed), format!("{message}; {remedy}"));
}

/// Nobody needs a kind that is not installed and was not named. About everything else that cannot be seen nothing is concluded, before
/// the first bring-up and after it.
#[test]
fn what_cannot_be_seen_is_waited_for_unless_somebody_remembers_it() {
    use Reason::{ApiError, CrdMissing, DependencyNotFound, Forbidden};
    let references = [None, Some(reference(None)), Some(reference(Some("c")))];
    for need in [Need::BringUp, Need::Optional, Need::Remembered] {
        for reference in &references {
            for reason in [CrdMissing, Forbidden, ApiError, DependencyNotFound] {
                let elsewhere = reference.as_ref().and_then(|reference| reference.namespace.clone());
                let mut observed = Observed::<()>::default();
                match &elsewhere {
                    Some(namespace) => {
                        let unseen = observed.unseen.entry("Zookeeper".into()).or_default();
                        unseen.insert(namespace.clone(), unavailable(reason));
                    }
                    // That a namespace is not watched is not said of one's own.
                    None if reason == DependencyNotFound => continue,
                    None => {
                        let unseen = Source::Unavailable(unavailable(reason));
                        observed.peers.insert("Zookeeper".into(), unseen);
                    }
                }
                let dependency = Dependency { need, ..dependency(reference.clone()) };
                for initialized in [false, true] {
                    let case = format!("{need:?}, {reference:?}, {reason}, {initialized}");
                    let resolved = resolve(std::slice::from_ref(&dependency), "tf", initialized, &observed);
                    let is_moot = reason == CrdMissing && reference.is_none();
                    match (need, resolved) {
                        (Need::BringUp, Err(waiting)) => is_waiting(&waiting, reason, &case),
                        (Need::Optional, Err(waiting)) if !is_moot => is_waiting(&waiting, reason, &case),
                        (Need::Optional, Ok(resolved)) if is_moot => is_moot_in(&resolved, &case),
                        (Need::Remembered, Ok(resolved)) if is_moot => is_moot_in(&resolved, &case),
                        (Need::Remembered, Ok(resolved)) => {
                            let told = draft(&resolved.drafts, ConditionType::ZookeeperReady).unwrap();
                            assert_eq!((told.reason, told.is_true()), (reason, false), "{case}");
                            assert_eq!(draft(&resolved.drafts, ConditionType::DependenciesReady), None, "{case}");
                        }
                        (_, other) => panic!("{case}: {other:?}"),
                    }
                }
            }
        }
    }
}

fn is_waiting(waiting: &NotReady, reason: Reason, case: &str) {
    assert_eq!((waiting.obstacle, waiting.reason), (Obstacle::Waiting, reason), "{case}");
    assert!(waiting.message.starts_with("nobody could look; "), "{case}: {}", waiting.message);
    for kind in [ConditionType::ZookeeperReady, ConditionType::DependenciesReady] {
        let expected = Draft::fails(kind, reason, waiting.message.clone());
        assert_eq!(draft(&waiting.drafts, kind), Some(&expected), "{case}");
    }
}

fn is_moot_in(resolved: &Resolved, case: &str) {
    let expected = Draft::unknown(ConditionType::ZookeeperReady, Reason::NotRequested, "nobody could look");
    assert_eq!(resolved.drafts, [expected], "{case}");
    assert!(resolved.connection(ConditionType::ZookeeperReady).is_none(), "{case}");
}

#[test]
fn one_whose_credentials_are_away_is_there() {
    let peer = json!({
        "namespace": "tf", "name": "zk", "generation": 1,
        "status": {
            "contract": CONTRACT, "observedGeneration": 1, "connectionSecretRef": {"name": "login"},
            "endpoints": [{"name": "client", "protocol": "TCP", "port": 2181, "tls": true, "nodes": ["10.0.0.1"]}],
        },
    });
    let peers = Source::Known(vec![serde_json::from_value::<Peer>(peer).unwrap()]);
    let mut observed = Observed::<()> { peers: [("Zookeeper".into(), peers)].into(), ..Observed::default() };
    let used = Dependency { logs_in: true, need: Need::Optional, ..dependency(None) };
    let resolved = |observed: &Observed<()>| resolve(std::slice::from_ref(&used), "tf", true, observed);
    assert!(resolved(&observed).is_err());
    observed.secrets.insert("login".into(), SecretData::default());
    assert!(resolved(&observed).unwrap().connection(ConditionType::ZookeeperReady).is_some());
    observed.peers.insert("Zookeeper".into(), Source::Known(Vec::new()));
    assert!(resolved(&observed).unwrap().connection(ConditionType::ZookeeperReady).is_none(), "it is gone");
}

#[test]
fn who_lacks_the_endpoint_is_told_by_those_it_has() {
    let peer = json!({
        "namespace": "tf", "name": "zk", "generation": 1,
        "status": {
            "contract": CONTRACT, "observedGeneration": 1,
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Succeeded", "message": "",
                "lastTransitionTime": "2026-11-21T10:00:00Z",
            }],
            "endpoints": [{"name": "client-tls", "protocol": "TCP", "port": 2281, "tls": true, "nodes": ["10.0.0.1"]}],
        },
    });
    let peers = Source::Known(vec![serde_json::from_value::<Peer>(peer).unwrap()]);
    let observed = Observed::<()> { peers: [("Zookeeper".into(), peers)].into(), ..Observed::default() };
    let Found { draft, connection } = find(&dependency(None), "tf", &observed);
    assert_eq!(draft.message, "Zookeeper tf/zk publishes no endpoint client, only client-tls");
    assert!(!draft.is_true());
    assert_eq!(connection, Err(Lack::Service));
}

/// An external service with a Secret that holds this, used as far as that.
fn external(secret: SecretUse, need: Need, keys: &[(&str, &str)]) -> (Dependency, Observed<()>) {
    let endpoints = vec![Endpoint { name: "client".into(), nodes: vec!["192.0.2.1".into()], ..Endpoint::default() }];
    let secret_ref = Some(NameReference { name: "outer".into() });
    let source =
        DependencySource { external: Some(ExternalService { endpoints, secret_ref }), ..DependencySource::default() };
    let data = keys.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let observed = Observed { secrets: BTreeMap::from([("outer".to_owned(), data)]), ..Observed::default() };
    (Dependency { source: Some(source), secret, need, ..dependency(None) }, observed)
}

#[test]
fn what_a_secret_has_of_no_use_is_an_input_whether_bring_up_needs_the_service_or_not() {
    for need in [Need::BringUp, Need::Optional] {
        let (dependency, mut observed) =
            external(SecretUse::ShowsNothing, need, &[(external_tls::CA, "no certificate")]);
        let why = |observed: &Observed<()>| {
            let waiting = resolve(std::slice::from_ref(&dependency), "tf", true, observed).unwrap_err();
            (waiting.reason, waiting.message)
        };
        let (reason, message) = why(&observed);
        assert_eq!(reason, Reason::SecretInvalid);
        assert!(message.starts_with("Secret outer of the external Zookeeper: key ca.crt is not"), "{message}");
        observed.secrets.clear();
        assert_eq!(why(&observed).0, Reason::SecretNotFound);
    }
}

/// Somebody has named it: what is rendered without it would be rendered with it again, and daemons started anew twice.
#[test]
fn what_the_spec_names_and_is_not_there_is_an_input_whether_bring_up_needs_the_service_or_not() {
    let named = NameReference { name: "map".into() };
    let source = DependencySource { discovery_config_map: Some(named), ..DependencySource::default() };
    for need in [Need::BringUp, Need::Optional, Need::Remembered] {
        let dependency = Dependency { source: Some(source.clone()), need, ..dependency(None) };
        let resolved = |observed: &Observed<()>| resolve(std::slice::from_ref(&dependency), "tf", true, observed);
        let mut observed = Observed::<()>::default();
        assert_eq!(resolved(&observed).unwrap_err().reason, Reason::ConfigMapNotFound, "{need:?}");
        let mut data = BTreeMap::from([("CLIENT_HOSTS".to_owned(), "10.0.0.1".to_owned())]);
        observed.config_maps.insert("map".into(), data.clone());
        assert_eq!(resolved(&observed).unwrap_err().reason, Reason::InvalidSpec, "{need:?}");
        data.insert("CLIENT_PORT".into(), "2181".into());
        observed.config_maps.insert("map".into(), data);
        assert!(resolved(&observed).unwrap().connection(ConditionType::ZookeeperReady).is_some(), "{need:?}");

        let (external, _) = external(SecretUse::Nothing, need, &[]);
        let unnamed = Dependency { endpoint: "other", ..external };
        let waiting = resolve(std::slice::from_ref(&unnamed), "tf", true, &observed).unwrap_err();
        assert_eq!(waiting.reason, Reason::InvalidSpec, "{need:?}");
    }
}

#[test]
fn a_pair_that_nobody_shows_is_told_and_not_looked_at() {
    let pair = [(external_tls::CERTIFICATE, "no certificate"), (external_tls::KEY, "no key")];
    let (dependency, observed) = external(SecretUse::ShowsNothing, Need::BringUp, &pair);
    let resolved = resolve(std::slice::from_ref(&dependency), "tf", false, &observed).unwrap();
    assert!(resolved.connection(ConditionType::ZookeeperReady).unwrap().credentials.is_empty());
    let told = ignored(std::slice::from_ref(&dependency), &observed).concat();
    assert!(told.starts_with("spec.dependencies.zookeeper.external.secretRef: of its keys tls.crt and"), "{told}");
    let shown = Dependency { secret: SecretUse::Everything, ..dependency };
    assert_eq!(ignored(std::slice::from_ref(&shown), &observed), [] as [String; 0]);
    let waiting = resolve(&[shown], "tf", false, &observed).unwrap_err();
    assert!(waiting.message.contains("key tls.crt is not a certificate"), "{}", waiting.message);
}
