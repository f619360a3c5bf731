//! The servers of a running ensemble change over to TLS with each other, and back, and nobody notices.

use std::{net::IpAddr, sync::Arc, time::Instant};

use anyhow::ensure;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, Patch, PatchParams};
use rustls::client::WantsClientCert;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use serde_json::Value;
use tf_api::names::{ANNOTATION_ROTATE, AUTHORITY};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::journal::Writers;
use super::watchman::{Watch, Watchman};
use super::*;
use crate::tls::own_certificate;

/// On which every server listens for elections.
pub const ELECTION_PORT: u16 = 3888;
/// For clients that speak TLS.
pub const TLS_PORT: u16 = 2281;
/// Three rounds, in each of which three servers in Java are restarted one after the other.
pub const CHANGE: Duration = Duration::from_mins(9);
/// Kubelets take a minute to bring a changed ConfigMap into a pod, and a rotation changes it three times.
pub const ROTATION: Duration = Duration::from_mins(9);
/// For a server to turn away what it does not understand.
const REFUSAL: Duration = Duration::from_secs(3);

pub fn spec(quorum: bool) -> Value {
    json!({"serviceConfiguration": {"tls": {"quorum": quorum, "clientPort": TLS_PORT}}})
}

/// Whether the ensemble has changed over to TLS between its servers, or back.
pub fn has_changed_over(zookeeper: &Resource, quorum: bool) -> bool {
    let modes = &zookeeper.object.data["status"]["quorumTls"];
    if quorum { *modes == json!({"mode": "Required"}) } else { modes.is_null() }
}

/// Uids of the ensemble's pods, by name.
pub async fn uids(client: &Client) -> Result<BTreeMap<String, Option<String>>> {
    STORE.uids(client).await
}

/// Whether a server waits for more after the beginning of a message that is no TLS.
async fn takes_plain_tcp(address: IpAddr) -> Result<bool> {
    let mut stream = TcpStream::connect((address, ELECTION_PORT)).await?;
    stream.write_all(&[0; 5]).await?;
    Ok(timeout(REFUSAL, stream.read(&mut [0; 64])).await.is_err())
}

/// The certificates of the authorities that members are told to trust.
async fn authorities(client: &Client) -> Result<Vec<CertificateDer<'static>>> {
    let bundles: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let bundle = bundles.get(AUTHORITY).await?.data.unwrap_or_default();
    Ok(CertificateDer::pem_slice_iter(bundle["ca-bundle.crt"].as_bytes()).collect::<Result<_, _>>()?)
}

/// What a client begins with that trusts the authority of the namespace.
pub async fn trusting(client: &Client) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>> {
    trusting_these(authorities(client).await?)
}

/// The same with these authorities.
pub fn trusting_these(
    authorities: Vec<CertificateDer<'static>>,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>> {
    let mut roots = RootCertStore::empty();
    for certificate in authorities {
        roots.add(certificate)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(rustls::DEFAULT_VERSIONS)?;
    Ok(builder.with_root_certificates(roots))
}

/// A connection to a server whose certificate is good for its address.
pub async fn connect(config: &Arc<ClientConfig>, address: IpAddr, port: u16) -> Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect((address, port)).await?;
    let name = ServerName::from(address);
    let connecting = TlsConnector::from(Arc::clone(config)).connect(name, stream);
    timeout(Duration::from_secs(10), connecting).await?.with_context(|| format!("TLS with {address}:{port}"))
}

/// The same for a client that shows nothing and trusts what it does at the moment.
async fn tls(client: &Client, address: IpAddr, port: u16) -> Result<TlsStream<TcpStream>> {
    connect(&Arc::new(trusting(client).await?.with_no_client_auth()), address, port).await
}

/// What a server answers to a client that speaks TLS.
async fn ask_over_tls(client: &Client, address: IpAddr, word: &str) -> Result<String> {
    let mut stream = tls(client, address, TLS_PORT).await?;
    stream.write_all(word.as_bytes()).await?;
    let mut answer = Vec::new();
    // The server closes without saying so.
    let _ = timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_change_over_to_tls_and_back_while_they_serve_and_keep_pods_and_sessions() -> Result<()> {
    if !Long::Tls.is_drawn()? {
        return Ok(());
    }
    with_lab(3, async |lab, client| {
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, spec(false)).await?;
        let zookeeper = certified(client).await?;
        let endpoint = json!({"name": "client-tls", "port": TLS_PORT, "tls": true});
        let endpoints = zookeeper.object.data["status"]["endpoints"].as_array().cloned().unwrap_or_default();
        let is_published =
            |published: &Value| ["name", "port", "tls"].iter().all(|key| published[key] == endpoint[key]);
        assert!(endpoints.iter().any(is_published), "{endpoints:?}");
        let addresses = lab.real_nodes()?.addresses()?;
        for address in &addresses {
            let answer = ask_over_tls(client, *address, "srvr").await?;
            assert!(answer.contains("Mode: "), "{address} answered {answer:?}");
            assert!(takes_plain_tcp(*address).await?, "{address}");
        }

        let (writers, before) = (Writers::begin(&addresses).await?, uids(client).await?);
        let watchman = Watchman::begin(client, Watch::OneAtATime);
        for quorum in [true, false] {
            resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, spec(quorum)).await?;
            let arrived = |zookeeper: &Resource| zookeeper.is_ready() && has_changed_over(zookeeper, quorum);
            let what = format!("quorum TLS: {quorum}");
            resources::until(client, ZOOKEEPER, NAMESPACE, NAME, &what, CHANGE, arrived).await?;
            assert_eq!(modes(&addresses).await?, ["follower", "follower", "leader"]);
            assert_eq!(uids(client).await?, before, "pods are the same");
            for address in &addresses {
                assert_eq!(takes_plain_tcp(*address).await?, !quorum, "{address}");
                if quorum {
                    tls(client, *address, ELECTION_PORT).await?;
                }
            }
        }
        watchman.end()?;
        writers.end(&addresses).await?;
        Ok(())
    })
    .await
}

