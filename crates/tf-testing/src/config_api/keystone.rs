//! Keystone, as far as operators ask it: a token for whoever has a password, as the resource that names it says. `tf-sim` plays it.

use std::sync::Arc;

use anyhow::Result;
use kube::{
    Client, ResourceExt as _,
    api::{Api, DynamicObject, ListParams},
};
use tf_api::kinds::{CONFIG, CONTROL};
use tf_plan::object::Kind;
use tf_sim::keystone::{Account, Played, converse};
use tokio::{
    io::{AsyncRead, AsyncWrite, copy_bidirectional},
    net::TcpStream,
};

use crate::{keystone::Keystone, resources::resource_of};

/// Of a resource.
const PARAMETERS: &str = "/spec/commonConfiguration/authParameters/keystoneAuthParameters";

/// Address of a Keystone as OpenStack has it since Zed: it listens at [`PORT`] only. Keystones that are played at other addresses listen at every port.
pub const RECENT: &str = "192.0.2.36";
/// Of a recent Keystone.
const PORT: &str = "5000";

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

impl Named {
    /// Whether it listens at the port of this host and port.
    pub fn listens(&self, target: &str) -> bool {
        self.host != RECENT || target.rsplit_once(':').is_some_and(|(_, port)| port == PORT)
    }
}

/// Lets the one at this host and port serve if it is on this machine, and plays it else.
pub async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    named: &Named,
    target: &str,
) -> Result<()> {
    if named.host != Keystone::ADDRESS {
        let account = Account { who: None, role: "admin".into(), region: "RegionOne".into(), url: String::new() };
        converse(stream, Arc::new(Played::new(account))).await;
        return Ok(());
    }
    let mut real = TcpStream::connect(target).await?;
    copy_bidirectional(&mut stream, &mut real).await?;
    Ok(())
}
