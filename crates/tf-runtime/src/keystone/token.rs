//! A token of Keystone (OpenStack Identity API v3, "Password authentication with scoped authorization", or v2.0, "Authenticate"), by which the
//! config API knows who asks.
//!
//! Neither the password nor the token is ever told: of an answer that is no token, only the status is.

use std::{sync::Arc, time::Duration};

use http::{Request, StatusCode, header};
use http_body_util::Full;
use hyper::body::Bytes;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};
use serde_json::{Value, json};
use tf_api::common::KeystoneVersion;
use tf_config_files::url::authority;
use tf_plan::keystone::Keystone;

use crate::http_client::{Connection, ExchangeError, Route};

/// For a connection, and for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Of an answer, in bytes: it lists every service of the cloud.
const LARGEST_ANSWER: usize = 1024 * 1024;

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// Keystone does not answer, or says that it cannot at the moment.
    #[error("{0}")]
    Silent(String),
    /// It does not let in who asks.
    #[error("{0}")]
    Refused(String),
}

/// Asks for a token. `checked`: how the certificate is checked where the login brings no authority. `proxy`: on the way there.
///
/// # Errors
/// What went wrong and what can be done.
pub async fn token(
    keystone: &Keystone,
    checked: impl FnOnce() -> Result<Arc<ClientConfig>, String>,
    proxy: Option<String>,
) -> Result<String, TokenError> {
    let server = authority(&keystone.address, keystone.port);
    let at = format!("POST {}://{server}{}", keystone.protocol(), keystone.tokens());
    let silent = |error: &dyn std::fmt::Display| TokenError::Silent(format!("{at}: {error}"));
    let tls = match (keystone.tls, keystone.insecure) {
        (false, _) => None,
        (true, false) => Some(match &keystone.authority {
            Some(certificates) => trusting(certificates).map_err(|error| silent(&error))?,
            None => checked().map_err(|why| silent(&why))?,
        }),
        (true, true) => Some(unchecked().map_err(|error| silent(&error))?),
    };
    let asking = async {
        let way = Route { tls, proxy };
        let mut connection = Connection::open(&keystone.address, keystone.port, &way, PATIENCE).await?;
        connection.send(request(keystone), LARGEST_ANSWER, PATIENCE).await
    };
    let answer = asking.await.map_err(|error| match (&error, keystone.without_answer()) {
        (ExchangeError::NoConnection(_) | ExchangeError::Slow(_), Some(advice)) => {
            silent(&format!("{error}; {advice}"))
        }
        _ => silent(&error),
    })?;
    let found = answer.status.is_success().then(|| match keystone.version {
        KeystoneVersion::V3 => Some(answer.headers.get("X-Subject-Token")?.to_str().ok()?.to_owned()),
        KeystoneVersion::V2 => {
            let body: Value = serde_json::from_slice(&answer.body).ok()?;
            Some(body["access"]["token"]["id"].as_str()?.to_owned())
        }
    });
    match (answer.status, found.flatten()) {
        (_, Some(token)) => Ok(token),
        (status, _) if is_passing(status) => Err(silent(&status)),
        (status, _) => Err(TokenError::Refused(format!(
            "{at}: {status}; correct authParameters, or the password in the Secret that keystoneSecretName names"
        ))),
    }
}

/// Whether this may be another answer in a moment, to the same question.
fn is_passing(status: StatusCode) -> bool {
    status.is_server_error() || [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(&status)
}

fn request(keystone: &Keystone) -> Request<Full<Bytes>> {
    let password = keystone.password.expose();
    let body = match keystone.version {
        KeystoneVersion::V3 => {
            let domain = json!({"name": keystone.domain});
            let user = json!({"name": keystone.username, "domain": domain, "password": password});
            json!({"auth": {
                "identity": {"methods": ["password"], "password": {"user": user}},
                "scope": {"project": {"name": keystone.tenant, "domain": domain}},
            }})
        }
        KeystoneVersion::V2 => json!({"auth": {
            "passwordCredentials": {"username": keystone.username, "password": password},
            "tenantName": keystone.tenant,
        }}),
    };
    let mut request = Request::new(Full::new(Bytes::from(body.to_string())));
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = http::Uri::from_static(keystone.tokens());
    let headers = request.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    if let Ok(host) = authority(&keystone.address, keystone.port).parse() {
        headers.insert(header::HOST, host);
    }
    request
}

/// For a server whose certificate is checked against these, in PEM.
///
/// # Errors
/// When one of them is none.
pub fn trusting(certificates: &str) -> Result<Arc<ClientConfig>, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(certificates.as_bytes()) {
        roots.add(certificate.map_err(|error| Error::General(format!("ca.crt: {error}")))?)?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// For a Keystone whose certificate nobody checks, which the spec asks for (`insecure`).
fn unchecked() -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Takes every certificate, and its holder for who it says.
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
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
