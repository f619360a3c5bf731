//! Registration against an API that is played, over real connections.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use tf_config_api::{
    decide::{Scope, Seen, Within},
    mark::Owner,
    record::{Ownership, Property, Record, Reference, Setting},
    types::{self, BGP_ROUTER, GLOBAL_SYSTEM_CONFIG, SUB_CLUSTER, VIRTUAL_ROUTER},
};
use tf_sim::rest::{Memory, Rest, converse};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    time::{self, Instant},
};

use super::*;

/// A member of an API, and how many connections it had.
struct Member {
    rest: Arc<Rest<Memory>>,
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

/// A member that answers.
async fn member() -> Member {
    let rest = Arc::new(Rest::new(Memory::default()));
    rest.begin().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, connections) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let (served, count) = (Arc::clone(&rest), Arc::clone(&connections));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(converse(stream, Arc::clone(&served)));
        }
    });
    Member { rest, address, connections }
}

/// A member that speaks TLS with a certificate of no authority of ours, and that certificate.
async fn secured() -> (Member, String) {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let rest = Arc::new(Rest::new(Memory::default()));
    rest.begin().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, served) = (listener.local_addr().unwrap(), Arc::clone(&rest));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, served) = (acceptor.clone(), Arc::clone(&served));
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    converse(stream, served).await;
                }
            });
        }
    });
    (Member { rest, address, connections: Arc::default() }, cert.pem())
}

/// A server that answers everything with this.
async fn refusing(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    address
}

fn registrar() -> (Arc<Registrar>, mpsc::UnboundedReceiver<Trigger>) {
    let authorities = Authorities::of_nobody();
    let metrics = Arc::new(Metrics::new("test-op").unwrap());
    let (sender, triggers) = mpsc::unbounded_channel();
    (Arc::new(Registrar::new(authorities, Permit::forever(), sender, metrics, None)), triggers)
}

fn key() -> Key {
    Key::new("tf", "control1")
}

fn wanted(nodes: &[&str]) -> Wanted {
    let router = |node: &&str| Record {
        kind: BGP_ROUTER,
        name: types::bgp_router(node),
        ownership: Ownership::Ours,
        properties: BTreeMap::from([(
            "bgp_router_parameters",
            Property::Fields(BTreeMap::from([
                ("address", Setting::stated("10.0.0.1")),
                ("identifier", Setting::stated("10.0.0.1")),
                ("autonomous_system", Setting::usual(64512)),
            ])),
        )]),
        references: Vec::new(),
    };
    let system = Record {
        kind: GLOBAL_SYSTEM_CONFIG,
        name: types::system(),
        ownership: Ownership::Shared,
        properties: BTreeMap::new(),
        references: (nodes.iter())
            .map(|node| Reference { kind: BGP_ROUTER, to: types::bgp_router(node), relaxed: true })
            .collect(),
    };
    let scope = |kind, within, refers: &[_]| Scope { kind, within, refers: refers.to_vec(), may_stay: false };
    Wanted {
        owner: Owner { kind: "Control".into(), namespace: "tf".into(), name: "control1".into(), uid: "1".into() },
        scopes: vec![
            scope(BGP_ROUTER, Within::Object(types::fabric_instance()), &[BGP_ROUTER]),
            scope(GLOBAL_SYSTEM_CONFIG, Within::Anything, &[BGP_ROUTER]),
        ],
        records: nodes.iter().map(router).chain([system]).collect(),
        kept: BTreeSet::new(),
    }
}

fn registration(nodes: &[&str], at: SocketAddr) -> Registration {
    let api = Api { hosts: vec![at.ip().to_string()], port: at.port(), tls: false, ca: None, keystone: None };
    Registration { wanted: wanted(nodes), api, is_early: false }
}

/// What is said once nobody waits for anything.
async fn settled(
    registrar: &Arc<Registrar>,
    triggers: &mut mpsc::UnboundedReceiver<Trigger>,
    registration: &Registration,
) -> Progress {
    loop {
        let progress = registrar.want(&key(), "1", registration.clone());
        if matches!(progress, Progress::Done { .. } | Progress::Failed(_)) {
            return progress;
        }
        timeout(Duration::from_secs(20), triggers.recv()).await.expect("news in time");
    }
}

