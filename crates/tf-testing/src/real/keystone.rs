//! A Keystone that `tf-sim` plays in a pod on a node, over TLS, with an authority of its own. Its one administrator has in name, password, project and
//! domain what files could lose (see [`crate::logins`]).

use std::net::{IpAddr, SocketAddr};

use anyhow::Result;
use serde_json::{Value, json};
use tf_config_files::{Ini, Settings as _};
use tf_sim::keystone::{Login, NAME, Trust, Url, Version};

use crate::{
    Lab, RealNode,
    logins::{PASSWORD, REGION, TEXTS, administrator},
    pki::Authority,
};

/// Name of the Secret with the administrator's password.
pub const SECRET: &str = "keystone";
/// Key of the password there.
pub const KEY: &str = "password";
const SERVER: &str = "keystone-server";
const FILE: &str = "keystone.conf";
const FOLDER: &str = "/etc/keystone";
const PORT: u16 = 35357;

/// One on a node.
pub struct Keystone(IpAddr);

impl Keystone {
    /// The one on this node, running or not.
    pub fn on(node: &RealNode) -> Self {
        Self(node.address())
    }

    /// Starts it on this node, with the Secret that resources name.
    ///
    /// # Errors
    /// When it cannot be made.
    pub async fn start(lab: &Lab, namespace: &str, node: &RealNode) -> Result<Self> {
        let own = Self::on(node);
        let authority = Authority::new()?;
        let shown = authority.server(NAME, &[own.0], &[])?;
        let meta = |name: &str| json!({ "name": name, "namespace": namespace });
        let login = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": meta(SECRET),
            "stringData": { KEY: PASSWORD, "ca.crt": authority.certificate() },
        });
        let server = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": meta(SERVER),
            "stringData": { FILE: own.file()?, "tls.crt": shown.certificate, "tls.key": shown.key },
        });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": meta(NAME),
            "spec": {
                "nodeName": node.name(), "hostNetwork": true,
                "containers": [{
                    "name": NAME, "image": concat!("tungstenfabric/tf-sim:", env!("CARGO_PKG_VERSION")),
                    "imagePullPolicy": "Never", "command": [NAME, format!("{FOLDER}/{FILE}")],
                    "volumeMounts": [{ "name": "files", "mountPath": FOLDER }],
                }],
                "volumes": [{ "name": "files", "secret": { "secretName": SERVER } }],
            },
        });
        for object in [login, server, pod] {
            lab.apply(&object.to_string()).await?;
        }
        Ok(own)
    }

    fn file(&self) -> Result<String> {
        let [user, project, domain] = TEXTS;
        let mut file = Ini::python(FILE);
        file.section(NAME)
            .set("listen", self.0.to_string())
            .set("port", PORT)
            .set("url", format!("https://{}", SocketAddr::new(self.0, PORT)))
            .set("region", REGION)
            .set("user", user)
            .set("password", PASSWORD)
            .set("project", project)
            .set("domain", domain)
            .set("certificate", format!("{FOLDER}/tls.crt"))
            .set("key", format!("{FOLDER}/tls.key"));
        Ok(file.render()?)
    }

    /// `authParameters` of a spec that names it.
    pub fn parameters(&self) -> Value {
        let [user, project, domain] = TEXTS;
        json!({
            "authMode": "keystone",
            "keystoneSecretName": SECRET,
            "keystoneAuthParameters": {
                "address": self.0, "port": PORT, "adminPort": PORT, "authProtocol": "https", "region": REGION,
                "adminUsername": user, "adminTenant": project, "userDomainName": domain, "projectDomainName": domain,
            },
        })
    }

    /// A token of the administrator.
    ///
    /// # Errors
    /// When there is none to be had.
    pub async fn token(&self) -> Result<String> {
        let login = Login {
            url: Url { tls: true, host: self.0.to_string(), port: PORT, path: "/v3/auth/tokens".into() },
            trust: Trust::Anybody,
            version: Version::V3,
            question: administrator().question(Version::V3).to_string().into_bytes(),
        };
        Ok(login.token().await?.id)
    }
}
