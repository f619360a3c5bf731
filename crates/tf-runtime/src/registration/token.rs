//! A token of Keystone (OpenStack Identity API v3, "Password authentication with scoped authorization"), by which the config API knows who
//! asks.
//!
//! Neither the password nor the token is ever told: of an answer that is no token, only the status is.

use std::{sync::Arc, time::Duration};

use http::{Request, StatusCode, header};
use http_body_util::Full;
use hyper::body::Bytes;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use serde_json::json;
use tf_plan::{files::url::authority, keystone::Keystone};

use super::client::Unable;
use crate::exchange::{Connection, ExchangeError, Way};

/// For a connection, and for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Of an answer, in bytes: it lists every service of the cloud.
const LARGEST_ANSWER: usize = 1024 * 1024;
const PATH: &str = "/v3/auth/tokens";

/// Asks for a token. `checked`: how certificates are checked where they are. `proxy`: on the way there.
///
/// # Errors
/// What went wrong and what can be done.
pub async fn token(keystone: &Keystone, checked: Arc<ClientConfig>, proxy: Option<String>) -> Result<String, Unable> {
    let at = format!("POST {}://{}{PATH}", keystone.protocol(), authority(&keystone.address, keystone.port));
    let silent = |error: &dyn std::fmt::Display| Unable::Silent(format!("{at}: {error}"));
    let tls = match (keystone.tls, keystone.insecure) {
        (false, _) => None,
        (true, false) => Some(checked),
        (true, true) => Some(unchecked().map_err(|error| silent(&error))?),
    };
    let asking = async {
        let way = Way { tls, proxy };
        let mut connection = Connection::open(&keystone.address, keystone.port, &way, PATIENCE).await?;
        connection.send(request(keystone), LARGEST_ANSWER, PATIENCE).await
    };
    let answer = asking.await.map_err(|error: ExchangeError| silent(&error))?;
    let token = answer.headers.get("X-Subject-Token").and_then(|token| token.to_str().ok());
    match (answer.status, token) {
        (StatusCode::CREATED, Some(token)) => Ok(token.to_owned()),
        (status, _) if status.is_server_error() => Err(silent(&status)),
        (status, _) => Err(Unable::Unauthorised(format!(
            "{at}: {status}; correct authParameters, or the password in the Secret that keystoneSecretName names"
        ))),
    }
}

fn request(keystone: &Keystone) -> Request<Full<Bytes>> {
    let domain = json!({"name": keystone.domain});
    let user = json!({"name": keystone.username, "domain": domain, "password": keystone.password.expose()});
    let body = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": user}},
        "scope": {"project": {"name": keystone.tenant, "domain": domain}},
    }});
    let mut request = Request::new(Full::new(Bytes::from(body.to_string())));
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = http::Uri::from_static(PATH);
    let headers = request.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    if let Ok(host) = authority(&keystone.address, keystone.port).parse() {
        headers.insert(header::HOST, host);
    }
    request
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
