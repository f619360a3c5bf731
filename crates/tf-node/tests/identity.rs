//! How a member comes by its certificate, and keeps one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod common;

use std::{
    collections::BTreeSet,
    fs,
    net::{IpAddr, SocketAddr, TcpListener, UdpSocket},
    num::NonZeroU16,
    os::unix::fs::{PermissionsExt as _, symlink},
    process::Child,
    thread,
    time::Duration,
};

use common::{
    Container, DAEMON,
    api_server::{ApiServer, Reply},
    files, settle, shell,
    tls::Authority,
};
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequest};
use rcgen::{CertificateParams, KeyPair, PublicKeyData, SanType, SignatureAlgorithm};
use rustix::process::{Pid, Signal, kill_process};
use rustls::version::TLS13;
use serde_json::json;
use tempfile::TempDir;
use tf_agent_api::{
    launch::{Agent, Identity as Asked, Launch, OnChange},
    node,
    state::{self, Phase, Status},
};
use tf_node::{paths::Paths, state_file};
use tf_pki::{
    authority,
    bundle::Bundle,
    certificate::Certificate,
    fingerprint::Fingerprint,
    member::{Identity, Member},
    review::{Candidate, Decision, Request, Requester, Roster, ServiceAccount, review},
    stores,
};

const LIFETIME: u32 = 90 * 24 * 3600;
const OPERATOR: &str = "zookeeper.operator.tf.tungsten.io";

/// A member of documentation's network: nothing is reached by its address here.
fn address() -> IpAddr {
    [192, 0, 2, 1].into()
}

fn identity(address: IpAddr, services: &[&str]) -> Identity {
    let member = Member {
        pod: "pod-0".into(),
        node: "node-0".into(),
        addresses: [address].into(),
        services: services.iter().map(|name| (*name).to_owned()).collect(),
        lifetime_seconds: LIFETIME,
    };
    Identity::member(&member).unwrap()
}

fn launch(port: NonZeroU16, services: &[&str]) -> Launch {
    let mut launch = shell("while :; do sleep 0.05; done");
    launch.agent = Some(Agent { port, client: OPERATOR.into() });
    let services: BTreeSet<String> = services.iter().map(|name| (*name).to_owned()).collect();
    launch.identity = Some(Asked {
        services,
        lifetime_seconds: LIFETIME,
        required: false,
        host_files: None,
        reload: None,
        at_start: false,
    });
    launch
}

fn free_port(address: IpAddr) -> NonZeroU16 {
    let listener = TcpListener::bind((address, 0)).unwrap();
    NonZeroU16::new(listener.local_addr().unwrap().port()).unwrap()
}

/// What the operator does with a request.
fn decide(request: &CertificateSigningRequest, planned: &Identity) -> Decision {
    let extra = [("pod-name", "pod-0"), ("pod-uid", "u"), ("node-name", "node-0"), ("node-uid", "v")];
    let extra = extra.map(|(key, value)| (format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]));
    let requester = Requester {
        username: "system:serviceaccount:tf:zk".into(),
        groups: vec!["system:serviceaccounts:tf".into()],
        extra: extra.into(),
    };
    let candidate = Candidate { uid: "u".into(), node: "node-0".into(), node_uid: None, identity: planned.clone() };
    let roster = Roster {
        account: ServiceAccount { namespace: "tf".into(), name: "zk".into() },
        pods: [("pod-0".to_owned(), candidate)].into(),
    };
    let request = Request {
        signer: &request.spec.signer_name,
        csr: &request.spec.request.0,
        usages: request.spec.usages.as_deref().unwrap(),
        expiration_seconds: request.spec.expiration_seconds,
        requester: &requester,
    };
    review(&request, &roster)
}

/// The status of a request that was approved and signed.
fn issued(pem: &str) -> Reply {
    let pem = serde_json::to_value(ByteString(pem.as_bytes().to_vec())).unwrap();
    Reply::Status(json!({"certificate": pem, "conditions": [{"type": "Approved", "status": "True"}]}))
}

fn ended(kind: &str) -> Reply {
    Reply::Status(json!({"conditions": [{"type": kind, "status": "True", "reason": "ForeignNode", "message": "no"}]}))
}

