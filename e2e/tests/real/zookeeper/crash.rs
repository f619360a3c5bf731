//! What of an ensemble is disturbed: its sizes, its configuration, TLS between its servers, its image, who signs its certificates, its nodes.

use std::fmt;
use std::sync::Arc;

use anyhow::ensure;
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::Value;
use tf_testing::cert_manager;
use tf_testing::process::Process;

use super::host_files::Administrator;
use super::journal::Journal;
use super::*;
use crate::{
    crash::{Common, Configuration, Name, Round, Site, Subject, tests_of},
    store::HONEST_WITHIN,
};

/// Of cert-manager.
const ISSUER: &str = "corp";

/// Who signs the servers' certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signer {
    Operators,
    Issuer,
    /// Files on the nodes.
    Administrator,
}

impl Signer {
    /// Not an empty object: the API server makes that null where a former one had fields.
    fn spec(self) -> Option<Value> {
        match self {
            Self::Operators => None,
            Self::Issuer => Some(json!({"issuer": format!("ClusterIssuer/{ISSUER}")})),
            Self::Administrator => Some(json!({"hostFiles": {}})),
        }
    }
}

/// What is wished of an ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wish {
    common: Common,
    quorum_tls: bool,
    image: Option<&'static str>,
    signer: Signer,
}

impl Wish {
    const fn plain(common: Common) -> Self {
        Self { common, quorum_tls: false, image: None, signer: Signer::Operators }
    }

    const fn signed_by(signer: Signer) -> Self {
        Self { quorum_tls: true, signer, ..THREE }
    }
}

impl crate::crash::Wish for Wish {
    fn common(self) -> Common {
        self.common
    }

    fn spec(self) -> Value {
        let mut spec = self.common.spec();
        let mut service = json!({"tls": {"quorum": self.quorum_tls, "clientPort": tls::TLS_PORT}});
        if let Some(image) = self.image {
            service["containers"] = json!([{"name": "zookeeper", "image": image}]);
        }
        spec["serviceConfiguration"] = service;
        if let Some(certificates) = self.signer.spec() {
            spec["commonConfiguration"]["certificates"] = certificates;
        }
        spec
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.common)?;
        f.write_str(if self.quorum_tls { ", TLS between them" } else { "" })?;
        f.write_str(match self.signer {
            Signer::Operators => "",
            Signer::Issuer => ", an issuer's certificates",
            Signer::Administrator => ", certificates of the nodes",
        })?;
        self.image.map_or(Ok(()), |image| write!(f, ", {image}"))
    }
}

const THREE: Wish = Wish::plain(Common::members(3));
const WARNED: Wish = Wish::plain(Common::members(3).with(Configuration::Another));

/// Grow, change the configuration, shrink.
const SIZES: Round<Wish> = Round {
    name: Name::ZookeeperSizes,
    wishes: &[THREE, Wish::plain(Common::members(3).with(Configuration::Other)), Wish::plain(Common::members(1))],
    other: Wish::plain(Common::members(2).with(Configuration::Another)),
};

/// Change to TLS between the servers, to another image, and both back at once.
const CHANGES: Round<Wish> = Round {
    name: Name::ZookeeperChanges,
    wishes: &[
        Wish { quorum_tls: true, ..THREE },
        Wish { quorum_tls: true, image: Some(rollout::FORMER.1), ..THREE },
        THREE,
    ],
    other: WARNED,
};

/// An issuer's authority instead of the operators' own, then certificates of the nodes, then the operators' own authority again.
const SIGNERS: Round<Wish> = Round {
    name: Name::ZookeeperSigners,
    wishes: &[
        Wish::signed_by(Signer::Issuer),
        Wish::signed_by(Signer::Administrator),
        Wish::signed_by(Signer::Operators),
    ],
    other: Wish { common: WARNED.common, ..Wish::signed_by(Signer::Operators) },
};

/// A node is replaced while the configuration changes, and another one while it changes back.
const NODES: Round<Wish> = Round {
    name: Name::ZookeeperNodes,
    wishes: &[
        Wish::plain(Common::members(3).with(Configuration::Other).on_another_node()),
        Wish::plain(Common::members(3).on_another_node()),
    ],
    other: WARNED,
};

/// Those who sign certificates in the operators' stead.
struct Others {
    _cert_manager: Process,
    /// A client that trusts the issuer's root alone.
    root: Arc<ClientConfig>,
    administrator: Administrator,
}

impl Others {
    async fn begin(lab: &Lab) -> Result<Self> {
        let running = cert_manager::start(lab).await?;
        let root = CertificateDer::from_pem_slice(cert_manager::cluster_issuer(lab, ISSUER).await?.as_bytes())?;
        let root = Arc::new(tls::trusting_these(vec![root])?.with_no_client_auth());
        let administrator = Administrator::new()?;
        for node in lab.real_nodes()?.all()? {
            administrator.supply(&node).await?;
        }
        Ok(Self { _cert_manager: running, root, administrator })
    }

    /// Who signed the certificate that a server shows.
    async fn signer(&self, address: IpAddr) -> Signer {
        if tls::connect(&self.root, address, tls::TLS_PORT).await.is_ok() {
            Signer::Issuer
        } else if self.administrator.shown(address, tls::TLS_PORT).await.is_ok() {
            Signer::Administrator
        } else {
            Signer::Operators
        }
    }
}

#[derive(Default)]
struct Ensemble {
    others: Option<Others>,
    /// Of the list of members.
    version: u64,
}

impl Subject for Ensemble {
    type Component = zookeeper_op::Component;
    type Wish = Wish;
    type Clients = Journal;

    const STORE: Store = STORE;
    const IMAGES: &'static [&'static str] = &[rollout::FORMER.0];
    // One authority takes minutes to replace another.
    const LIMIT: Duration = tls::ROTATION;
    const SAID: Duration = HONEST_WITHIN;

    async fn begin(&mut self, lab: &Lab, round: &Round<Wish>) -> Result<()> {
        if round.wishes.iter().any(|wish| wish.signer != Signer::Operators) {
            self.others = Some(Others::begin(lab).await?);
        }
        Ok(())
    }

    async fn is_told(&self, wish: Wish, zookeeper: &Resource) -> Result<bool> {
        if !tls::has_changed_over(zookeeper, wish.quorum_tls) || tls::is_rotating(zookeeper) {
            return Ok(false);
        }
        for member in members(zookeeper) {
            if let Some(others) = &self.others
                && others.signer(member.address.parse()?).await != wish.signer
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn ask(&mut self, _site: &Site, _wish: Wish, members: &[MemberStatus]) -> Result<()> {
        let (_, version) = membership::voting(members).await?;
        ensure!(version >= self.version, "the version of the list fell from {:x} to {version:x}", self.version);
        self.version = version;
        Ok(())
    }

    async fn clients(&self, site: &Site) -> Result<Journal> {
        // Of the servers that there are before, a majority is there afterwards.
        Journal::begin(&site.lab.real_nodes()?.addresses()?).await
    }

    async fn end(journal: Journal, servers: &[IpAddr]) -> Result<String> {
        let account = journal.end(servers).await?;
        Ok(format!("{} writes, longest pause {:?}", account.acknowledged.len(), account.longest_pause))
    }

    fn deleted(&mut self) {
        self.version = 0;
    }
}

tests_of!(sizes, Ensemble, SIZES);
tests_of!(changes, Ensemble, CHANGES);
tests_of!(signers, Ensemble, SIGNERS);
tests_of!(nodes, Ensemble, NODES);
