//! Authorities and certificates of a test.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    path::Path,
    sync::Arc,
    time::Duration,
};

use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PublicKeyData, SanType,
};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tf_agent_api::node;

use super::Container;

#[derive(Clone)]
pub struct Authority {
    pub pem: String,
    pub key: String,
    issuer: Arc<Issuer<'static, KeyPair>>,
}

pub struct Leaf {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, key: key.serialize_pem(), issuer: Arc::new(Issuer::new(params, key)) }
    }

    /// A certificate for anybody's key.
    pub fn sign(&self, params: &CertificateParams, key: &impl PublicKeyData) -> String {
        params.signed_by(key, &self.issuer).unwrap().pem()
    }

    /// A certificate for the first loopback addresses and this name, for servers and clients.
    pub fn leaf(&self, name: &str) -> Leaf {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let addresses = [1, 2, 3].map(|last| SanType::IpAddress(IpAddr::from([127, 0, 0, last])));
        params.subject_alt_names.extend(addresses);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        Leaf { certificate: params.signed_by(&key, &self.issuer).unwrap().pem(), key: key.serialize_pem() }
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        roots
    }

    /// Asks as this client; an error where it is not let in.
    pub fn get(
        &self,
        client: Option<&Leaf>,
        versions: &[&'static SupportedProtocolVersion],
        port: u16,
        path: &str,
    ) -> io::Result<String> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        self.ask(client, versions, SocketAddr::from((Ipv4Addr::LOCALHOST, port)), &request)
    }

    /// Sends a request as this client.
    pub fn ask(
        &self,
        client: Option<&Leaf>,
        versions: &[&'static SupportedProtocolVersion],
        address: SocketAddr,
        request: &str,
    ) -> io::Result<String> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(self.roots());
        let config = match client {
            Some(leaf) => builder.with_client_auth_cert(vec![leaf.der()], leaf.key_der()).unwrap(),
            None => builder.with_no_client_auth(),
        };
        let server = ServerName::IpAddress(address.ip().into());
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let connection = ClientConnection::new(Arc::new(config), server).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, stream);
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        match stream.read_to_string(&mut answer) {
            Err(error) if answer.is_empty() => Err(error),
            _ if answer.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(answer),
        }
    }

    /// A server for clients of this authority.
    pub fn server(&self, leaf: &Leaf) -> Arc<ServerConfig> {
        let provider = Arc::new(ring::default_provider());
        let verifier =
            rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(self.roots()), provider.clone());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(vec![leaf.der()], leaf.key_der());
        Arc::new(config.unwrap())
    }
}

impl Leaf {
    /// A server for everybody.
    pub fn server(&self) -> Arc<ServerConfig> {
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.der()], self.key_der());
        Arc::new(config.unwrap())
    }

    fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()
    }

    fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap()
    }
}

/// Writes a file as a whole, in the way whoever makes certificates does.
pub fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let temporary = path.with_extension("new");
    fs::write(&temporary, text).unwrap();
    fs::rename(temporary, path).unwrap();
}

pub fn trust(container: &Container, authority: &Authority) {
    put(&container.path(node::CA_BUNDLE), &authority.pem);
}

pub fn certify(container: &Container, leaf: &Leaf) {
    put(&container.path(node::CERTIFICATE_KEY), &leaf.key);
    put(&container.path(node::CERTIFICATE), &leaf.certificate);
}