/// An operator that plans this for the pod, and signs with this authority.
fn operator(authority: &Authority, planned: Identity) -> impl Fn(&CertificateSigningRequest) -> Reply + Send + 'static {
    let authority = authority::Authority::from_pem(&authority.pem, &authority.key).unwrap();
    move |request| match decide(request, &planned) {
        Decision::Approve(approved) => issued(&authority.sign(&approved, Timestamp::now()).unwrap().pem),
        Decision::Deny(_) => ended("Denied"),
        _ => Reply::Status(json!({})),
    }
}

fn trust(container: &Container, revision: u64, authorities: &[&Authority]) {
    let bundle: String = authorities.iter().map(|authority| authority.pem.as_str()).collect();
    let files = files([("ca-bundle.crt", &bundle), ("revision", &revision.to_string())]);
    container.publish(&container.path(node::CA_DIR), &files);
}

fn fingerprint(authority: &Authority) -> Fingerprint {
    Bundle::from_pem(&authority.pem).unwrap().certificates()[0].fingerprint()
}

/// A member that is about to ask.
fn member(server: &ApiServer, address: IpAddr) -> Container {
    let mut container = Container::new();
    container.environment.push(("POD_IP".into(), address.to_string()));
    server.mount(&mut container, "t0k3n");
    fs::create_dir_all(container.path(node::CERTIFICATE_DIR)).unwrap();
    fs::create_dir_all(container.path(node::CA_DIR)).unwrap();
    container.configure(&launch(NonZeroU16::new(9).unwrap(), &["zk.tf.svc"]), &files([]));
    container
}

fn certificate(container: &Container) -> Option<Certificate> {
    let pem = fs::read_to_string(container.path(node::CERTIFICATE)).ok()?;
    Some(Certificate::first_from_pem(&pem).unwrap())
}

/// Waits for a certificate and gives it back; the key is its.
fn certified(container: &Container, what: &str, holds: impl Fn(&Certificate) -> bool) -> Certificate {
    let certificate = container.wait_for(what, || certificate(container).filter(&holds));
    container.wait_for("no message", || container.state().filter(|state| state.message.is_none()));
    let key = fs::read_to_string(container.path(node::CERTIFICATE_KEY)).unwrap();
    assert!(certificate.is_for_key(&key));
    certificate
}

fn says(container: &Container, text: &str) {
    container.wait(text, |state| state.message.as_ref().is_some_and(|message| message.contains(text)));
}

#[test]
fn a_member_asks_waits_and_takes_what_was_approved_once() {
    let (server, authority) = (ApiServer::start(), Authority::new());
    let mut container = member(&server, address());
    trust(&container, 3, &[&authority]);
    container.run();
    says(&container, "to be approved");
    assert_eq!(container.state().unwrap().phase, Phase::Running, "the daemon does not wait");
    let [name] = &server.created()[..] else { panic!("{:?}", server.created()) };
    let object = server.object(name);
    assert!(name.starts_with("tf-pod-0-"), "{name}");
    assert_eq!(object.metadata.annotations.unwrap()["tf.tungsten.io/bundle-revision"], "3");
    assert_eq!(server.last_token().unwrap(), "Bearer t0k3n");

    // Neither a restart nor being killed loses the request.
    container.terminate();
    container.run();
    says(&container, "to be approved");
    container.kill();
    server.behave(operator(&authority, identity(address(), &["zk.tf.svc"])));
    container.run();
    let own = certified(&container, "certificate", |_| true);
    assert!(server.created().iter().all(|created| created == name), "one request in all");
    assert_eq!((own.names(), own.addresses()), {
        let identity = identity(address(), &["zk.tf.svc"]);
        (identity.names().clone(), identity.addresses().clone())
    });
    let content = |file: &str| fs::read_to_string(container.path(file)).unwrap();
    let both = content(node::CERTIFICATE_KEY) + &content(node::CERTIFICATE);
    container.wait_for("one file with both", || (content(node::KEYSTORE_PEM) == both).then_some(()));
    assert_eq!(Bundle::from_pem(&content(node::TRUSTSTORE_PEM)), Bundle::from_pem(&authority.pem));
    for file in [node::CERTIFICATE, node::CERTIFICATE_KEY, node::KEYSTORE_PEM, node::TRUSTSTORE_PEM] {
        assert_eq!(fs::metadata(container.path(file)).unwrap().permissions().mode() & 0o777, 0o640);
    }
    let names = fs::read_dir(container.path(node::CERTIFICATE_DIR)).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["keystore.pem", "tls.crt", "tls.key", "truststore.pem"]);

    // With a good certificate nothing is asked for.
    let (created, looks) = (server.created().len(), server.looks());
    container.terminate();
    container.run();
    container.wait("running", |state| state.phase == Phase::Running);
    settle();
    assert_eq!((server.created().len(), server.looks()), (created, looks));
    assert_eq!(certificate(&container).unwrap(), own);

    let key = fs::read_to_string(container.path(node::CERTIFICATE_KEY)).unwrap();
    let line = key.lines().nth(1).unwrap();
    assert!(!container.log().contains(line) && !container.log().contains("t0k3n"));
}

