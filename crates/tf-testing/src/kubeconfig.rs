//! Kubeconfig files: how every program of a lab learns where the API server is and who it is.

use std::path::Path;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use crate::{folder::write_atomically, pki::Pair};

/// Who the holder of a kubeconfig is.
pub enum Credential<'a> {
    /// The user named in a client certificate.
    Certificate(&'a Pair),
    /// A ServiceAccount, by its token.
    Token(&'a str),
}

/// The API server, as a kubeconfig names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `https://address:port`, or `http://` for a [proxy](crate::proxy).
    pub url: String,
    /// The CA that signed the server's certificate, PEM; `None` for plain HTTP.
    pub ca: Option<String>,
}

/// Writes a kubeconfig with one context, readable by its owner only.
pub fn write(path: &Path, endpoint: &Endpoint, credential: &Credential<'_>, namespace: &str) -> Result<()> {
    let user = match credential {
        Credential::Certificate(pair) => json!({
            "client-certificate-data": STANDARD.encode(&pair.certificate),
            "client-key-data": STANDARD.encode(&pair.key),
        }),
        Credential::Token(token) => json!({ "token": token }),
    };
    let mut cluster = json!({ "server": endpoint.url });
    if let Some(ca) = &endpoint.ca {
        cluster["certificate-authority-data"] = Value::from(STANDARD.encode(ca));
    }
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "lab", "cluster": cluster }],
        "users": [{ "name": "lab", "user": user }],
        "contexts": [{ "name": "lab", "context": { "cluster": "lab", "user": "lab", "namespace": namespace } }],
        "current-context": "lab",
    });
    write_atomically(path, serde_saphyr::to_string(&config)?.as_bytes())
}

/// The API server named by a kubeconfig of this lab.
pub fn endpoint(path: &Path) -> Result<Endpoint> {
    let config = Kubeconfig::read_from(path).with_context(|| format!("{}", path.display()))?;
    let cluster = config.clusters.into_iter().next().and_then(|named| named.cluster).context("no cluster")?;
    let ca = match cluster.certificate_authority_data {
        Some(data) => Some(String::from_utf8(STANDARD.decode(data)?)?),
        None => None,
    };
    Ok(Endpoint { url: cluster.server.context("no server")?, ca })
}

/// Writes `to`: the same token and namespace as `from`, but another server. Client certificates cannot pass a proxy,
/// so a kubeconfig without a token is an error.
pub fn redirect(from: &Path, to: &Path, endpoint: &Endpoint) -> Result<()> {
    use kube::config::AuthInfo;

    let config = Kubeconfig::read_from(from).with_context(|| format!("{}", from.display()))?;
    let namespace = config.contexts.iter().find_map(|named| named.context.as_ref()?.namespace.clone());
    let Some(AuthInfo { token: Some(token), .. }) = config.auth_infos.iter().find_map(|named| named.auth_info.clone())
    else {
        bail!("{} holds no token: only a ServiceAccount's identity can pass a proxy", from.display());
    };
    let token = serde_json::to_value(AuthInfo { token: Some(token), ..AuthInfo::default() })?["token"].take();
    let token = token.as_str().context("token")?;
    write(to, endpoint, &Credential::Token(token), namespace.as_deref().unwrap_or("default"))
}