/// The certificate that a server shows to clients.
async fn shown(client: &Client, address: IpAddr) -> Result<CertificateDer<'static>> {
    own_certificate(&tls(client, address, TLS_PORT).await?)
}

/// Whether the status tells that one authority replaces another.
pub fn is_rotating(zookeeper: &Resource) -> bool {
    let condition = zookeeper.condition("CertificatesReady");
    condition.is_some_and(|condition| condition.message.contains("is being replaced"))
}

/// Milliseconds since a server was started or, where it follows, since the last election.
async fn uptime(address: IpAddr) -> Result<u64> {
    let answer = ask(address, "mntr").await?;
    let uptime = answer.lines().find_map(|line| line.strip_prefix("zk_uptime\t"));
    Ok(uptime.with_context(|| format!("{address} answered {answer:?}"))?.parse()?)
}

/// The ensemble before something that nobody is to notice.
pub struct Before {
    writers: Writers,
    pods: BTreeMap<String, Option<String>>,
    addresses: Vec<IpAddr>,
    begun: Instant,
}

impl Before {
    /// Begins to write, and looks.
    pub async fn look(client: &Client, addresses: &[IpAddr]) -> Result<Self> {
        let (writers, pods) = (Writers::begin(addresses).await?, uids(client).await?);
        Ok(Self { writers, pods, addresses: addresses.to_vec(), begun: Instant::now() })
    }

    /// Fails if a pod is another one, or a server was started anew.
    pub async fn still_runs(&self, client: &Client) -> Result<()> {
        ensure!(uids(client).await? == self.pods, "pods are the same");
        for address in &self.addresses {
            let passed = self.begun.elapsed().as_millis() as u64;
            let runs = uptime(*address).await?;
            ensure!(runs >= passed, "{address} was started anew: it runs for {runs} ms, and {passed} ms have passed");
        }
        Ok(())
    }

    /// Ends the writers, who have lost nothing and no session. Their longest pause.
    pub async fn end(self) -> Result<Duration> {
        ensure!(modes(&self.addresses).await? == ["follower", "follower", "leader"]);
        self.writers.end(&self.addresses).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_renewed_while_servers_and_clients_use_them_and_nobody_is_interrupted() -> Result<()> {
    if !Long::Renewal.is_drawn()? {
        return Ok(());
    }
    with_lab(3, async |lab, client| {
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, spec(true)).await?;
        certified(client).await?;
        let addresses = lab.real_nodes()?.addresses()?;
        let before = Before::look(client, &addresses).await?;
        let mut former = Vec::new();
        for address in &addresses {
            former.push(shown(client, *address).await?);
        }
        // A shorter life than those in use have: members ask for others.
        let mut shorter = spec(true);
        shorter["commonConfiguration"] = json!({"certificates": {"duration": "24h"}});
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, shorter).await?;
        for (address, certificate) in addresses.iter().zip(&former) {
            eventually(&format!("another certificate on {address}"), CHANGE, async || {
                Ok((shown(client, *address).await? != *certificate).then_some(()))
            })
            .await?;
        }
        resources::ready(client, ZOOKEEPER, NAMESPACE, NAME, CHANGE).await?;
        before.still_runs(client).await?;
        let pause = before.end().await?;
        // Nobody is restarted, so nobody waits longer than for a slow machine.
        ensure!(pause < Duration::from_secs(5), "{pause:?}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn another_authority_takes_over_while_its_certificates_are_in_use_and_nobody_is_interrupted() -> Result<()> {
    if !Long::Rotation.is_drawn()? {
        return Ok(());
    }
    with_lab(3, async |lab, client| {
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, spec(true)).await?;
        certified(client).await?;
        let addresses = lab.real_nodes()?.addresses()?;
        let before = Before::look(client, &addresses).await?;
        let old = authorities(client).await?;
        ensure!(old.len() == 1, "{} authorities", old.len());

        let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
        let request = json!({"metadata": {"annotations": {ANNOTATION_ROTATE: "now"}}});
        secrets.patch(AUTHORITY, &PatchParams::default(), &Patch::Merge(request)).await?;
        resources::until(client, ZOOKEEPER, NAMESPACE, NAME, "a rotation", Duration::from_mins(1), is_rotating).await?;
        eventually("one authority, another one", ROTATION, async || {
            let now = authorities(client).await?;
            Ok((now.len() == 1 && now != old).then_some(()))
        })
        .await?;
        // Good by the new authority alone, whose bundle this client takes.
        for address in &addresses {
            shown(client, *address).await?;
            tls(client, *address, ELECTION_PORT).await?;
        }
        let is_over = |zookeeper: &Resource| zookeeper.is_ready() && !is_rotating(zookeeper);
        resources::until(client, ZOOKEEPER, NAMESPACE, NAME, "Ready, nothing replaced", CHANGE, is_over).await?;
        before.still_runs(client).await?;
        // The agents are still called, and a member that starts now is let in.
        let killed = before.pods.keys().next().context("a pod")?;
        Api::<Pod>::namespaced(client.clone(), NAMESPACE).delete(killed, &DeleteParams::default()).await?;
        let is_anew = async || {
            let now = uids(client).await?;
            Ok((now.get(killed).is_some_and(|uid| uid != &before.pods[killed])).then_some(()))
        };
        eventually("another pod", Duration::from_mins(1), is_anew).await?;
        certified(client).await?;
        before.end().await?;
        Ok(())
    })
    .await
}
