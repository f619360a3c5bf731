//! The servers of a running ensemble change over to TLS with each other, and back, and nobody notices.

use std::{net::IpAddr, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio_rustls::TlsConnector;

use super::journal::Journal;
use super::*;

/// On which every server listens for elections.
const ELECTION_PORT: u16 = 3888;
/// For clients that speak TLS.
const TLS_PORT: u16 = 2281;
/// Three rounds, in each of which three servers in Java are restarted one after the other.
const CHANGE: Duration = Duration::from_mins(9);
/// For a server to turn away what it does not understand.
const REFUSAL: Duration = Duration::from_secs(3);

fn spec(quorum: bool) -> Value {
    json!({"serviceConfiguration": {"tls": {"quorum": quorum, "clientPort": TLS_PORT}}})
}

/// Uids of the ensemble's pods, by name.
async fn pods(client: &Client) -> Result<Vec<(Option<String>, Option<String>)>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let list = pods.list(&ListParams::default().labels("tf_manager=zookeeper")).await?;
    Ok(list.into_iter().map(|pod| (pod.metadata.name, pod.metadata.uid)).collect())
}

/// Whether a server waits for more after the beginning of a message that is no TLS.
async fn takes_plain_tcp(address: Ipv4Addr) -> Result<bool> {
    let mut stream = TcpStream::connect((address, ELECTION_PORT)).await?;
    stream.write_all(&[0; 5]).await?;
    Ok(timeout(REFUSAL, stream.read(&mut [0; 64])).await.is_err())
}

/// A connection to a server whose certificate is good for its address, as the authority of the namespace says.
async fn tls(client: &Client, address: Ipv4Addr, port: u16) -> Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let bundles: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let bundle = bundles.get("tf-ca").await?.data.unwrap_or_default();
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle["ca-bundle.crt"].as_bytes()) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(rustls::DEFAULT_VERSIONS)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect((address, port)).await?;
    let name = ServerName::from(IpAddr::from(address));
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
    timeout(Duration::from_secs(10), connecting).await?.with_context(|| format!("TLS with {address}:{port}"))
}

/// What a server answers to a client that speaks TLS.
async fn ask_over_tls(client: &Client, address: Ipv4Addr, word: &str) -> Result<String> {
    let mut stream = tls(client, address, TLS_PORT).await?;
    stream.write_all(word.as_bytes()).await?;
    let mut answer = Vec::new();
    // The server closes without saying so.
    let _ = timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_change_over_to_tls_and_back_while_they_serve_and_keep_pods_and_sessions() -> Result<()> {
    let Some(lab) = lab(3).await? else { return Ok(()) };
    let client = lab.client().await?;
    resources::apply(&client, ZOOKEEPER, NAMESPACE, NAME, spec(false)).await?;
    let certified = |zookeeper: &Resource| zookeeper.is("CertificatesReady", "True") && zookeeper.is_ready();
    let zookeeper = resources::until(&client, ZOOKEEPER, NAMESPACE, NAME, "certificates", BRING_UP, certified).await?;
    let endpoint = json!({"name": "client-tls", "port": TLS_PORT, "tls": true});
    let endpoints = zookeeper.object.data["status"]["endpoints"].as_array().cloned().unwrap_or_default();
    let is_published = |published: &Value| ["name", "port", "tls"].iter().all(|key| published[key] == endpoint[key]);
    assert!(endpoints.iter().any(is_published), "{endpoints:?}");
    let addresses: Vec<Ipv4Addr> = lab.real_nodes()?.all()?.iter().map(tf_testing::RealNode::address).collect();
    for address in &addresses {
        let answer = ask_over_tls(&client, *address, "srvr").await?;
        assert!(answer.contains("Mode: "), "{address} answered {answer:?}");
        assert!(takes_plain_tcp(*address).await?, "{address}");
    }

    let (journal, before) = (Journal::begin(&addresses).await?, pods(&client).await?);
    for (quorum, mode) in [(true, json!({"mode": "Required"})), (false, Value::Null)] {
        resources::apply(&client, ZOOKEEPER, NAMESPACE, NAME, spec(quorum)).await?;
        let arrived = |zookeeper: &Resource| {
            zookeeper.is_ready() && zookeeper.object.data["status"].get("quorumTls").unwrap_or(&Value::Null) == &mode
        };
        let what = format!("quorum TLS as {mode}");
        resources::until(&client, ZOOKEEPER, NAMESPACE, NAME, &what, CHANGE, arrived).await?;
        assert_eq!(modes(&addresses).await?, ["follower", "follower", "leader"]);
        assert_eq!(pods(&client).await?, before, "pods are the same");
        for address in &addresses {
            assert_eq!(takes_plain_tcp(*address).await?, !quorum, "{address}");
            if quorum {
                tls(&client, *address, ELECTION_PORT).await?;
            }
        }
    }
    let account = journal.end(&addresses).await?;
    assert_eq!(account.lost_sessions, 0, "{:?}", account.longest_pause);
    println!("{} writes, longest pause {:?}", account.acknowledged.len(), account.longest_pause);
    Ok(())
}