#[test]
fn a_daemon_of_java_gets_stores_of_the_same_that_stay_as_long_as_it_does() {
    let (server, authority) = (ApiServer::start(), Authority::new());
    let mut container = member(&server, address());
    let mut java = launch(NonZeroU16::new(9).unwrap(), &["db.tf.svc"]);
    java.identity.as_mut().unwrap().required = true;
    java.files.insert(node::STORES_FILE.into(), OnChange::Nothing);
    let passwords = "KEYSTORE_PASSWORD='first-password'\nTRUSTSTORE_PASSWORD='trusted-password'\n";
    let hash = container.configure(&java, &files([(node::STORES_FILE, passwords)]));
    container.annotate(Some(&hash));
    trust(&container, 1, &[&authority]);
    server.behave(operator(&authority, identity(address(), &["db.tf.svc"])));
    container.run();
    let running = container;
    let store = |file: &str| fs::read(running.path(file)).unwrap_or_default();
    let text = |file: &str| fs::read_to_string(running.path(file)).unwrap_or_default();
    let made = |password: &str| stores::key_store(&text(node::CERTIFICATE_KEY), &text(node::CERTIFICATE), password);
    let holds = |password: &str| {
        made(password).is_ok_and(|made| stores::are_alike(&store(node::KEYSTORE), &made, password)).then_some(())
    };
    running.running(&hash);
    assert!(holds("first-password").is_some(), "the daemon started with its stores");
    let trusted = stores::trust_store(&Bundle::from_pem(&authority.pem).unwrap(), "trusted-password").unwrap();
    assert!(stores::are_alike(&store(node::TRUSTSTORE), &trusted, "trusted-password"));

    let before = store(node::KEYSTORE);
    trust(&running, 1, &[&authority]);
    settle();
    assert_eq!(store(node::KEYSTORE), before, "nothing is written that holds the same");
    let other = Authority::new();
    trust(&running, 1, &[&authority, &other]);
    let both = Bundle::from_pem(&format!("{}{}", authority.pem, other.pem)).unwrap();
    let both = stores::trust_store(&both, "trusted-password").unwrap();
    let is_both = || stores::are_alike(&store(node::TRUSTSTORE), &both, "trusted-password").then_some(());
    running.wait_for("both authorities", is_both);
}

#[test]
fn a_daemon_that_cannot_do_without_waits_for_its_certificate() {
    let (server, authority) = (ApiServer::start(), Authority::new());
    let mut container = member(&server, address());
    let mut needy = launch(NonZeroU16::new(9).unwrap(), &["zk.tf.svc"]);
    needy.identity.as_mut().unwrap().required = true;
    container.configure(&needy, &files([]));
    trust(&container, 1, &[&authority]);
    container.run();
    says(&container, "waits for /etc/certificates/keystore.pem; ");
    says(&container, "to be approved");
    settle();
    assert_eq!(container.state().unwrap().phase, Phase::Waiting);
    assert_eq!(container.log().matches("waits for /etc/certificates/keystore.pem").count(), 1, "{}", container.log());
    server.behave(operator(&authority, identity(address(), &["zk.tf.svc"])));
    container.wait("running", |state| state.phase == Phase::Running);
}

