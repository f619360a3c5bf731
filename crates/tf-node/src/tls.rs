//! TLS of the member: its certificate, and the authorities it trusts.
//!
//! Only TLS 1.3. Sessions are never resumed, so a peer's certificate is looked at on every connection, with the authorities of
//! that moment.

use std::{fs, io, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    SignatureScheme,
    client::{Resumption, danger::HandshakeSignatureValid, verify_server_name},
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
    server::{
        NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    version::TLS13,
};
use tf_agent_api::node;

use crate::paths::Paths;

/// A server that lets in clients whose certificate is good, carries this DNS name, and is signed by an authority of the operators:
/// those above may have signed it for anybody. None where the member has no certificate yet.
pub fn server(paths: &Paths, client: &str) -> Result<Option<ServerConfig>> {
    let Some((chain, key)) = own(paths)? else { return Ok(None) };
    let roots = match read(paths, node::CA_SIGNERS)? {
        Some(signers) => roots(&signers)?,
        None => authorities(paths)?,
    };
    let roots = Arc::new(roots);
    let inner = WebPkiClientVerifier::builder_with_provider(roots, provider()).build()?;
    let name = ServerName::try_from(client.to_owned()).context("agent.client is not a DNS name")?;
    let verifier = Arc::new(OneClient { inner, name });
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .context("the member's certificate")?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Some(config))
}

/// A client that shows the member's certificate, if there is one, and trusts what the daemon does.
pub fn client(paths: &Paths) -> Result<ClientConfig> {
    let trusted = match read(paths, node::TRUSTSTORE_PEM)? {
        Some(trusted) => roots(&trusted)?,
        None => authorities(paths)?,
    };
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(rustls::DEFAULT_VERSIONS)?
        .with_root_certificates(trusted);
    let mut config = match own(paths)? {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).context("the member's certificate")?,
        None => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn own(paths: &Paths) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>> {
    let Some(chain) = read(paths, node::CERTIFICATE)? else { return Ok(None) };
    let Some(key) = read(paths, node::CERTIFICATE_KEY)? else { return Ok(None) };
    // The parsers' messages may quote a key.
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty()).context("the member's certificate is not readable")?;
    let key = PrivateKeyDer::from_pem_slice(&key).ok().context("the member's key is not readable")?;
    Ok(Some((chain, key)))
}

/// A client that shows nothing and trusts these authorities (PEM).
pub fn anonymous(authorities: &[u8]) -> Result<ClientConfig> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(rustls::DEFAULT_VERSIONS)?
        .with_root_certificates(roots(authorities)?)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn authorities(paths: &Paths) -> Result<RootCertStore> {
    roots(&read(paths, node::CA_BUNDLE)?.context("there are no certificates of authorities yet")?)
}

fn roots(bundle: &[u8]) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        let certificate = certificate.ok().context("the authorities' certificates are not readable")?;
        roots.add(certificate).context("a certificate of an authority")?;
    }
    ensure!(!roots.is_empty(), "there are no certificates of authorities");
    Ok(roots)
}

fn read(paths: &Paths, path: &str) -> Result<Option<Vec<u8>>> {
    match fs::read(paths.at(path)) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("read {path}")),
    }
}

/// Adds to the usual verification that the certificate carries one name: every member of the cluster has a certificate of
/// the same authority.
#[derive(Debug)]
struct OneClient {
    inner: Arc<dyn ClientCertVerifier>,
    name: ServerName<'static>,
}

impl ClientCertVerifier for OneClient {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.inner.verify_client_cert(end_entity, intermediates, now)?;
        let certificate = ParsedCertificate::try_from(end_entity)?;
        verify_server_name(&certificate, &self.name)
            .map_err(|_| Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
