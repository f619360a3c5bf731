//! The introspect port: the list of modules, NodeStatus, and how much is logged.

use std::{net::IpAddr, sync::Arc};

use hyper::StatusCode;

use crate::{
    exit::Exit,
    http::{self, Answer, Question, Server},
    log,
    options::{Options, Pair},
    status::Status,
};

/// Type of the pages of daemons in Python.
pub const PYTHON: &str = "text/xsl";
/// Type of the pages of daemons in C++.
pub const NATIVE: &str = "text/xml";

/// Opens the port.
///
/// # Errors
/// When it cannot be had.
pub async fn open(options: &Options, status: &Arc<Status>) -> Result<(), Exit> {
    let status = Arc::clone(status);
    serve(options.introspect, options.introspect_pair.clone(), PYTHON, move || status.page()).await
}

/// Opens a port with this page, whose type is that of Python's daemons or of those in C++.
///
/// # Errors
/// When it cannot be had.
pub async fn serve(
    address: (IpAddr, u16),
    pair: Option<Pair>,
    kind: &'static str,
    status: impl Fn() -> String + Clone + Send + Sync + 'static,
) -> Result<(), Exit> {
    let listener = http::listen(address).await?;
    let answer = move |question: Question| {
        let status = status.clone();
        async move { page(&question, kind, status) }
    };
    let server = if kind == NATIVE { Server::Native } else { Server::Introspect(address.1) };
    tokio::spawn(http::serve(listener, pair, server, answer));
    Ok(())
}

fn page(question: &Question, kind: &'static str, status: impl Fn() -> String) -> Answer {
    let (path, query) = question.path.split_once('?').unwrap_or((&question.path, ""));
    match (path, query) {
        ("/", _) => (
            StatusCode::OK,
            "text/html",
            "<html><body><a href=\"sandesh_uve.xml\">sandesh_uve.xml</a></body></html>".into(),
        ),
        ("/Snh_SandeshUVECacheReq", "x=NodeStatus" | "tname=NodeStatus") => (StatusCode::OK, kind, status()),
        ("/Snh_SandeshLoggingParamsSet", query) => {
            let levels = query.split('&').filter_map(|field| field.strip_prefix("log_level="));
            levels.for_each(|level| log::say(&format!("logs from {level} on")));
            (StatusCode::OK, kind, "<SandeshLoggingParams type=\"sandesh\"></SandeshLoggingParams>".into())
        }
        _ => (StatusCode::NOT_FOUND, "text/plain", "unknown request".into()),
    }
}