#[test]
fn a_daemon_starts_for_the_first_time_with_a_certificate_for_its_address_in_a_data_network() {
    let (server, authority) = (ApiServer::start(), Authority::new());
    let [beside, other]: [IpAddr; 2] = [[198, 51, 100, 1].into(), [198, 51, 100, 2].into()];
    let both = Member {
        pod: "pod-0".into(),
        node: "node-0".into(),
        addresses: [address(), beside].into(),
        services: BTreeSet::new(),
        lifetime_seconds: LIFETIME,
    };
    let mut container = member(&server, address());
    let mut needy = launch(NonZeroU16::new(9).unwrap(), &[]);
    needy.identity.as_mut().unwrap().required = true;
    needy.files.insert("hard".into(), OnChange::Restart);
    container.configure(&needy, &files([]));
    trust(&container, 1, &[&authority]);
    server.behave(operator(&authority, identity(address(), &[])));
    container.run();
    says(&container, "missing: hard");
    let first = container.wait_for("certificate", || certificate(&container));
    assert_eq!(first.addresses(), [address()].into(), "its agent is reached while its daemon has no files");

    server.behave(|_| Reply::Status(json!({})));
    needy.addresses = [beside].into();
    let hash = container.configure(&needy, &files([("hard", "1")]));
    says(&container, "waits for a certificate that is for 198.51.100.1");
    settle();
    assert_eq!(container.state().unwrap().phase, Phase::Waiting);
    server.behave(operator(&authority, Identity::member(&both).unwrap()));
    let state = container.running(&hash);
    assert_eq!(certificate(&container).unwrap().addresses(), both.addresses);

    // One that has been started goes on with what there is, whatever becomes of the next one.
    needy.addresses = [beside, other].into();
    let next = container.configure(&needy, &files([("hard", "1")]));
    container.annotate(Some(&next));
    assert_eq!(container.running(&next).pid, state.pid, "nothing of the daemon has changed");
    kill_process(state.pid.and_then(Pid::from_raw).unwrap(), Signal::KILL).unwrap();
    container.wait("another process", |now| now.phase == Phase::Running && now.pid != state.pid);
    assert_eq!(certificate(&container).unwrap().addresses(), both.addresses);
}

#[test]
fn nothing_is_asked_for_before_the_authorities_are_mounted() {
    let (server, authority) = (ApiServer::start(), Authority::new());
    server.behave(operator(&authority, identity(address(), &["zk.tf.svc"])));
    let mut container = member(&server, address());
    container.run();
    says(&container, "waits for the certificates of the authorities");
    settle();
    assert!(server.created().is_empty());
    trust(&container, 1, &[&authority]);
    certified(&container, "certificate", |_| true);
}

/// The public key of a request, which `rcgen` takes for one of its own.
struct PublicKey(Vec<u8>);

impl PublicKey {
    fn of(request: &CertificateSigningRequest) -> Self {
        // The curve P-256 and the head of a bit string of 65 bytes (RFC 5480).
        const HEAD: [u8; 13] = [6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7, 3, 0x42, 0];
        let der = pem(&request.spec.request.0);
        let at = der.windows(HEAD.len()).position(|window| window == HEAD).unwrap() + HEAD.len();
        Self(der[at..at + 65].to_vec())
    }
}

fn pem(text: &[u8]) -> Vec<u8> {
    use rustls::pki_types::{CertificateSigningRequestDer, pem::PemObject as _};
    CertificateSigningRequestDer::from_pem_slice(text).unwrap().to_vec()
}

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
    params.subject_alt_names.push(SanType::IpAddress(address()));
    params
}

