//! TLS with the files that a configuration names. They are read for each connection, as by the daemons.

use std::{fs, path::Path, sync::Arc};

use anyhow::{Context as _, Result};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use crate::options::Pair;

/// A client that checks who it talks to by these authorities, and shows this.
pub fn client(authorities: &Path, shown: Option<&Pair>) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authorities)? {
        roots.add(certificate).with_context(|| authorities.display().to_string())?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    Ok(Arc::new(match shown {
        Some(pair) => builder.with_client_auth_cert(certificates(&pair.certificate)?, key(&pair.key)?)?,
        None => builder.with_no_client_auth(),
    }))
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

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let text = text(path)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    read.ok().with_context(|| format!("SSLError: {}", path.display()))
}

/// The parser's message may quote the key.
fn key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(&text(path)?).ok().with_context(|| format!("SSLError: {}", path.display()))
}
