//! The files of the member's identity: what it trusts, what it shows, the request it waits for, and what its node has for it.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    net::IpAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use serde::{Serialize, de::DeserializeOwned};
use tf_agent_api::{
    content::{ContentHash, content_hash},
    node,
};
use tf_config_files::env;
use tf_host::atomic;
use tf_pki::{bundle::Bundle, certificate::Certificate, stores};

use super::{
    decide::Pair,
    host::{self, Unreadable},
};
use crate::{paths::Paths, volume};

/// Owner and group, as the daemons of the pod read them.
const MODE: u32 = 0o640;
/// Nobody else reads a key that has no certificate yet.
const PRIVATE: u32 = 0o600;
/// The agent's own file with a [`super::Pending`], the request that waits for an answer.
pub(super) const PENDING: &str = ".request";
/// The agent's own file with a [`super::Taken`], what was taken from the node.
pub(super) const TAKEN: &str = ".host-files";
/// Bytes of a file of the node. Bundles of all public authorities have a fifth of it.
const LARGEST: u64 = 1024 * 1024;

/// The mounted bundle.
#[derive(Clone, Debug)]
pub(super) struct Trust {
    pub(super) bundle: Bundle,
    /// Its number; 0 where it has none.
    pub(super) revision: u64,
}

/// Key and certificates in use.
#[derive(Clone)]
pub(super) struct Held {
    key: String,
    certificates: String,
}

impl Held {
    pub(super) fn pair(&self) -> Pair<'_> {
        Pair { key: &self.key, certificates: &self.certificates }
    }

    /// The member's own certificate, if it can be read.
    pub(super) fn certificate(&self) -> Option<Certificate> {
        Certificate::first_from_pem(&self.certificates).ok()
    }
}

/// The authorities that are mounted, with their number.
pub(super) fn trust(paths: &Paths) -> Result<Trust> {
    let name = |path: &str| PathBuf::from(path).file_name().map(PathBuf::from).unwrap_or_default();
    let (bundle, revision) = volume::read(&[paths.at(node::CA_DIR)], |[directory]| {
        let directory = directory.unwrap_or_default();
        Ok((text(directory.join(name(node::CA_BUNDLE)))?, text(directory.join(name(node::CA_REVISION)))?))
    })?;
    let bundle = Bundle::from_pem(&bundle.unwrap_or_default()).context("the certificates of the authorities")?;
    ensure!(!bundle.certificates().is_empty(), "waits for the certificates of the authorities to be mounted");
    let revision = revision.and_then(|revision| revision.trim().parse().ok()).unwrap_or_default();
    Ok(Trust { bundle, revision })
}

/// What the member shows, if both parts are there.
pub(super) fn held(paths: &Paths) -> Result<Option<Held>> {
    let (key, certificates) = (text(paths.at(node::CERTIFICATE_KEY))?, text(paths.at(node::CERTIFICATE))?);
    Ok(key.zip(certificates).map(|(key, certificates)| Held { key, certificates }))
}

/// Lets the member show these.
pub(super) fn take(paths: &Paths, pair: Pair<'_>) -> Result<()> {
    let files = [
        (paths.at(node::CERTIFICATE_KEY), pair.key.as_bytes()),
        (paths.at(node::CERTIFICATE), pair.certificates.as_bytes()),
    ];
    Ok(atomic::replace_together(&files, MODE)?)
}

/// Names what there is for daemons to show and trust.
pub(super) fn hash(paths: &Paths) -> ContentHash {
    let content = |path: &str| Some((path.to_owned(), fs::read(paths.at(path)).ok()?));
    content_hash(&[node::CERTIFICATE, node::TRUSTSTORE_PEM].into_iter().filter_map(content).collect())
}

/// Keeps the files for the daemon, with key and certificates in one and with what it trusts, as they should be. Whether one of them was
/// not.
pub(super) fn keep_stores(paths: &Paths, shown: Option<Pair<'_>>, trusted: &Bundle) -> Result<bool> {
    let mut is_other = false;
    // Before the others, for whose presence the daemon's start waits.
    if let Some(passwords) = Passwords::of(paths)? {
        is_other |= passwords.keep(paths, shown, trusted)?;
    }
    let stores = [
        // First, since it has the authorities of what is shown.
        (node::TRUSTSTORE_PEM, Some(trusted.pem())),
        (node::KEYSTORE_PEM, shown.map(|pair| format!("{}\n{}", pair.key.trim_end(), pair.certificates))),
    ];
    for (path, content) in stores {
        let (path, Some(content)) = (paths.at(path), content) else { continue };
        if text(path.clone())?.as_ref() != Some(&content) {
            atomic::replace(&path, content.as_bytes(), MODE)?;
            is_other = true;
        }
    }
    Ok(is_other)
}

