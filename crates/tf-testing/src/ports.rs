//! Free ports for a control plane.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Context, Result};
use rand::RngExt as _;

/// Where ports are taken from. It lies below the range the kernel uses for outgoing connections (from 32768 by
/// default), so that while an API server is down for a restart no client of somebody else can sit on its port.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// Where one control plane listens: etcd on 127.0.0.1, the API server there, too, unless real nodes must reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// etcd's client port.
    pub etcd: u16,
    /// etcd's peer port: a single member opens it too.
    pub etcd_peer: u16,
    /// The API server.
    pub api_server: SocketAddr,
}

impl Ports {
    /// Ports that are free at this moment, with the API server on `address`. Another program may take one before its
    /// owner listens, so the caller tries again with other ports when a component says that its address is in use.
    pub fn choose(address: IpAddr) -> Result<Self> {
        // All listeners are held until all ports are chosen, so that the three differ.
        let local = Ipv4Addr::LOCALHOST.into();
        let listeners = [listen(local)?, listen(local)?, listen(address)?];
        let [etcd, etcd_peer, api_server] = listeners.each_ref().map(TcpListener::local_addr);
        Ok(Self { etcd: etcd?.port(), etcd_peer: etcd_peer?.port(), api_server: api_server? })
    }
}

fn listen(address: IpAddr) -> Result<TcpListener> {
    (0..1000)
        .find_map(|_| TcpListener::bind((address, rand::rng().random_range(RANGE))).ok())
        .with_context(|| format!("no free port on {address} between {} and {}", RANGE.start, RANGE.end))
}
