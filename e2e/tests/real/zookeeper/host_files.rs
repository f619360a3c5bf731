//! Certificates that the administrator puts on the nodes: a running ensemble goes over to them, follows them, and keeps what was
//! good when something else comes.

use std::{fs, sync::Arc};

use anyhow::ensure;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::Value;
use tf_testing::real::node::RealNode;

use super::tls::{Before, CHANGE, ELECTION_PORT, TLS_PORT, connect, spec, trusting_these};
use super::*;
use crate::tls::own_certificate;

/// Where the files are on each node.
const DIRECTORY: &str = "/etc/contrail/ssl";
/// The agent looks at once, the operator after seconds.
const TOLD: Duration = Duration::from_mins(1);
/// Owner and group of files on a node: the administrator, and those that daemons are in.
const READERS: &str = "0:1999";

/// Whoever makes certificates for the nodes.
pub struct Administrator {
    authority: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Administrator {
    pub fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate()?;
        let authority = params.self_signed(&key)?.pem();
        Ok(Self { authority, issuer: Issuer::new(params, key) })
    }

    /// Makes key and certificate for a node, puts them there, and gives the certificate back.
    pub async fn supply(&self, node: &RealNode) -> Result<CertificateDer<'static>> {
        let address = node.address();
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::IpAddress(address)];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        put(node, "ca-certs/ca-bundle.crt", &self.authority).await?;
        put(node, &format!("certs/server-key-{address}.pem"), &key.serialize_pem()).await?;
        put(node, &format!("certs/server-{address}.crt"), &certificate.pem()).await?;
        Ok(certificate.der().clone())
    }

    /// The certificate that a server shows, good by this authority alone.
    pub async fn shown(&self, address: IpAddr, port: u16) -> Result<CertificateDer<'static>> {
        let authority = CertificateDer::from_pem_slice(self.authority.as_bytes())?;
        let config = Arc::new(trusting_these(vec![authority])?.with_no_client_auth());
        own_certificate(&connect(&config, address, port).await?)
    }

    /// Waits until a server shows this certificate.
    async fn shows(&self, address: IpAddr, certificate: &CertificateDer<'static>) -> Result<()> {
        eventually(&format!("the certificate of the node on {address}"), TOLD, async || {
            Ok(self.shown(address, TLS_PORT).await.ok().filter(|shown| shown == certificate))
        })
        .await
        .map(drop)
    }
}

/// Writes a file that the daemons' group may read, in the place of what was there.
async fn put(node: &RealNode, name: &str, text: &str) -> Result<()> {
    let path = format!("{DIRECTORY}/{name}");
    let directory = path.rsplit_once('/').map_or("/", |(directory, _)| directory);
    node.run("mkdir", &["-p", directory]).await?;
    let new = format!("{path}.new");
    fs::write(node.machine().path(&new)?, text)?;
    node.run("chown", &[READERS, &new]).await?;
    node.run("chmod", &["640", &new]).await?;
    node.run("mv", &[&new, &path]).await.map(drop)
}

fn with_host_files() -> Value {
    let mut spec = spec(true);
    spec["commonConfiguration"] = json!({"certificates": {"hostFiles": {}}});
    spec
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ensemble_goes_over_to_certificates_of_its_nodes_and_follows_them_while_it_serves() -> Result<()> {
    if !Long::HostFiles.is_drawn()? {
        return Ok(());
    }
    with_lab(3, async |lab, client| {
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, spec(true)).await?;
        certified(client).await?;
        let nodes = lab.real_nodes()?.all()?;
        let addresses: Vec<IpAddr> = nodes.iter().map(RealNode::address).collect();
        let administrator = Administrator::new()?;
        for node in &nodes[1..] {
            administrator.supply(node).await?;
        }
        let journal = super::journal::Journal::begin(&addresses).await?;
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, with_host_files()).await?;

        // Nobody shows what not everybody trusts.
        let first = &nodes[0];
        let is_told = |zookeeper: &Resource| {
            let told = zookeeper.explain("CertificatesReady");
            let path = format!("{DIRECTORY}/certs/server-{}.crt is missing", first.address());
            told.starts_with("CertificatesReady=False") && told.contains(&path)
        };
        resources::until(client, ZOOKEEPER, NAMESPACE, NAME, "missing files", CHANGE, is_told).await?;
        ensure!(administrator.shown(addresses[1], TLS_PORT).await.is_err(), "shown to a server that does not trust it");
        administrator.supply(first).await?;
        let is_over = |zookeeper: &Resource| {
            let modes = &zookeeper.object.data["status"]["certificates"];
            zookeeper.is_ready() && zookeeper.is("CertificatesReady", "True") && modes == &json!({"mode": "Host"})
        };
        resources::until(client, ZOOKEEPER, NAMESPACE, NAME, "certificates of the nodes", CHANGE, is_over).await?;
        for address in &addresses {
            for port in [TLS_PORT, ELECTION_PORT] {
                administrator.shown(*address, port).await?;
            }
        }
        let account = journal.end(&addresses).await?;
        ensure!(account.lost_sessions == 0, "{:?}", account.longest_pause);
        println!("{} writes, longest pause {:?}", account.acknowledged.len(), account.longest_pause);

        // Renewed while they are in use.
        let before = Before::look(client, &addresses).await?;
        let mut renewed = Vec::new();
        for node in &nodes {
            let certificate = administrator.supply(node).await?;
            administrator.shows(node.address(), &certificate).await?;
            renewed.push(certificate);
        }

        // What is no certificate changes nothing and is told.
        let name = format!("certs/server-{}.crt", first.address());
        put(first, &name, "no certificate").await?;
        let is_told = |zookeeper: &Resource| {
            let told = zookeeper.explain("CertificatesReady");
            let what = [format!("{DIRECTORY}/{name} has no certificate in PEM"), "stays in use".into()];
            told.starts_with("CertificatesReady=False") && what.iter().all(|part| told.contains(part))
        };
        resources::until(client, ZOOKEEPER, NAMESPACE, NAME, "a spoilt file", TOLD, is_told).await?;
        ensure!(administrator.shown(first.address(), TLS_PORT).await? == renewed[0], "another certificate");
        let mended = administrator.supply(first).await?;
        administrator.shows(first.address(), &mended).await?;
        resources::until(client, ZOOKEEPER, NAMESPACE, NAME, "good files again", TOLD, is_over).await?;
        before.still_runs(client).await?;
        before.end().await?;
        Ok(())
    })
    .await
}
