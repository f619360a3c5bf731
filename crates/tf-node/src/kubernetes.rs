//! The Kubernetes API, as far as a member needs it: it creates a certificate request and looks at it, and finds out whether its daemon is let in.
//!
//! It shows the token of its pod, which the kubelet replaces from time to time, or that of its daemon, and trusts the authority that the kubelet
//! mounted beside the former and no other. A request about certificates has a connection of its own: there are few of them, and the API server may
//! be another one each time.

use std::{
    env, fs,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use k8s_openapi::{api::certificates::v1::CertificateSigningRequest, apimachinery::pkg::apis::meta::v1::Status};
use rustls::pki_types::ServerName;
use tf_agent_api::node;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use crate::{paths::Paths, tls};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
/// For a request and its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// For a look that nobody waits for.
const GLANCE: Duration = Duration::from_millis(1500);
/// Of an answer's body. The API server takes requests of up to 1.5 MiB.
const LARGEST_BODY: usize = 2 * 1024 * 1024;
/// Of what the API server says about an error.
const LONGEST_MESSAGE: usize = 300;

/// Where the API is.
#[derive(Clone, Debug)]
pub struct Api {
    paths: Paths,
    address: SocketAddr,
}

impl Api {
    /// From the variables that the kubelet sets in every container. The host is an address: a static program has no resolver
    /// that works in every image.
    pub fn from_environment(paths: Paths) -> Result<Self> {
        let host = env::var("KUBERNETES_SERVICE_HOST").context("KUBERNETES_SERVICE_HOST is not set")?;
        let port = env::var("KUBERNETES_SERVICE_PORT").context("KUBERNETES_SERVICE_PORT is not set")?;
        Ok(Self { paths, address: address(&host, &port)? })
    }

    /// Creates a request. One that exists under its name is left as it is: names are those of the content.
    pub async fn create(&self, request: &CertificateSigningRequest) -> Result<()> {
        let body = serde_json::to_vec(request)?;
        match self.ask(Method::POST, REQUESTS, body).await.context("create the certificate request")? {
            (StatusCode::CREATED | StatusCode::OK | StatusCode::ACCEPTED | StatusCode::CONFLICT, _) => Ok(()),
            (status, body) => bail!("create the certificate request: {}", problem(status, &body)),
        }
    }

    /// A request as it is now; none if it is gone.
    pub async fn get(&self, name: &str) -> Result<Option<CertificateSigningRequest>> {
        let context = || format!("look at the certificate request {name}");
        match self.ask(Method::GET, &format!("{REQUESTS}/{name}"), Vec::new()).await.with_context(context)? {
            (StatusCode::OK, body) => Ok(Some(serde_json::from_slice(&body).with_context(context)?)),
            (StatusCode::NOT_FOUND, _) => Ok(None),
            (status, body) => bail!("{}: {}", context(), problem(status, &body)),
        }
    }

    async fn ask(&self, method: Method, path: &str, body: Vec<u8>) -> Result<(StatusCode, Bytes)> {
        let exchange = async {
            let token = self.read(node::TOKEN_FILE)?;
            self.converse(&token, async |api| api.ask(method, path, body).await).await
        };
        let result = timeout(PATIENCE, exchange).await;
        let result = result.with_context(|| format!("no answer within {} s", PATIENCE.as_secs())).and_then(|it| it);
        result.with_context(|| format!("the API server at {}", self.address))
    }

    fn read(&self, file: &str) -> Result<Vec<u8>> {
        let path = self.paths.at(node::TOKEN_DIR).join(file);
        fs::read(&path).with_context(|| format!("read {}", path.display()))
    }

    /// Connects, for questions of whoever has this token.
    async fn converse<T>(&self, token: &[u8], talk: impl AsyncFnOnce(&mut Conversation) -> Result<T>) -> Result<T> {
        let authority = self.read(node::TOKEN_CA_FILE)?;
        let mut authorization = header::HeaderValue::from_bytes(&[b"Bearer ", token.trim_ascii()].concat())
            .ok()
            .context("the token is not readable")?;
        authorization.set_sensitive(true);

        let stream = TcpStream::connect(self.address).await.context("connect")?;
        let connector = TlsConnector::from(Arc::new(tls::anonymous(&authority)?));
        let stream = connector.connect(ServerName::IpAddress(self.address.ip().into()), stream).await.context("TLS")?;

        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let mut conversation = Conversation { host: self.address, authorization, sender };
        // It ends the connection by dropping its half.
        let talk = async move { talk(&mut conversation).await };
        tokio::pin!(talk);
        tokio::select! {
            result = &mut talk => result,
            _ = connection => talk.await,
        }
    }
}

/// A connection to the API, for several questions: a TLS handshake is dearer than any of them.
struct Conversation {
    host: SocketAddr,
    authorization: header::HeaderValue,
    sender: http1::SendRequest<Full<Bytes>>,
}

impl Conversation {
    async fn ask(&mut self, method: Method, path: &str, body: Vec<u8>) -> Result<(StatusCode, Bytes)> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, self.host.to_string())
            .header(header::USER_AGENT, concat!("tf-node/", env!("CARGO_PKG_VERSION")))
            .header(header::AUTHORIZATION, &self.authorization)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LARGEST_BODY).collect().await;
        Ok((status, body.map_err(anyhow::Error::from_boxed)?.to_bytes()))
    }
}

