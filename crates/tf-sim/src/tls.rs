//! TLS with the files that a configuration names. They are read for each connection, as by the daemons.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result};
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::options::Pair;

/// A connection to somebody.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Connects to a server. With TLS it has to be who the authorities say.
pub async fn connect(server: &str, tls: Option<&(Pair, PathBuf)>) -> Result<Box<dyn Stream>> {
    let stream = TcpStream::connect(server).await?;
    let Some((pair, authorities)) = tls else { return Ok(Box::new(stream)) };
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host).trim_matches(['[', ']']).to_owned();
    let connector = TlsConnector::from(client(authorities, Some(pair))?);
    Ok(Box::new(connector.connect(ServerName::try_from(host)?, stream).await?))
}

/// A client that checks who it talks to by these authorities, and shows this.
pub fn client(authorities: &Path, shown: Option<&Pair>) -> Result<Arc<ClientConfig>> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots(authorities)?);
    Ok(Arc::new(match shown {
        Some(pair) => builder.with_client_auth_cert(certificates(&pair.certificate)?, key(&pair.key)?)?,
        None => builder.with_no_client_auth(),
    }))
}

/// A client that takes whoever answers for who it wants.
pub fn unchecked() -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(Anybody(Arc::clone(&provider)));
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(Arc::new(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()))
}

/// Checks no certificate, and signatures only, as Python does with `CERT_NONE`.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A server that shows this, and lets in who shows a certificate of these authorities.
pub fn mutual(pair: &Pair, authorities: &Path) -> Result<Arc<ServerConfig>> {
    let provider = Arc::new(ring::default_provider());
    let roots = Arc::new(roots(authorities)?);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider)).build()?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates(&pair.certificate)?, key(&pair.key)?)?;
    Ok(Arc::new(config))
}

/// A server that shows this and asks for nothing.
pub fn server(pair: &Pair) -> Result<Arc<ServerConfig>> {
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates(&pair.certificate)?, key(&pair.key)?)?;
    Ok(Arc::new(config))
}

/// The text of a file.
pub fn text(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("FileNotFoundError: {}", path.display()))
}

fn roots(authorities: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authorities)? {
        roots.add(certificate).with_context(|| authorities.display().to_string())?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let text = text(path)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    read.ok().with_context(|| format!("SSLError: {}", path.display()))
}

/// The parser's message may quote the key.
fn key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(&text(path)?).ok().with_context(|| format!("SSLError: {}", path.display()))
}
