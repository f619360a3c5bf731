//! What the agent API answers.

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Bytes;
use serde::Serialize;
use serde_json::json;
use tf_plan::node::{launch::Launch, state::Status};

use crate::{VERSION, paths::Paths, pod::Pod, probe, state_file, store::Store};

/// Whose API it is.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) paths: Paths,
    pub(super) daemon: String,
    pub(super) pod: Pod,
}

pub(super) async fn answer<B>(context: &Context, launch: &Launch, request: &Request<B>) -> Response<Full<Bytes>> {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/v1/status") => respond(StatusCode::OK, &status(context, launch).await),
        (_, "/v1/status") => respond(StatusCode::METHOD_NOT_ALLOWED, &json!({"error": "only GET"})),
        _ => respond(StatusCode::NOT_FOUND, &json!({"error": "there is only GET /v1/status"})),
    }
}

async fn status(context: &Context, launch: &Launch) -> Status {
    let Context { paths, daemon, pod } = context;
    let mut status = Status {
        version: VERSION.to_owned(),
        pod: pod.name.clone(),
        node: pod.node.clone(),
        address: pod.address.to_string(),
        daemons: state_file::read_all(paths),
        health: None,
        zookeeper: None,
    };
    status.health = Some(probe::ready(launch, status.daemons.get(daemon), paths, pod.address).await);
    if let Some(store) = Store::of(launch, pod.address) {
        store.describe(paths, &mut status).await;
    }
    status
}

fn respond(status: StatusCode, body: &impl Serialize) -> Response<Full<Bytes>> {
    let body = serde_json::to_vec(body).unwrap_or_default();
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}