/// Why a daemon that connects there is not answered; none if it is.
pub async fn unreachable(server: SocketAddr) -> Option<String> {
    match timeout(GLANCE, TcpStream::connect(server)).await {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(format!("connect to {server}: {error}")),
        Err(_) => Some(format!("connect to {server}: no answer within {} s", GLANCE.as_secs_f32())),
    }
}

/// What the API refuses of these lists to the daemon that has this token, in the API's words; none if nothing.
///
/// # Errors
/// When it does not say.
pub async fn refused(token: &str, lists: &[&String], paths: &Paths) -> Result<Option<String>> {
    let api = Api::from_environment(paths.clone())?;
    let token = fs::read(paths.run_dir().join(token)).context("read the token")?;
    let ask = async |api: &mut Conversation| {
        for list in lists {
            match api.ask(Method::GET, &format!("{list}?limit=1"), Vec::new()).await? {
                // A definition that is not there yet.
                (StatusCode::OK | StatusCode::NOT_FOUND, _) => {}
                (status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN), body) => {
                    return Ok(Some(format!("GET {list}: {}", problem(status, &body))));
                }
                (status, body) => bail!("GET {list}: {}", problem(status, &body)),
            }
        }
        Ok(None)
    };
    timeout(GLANCE, api.converse(&token, ask)).await?
}

fn address(host: &str, port: &str) -> Result<SocketAddr> {
    let host: IpAddr = host.parse().context("KUBERNETES_SERVICE_HOST is not an address")?;
    Ok(SocketAddr::new(host, port.parse().context("KUBERNETES_SERVICE_PORT is not a port")?))
}

/// What the API server says about an error.
fn problem(status: StatusCode, body: &[u8]) -> String {
    let said = serde_json::from_slice::<Status>(body).ok().and_then(|status| status.message).unwrap_or_default();
    let said: String = said.chars().filter(|letter| !letter.is_control()).take(LONGEST_MESSAGE).collect();
    if said.is_empty() { format!("status {}", status.as_u16()) } else { format!("status {}: {said}", status.as_u16()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_server_has_an_address_of_either_family() {
        assert_eq!(address("10.0.0.1", "443").unwrap().to_string(), "10.0.0.1:443");
        assert_eq!(address("fd00::1", "6443").unwrap().to_string(), "[fd00::1]:6443");
        assert!(address("api.example", "443").is_err() && address("10.0.0.1", "https").is_err());
    }

    #[test]
    fn an_error_is_told_in_the_api_servers_words() {
        let body = br#"{"kind":"Status","apiVersion":"v1","message":"no\nway","code":403}"#;
        assert_eq!(problem(StatusCode::FORBIDDEN, body), "status 403: noway");
        assert_eq!(problem(StatusCode::BAD_GATEWAY, b"<html>"), "status 502");
    }
}
