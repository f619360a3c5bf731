//! How a daemon comes by the certificate that the administrator put on its node.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{collections::BTreeSet, fs, net::Ipv4Addr, num::NonZeroU16, os::unix::fs::PermissionsExt as _};

use common::{
    Container, files, settle, shell,
    tls::{Authority, Leaf, certify, put},
};
use rcgen::{CertificateParams, KeyPair, SanType};
use tf_agent_api::{
    launch::{Agent, HostFiles, Identity, Launch},
    node,
};
use tf_pki::{bundle::Bundle, certificate::Certificate};

/// A member of documentation's network: nothing is reached by its address here.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const KEY: &str = "certs/server-key-192.0.2.1.pem";
const CERTIFICATE: &str = "certs/server-192.0.2.1.crt";
const BUNDLE: &str = "ca-certs/ca-bundle.crt";

fn launch(host_files: Option<HostFiles>) -> Launch {
    let mut launch = shell("while :; do sleep 0.05; done");
    launch.agent = Some(Agent { port: NonZeroU16::new(9).unwrap(), client: "operator".into() });
    launch.identity = Some(Identity {
        services: BTreeSet::new(),
        lifetime_seconds: 3600,
        required: false,
        host_files,
        reload: None,
        at_start: false,
    });
    launch
}

/// A certificate for the member's address.
fn leaf(authority: &Authority) -> Leaf {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![SanType::IpAddress(ADDRESS.into())];
    Leaf { certificate: authority.sign(&params, &key), key: key.serialize_pem() }
}

/// A running member with a certificate of the operators' authority.
fn member(own: &Authority) -> Container {
    let mut container = Container::new();
    container.environment.push(("POD_IP".into(), ADDRESS.to_string()));
    let trusted = files([("ca-bundle.crt", &own.pem), ("revision", "1")]);
    container.publish(&container.path(node::CA_DIR), &trusted);
    certify(&container, &leaf(own));
    follow(&container, Some(HostFiles::Trusted));
    container.run();
    container
}

fn follow(container: &Container, host_files: Option<HostFiles>) {
    let hash = container.configure(&launch(host_files), &files([]));
    container.annotate(Some(&hash));
}

fn supply(container: &Container, authority: &Authority, leaf: &Leaf) {
    let texts = [(BUNDLE, &authority.pem), (KEY, &leaf.key), (CERTIFICATE, &leaf.certificate)];
    for (name, text) in texts {
        put(&container.path(node::HOST_FILES_DIR).join(name), text);
    }
}

/// Waits until the daemon shows this certificate, with the key that belongs to it.
fn shows(container: &Container, what: &str, leaf: &Leaf) {
    let wanted = Certificate::first_from_pem(&leaf.certificate).unwrap();
    container.wait_for(what, || {
        let store = fs::read_to_string(container.path(node::KEYSTORE_PEM)).ok()?;
        let shown = Certificate::first_from_pem(&store).ok()?;
        (shown == wanted && shown.is_for_key(&store)).then_some(())
    });
}

fn trusts(container: &Container, what: &str, authorities: &[&Authority]) {
    let wanted: BTreeSet<_> =
        authorities.iter().flat_map(|authority| Bundle::from_pem(&authority.pem).unwrap().fingerprints()).collect();
    container.wait_for(what, || {
        let store = fs::read_to_string(container.path(node::TRUSTSTORE_PEM)).ok()?;
        (Bundle::from_pem(&store).ok()?.fingerprints() == wanted).then_some(())
    });
}

fn says(container: &Container, text: &str) {
    container.wait_for(text, || container.log().contains(text).then_some(()));
}

#[test]
fn the_daemon_trusts_then_shows_what_is_on_the_node_and_keeps_what_was_good() {
    let (own, host) = (Authority::new(), Authority::new());
    let mut container = member(&own);
    let issued = Leaf {
        certificate: fs::read_to_string(container.path(node::CERTIFICATE)).unwrap(),
        key: fs::read_to_string(container.path(node::CERTIFICATE_KEY)).unwrap(),
    };
    says(&container, "/etc/contrail/ssl/certs/server-192.0.2.1.crt is missing");
    shows(&container, "the own one, as nothing else is there", &issued);
    trusts(&container, "the operators' authority alone", &[&own]);

    put(&container.path(node::HOST_FILES_DIR).join(BUNDLE), &host.pem);
    trusts(&container, "both, before there is a certificate", &[&own, &host]);
    let first = leaf(&host);
    supply(&container, &host, &first);
    trusts(&container, "both", &[&own, &host]);
    settle();
    shows(&container, "the own one, as long as others may not trust the node's", &issued);
    follow(&container, Some(HostFiles::Shown));
    shows(&container, "that of the node", &first);

    // Renewed, spoilt, gone, by an authority that is not in the bundle: what was good stays.
    let second = leaf(&host);
    supply(&container, &host, &second);
    shows(&container, "the renewed one", &second);
    let path = |name: &str| container.path(node::HOST_FILES_DIR).join(name);
    put(&path(CERTIFICATE), &first.certificate);
    says(&container, "server-192.0.2.1.crt is for another key");
    put(&path(BUNDLE), &own.pem);
    put(&path(CERTIFICATE), &second.certificate);
    says(&container, "server-192.0.2.1.crt is not issued by an authority of");
    fs::remove_file(path(KEY)).unwrap();
    put(&path(BUNDLE), "none");
    says(&container, "server-key-192.0.2.1.pem is missing");
    settle();
    shows(&container, "what was good", &second);
    trusts(&container, "what was good", &[&own, &host]);

    // Another container of the pod has what was good before, too.
    container.terminate();
    container.run();
    settle();
    shows(&container, "what was good, after a restart", &second);
    supply(&container, &host, &first);
    shows(&container, "what is good again", &first);

    follow(&container, None);
    shows(&container, "the own one at last", &issued);
    trusts(&container, "the operators' authority alone at last", &[&own]);
    container.wait_for("nothing left", || {
        (!container.path(node::CERTIFICATE_DIR).join(".host-files").exists()).then_some(())
    });
    for file in [node::KEYSTORE_PEM, node::TRUSTSTORE_PEM] {
        assert_eq!(fs::metadata(container.path(file)).unwrap().permissions().mode() & 0o777, 0o640);
    }
    let log = container.log();
    for key in [&issued.key, &first.key, &second.key] {
        assert!(!log.contains(key.lines().nth(1).unwrap()), "a key in the log");
    }
}

#[test]
fn the_daemon_is_not_restarted_for_any_of_it() {
    let (own, host) = (Authority::new(), Authority::new());
    let container = member(&own);
    let pid = container.wait("running", |state| state.pid.is_some()).pid;
    let leaf = leaf(&host);
    supply(&container, &host, &leaf);
    follow(&container, Some(HostFiles::Shown));
    shows(&container, "that of the node", &leaf);
    follow(&container, None);
    trusts(&container, "the operators' authority", &[&own]);
    assert_eq!(container.state().unwrap().pid, pid);
}

/// What would never end, or is another's.
#[test]
fn files_that_cannot_be_read_are_told_and_hold_nothing_up() {
    let own = Authority::new();
    let container = member(&own);
    let directory = container.path(node::HOST_FILES_DIR);
    fs::create_dir_all(directory.join(CERTIFICATE)).unwrap();
    let pipe = directory.join(KEY);
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    put(&directory.join(BUNDLE), &"x".repeat(1024 * 1024 + 1));
    says(&container, "server-key-192.0.2.1.pem is no file of up to 1 MiB of text");
    says(&container, "server-192.0.2.1.crt is no file");
    says(&container, "ca-bundle.crt is no file");
}
