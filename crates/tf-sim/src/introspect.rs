//! The introspect port: the list of modules, and NodeStatus.

use std::sync::Arc;

use hyper::StatusCode;

use crate::{
    exit::Exit,
    http::{self, Answer, Question},
    options::Options,
    status::Status,
};

/// Opens the port.
///
/// # Errors
/// When it cannot be had.
pub async fn open(options: &Options, status: &Arc<Status>) -> Result<(), Exit> {
    let listener = http::listen(options.introspect).await?;
    let status = Arc::clone(status);
    let answer = move |question: Question| {
        let status = Arc::clone(&status);
        async move { page(&question, &status) }
    };
    tokio::spawn(http::serve(listener, options.introspect_pair.clone(), answer));
    Ok(())
}

fn page(question: &Question, status: &Status) -> Answer {
    let (path, query) = question.path.split_once('?').unwrap_or((&question.path, ""));
    match (path, query) {
        ("/", _) => (
            StatusCode::OK,
            "text/html",
            "<html><body><a href=\"sandesh_uve.xml\">sandesh_uve.xml</a></body></html>".into(),
        ),
        ("/Snh_SandeshUVECacheReq", "x=NodeStatus" | "tname=NodeStatus") => (StatusCode::OK, "text/xsl", status.page()),
        _ => (StatusCode::NOT_FOUND, "text/plain", "unknown request".into()),
    }
}
