//! Clients that speak nothing but TLS: the plain port is closed to them while they are served, and opened again.

use std::sync::Arc;
use std::time::Instant;

use anyhow::ensure;
use jiff::Timestamp;
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use serde_json::Value;
use tokio::io::copy_bidirectional;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use zookeeper_client::{Acls, CreateMode, Error};

use super::journal::{self, Journal};
use super::tls::{CHANGE, TLS_PORT, connect, trusting, uids};
use super::*;

/// For a server to refuse who shows nothing, or what is not good.
const REFUSAL: Duration = Duration::from_secs(5);
/// Three changes of the list, one after the other, and the kubelets bringing it into the pods.
const MOVE: Duration = Duration::from_mins(5);

fn spec(plain: &str, authentication: &str) -> Value {
    let tls = json!({"clientPort": TLS_PORT, "plainClients": plain, "clientAuthentication": authentication});
    json!({"serviceConfiguration": {"tls": tls}})
}

/// A client's configuration with a certificate that the authority of the namespace signed.
async fn certified_client(client: &Client) -> Result<Arc<ClientConfig>> {
    let pair = store::authority(client).await?.operator("some-client", Duration::from_hours(1), Timestamp::now())?;
    let chain = CertificateDer::pem_slice_iter(pair.issued.pem.as_bytes()).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())?;
    Ok(Arc::new(trusting(client).await?.with_client_auth_cert(chain, key)?))
}