/// A request that leads to nothing in each of the ways: the daemon runs, nothing is taken, the reason is named, and after a
/// while there is another request, which is answered well.
#[test]
fn what_leads_to_nothing_is_named_and_asked_for_anew() {
    type Behaviour = Box<dyn Fn(&Authority, &CertificateSigningRequest) -> Reply + Send>;
    let names = ["pod-0", "node-0", "zk.tf.svc"];
    let foreign = Authority::new();
    let cases: [(&str, Behaviour); 7] = [
        ("the request was denied: ForeignNode: no", Box::new(|_, _| ended("Denied"))),
        ("the request was failed: ForeignNode: no", Box::new(|_, _| ended("Failed"))),
        ("is gone", Box::new(|_, _| Reply::Gone)),
        (
            "is for another key",
            Box::new(move |authority, _| issued(&authority.sign(&params(&names), &KeyPair::generate().unwrap()))),
        ),
        (
            "lacks zk.tf.svc",
            Box::new(move |authority, request| {
                issued(&authority.sign(&params(&["pod-0", "node-0", "other"]), &PublicKey::of(request)))
            }),
        ),
        (
            "the certificate is good from",
            Box::new(move |authority, request| {
                let mut params = params(&names);
                params.not_after = rcgen::date_time_ymd(2024, 1, 1);
                issued(&authority.sign(&params, &PublicKey::of(request)))
            }),
        ),
        (
            "not issued by an authority of the bundle",
            Box::new(move |_, request| issued(&foreign.sign(&params(&names), &PublicKey::of(request)))),
        ),
    ];
    let members = cases.map(|(expected, behaviour)| {
        let (server, authority) = (ApiServer::start(), Authority::new());
        let own = authority.clone();
        server.behave(move |request| behaviour(&own, request));
        let mut container = member(&server, address());
        trust(&container, 1, &[&authority]);
        container.run();
        (expected, server, authority, container)
    });
    for (expected, server, authority, container) in &members {
        says(container, expected);
        assert_eq!(container.state().unwrap().phase, Phase::Running);
        assert!(certificate(container).is_none(), "{expected}");
        assert!(!container.path(node::CERTIFICATE_KEY).exists(), "{expected}");
        assert_eq!(server.created().len(), 1, "{expected}: the next request takes its time");
        server.behave(operator(authority, identity(address(), &["zk.tf.svc"])));
    }
    for (expected, server, _, container) in &members {
        certified(container, expected, |_| true);
        let created: BTreeSet<String> = server.created().into_iter().collect();
        assert_eq!(created.len(), 2, "{expected}: with a new key");
    }
}

#[test]
fn an_api_server_that_is_broken_or_silent_is_asked_again_with_the_same_request() {
    let (server, authority) = (ApiServer::start(), Authority::new());
    server.behave(|_| Reply::Broken);
    let mut container = member(&server, address());
    trust(&container, 1, &[&authority]);
    container.run();
    says(&container, "status 500: etcd is away");
    server.behave(|_| Reply::Hangs);
    says(&container, "no answer within 10 s");
    server.token(&container, "n3w");
    server.behave(operator(&authority, identity(address(), &["zk.tf.svc"])));
    certified(&container, "certificate", |_| true);
    let created: BTreeSet<String> = server.created().into_iter().collect();
    assert_eq!(created.len(), 1);
    assert_eq!(server.last_token().unwrap(), "Bearer n3w", "the token is read for each request");
}

#[test]
fn the_certificate_follows_the_authorities_and_the_launch_file_and_interrupts_nothing() {
    let (server, old, new) = (ApiServer::start(), Authority::new(), Authority::new());
    server.behave(operator(&old, identity(address(), &["zk.tf.svc"])));
    let mut container = member(&server, address());
    trust(&container, 1, &[&old]);
    container.run();
    let first = certified(&container, "certificate", |_| true);
    let pid = container.state().unwrap().pid;

    // The next authority is announced, and then signs.
    trust(&container, 2, &[&old, &new]);
    settle();
    assert_eq!(certificate(&container).unwrap(), first);
    server.behave(operator(&new, identity(address(), &["zk.tf.svc"])));
    trust(&container, 3, &[&new, &old]);
    let second = certified(&container, "of the new authority", |own| *own != first);
    let bundle = Bundle::from_pem(&new.pem).unwrap();
    assert!(bundle.issuer_of(&second).is_some());
    assert_eq!(
        server.object(&server.created()[1]).metadata.annotations.unwrap()["tf.tungsten.io/bundle-revision"],
        "3"
    );

    // Another service.
    server.behave(operator(&new, identity(address(), &["zk.tf.svc", "db.tf.svc"])));
    let launch = launch(NonZeroU16::new(9).unwrap(), &["zk.tf.svc", "db.tf.svc"]);
    let hash = container.configure(&launch, &files([]));
    container.annotate(Some(&hash));
    let third = certified(&container, "with the new name", |own| *own != second);
    assert!(third.names().iter().any(|name| name.as_str() == "db.tf.svc"));

    // A trust that forgets the issuer.
    server.behave(operator(&old, identity(address(), &["zk.tf.svc", "db.tf.svc"])));
    trust(&container, 4, &[&old]);
    certified(&container, "of the trusted authority", |own| *own != third);
    assert_eq!(container.state().unwrap().pid, pid, "the daemon ran on");
    assert_eq!(server.created().len(), 4);
}

