//! Keystone, as far as operators ask it: a token for whoever has a password, as the resource that names it says (OpenStack Identity API v3,
//! "Password authentication with scoped authorization", and v2.0, "Authenticate").

use anyhow::{Context as _, Result, ensure};
use kube::{
    Client, ResourceExt as _,
    api::{Api, DynamicObject, ListParams},
};
use serde_json::Value;
use tf_api::kinds::{CONFIG, CONTROL};
use tf_plan::object::Kind;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional},
    net::TcpStream,
    time::timeout,
};

use super::{PATIENCE, head};
use crate::{keystone::Keystone, resources::resource_of};

/// Of a resource.
const PARAMETERS: &str = "/spec/commonConfiguration/authParameters/keystoneAuthParameters";
/// Of a request, in bytes.
const LONGEST: usize = 4096;

/// A Keystone that a resource names.
pub struct Named {
    /// Namespace of the resource.
    pub namespace: String,
    /// Address or name.
    pub host: String,
    /// Whether it speaks TLS.
    pub tls: bool,
}

/// The Keystone at this host and port, if a resource names one.
pub async fn at(client: &Client, target: &str) -> Result<Option<Named>> {
    let host = target.rsplit_once(':').map_or(target, |(host, _)| host);
    for kind in [CONFIG, CONTROL] {
        let resources: Api<DynamicObject> = Api::all_with(client.clone(), &resource_of(Kind::custom(kind)));
        for resource in resources.list(&ListParams::default()).await? {
            let Some(named) = resource.data.pointer(PARAMETERS) else { continue };
            if named["address"] == host {
                let tls = named["authProtocol"] != "http";
                let namespace = resource.namespace().unwrap_or_default();
                return Ok(Some(Named { namespace, host: host.to_owned(), tls }));
            }
        }
    }
    Ok(None)
}

/// Lets the one at this host and port serve if it is on this machine, and plays it else.
pub async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, named: &Named, target: &str) -> Result<()> {
    if named.host != Keystone::ADDRESS {
        return timeout(PATIENCE, answer(stream, named)).await?;
    }
    let mut real = TcpStream::connect(target).await?;
    copy_bidirectional(&mut stream, &mut real).await?;
    Ok(())
}

/// Answers one question: a token where user and password are given.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, named: &Named) -> Result<()> {
    let head = head(&mut stream).await?;
    let is_v2 = head.starts_with("POST /v2.0/tokens ");
    ensure!(
        is_v2 || head.starts_with("POST /v3/auth/tokens "),
        "Keystone {} is asked for something else: {head}",
        named.host
    );
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let length = length.filter(|length| *length <= LONGEST).context("a question without a length")?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let question: Value = serde_json::from_slice(&body)?;
    let identity = &question["auth"]["identity"]["password"]["user"];
    let (user, name) = if is_v2 { (&question["auth"]["passwordCredentials"], "username") } else { (identity, "name") };
    let is_given = |field: &str| user[field].as_str().is_some_and(|text| !text.is_empty());
    let is_let_in = is_given(name) && is_given("password");
    let (status, token, body) = match (is_let_in, is_v2) {
        (false, _) => ("401 Unauthorized", "", "{}"),
        (true, false) => ("201 Created", "X-Subject-Token: played\r\n", "{}"),
        (true, true) => ("200 OK", "", r#"{"access": {"token": {"id": "played"}}}"#),
    };
    let answer = format!("HTTP/1.1 {status}\r\n{token}Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await.context("ending")
}