/// What a server answers to a client that speaks TLS with this configuration.
async fn ask_over_tls(config: &Arc<ClientConfig>, address: IpAddr, word: &str) -> Result<String> {
    let mut stream = connect(config, address, TLS_PORT).await?;
    stream.write_all(word.as_bytes()).await?;
    let mut answer = Vec::new();
    // The server closes without saying so.
    let _ = timeout(REFUSAL, stream.read_to_end(&mut answer)).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The part that each server plays, sorted, asked for over TLS.
async fn modes_over_tls(config: &Arc<ClientConfig>, addresses: &[IpAddr]) -> Result<Vec<String>> {
    let mut modes = Vec::new();
    for address in addresses {
        let answer = ask_over_tls(config, *address, "srvr").await?;
        let mode = answer.lines().find_map(|line| line.strip_prefix("Mode: "));
        modes.push(mode.with_context(|| format!("{address} answered {answer:?}"))?.to_owned());
    }
    modes.sort();
    Ok(modes)
}

/// For how long servers have run, in their own words over TLS.
struct Uptimes {
    asked: Instant,
    milliseconds: Vec<u64>,
}

impl Uptimes {
    async fn ask(config: &Arc<ClientConfig>, addresses: &[IpAddr]) -> Result<Self> {
        let (asked, mut milliseconds) = (Instant::now(), Vec::new());
        for address in addresses {
            let answer = ask_over_tls(config, *address, "mntr").await?;
            let uptime = answer.lines().find_map(|line| line.strip_prefix("zk_uptime\t"));
            milliseconds.push(uptime.with_context(|| format!("{address} answered {answer:?}"))?.parse()?);
        }
        Ok(Self { asked, milliseconds })
    }

    /// Fails if a server was started anew before these were asked for.
    fn went_on(&self, later: &Self) -> Result<()> {
        let passed = (later.asked - self.asked).as_millis() as u64;
        for (former, now) in self.milliseconds.iter().zip(&later.milliseconds) {
            // What was counted before is counted with what it took to ask.
            ensure!(now + 2000 >= former + passed, "a server was started anew: {former}, {now} after {passed} ms");
        }
        Ok(())
    }
}

/// Ways into TLS for a client that speaks none: one loopback address per server, on the port that clients use.
struct Tunnels {
    entrances: Vec<IpAddr>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Tunnels {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Tunnels {
    async fn to(addresses: &[IpAddr], config: &Arc<ClientConfig>) -> Result<Self> {
        let mut tunnels = Self { entrances: Vec::new(), tasks: Vec::new() };
        for (address, number) in addresses.iter().copied().zip(1..) {
            let (entrance, config) = (IpAddr::from([127, 0, 9, number]), Arc::clone(config));
            let listener = TcpListener::bind((entrance, CLIENT_PORT)).await?;
            tunnels.entrances.push(entrance);
            tunnels.tasks.push(tokio::spawn(async move {
                while let Ok((mut near, _)) = listener.accept().await {
                    let config = Arc::clone(&config);
                    tokio::spawn(async move {
                        if let Ok(mut far) = connect(&config, address, TLS_PORT).await {
                            let _ = copy_bidirectional(&mut near, &mut far).await;
                        }
                    });
                }
            }));
        }
        Ok(tunnels)
    }
}

/// What a server answers on the loopback address of its own node.
async fn ask_on_the_node(lab: &Lab, address: IpAddr) -> Result<String> {
    let nodes = lab.real_nodes()?.all()?;
    let node = nodes.iter().find(|node| node.address() == address).context("no such node")?;
    let loopback = if address.is_ipv6() { "::1" } else { "127.0.0.1" };
    let script = format!("exec 3<>/dev/tcp/{loopback}/{CLIENT_PORT} && printf srvr >&3 && cat <&3");
    node.run("bash", &["-c", &script]).await
}

/// Applies a spec and waits until it is carried out.
async fn change(client: &Client, spec: Value, limit: Duration) -> Result<Resource> {
    resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, spec).await?;
    resources::ready(client, ZOOKEEPER, NAMESPACE, NAME, limit).await
}

fn endpoints(zookeeper: &Resource) -> Vec<&str> {
    let endpoints = zookeeper.object.data["status"]["endpoints"].as_array().into_iter().flatten();
    endpoints.filter_map(|endpoint| endpoint["name"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_speak_tls_alone_and_show_certificates_and_nobody_loses_a_session_on_the_way_there_and_back()
-> Result<()> {
    if !Long::Clients.is_drawn()? {
        return Ok(());
    }
    with_lab(3, async |lab, client| {
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, spec("Everywhere", "None")).await?;
        certified(client).await?;
        let addresses = lab.real_nodes()?.addresses()?;
        let stranger = Arc::new(trusting(client).await?.with_no_client_auth());
        let known = certified_client(client).await?;
        let tunnels = Tunnels::to(&addresses, &known).await?;
        let journal = Journal::begin(&tunnels.entrances).await?;
        let (pods, begun) = (uids(client).await?, Uptimes::ask(&stranger, &addresses).await?);

        let closed = change(client, spec("Node", "None"), MOVE).await?;
        assert_eq!(endpoints(&closed), ["client-tls"]);
        for address in &addresses {
            let refused = TcpStream::connect((*address, CLIENT_PORT)).await;
            assert!(refused.is_err(), "{address} takes clients without TLS");
            let answer = ask_on_the_node(lab, *address).await?;
            assert!(answer.contains("Mode: "), "{address} answered {answer:?}");
        }
        assert_eq!(modes_over_tls(&stranger, &addresses).await?, ["follower", "follower", "leader"]);
        begun.went_on(&Uptimes::ask(&stranger, &addresses).await?)?;

        change(client, spec("Node", "Require"), CHANGE).await?;
        assert_eq!(modes_over_tls(&known, &addresses).await?, ["follower", "follower", "leader"]);
        for address in &addresses {
            let answer = ask_over_tls(&stranger, *address, "srvr").await.unwrap_or_default();
            assert_eq!(answer, "", "{address} serves a client without a certificate");
        }
        journal.goes_on().await?;
        let owner = CreateMode::Persistent.with_acls(Acls::creator_all());
        journal::connect(&tunnels.entrances).await?.create("/owned", b"", &owner).await?;

        change(client, spec("Node", "Request"), CHANGE).await?;
        for config in [&stranger, &known] {
            assert_eq!(modes_over_tls(config, &addresses).await?, ["follower", "follower", "leader"]);
        }

        let begun = Uptimes::ask(&stranger, &addresses).await?;
        let open = change(client, spec("Everywhere", "Request"), MOVE).await?;
        assert_eq!(endpoints(&open), ["client", "client-tls"]);
        assert_eq!(modes(&addresses).await?, ["follower", "follower", "leader"]);
        begun.went_on(&Uptimes::ask(&stranger, &addresses).await?)?;
        ensure!(uids(client).await? == pods, "pods are the same");
        let unknown = journal::connect(&addresses).await?.get_data("/owned").await;
        assert!(matches!(unknown, Err(Error::NoAuth)), "{unknown:?}");

        let account = journal.end(&tunnels.entrances).await?;
        assert_eq!(account.lost_sessions, 0, "{:?}", account.longest_pause);
        println!("{} writes, longest pause {:?}", account.acknowledged.len(), account.longest_pause);
        Ok(())
    })
    .await
}
