//! As much of a Kubernetes API server as a member sees, over TLS.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{Arc, Mutex},
    thread,
};

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::{Value, json};
use tf_agent_api::node;
use tokio_rustls::TlsAcceptor;

use super::{Container, files, tls::Authority};

const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// What becomes of a request.
pub enum Reply {
    /// It is there with this status.
    Status(Value),
    /// It is not there.
    Gone,
    /// The server is broken.
    Broken,
    /// It does not answer.
    Hangs,
}

type Behaviour = Box<dyn Fn(&CertificateSigningRequest) -> Reply + Send>;

struct Shared {
    behaviour: Behaviour,
    objects: BTreeMap<String, CertificateSigningRequest>,
    /// Names in the order of creation, repetitions included.
    created: Vec<String>,
    tokens: Vec<String>,
    looks: usize,
    /// Paths of lists that are refused, and how.
    refused: BTreeMap<String, StatusCode>,
}

pub struct ApiServer {
    address: SocketAddr,
    authority: Authority,
    shared: Arc<Mutex<Shared>>,
}

impl ApiServer {
    /// A server where every request waits.
    pub fn start() -> Self {
        let authority = Authority::new();
        let config = authority.leaf("kubernetes").server();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Mutex::new(Shared {
            behaviour: Box::new(|_| Reply::Status(json!({}))),
            objects: BTreeMap::new(),
            created: Vec::new(),
            tokens: Vec::new(),
            looks: 0,
            refused: BTreeMap::new(),
        }));
        let served = Arc::clone(&shared);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                listener.set_nonblocking(true).unwrap();
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let acceptor = TlsAcceptor::from(config);
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let (acceptor, shared) = (acceptor.clone(), Arc::clone(&served));
                    tokio::spawn(async move {
                        let Ok(stream) = acceptor.accept(stream).await else { return };
                        let service = service_fn(|request| answer(Arc::clone(&shared), request));
                        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                    });
                }
            });
        });
        Self { address, authority, shared }
    }

    /// Lets a container reach this server.
    pub fn mount(&self, container: &mut Container, token: &str) {
        container.environment.push(("KUBERNETES_SERVICE_HOST".into(), self.address.ip().to_string()));
        container.environment.push(("KUBERNETES_SERVICE_PORT".into(), self.address.port().to_string()));
        self.token(container, token);
    }

    /// Replaces the token.
    pub fn token(&self, container: &Container, token: &str) {
        let files = files([("token", token), ("ca.crt", &self.authority.pem), ("namespace", "tf")]);
        container.publish(&container.path(node::TOKEN_DIR), &files);
    }

    pub fn behave(&self, behaviour: impl Fn(&CertificateSigningRequest) -> Reply + Send + 'static) {
        self.shared.lock().unwrap().behaviour = Box::new(behaviour);
    }

    /// Answers whoever asks for a list with this from now on; with nothing it lists.
    pub fn refuse(&self, list: &str, status: Option<StatusCode>) {
        let refused = &mut self.shared.lock().unwrap().refused;
        match status {
            Some(status) => drop(refused.insert(list.to_owned(), status)),
            None => drop(refused.remove(list)),
        }
    }

    pub fn created(&self) -> Vec<String> {
        self.shared.lock().unwrap().created.clone()
    }

    pub fn looks(&self) -> usize {
        self.shared.lock().unwrap().looks
    }

    pub fn last_token(&self) -> Option<String> {
        self.shared.lock().unwrap().tokens.last().cloned()
    }

    pub fn object(&self, name: &str) -> CertificateSigningRequest {
        self.shared.lock().unwrap().objects[name].clone()
    }
}

type Answer = Result<Response<Full<Bytes>>, std::convert::Infallible>;

async fn answer(shared: Arc<Mutex<Shared>>, request: Request<Incoming>) -> Answer {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let token = head.headers[header::AUTHORIZATION].to_str().unwrap().to_owned();
    let reply = {
        let mut shared = shared.lock().unwrap();
        shared.tokens.push(token);
        shared.reply(&head.method, head.uri.path(), &body)
    };
    let Some((status, body)) = reply else { return std::future::pending().await };
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    Ok(response)
}

impl Shared {
    /// None for no answer at all.
    fn reply(&mut self, method: &Method, path: &str, body: &[u8]) -> Option<(StatusCode, Value)> {
        let broken = || Some((StatusCode::INTERNAL_SERVER_ERROR, json!({"kind": "Status", "message": "etcd is away"})));
        if *method == Method::POST {
            assert_eq!(path, PATH);
            let object: CertificateSigningRequest = serde_json::from_slice(body).unwrap();
            let name = object.metadata.name.clone().unwrap();
            self.created.push(name.clone());
            return match (self.behaviour)(&object) {
                Reply::Broken => broken(),
                Reply::Hangs => None,
                Reply::Status(_) | Reply::Gone if self.objects.contains_key(&name) => {
                    Some((StatusCode::CONFLICT, json!({"kind": "Status", "message": "already exists"})))
                }
                Reply::Status(_) | Reply::Gone => {
                    self.objects.insert(name, object.clone());
                    Some((StatusCode::CREATED, serde_json::to_value(object).unwrap()))
                }
            };
        }
        if !path.starts_with(PATH) {
            let status = self.refused.get(path).copied().unwrap_or(StatusCode::OK);
            return Some((status, json!({"kind": "Status", "message": format!("{path} is forbidden")})));
        }
        self.looks += 1;
        let name = path.strip_prefix(PATH).and_then(|rest| rest.strip_prefix('/')).unwrap();
        let absent = || Some((StatusCode::NOT_FOUND, json!({"kind": "Status", "message": "not found"})));
        let Some(object) = self.objects.get(name) else { return absent() };
        match (self.behaviour)(object) {
            Reply::Broken => broken(),
            Reply::Hangs => None,
            Reply::Gone => absent(),
            Reply::Status(status) => {
                let mut object = serde_json::to_value(object).unwrap();
                object["status"] = status;
                Some((StatusCode::OK, object))
            }
        }
    }
}