/// What protects the stores of a Java daemon.
struct Passwords {
    key: String,
    trust: String,
}

impl Passwords {
    /// Those of the daemon's files, if it has stores at all.
    fn of(paths: &Paths) -> Result<Option<Self>> {
        let Some(file) = text(paths.run_dir().join(node::STORES_FILE))? else { return Ok(None) };
        let mut read = env::parse(&file).context(node::STORES_FILE)?;
        let mut take = |name| read.remove(name).with_context(|| format!("{}: no {name}", node::STORES_FILE));
        Ok(Some(Self { key: take("KEYSTORE_PASSWORD")?, trust: take("TRUSTSTORE_PASSWORD")? }))
    }

    fn keep(&self, paths: &Paths, shown: Option<Pair<'_>>, trusted: &Bundle) -> Result<bool> {
        let store = stores::trust_store(trusted, &self.trust)?;
        let trusts_other = keep_store(&paths.at(node::TRUSTSTORE), &store, &self.trust)?;
        let Some(pair) = shown else { return Ok(trusts_other) };
        let store = stores::key_store(pair.key, pair.certificates, &self.key)?;
        Ok(keep_store(&paths.at(node::KEYSTORE), &store, &self.key)? || trusts_other)
    }
}

/// A store of the same content stays: Java's daemons read one anew that was written. Whether it was written.
fn keep_store(path: &Path, store: &[u8], password: &str) -> Result<bool> {
    let is_other = !fs::read(path).is_ok_and(|present| stores::are_alike(&present, store, password));
    if is_other {
        atomic::replace(path, store, MODE)?;
    }
    Ok(is_other)
}

/// What the node has for an address.
pub(super) fn of_host(paths: &Paths, address: IpAddr) -> host::Files {
    let directory = |name| paths.at(node::HOST_FILES_DIR).join(name);
    let certificates = directory(node::HOST_CERTIFICATES);
    host::Files {
        key: of_administrator(&certificates.join(node::host_key(address))),
        certificate: of_administrator(&certificates.join(node::host_certificate(address))),
        bundle: of_administrator(&directory(node::HOST_AUTHORITIES).join(node::HOST_BUNDLE)),
    }
}

fn of_administrator(path: &Path) -> host::Content {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Unreadable::Missing,
        io::ErrorKind::PermissionDenied => Unreadable::Denied,
        kind => Unreadable::Failed(kind.to_string()),
    };
    // Something else may never end, or not even open.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(Unreadable::Odd);
    }
    let mut content = Vec::new();
    File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut content)).map_err(failed)?;
    String::from_utf8(content).ok().filter(|text| text.len() as u64 <= LARGEST).ok_or(Unreadable::Odd)
}

/// What an earlier run kept for itself in a file, if it can be read.
pub(super) fn kept<T: DeserializeOwned>(paths: &Paths, file: &str) -> Option<T> {
    serde_json::from_slice(&fs::read(own_file(paths, file)).ok()?).ok()
}

/// Keeps it for later runs.
pub(super) fn keep(paths: &Paths, file: &str, content: &impl Serialize) -> Result<()> {
    Ok(atomic::replace(&own_file(paths, file), &serde_json::to_vec(content)?, PRIVATE)?)
}

/// It is not needed any more.
pub(super) fn forget(paths: &Paths, file: &str) {
    let _ = fs::remove_file(own_file(paths, file));
}

fn own_file(paths: &Paths, file: &str) -> PathBuf {
    paths.at(node::CERTIFICATE_DIR).join(file)
}

/// A file that may be absent. What is no text is as good as empty: it may be a key, and is not quoted.
fn text(path: PathBuf) -> Result<Option<String>> {
    match fs::read(&path) {
        Ok(content) => Ok(Some(String::from_utf8(content).unwrap_or_default())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
    }
}