#[test]
fn an_operator_whose_certificates_are_not_what_is_wanted_is_not_flooded() {
    let (server, old, new) = (ApiServer::start(), Authority::new(), Authority::new());
    server.behave(operator(&old, identity(address(), &["zk.tf.svc"])));
    let mut container = member(&server, address());
    // Another authority is to be used than the one that signs.
    trust(&container, 1, &[&new, &old]);
    container.run();
    says(&container, "certificates are issued by another authority now");
    assert!(certificate(&container).is_some(), "what was issued is used meanwhile");
    thread::sleep(Duration::from_secs(3));
    assert_eq!(server.created().len(), 1);
}

#[test]
fn a_certificate_that_is_due_is_renewed_and_used_until_then() {
    let (server, authority) = (ApiServer::start(), Authority::new());
    let mut container = member(&server, address());
    trust(&container, 1, &[&authority]);
    let key = KeyPair::generate().unwrap();
    let mut params = params(&["pod-0", "node-0", "zk.tf.svc"]);
    let now = Timestamp::now();
    params.not_before = std::time::SystemTime::from(now - jiff::SignedDuration::from_hours(70 * 24)).into();
    params.not_after = std::time::SystemTime::from(now + jiff::SignedDuration::from_hours(20 * 24)).into();
    fs::write(container.path(node::CERTIFICATE_KEY), key.serialize_pem()).unwrap();
    fs::write(container.path(node::CERTIFICATE), authority.sign(&params, &key)).unwrap();
    container.run();
    says(&container, "to be approved");
    let old = certificate(&container).unwrap();
    server.behave(operator(&authority, identity(address(), &["zk.tf.svc"])));
    let new = certified(&container, "renewed", |own| *own != old);
    assert!(new.validity().not_after > old.validity().not_after);
}

#[test]
fn without_a_launch_file_that_says_so_nothing_is_asked_for() {
    let (server, authority) = (ApiServer::start(), Authority::new());
    let mut container = member(&server, address());
    let mut launch = launch(NonZeroU16::new(9).unwrap(), &[]);
    launch.identity = None;
    container.configure(&launch, &files([]));
    trust(&container, 1, &[&authority]);
    container.run();
    container.wait("running", |state| state.phase == Phase::Running);
    settle();
    assert!(server.created().is_empty());
}

/// An address of this machine that other machines could reach; certificates are not made for others.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect((address(), 9)).ok()?;
    socket.local_addr().ok().map(|local| local.ip()).filter(|ip| !ip.is_unspecified() && !ip.is_loopback())
}

/// What an agent answers to an operator of this authority that asks for its status, head and body.
fn answer(authority: &Authority, agent: SocketAddr) -> Option<String> {
    let request = "GET /v1/status HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    authority.ask(Some(&authority.leaf(OPERATOR)), &[&TLS13], agent, request).ok()
}

/// The status, if it tells one.
fn status(authority: &Authority, agent: SocketAddr) -> Option<Status> {
    serde_json::from_str(answer(authority, agent)?.split_once("\r\n\r\n")?.1).ok()
}

#[test]
fn the_agent_serves_with_what_was_issued_and_tells_about_it() {
    let Some(address) = own_address() else {
        println!("skipped: this machine has no address");
        return;
    };
    let (server, old, new) = (ApiServer::start(), Authority::new(), Authority::new());
    server.behave(operator(&old, identity(address, &["zk.tf.svc"])));
    let mut container = member(&server, address);
    let port = free_port(address);
    container.configure(&launch(port, &["zk.tf.svc"]), &files([]));
    trust(&container, 1, &[&old]);
    container.run();
    let status = |authority: &Authority| -> Option<Status> {
        let answer = answer(authority, SocketAddr::new(address, port.get()))?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        Some(serde_json::from_str(body).unwrap())
    };
    let told =
        |authority: &Authority| container.wait_for("told", || status(authority).and_then(|status| status.certificate));
    let first = told(&old);
    let own = certified(&container, "certificate", |_| true);
    assert_eq!((first.not_after, first.revision), (own.validity().not_after, 1));
    assert_eq!(first.issuer, Some(fingerprint(&old).to_string()));
    assert_eq!(status(&old).unwrap().message, None);

    server.behave(|_| ended("Denied"));
    trust(&container, 2, &[&new, &old]);
    let waits = || status(&old).filter(|status| status.message.as_ref().is_some_and(|it| it.contains("denied")));
    let certificate = container.wait_for("denied", waits).certificate.unwrap();
    assert_eq!((certificate.not_after, certificate.revision), (first.not_after, 2), "the old one is used");
    server.behave(operator(&new, identity(address, &["zk.tf.svc"])));
    let told = container.wait_for("served with the new one", || status(&new)?.certificate);
    assert_eq!(told.issuer, Some(fingerprint(&new).to_string()));
}

