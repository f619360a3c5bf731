//! The config API of every Config whose pods are played: `tf-sim` answers, in memory, as long as one of these pods is Ready.
//!
//! Nobody can connect to the address of a simulated node. Operators reach it through a proxy of HTTP instead (`CONFIG_API_PROXY`): whoever asks
//! it for the address and port of a member gets to the API of that Config, with a certificate of the authority of its namespace. Through every
//! member of a Config the same objects are seen. A Keystone that a resource names is played, too, unless it is a real one on this machine.

pub mod keystone;

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{
    Client, ResourceExt as _,
    api::{Api, DynamicObject, ListParams},
};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tf_api::{kinds::CONFIG, names::AUTHORITY};
use tf_plan::object::Kind;
use tf_sim::rest::{Memory, Rest, converse};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use crate::{lab::client, pki::Authority, resources::resource_of};

/// For a request to connect, and for a handshake.
const PATIENCE: Duration = Duration::from_secs(5);
/// Of the head of a request, in bytes.
const LONGEST: usize = 4096;

/// All of them. They end with it.
#[derive(Debug)]
pub struct ConfigApis {
    address: SocketAddr,
    known: Known,
    // A runtime of its own: the tests that share a lab each have one, and it ends before the lab does.
    runtime: Option<Runtime>,
}

/// What each Config was told, by its uid.
type Known = Arc<Mutex<HashMap<String, Arc<Rest<Memory>>>>>;

impl ConfigApis {
    /// Starts them for the cluster of this kubeconfig.
    pub fn start(kubeconfig: &Path) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let known = Known::default();
        let listener = runtime.block_on_elsewhere(TcpListener::bind("127.0.0.1:0"))??;
        let address = listener.local_addr()?;
        runtime.spawn(serve(listener, kubeconfig.to_owned(), Arc::clone(&known)));
        Ok(Self { address, known, runtime: Some(runtime) })
    }

    /// Where the proxy is.
    pub fn proxy(&self) -> String {
        self.address.to_string()
    }

    /// What the API of a Config was told; none if nobody has asked it yet.
    pub fn of(&self, uid: &str) -> Option<Arc<Rest<Memory>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(uid).cloned()
    }
}

impl Drop for ConfigApis {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Waiting for something that runs in another runtime than the caller's.
trait Elsewhere {
    fn block_on_elsewhere<F>(&self, future: F) -> Result<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static;
}

impl Elsewhere for Runtime {
    fn block_on_elsewhere<F>(&self, future: F) -> Result<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.spawn(async move { sender.send(future.await) });
        Ok(receiver.recv()?)
    }
}

async fn serve(listener: TcpListener, kubeconfig: std::path::PathBuf, known: Known) {
    let Ok(client) = client(&kubeconfig).await else { return };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (client, known) = (client.clone(), Arc::clone(&known));
        tokio::spawn(async move {
            if let Err(error) = connect(stream, &client, &known).await {
                tracing::debug!("config API: {error:#}");
            }
        });
    }
}

async fn connect(mut stream: TcpStream, client: &Client, known: &Known) -> Result<()> {
    const CONNECTED: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";
    const NOT_CONNECTED: &[u8] = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n";
    let target = timeout(PATIENCE, target(&mut stream)).await??;
    if let Some(named) = keystone::at(client, &target).await? {
        if !named.listens(&target) {
            return Ok(stream.write_all(NOT_CONNECTED).await?);
        }
        stream.write_all(CONNECTED).await?;
        if !named.tls {
            return keystone::serve(stream, &named, &target).await;
        }
        let tls = server(client, &named.namespace, &named.host).await?;
        let stream = timeout(PATIENCE, TlsAcceptor::from(tls).accept(stream)).await??;
        return keystone::serve(stream, &named, &target).await;
    }
    let found = member(client, &target, known).await;
    let Ok((rest, tls)) = found else {
        stream.write_all(NOT_CONNECTED).await?;
        return found.map(drop);
    };
    stream.write_all(CONNECTED).await?;
    let stream = timeout(PATIENCE, TlsAcceptor::from(tls).accept(stream)).await??;
    converse(stream, rest).await;
    Ok(())
}

/// To whom somebody wants to be connected: host and port.
async fn target(stream: &mut TcpStream) -> Result<String> {
    let head = head(stream).await?;
    let target = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()).context("no CONNECT")?;
    Ok(target.to_owned())
}

/// The head of a request.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(head.len() < LONGEST, "a head without an end");
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8(head)?)
}

/// What answers at an address: the API of the Config that has a member with a Ready pod there.
async fn member(client: &Client, target: &str, known: &Known) -> Result<(Arc<Rest<Memory>>, Arc<ServerConfig>)> {
    let at: &SocketAddr = &target.parse().with_context(|| format!("{target} is no address with a port"))?;
    let configs: Api<DynamicObject> = Api::all_with(client.clone(), &resource_of(Kind::custom(CONFIG)));
    for config in configs.list(&ListParams::default()).await? {
        let is_port = |spec: &serde_json::Value| {
            let port = spec.pointer("/spec/serviceConfiguration/apiPort").and_then(serde_json::Value::as_u64);
            port.unwrap_or(u64::from(tf_api::ports::CONFIG_API.get())) == u64::from(at.port())
        };
        let namespace = config.namespace().unwrap_or_default();
        if !is_port(&config.data) || !serves(client, &namespace, &config.name_any(), at).await? {
            continue;
        }
        let uid = config.uid().context("a Config without a uid")?;
        let rest = {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(known.entry(uid).or_insert_with(|| Arc::new(Rest::new(Memory::default()))))
        };
        rest.begin().await?;
        return Ok((rest, server(client, &namespace, &at.ip().to_string()).await?));
    }
    anyhow::bail!("no Config serves at {at}")
}

async fn serves(client: &Client, namespace: &str, name: &str, at: &SocketAddr) -> Result<bool> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let of_config = ListParams::default().labels(&format!("config={name}"));
    let is_there = |pod: &Pod| {
        let status = pod.status.clone().unwrap_or_default();
        let ready = status.conditions.iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True");
        ready && status.pod_ip.is_some_and(|address| address.parse() == Ok(at.ip()))
    };
    Ok(pods.list(&of_config).await?.iter().any(is_there))
}

/// A server with a certificate of the namespace's authority.
async fn server(client: &Client, namespace: &str, host: &str) -> Result<Arc<ServerConfig>> {
    let secret = Api::<Secret>::namespaced(client.clone(), namespace).get(AUTHORITY).await?;
    let data = secret.data.unwrap_or_default();
    let text = |key: &str| {
        let value = data.get(key).with_context(|| format!("Secret {AUTHORITY} has no {key}"))?;
        Ok::<_, anyhow::Error>(String::from_utf8(value.0.clone())?)
    };
    let (addresses, names): (Vec<IpAddr>, Vec<&str>) = match host.parse() {
        Ok(address) => (vec![address], Vec::new()),
        Err(_) => (Vec::new(), vec![host]),
    };
    let pair = Authority::of(&text("tls.crt")?, &text("tls.key")?)?.server("played", &addresses, &names)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pair.certificate.as_bytes()).collect();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain?, PrivateKeyDer::from_pem_slice(pair.key.as_bytes())?)?;
    Ok(Arc::new(config))
}
