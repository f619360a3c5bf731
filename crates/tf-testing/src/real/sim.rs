//! The daemons that `tf-sim` plays on real nodes, asked as people ask: NodeStatus by introspection, objects by the API. Over TLS, by the
//! authority of the namespace.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use regex::Regex;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tf_api::names::AUTHORITY;
use tf_sim::keystone::TOKEN;
use tokio::time::timeout;

/// Daemons with their introspect ports. One member's is at work of each but the first, and that of contrail-device-manager is its child's.
pub const DAEMONS: [(&str, u16); 5] = [
    ("contrail-api", 8084),
    ("contrail-schema", 8087),
    ("contrail-svc-monitor", 8088),
    ("contrail-device-manager", 8096),
    ("contrail-kube-manager", 8108),
];
/// Daemons of analytics with their introspect ports. All members' are at work.
pub const ANALYTICS: [(&str, u16); 6] = [
    ("contrail-collector", 8089),
    ("contrail-analytics-api", 8090),
    ("contrail-query-engine", 8091),
    ("contrail-alarm-gen", 5995),
    ("tf-snmp-collector", 5920),
    ("tf-topology", 5921),
];
/// The vRouter's agent with its introspect port.
pub const AGENT: (&str, u16) = ("contrail-vrouter-agent", 8085);
const API: u16 = 8082;
/// For an answer: `CONNECTION_TIMEOUT` of `vnc_api_lib.ini`, after which clients of Tungsten Fabric give a member up. The simulator answers up to 5 s late.
const PATIENCE: Duration = Duration::from_secs(15);

/// What a daemon says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// `Functional` or `Non-Functional`.
    pub state: String,
    /// Why it is not functional.
    pub description: String,
    /// Status of each connection by its name, and with whom it is.
    pub connections: BTreeMap<String, (String, String)>,
}

impl NodeStatus {
    /// Whether it and all its connections are well.
    pub fn is_functional(&self) -> bool {
        self.state == "Functional"
            && !self.connections.is_empty()
            && self.connections.values().all(|(status, _)| status == "Up")
    }

    fn read(page: &str) -> Result<Self> {
        let state = Regex::new("<state [^>]*>([^<]*)<")?;
        let state = state.captures(page).context("no state")?[1].to_owned();
        let connection =
            Regex::new("<name [^>]*>([^<]*)</name><server_addrs.*?<element>([^<]*)<.*?<status [^>]*>([^<]*)<")?;
        let connections = connection.captures_iter(page).map(|found| {
            let [_, name, server, status] = [0, 1, 2, 3].map(|index| found[index].to_owned());
            (name, (status, server))
        });
        let (_, rest) = page.rsplit_once("</connection_infos>").context("no connections")?;
        let description = Regex::new("<description [^>]*>([^<]*)<")?.captures(rest).context("no description")?;
        Ok(Self { state, description: description[1].to_owned(), connections: connections.collect() })
    }
}

/// The full name of a virtual network.
fn network(name: &str) -> [&str; 3] {
    ["default-domain", "default-project", name]
}

/// How often an API is asked, so that each of two workers is asked almost certainly.
const TIMES: usize = 8;

/// Who asks.
pub struct Visitor {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// Port of the API.
    api: u16,
    /// What is shown there.
    token: Option<String>,
}

