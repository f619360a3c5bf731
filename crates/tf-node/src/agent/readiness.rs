//! What the kubelet asks: `GET /ready/DAEMON` on the loopback address of the node, at the port of the agent API, without TLS. It tells whether
//! the daemons of the pod serve and nothing else, and costs a connection where a probe by a program costs a process in the container.

use std::{convert::Infallible, net::Ipv4Addr, num::NonZeroU16, sync::Arc, time::Duration};

use http::{Method, StatusCode};
use http_body_util::Full;
use hyper::{Request, Response, body::Bytes, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tf_agent_api::{launch::Launch, node, state::State};
use tokio::{net::TcpListener, sync::Semaphore, time::timeout};

use super::routes::{self, Context};
use crate::{log, place, probe, state_file};

/// Connections at a time.
const CONNECTIONS: usize = 16;
/// For a request and its answer. The kubelet waits for 3 s.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between attempts to get the port. Who had it before may be about to let it go.
const RETRY: Duration = Duration::from_millis(500);

/// Answers for ever, where the member has another address.
pub(super) async fn serve(context: Arc<(Context, Launch)>, port: NonZeroU16) {
    // A member that is reached there has the agent API at that port.
    if context.0.pod.address == Ipv4Addr::LOCALHOST {
        return;
    }
    let listener = listen(port).await;
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, say.
            tokio::time::sleep(RETRY).await;
            continue;
        };
        let context = Arc::clone(&context);
        tokio::spawn(async move {
            let service = service_fn(|request: Request<_>| {
                let context = Arc::clone(&context);
                async move { Ok::<_, Infallible>(answer(&context, request.method(), request.uri().path()).await) }
            });
            let connection =
                http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service);
            let _ = timeout(PATIENCE, connection).await;
            drop(permit);
        });
    }
}

async fn listen(port: NonZeroU16) -> TcpListener {
    let mut is_told = false;
    loop {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port.get())).await {
            Ok(listener) => return listener,
            Err(error) if !is_told => {
                log::warn("the kubelet cannot be answered", &json!({"port": port, "error": error.to_string()}));
                is_told = true;
            }
            Err(_) => {}
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn answer((context, launch): &(Context, Launch), method: &Method, path: &str) -> Response<Full<Bytes>> {
    let daemon = path.strip_prefix(node::READY_PATH).filter(|_| method == Method::GET);
    let (status, message) = match daemon {
        None => (StatusCode::NOT_FOUND, format!("there is GET {}DAEMON", node::READY_PATH)),
        Some(daemon) => match serves(context, launch, daemon).await {
            Ok(message) => (StatusCode::OK, message),
            Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
        },
    };
    let mut response = Response::new(Full::new(Bytes::from(message + "\n")));
    *response.status_mut() = status;
    response
}

/// Whether a daemon of the pod serves; else why it does not.
async fn serves(context: &Context, launch: &Launch, daemon: &str) -> Result<String, String> {
    let paths = &context.paths;
    let state = state_file::read(paths, daemon);
    if daemon != context.daemon {
        return companion(state.as_ref());
    }
    let health = routes::serves(context, launch, state.as_ref()).await;
    if !health.serves {
        return Err(health.message);
    }
    place::note_served(launch, paths).map_err(|error| format!("{error:#}"))?;
    Ok(health.message)
}

/// Whether a daemon that its own agent looks at serves.
fn companion(state: Option<&State>) -> Result<String, String> {
    let runs = probe::process(state).map_err(|unwell| unwell.message)?;
    match state.and_then(|state| state.serves) {
        None => Ok(runs.message),
        Some(true) => Ok("its agent says that it serves".to_owned()),
        Some(false) => {
            let why = state.and_then(|state| state.unwell.clone());
            Err(why.unwrap_or_else(|| "its agent has not seen it serve".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use tf_agent_api::state::Phase;

    use super::*;

    #[test]
    fn a_companion_serves_when_its_agent_has_seen_it_or_has_nothing_to_see() {
        let state = |phase, serves| State { phase, serves, ..State::default() };
        assert!(companion(None).is_err());
        assert!(companion(Some(&state(Phase::Starting, Some(true)))).is_err());
        assert!(companion(Some(&state(Phase::Running, None))).is_ok());
        assert!(companion(Some(&state(Phase::Running, Some(true)))).is_ok());
        let unseen = companion(Some(&state(Phase::Running, Some(false)))).unwrap_err();
        assert_eq!(unseen, "its agent has not seen it serve");
        let told = State { unwell: Some("no answer".into()), ..state(Phase::Running, Some(false)) };
        assert_eq!(companion(Some(&told)).unwrap_err(), "no answer");
    }
}