#[test]
fn what_a_daemon_was_told_in_vain_to_read_does_not_count_until_it_is_restarted() {
    let Some(address) = own_address() else {
        println!("skipped: this machine has no address");
        return;
    };
    let (server, old, new) = (ApiServer::start(), Authority::new(), Authority::new());
    server.behave(operator(&old, identity(address, &["db.tf.svc"])));
    let mut container = member(&server, address);
    let port = free_port(address);
    let mut told = launch(port, &["db.tf.svc"]);
    let (deaf, read) = (container.path("/deaf"), container.path("/read"));
    let script = format!("test ! -e {} && echo >> {}", deaf.display(), read.display());
    told.identity.as_mut().unwrap().reload = Some(["sh", "-c", &script].map(str::to_owned).into());
    container.configure(&told, &files([]));
    trust(&container, 1, &[&old]);
    container.run();
    let status = || status(&old, SocketAddr::new(address, port.get()));
    let counts = |revision: u64| {
        let is_it = |status: &Status| status.certificate.as_ref().is_some_and(|it| it.revision == revision);
        container.wait_for(&format!("revision {revision}"), || status().filter(is_it))
    };
    counts(1);
    container.wait_for("the daemon to be told of its first certificate", || read.exists().then_some(()));

    fs::write(&deaf, "").unwrap();
    trust(&container, 2, &[&old, &new]);
    let in_vain = |status: &Status| status.certificate.as_ref().is_some_and(|certificate| certificate.unread.is_some());
    let then = container.wait_for("told in vain", || status().filter(in_vain)).certificate.unwrap();
    assert_eq!(then.revision, 1, "the daemon goes by what it had");
    assert!(then.unread.unwrap().contains("does not read its certificates before it is restarted: sh -c"));
    fs::remove_file(&deaf).unwrap();
    assert_eq!(counts(2).certificate.unwrap().unread, None, "it is told again");

    fs::write(&deaf, "").unwrap();
    trust(&container, 3, &[&old]);
    container.wait_for("told in vain", || status().filter(in_vain));
    let pid = container.state().unwrap().pid.unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    assert_eq!(counts(3).certificate.unwrap().unread, None, "the next process began with it");
}

#[test]
fn a_daemon_that_cannot_be_told_of_another_certificate_is_started_anew_when_its_operator_says_so() {
    let Some(address) = own_address() else {
        println!("skipped: this machine has no address");
        return;
    };
    let (server, old, new) = (ApiServer::start(), Authority::new(), Authority::new());
    server.behave(operator(&old, identity(address, &["db.tf.svc"])));
    let mut container = member(&server, address);
    let port = free_port(address);
    let mut deaf = launch(port, &["db.tf.svc"]);
    let asked = deaf.identity.as_mut().unwrap();
    (asked.required, asked.at_start, asked.reload) = (true, true, Some(vec!["false".to_owned()]));
    container.configure(&deaf, &files([]));
    trust(&container, 1, &[&old]);
    container.run();
    let status = || status(&old, SocketAddr::new(address, port.get()));
    let certificate = |what: &str, is_it: fn(&state::Certificate) -> bool| {
        container.wait_for(what, || status()?.certificate.filter(is_it))
    };
    certificate("the first certificate", |it| it.revision == 1);
    settle();
    let first = certificate("still the first one", |it| it.revision == 1);
    assert_eq!((first.unread, first.unused), (None, None), "the daemon began with it");
    let before = container.state().unwrap().pid;

    trust(&container, 2, &[&old, &new]);
    let once = certificate("told in vain", |it| it.unread.is_some());
    assert_eq!((once.revision, once.unused), (1, None), "it is told again before it is given up");
    let then = certificate("given up", |it| it.unused.is_some());
    assert_eq!((then.revision, container.state().unwrap().pid), (1, before));
    container.annotate_with("tf.tungsten.io/active-certificate", then.unused.as_ref());
    let last = certificate("the daemon to begin with it", |it| it.revision == 2);
    assert_eq!((last.unread, last.unused), (None, None));
    assert_ne!(container.state().unwrap().pid, before);
}