impl Visitor {
    /// One who trusts the authority of a namespace.
    ///
    /// # Errors
    /// When there is none.
    pub async fn of(client: &kube::Client, namespace: &str) -> Result<Self> {
        let bundles: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let bundle = bundles.get(AUTHORITY).await?.data.unwrap_or_default();
        let bundle = bundle.get("ca-bundle.crt").context("no bundle")?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
            roots.add(certificate?)?;
        }
        let config = ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http1();
        // Each question is a connection of its own: whoever begins anew is seen.
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector.build());
        Ok(Self { client, api: API, token: None })
    }

    /// The same for an API on another port than the usual one.
    #[must_use]
    pub fn at(self, api: u16) -> Self {
        Self { api, ..self }
    }

    /// The same with a token of Keystone.
    #[must_use]
    pub fn with(self, token: String) -> Self {
        Self { token: Some(token), ..self }
    }

    /// What a daemon says of itself; none if it opens no port, as those do that wait to be elected.
    ///
    /// # Errors
    /// When it answers something else.
    pub async fn status(&self, address: IpAddr, port: u16) -> Result<Option<NodeStatus>> {
        let asked = self.ask(Method::GET, address, port, "/Snh_SandeshUVECacheReq?x=NodeStatus", "").await;
        let Ok((code, page)) = asked else { return Ok(None) };
        ensure!(code == 200, "{address}:{port}: status {code}");
        Ok(Some(NodeStatus::read(&page)?))
    }

    /// What all daemons at work on these nodes say of themselves, by name and node.
    ///
    /// # Errors
    /// When one answers something else.
    pub async fn statuses(&self, addresses: &[IpAddr]) -> Result<BTreeMap<(&'static str, IpAddr), NodeStatus>> {
        let mut found = BTreeMap::new();
        for (daemon, port) in DAEMONS.into_iter().chain(ANALYTICS) {
            for address in addresses {
                if let Some(status) = self.status(*address, port).await? {
                    found.insert((daemon, *address), status);
                }
            }
        }
        Ok(found)
    }

    /// What the vRouter's agents on these nodes say of themselves.
    ///
    /// # Errors
    /// When one answers something else.
    pub async fn agents(&self, addresses: &[IpAddr]) -> Result<BTreeMap<IpAddr, NodeStatus>> {
        let mut found = BTreeMap::new();
        for address in addresses {
            found.extend(self.status(*address, AGENT.1).await?.map(|status| (*address, status)));
        }
        Ok(found)
    }

    /// Makes a virtual network by the API on this node. Its identifier.
    ///
    /// # Errors
    /// When it is not made.
    pub async fn create(&self, address: IpAddr, name: &str) -> Result<String> {
        self.identifier(address, "/virtual-networks", json!({"fq_name": network(name)})).await
    }

    /// Whether any of several workers of the API on this node answers 503, each time over a connection of its own, which any of them may take.
    pub async fn has_worker_that_is_not_ready(&self, address: IpAddr) -> bool {
        for _ in 0..TIMES {
            if matches!(self.ask(Method::GET, address, self.api, "/", "").await, Ok((503, _))) {
                return true;
            }
        }
        false
    }

    /// Identifier of the virtual network with this name by the API on this node.
    ///
    /// # Errors
    /// When there is none.
    pub async fn find(&self, address: IpAddr, name: &str) -> Result<String> {
        let question = json!({"type": "virtual-network", "fq_name": network(name)});
        self.identifier(address, "/fqname-to-id", question).await
    }

    /// The identifier in the answer to what is posted.
    async fn identifier(&self, address: IpAddr, path: &str, body: Value) -> Result<String> {
        let (code, text) = self.ask(Method::POST, address, self.api, path, &body.to_string()).await?;
        ensure!(code == 200, "{address}: status {code}: {text}");
        let object: Value = serde_json::from_str(&text)?;
        object["uuid"].as_str().map(str::to_owned).context("no identifier")
    }

    /// A virtual network by the API on this node, and whether that was told of it over the message bus.
    ///
    /// # Errors
    /// When there is none.
    pub async fn read(&self, address: IpAddr, id: &str) -> Result<(Value, bool)> {
        let (code, text) = self.ask(Method::GET, address, self.api, &format!("/virtual-network/{id}"), "").await?;
        ensure!(code == 200, "{address}: status {code}: {text}");
        let answer: Value = serde_json::from_str(&text)?;
        Ok((answer["virtual-network"].clone(), answer["told"] == true))
    }

    /// Deletes a virtual network by the API on this node.
    ///
    /// # Errors
    /// When it is not deleted. A network that is not there (any more) is no error.
    pub async fn delete(&self, address: IpAddr, id: &str) -> Result<()> {
        let (code, text) = self.ask(Method::DELETE, address, self.api, &format!("/virtual-network/{id}"), "").await?;
        ensure!(matches!(code, 200 | 404), "{address}: status {code}: {text}");
        Ok(())
    }

    /// Names of all objects in a collection of the API on this node, the last part of each.
    ///
    /// # Errors
    /// When there is no such list.
    pub async fn names(&self, address: IpAddr, collection: &str) -> Result<Vec<String>> {
        let objects = self.list(address, collection, "").await?;
        let name = |object: &Value| object["fq_name"].as_array()?.last()?.as_str().map(str::to_owned);
        Ok(objects.iter().filter_map(name).collect())
    }

    /// What bgp-routers are told of by the API on this node: their `bgp_router_parameters`.
    ///
    /// # Errors
    /// When there is no list of them.
    pub async fn routers(&self, address: IpAddr) -> Result<Vec<Value>> {
        const PARAMETERS: &str = "bgp_router_parameters";
        let objects = self.list(address, "bgp-routers", &format!("?fields={PARAMETERS}")).await?;
        Ok(objects.into_iter().map(|mut object| object[PARAMETERS].take()).collect())
    }

    async fn list(&self, address: IpAddr, collection: &str, query: &str) -> Result<Vec<Value>> {
        let (code, text) = self.ask(Method::GET, address, self.api, &format!("/{collection}{query}"), "").await?;
        ensure!(code == 200, "{address}: status {code}: {text}");
        let mut answer: Value = serde_json::from_str(&text)?;
        match answer[collection].take() {
            Value::Array(objects) => Ok(objects),
            _ => bail!("{address} has no list of {collection}: {text}"),
        }
    }

    /// Makes a bgp-router of somebody else by the API on this node.
    ///
    /// # Errors
    /// When it is not made.
    pub async fn make_router(&self, address: IpAddr, name: &str) -> Result<()> {
        let parameters = json!({
            "router_type": "router", "vendor": "mx", "autonomous_system": 64513, "identifier": "192.0.2.1", "address": "192.0.2.1",
        });
        let body = json!({"bgp-router": {
            "fq_name": ["default-domain", "default-project", "ip-fabric", "__default__", name],
            "parent_type": "routing-instance",
            "bgp_router_parameters": parameters,
        }});
        let (code, text) = self.ask(Method::POST, address, self.api, "/bgp-routers", &body.to_string()).await?;
        ensure!(code == 200, "{address}: status {code}: {text}");
        Ok(())
    }

    async fn ask(&self, method: Method, address: IpAddr, port: u16, path: &str, body: &str) -> Result<(u16, String)> {
        let uri = format!("https://{}{path}", SocketAddr::new(address, port));
        let mut request = Request::builder().method(method).uri(uri);
        if let Some(token) = &self.token {
            request = request.header(TOKEN, token);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned())))?;
        let asked = async {
            let answer = self.client.request(request).await?;
            let code = answer.status().as_u16();
            let body = answer.into_body().collect().await?.to_bytes();
            Ok((code, String::from_utf8_lossy(&body).into_owned()))
        };
        timeout(PATIENCE, asked).await.context("no answer")?
    }
}