async fn routers(member: &Member) -> BTreeSet<String> {
    let (_, text) = member.rest.answer("GET", "/bgp-routers", b"").await;
    let list: Value = serde_json::from_str(&text).unwrap();
    let name = |it: &Value| it["fq_name"][4].as_str().unwrap().to_owned();
    list["bgp-routers"].as_array().unwrap().iter().map(name).collect()
}

#[tokio::test]
async fn nodes_are_told_to_the_api_and_taken_back_and_nothing_is_asked_while_all_is_well() {
    let member = member().await;
    let (registrar, mut triggers) = registrar();
    let both = registration(&["n1", "n2"], member.address);
    assert_eq!(registrar.want(&key(), "1", both.clone()), Progress::Unknown, "nobody has looked yet");
    let done = settled(&registrar, &mut triggers, &both).await;
    assert_eq!(done, Progress::Done { objects: 3, notes: Vec::new() });
    assert_eq!(routers(&member).await, ["n1".to_owned(), "n2".into()].into());
    assert_eq!(registrar.missing(&key()), Some(0));

    let (writes, connections) = (member.rest.journal().len(), member.connections.load(Ordering::SeqCst));
    for _ in 0..20 {
        assert_eq!(registrar.want(&key(), "1", both.clone()), done);
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let now = (member.rest.journal().len(), member.connections.load(Ordering::SeqCst));
    assert_eq!(now, (writes, connections), "nothing was asked");

    let one = registration(&["n2"], member.address);
    assert!(matches!(registrar.want(&key(), "1", one.clone()), Progress::Pending(_)));
    settled(&registrar, &mut triggers, &one).await;
    assert_eq!(routers(&member).await, ["n2".to_owned()].into());
    let none = Registration { wanted: one.wanted.clone().nothing(), ..one };
    settled(&registrar, &mut triggers, &none).await;
    assert_eq!(routers(&member).await, BTreeSet::new());
}

#[tokio::test]
async fn what_a_person_deletes_is_there_again_after_the_next_look() {
    let member = member().await;
    let (registrar, mut triggers) = registrar();
    let both = registration(&["n1", "n2"], member.address);
    let done = settled(&registrar, &mut triggers, &both).await;
    let seen_before = seen(&member, &both.wanted).await;
    let uuid = &seen_before.iter().find(|it| it.name == types::bgp_router("n1")).unwrap().uuid;
    let (status, why) = member.rest.answer("DELETE", &format!("/bgp-router/{uuid}"), b"").await;
    assert!(status.is_success(), "{why}");
    assert_eq!(routers(&member).await, ["n2".to_owned()].into());
    assert_eq!(registrar.want(&key(), "1", both.clone()), done, "nobody has looked");

    time::pause();
    time::advance(RECHECK * 2).await;
    time::resume();
    let again = async {
        let referred = |it: &Seen| it.properties.get("bgp_router_refs").and_then(Value::as_array).map(Vec::len);
        loop {
            let seen = seen(&member, &both.wanted).await;
            if seen.iter().find(|it| it.name == types::system()).and_then(referred) == Some(2) {
                return;
            }
            time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(20), again).await.expect("it to be made again");
    assert_eq!(routers(&member).await, ["n1".to_owned(), "n2".into()].into());
    assert_eq!(registrar.want(&key(), "1", both), done);
}

#[tokio::test]
async fn a_member_that_is_of_no_use_is_passed_over() {
    let member = member().await;
    let (registrar, mut triggers) = registrar();
    let mut wanted = registration(&["n1"], member.address);
    // Nobody listens there: all of 127.0.0.0/8 is this machine, and the port is bound at one address of it.
    wanted.api.hosts.insert(0, "127.0.0.9".into());
    assert!(matches!(settled(&registrar, &mut triggers, &wanted).await, Progress::Done { .. }));
}

#[tokio::test]
async fn an_api_of_another_authority_is_checked_against_that_alone() {
    let (member, ca) = secured().await;
    let (registrar, mut triggers) = registrar();
    let mut wanted = registration(&["n1"], member.address);
    wanted.api.tls = true;
    let (_, another) = secured().await;
    wanted.api.ca = Some(another);
    let Progress::Failed(why) = settled(&registrar, &mut triggers, &wanted).await else { panic!("it is registered") };
    assert!(why.contains("invalid peer certificate"), "{why}");
    wanted.api.ca = Some(ca);
    // The former verdict counts until there is another one.
    while !matches!(registrar.want(&key(), "1", wanted.clone()), Progress::Done { .. }) {
        timeout(Duration::from_secs(20), triggers.recv()).await.expect("news in time");
    }
    assert_eq!(routers(&member).await, ["n1".to_owned()].into());
}

#[tokio::test]
async fn the_failing_call_is_named_with_what_can_be_done() {
    let (registrar, mut triggers) = registrar();
    let at = refusing("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n").await;
    let Progress::Failed(why) = settled(&registrar, &mut triggers, &registration(&["n1"], at)).await else {
        panic!("it is registered")
    };
    let expected = format!("GET http://{at}/bgp-routers: 401 Unauthorized; set authParameters to a user");
    assert!(why.starts_with(&expected), "{why}");
    assert_eq!(registrar.missing(&key()), Some(2));
}

/// Virtual routers in a sub-cluster, if one is named.
fn virtual_routers(nodes: &[&str], subcluster: Option<&str>, at: SocketAddr) -> Registration {
    let reference = |name: &str| Reference { kind: SUB_CLUSTER, to: vec![name.to_owned()], relaxed: false };
    let router = |node: &&str| Record {
        kind: VIRTUAL_ROUTER,
        name: types::in_system(node),
        ownership: Ownership::Ours,
        properties: BTreeMap::from([("virtual_router_ip_address", Property::Whole(Setting::stated("10.0.0.1")))]),
        references: subcluster.map(reference).into_iter().collect(),
    };
    let mut registration = registration(&[], at);
    let within = Within::Object(types::system());
    registration.wanted.scopes =
        vec![Scope { kind: VIRTUAL_ROUTER, within, refers: vec![SUB_CLUSTER], may_stay: true }];
    registration.wanted.records = nodes.iter().map(router).collect();
    registration
}

#[tokio::test]
async fn the_answer_is_told_for_which_a_router_does_not_become_as_wanted() {
    let member = member().await;
    let (registrar, mut triggers) = registrar();
    let nodes = ["n1", "n2", "n3", "n4"];
    let done = settled(&registrar, &mut triggers, &virtual_routers(&nodes, None, member.address)).await;
    assert_eq!(done, Progress::Done { objects: 4, notes: Vec::new() });

    let unknown = virtual_routers(&nodes, Some("edge"), member.address);
    let Progress::Failed(why) = settled(&registrar, &mut triggers, &unknown).await else { panic!("it is registered") };
    let expected = "POST /ref-update for reference from virtual-router default-global-system-config:n1 to sub-cluster edge: \
                    404 Not Found: No sub-cluster object found for id; both have to exist in the API first; POST /ref-update for ";
    assert!(why.starts_with(expected), "{why}");
    assert!(why.ends_with("; and 1 more") && why.matches("404 Not Found").count() == 3, "{why}");
    assert_eq!(registrar.missing(&key()), Some(4));

    let (status, why) = member.rest.answer("POST", "/sub-clusters", br#"{"sub-cluster": {"fq_name": ["edge"]}}"#).await;
    assert!(status.is_success(), "{why}");
    let (registrar, mut triggers) = self::registrar();
    let known = virtual_routers(&nodes, Some("edge"), member.address);
    let done = settled(&registrar, &mut triggers, &known).await;
    assert_eq!(done, Progress::Done { objects: 4, notes: Vec::new() });

    // One that is made is refused by another call, with the same status.
    let another = virtual_routers(&["n5"], Some("core"), member.address);
    let Progress::Failed(why) = settled(&registrar, &mut triggers, &another).await else { panic!("it is registered") };
    assert!(
        why.contains("/virtual-routers for virtual-router default-global-system-config:n5: 404 Not Found: "),
        "{why}"
    );
}

/// A member that lists nothing and answers everything else with this.
async fn forgetful(status: &'static str, said: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut question = vec![0; 65536];
                while let Ok(length @ 1..) = stream.read(&mut question).await {
                    let is_list = question[..length].starts_with(b"GET");
                    let (status, body) =
                        if is_list { ("200 OK", r#"{"virtual-routers": []}"#) } else { (status, said) };
                    let length = body.len();
                    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn a_name_that_is_taken_and_not_shown_is_told_with_the_answer_in_bounds() {
    let long = Box::leak("taken\n by another one ".repeat(100).into_boxed_str());
    let (registrar, mut triggers) = registrar();
    let wanted = virtual_routers(&["n1"], None, forgetful("409 Conflict", long).await);
    let Progress::Failed(why) = settled(&registrar, &mut triggers, &wanted).await else { panic!("it is registered") };
    let expected = "POST /virtual-routers for virtual-router default-global-system-config:n1: 409 Conflict: taken by another one taken";
    assert!(why.starts_with(expected) && why.ends_with("; the answer says why; it is tried again"), "{why}");
    assert!(why.len() < 400 && !why.contains('\n'), "{why}");

    let (registrar, mut triggers) = self::registrar();
    let wanted = virtual_routers(&["n1"], None, forgetful("200 OK", "{}").await);
    let Progress::Failed(why) = settled(&registrar, &mut triggers, &wanted).await else { panic!("it is registered") };
    assert!(why.starts_with("the config API does not show the change of virtual-router "), "{why}");
}

#[tokio::test]
async fn an_answer_without_an_end_is_none() {
    let (registrar, mut triggers) = registrar();
    let at = refusing("HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n{").await;
    let wanted = registration(&["n1"], at);
    let begun = Instant::now();
    let Progress::Failed(why) = settled(&registrar, &mut triggers, &wanted).await else { panic!("it is registered") };
    assert!(why.starts_with(&format!("GET http://{at}/bgp-routers: ")), "{why}");
    assert!(begun.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn an_api_that_goes_away_changes_nothing_that_was_there() {
    let member = member().await;
    let (registrar, mut triggers) = registrar();
    let wanted = registration(&["n1"], member.address);
    let done = settled(&registrar, &mut triggers, &wanted).await;
    let result = Err(Unable::Silent("gone".into()));
    assert!(!registrar.judge(&key(), &wanted, result, 9), "no news");
    assert_eq!(registrar.want(&key(), "1", wanted), done);
}

/// Killed after any of its calls, an operator that begins anew ends where nobody disturbed it would have.
#[tokio::test]
async fn wherever_it_is_killed_the_objects_become_the_same() {
    let undisturbed = member().await;
    let (first, mut triggers) = registrar();
    settled(&first, &mut triggers, &registration(&["n1", "n2"], undisturbed.address)).await;
    let calls = undisturbed.rest.journal().len();
    assert_eq!(calls, 6, "two routers, two references, and that these do not hold them");
    for killed_after in 0..=calls {
        let member = member().await;
        let wanted = wanted(&["n1", "n2"]);
        // What the killed process did: its calls in their order, as far as it came.
        let mut made = 0;
        'process: loop {
            let decision = tf_config_api::decide::decide(&wanted, &seen(&member, &wanted).await);
            if decision.waves.is_empty() {
                break;
            }
            for call in decision.waves.into_iter().flatten() {
                if made == killed_after {
                    break 'process;
                }
                let request = call.request();
                let body = request.body.unwrap_or(Value::Null).to_string();
                let (status, why) = member.rest.answer(request.method, &request.path, body.as_bytes()).await;
                assert!(status.is_success(), "{why}");
                made += 1;
            }
        }
        let (next, mut triggers) = registrar();
        let end = settled(&next, &mut triggers, &registration(&["n1", "n2"], member.address)).await;
        assert!(matches!(end, Progress::Done { objects: 3, .. }), "{killed_after}: {end:?}");
        let mut journals = [undisturbed.rest.journal(), member.rest.journal()];
        // What was relaxed before is not told, so a second process may not do it again.
        for journal in &mut journals {
            journal.retain(|it| !it.contains("relax"));
        }
        let names = journals
            .map(|journal| journal.iter().map(|it| it.rsplit(' ').next().unwrap().to_owned()).collect::<BTreeSet<_>>());
        assert_eq!(names[0], names[1], "{killed_after}");
        assert_eq!(routers(&member).await, routers(&undisturbed).await);
        assert_eq!(member.rest.journal().iter().filter(|it| it.starts_with("POST /bgp-routers")).count(), 2);
    }
}

async fn seen(member: &Member, wanted: &Wanted) -> Vec<Seen> {
    let mut seen = Vec::new();
    for scope in &wanted.scopes {
        let Some(question) = wanted.listing(scope, &seen) else { continue };
        let (_, text) = member.rest.answer(question.method, &question.path, b"").await;
        seen.extend(scope.read(serde_json::from_str(&text).unwrap_or(json!({}))).unwrap());
    }
    seen
}
