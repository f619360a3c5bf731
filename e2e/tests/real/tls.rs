//! TLS as clients of Tungsten Fabric speak it: they trust the authority of the namespace, and most show nothing.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::Api;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use rustls::{ClientConfig, RootCertStore};
use tf_api::names::AUTHORITY;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::store::NAMESPACE;

/// For a server to turn away what it does not like.
const REFUSAL: Duration = Duration::from_secs(3);

/// How clients connect.
#[derive(Clone)]
pub struct Access {
    tls: Arc<ClientConfig>,
    /// User and password, for those that are asked for them.
    pub login: Option<(String, String)>,
}

impl Access {
    /// What trusts the authority of the namespace and shows nothing.
    pub async fn of(client: &Client) -> Result<Self> {
        let bundles: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
        let bundle = bundles.get(AUTHORITY).await?.data.unwrap_or_default();
        Self::showing(&bundle["ca-bundle.crt"], None)
    }

    /// What trusts these authorities and shows this certificate and key, all in PEM.
    pub fn showing(bundle: &str, pair: Option<(&str, &str)>) -> Result<Self> {
        let certificates = |pem: &str| CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>();
        let mut roots = RootCertStore::empty();
        for certificate in certificates(bundle)? {
            roots.add(certificate)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(rustls::DEFAULT_VERSIONS)?
            .with_root_certificates(roots);
        let tls = Arc::new(match pair {
            Some((chain, key)) => {
                builder.with_client_auth_cert(certificates(chain)?, PrivateKeyDer::from_pem_slice(key.as_bytes())?)?
            }
            None => builder.with_no_client_auth(),
        });
        Ok(Self { tls, login: None })
    }

    /// The same with a user and a password.
    pub fn logging_in(&self, user: &str, password: &str) -> Self {
        Self { login: Some((user.to_owned(), password.to_owned())), ..self.clone() }
    }

    /// A connection to a port of a server whose certificate is good for its address.
    pub async fn stream(&self, address: IpAddr, port: u16) -> Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect((address, port)).await?;
        Ok(TlsConnector::from(Arc::clone(&self.tls)).connect(ServerName::from(address), stream).await?)
    }

    /// Whether a port of a server keeps a connection, which it cuts when it has looked at a certificate that it does not like.
    pub async fn is_let_in(&self, address: IpAddr, port: u16) -> bool {
        let Ok(mut stream) = self.stream(address, port).await else { return false };
        // It says nothing by itself.
        timeout(REFUSAL, stream.read(&mut [0; 64])).await.is_err()
    }
}

/// The server's own one of the certificates that it shows.
pub fn own_certificate(stream: &TlsStream<TcpStream>) -> Result<CertificateDer<'static>> {
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    certificates.first().cloned().map(CertificateDer::into_owned).context("no certificate")
}