/// A container beside the one whose agent answers, with files of its own for its daemon.
struct Companion {
    child: Child,
    _root: TempDir,
}

impl Companion {
    fn run(pod: &Container, daemon: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let shared = [node::STATE_DIR, node::CERTIFICATE_DIR, node::CA_DIR, node::CONFIG_DIR, node::POD_INFO_DIR];
        for directory in shared {
            let path = Paths::below(root.path()).at(directory);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::create_dir_all(pod.path(directory)).unwrap();
            symlink(pod.path(directory), path).unwrap();
        }
        let mut command = pod.command(&[]);
        command.arg("--root").arg(root.path()).args(["run", daemon]);
        Self { child: command.spawn().unwrap(), _root: root }
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

#[test]
fn daemons_that_read_their_certificate_when_they_start_go_by_the_former_one_until_their_operator_says_when() {
    const BESIDE: [&str; 2] = ["beside", "without"];
    let Some(address) = own_address() else {
        println!("skipped: this machine has no address");
        return;
    };
    let (server, old, new) = (ApiServer::start(), Authority::new(), Authority::new());
    server.behave(operator(&old, identity(address, &["db.tf.svc"])));
    let mut container = member(&server, address);
    let port = free_port(address);
    let mut told = launch(port, &["db.tf.svc"]);
    let asked = told.identity.as_mut().unwrap();
    (asked.required, asked.at_start) = (true, true);
    let without = shell("while :; do sleep 0.05; done");
    let beside = Launch { awaits: vec![node::CERTIFICATE.into()], ..without.clone() };
    let launches = [beside, without].map(|launch| launch.render().unwrap());
    container.configure(&told, &files([("beside.launch", &launches[0]), ("without.launch", &launches[1])]));
    trust(&container, 1, &[&old]);
    container.run();
    let _companions = BESIDE.map(|daemon| Companion::run(&container, daemon));
    let status = || status(&old, SocketAddr::new(address, port.get()));
    let certificate = |what: &str, is_it: fn(&state::Certificate) -> bool| {
        container.wait_for(what, || status()?.certificate.filter(is_it))
    };
    let pids = || -> Option<Vec<i32>> {
        let state = |daemon| state_file::read(&container.paths(), daemon);
        [DAEMON, "beside", "without"].map(|daemon| state(daemon)?.pid).into_iter().collect()
    };
    let before = container.wait_for("the daemons to run", pids);
    let first = certificate("the first certificate", |it| it.revision == 1);
    assert_eq!(first.unused, None, "the daemons began with it");

    trust(&container, 2, &[&old, &new]);
    let then = certificate("another bundle", |it| it.unused.is_some());
    assert_eq!((then.revision, then.unread), (1, None), "the daemons go by what they had");
    container.annotate_with("tf.tungsten.io/active-certificate", Some(&"0".repeat(32).parse().unwrap()));
    settle();
    assert_eq!(
        pids().unwrap(),
        before,
        "when they are started anew is not for the agent to say, nor for what is not there"
    );

    container.annotate_with("tf.tungsten.io/active-certificate", then.unused.as_ref());
    let last = certificate("the daemons to begin with it", |it| it.revision == 2);
    assert_eq!(last.unused, None);
    let after = container.wait_for("the daemons to run again", pids);
    let is_other: Vec<bool> = before.iter().zip(&after).map(|(before, after)| before != after).collect();
    assert_eq!(is_other, [true, true, false], "only those that read it are started anew");

    // One that ends by itself begins with what there is.
    trust(&container, 3, &[&new, &old]);
    certificate("a third bundle", |it| it.unused.is_some());
    for pid in &pids().unwrap()[..2] {
        kill_process(Pid::from_raw(*pid).unwrap(), Signal::KILL).unwrap();
    }
    assert_eq!(certificate("the daemons to begin with that", |it| it.revision == 3).unused, None);
}
