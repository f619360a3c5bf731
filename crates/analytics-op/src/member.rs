//! What the plans of all kinds begin and end with.

use tf_api::{Managed, common::Container};
use tf_contrail::{
    daemon::{self, Entry},
    vnc_api,
};
use tf_plan::{
    build::configuration::Files,
    certificates,
    dependency::{self, Dependency},
    keystone::{self, Keystone},
    member_set::{MemberSet, Traits},
    members::Identities,
    not_ready::NotReady,
    observed::Observed,
    selection,
};

use crate::{OPERATOR, config, services::Services};

/// Time for work that is under way to end.
pub const GRACE_SECONDS: i64 = 30;

/// Chooses members and containers of a kind, one member on each node that matches. `needed`: containers without which a member is of no use; `listed`: the
/// spec's container list.
///
/// # Errors
/// When the spec leaves out what is needed, no node matches, or nodes cannot be read.
pub fn prepare<'a, Cr: Managed, C>(
    cr: &'a Cr,
    observed: &'a Observed<Cr>,
    table: &[Entry<C>],
    needed: &[&'static str],
    listed: &[Container],
) -> Result<MemberSet<'a, Cr>, NotReady> {
    selection::require(listed, needed)?;
    let containers = daemon::containers(table);
    // Kafka keeps copies on brokers by them, and alarm generators have databases of Redis: of those there are sixteen.
    let identities = Identities::Lowest;
    let traits = Traits { identities, ..Traits::without_data(OPERATOR, &containers, listed) };
    MemberSet::prepare(cr, observed, &traits)
}

/// How the config API is found and how Keystone is asked, where it is.
///
/// # Errors
/// When a value cannot be expressed in a file.
pub fn library(services: &Services, keystone: Option<&Keystone>) -> Result<Files, NotReady> {
    let mut files = Files::default();
    let library = config::library(services, keystone)?;
    match keystone {
        Some(keystone) => {
            files.shared_secret(keystone::FILE, keystone.file()?);
            files.external_tls(keystone::files(Some(keystone)));
            files.shared_secret(vnc_api::FILE, library);
        }
        None => files.shared(vnc_api::FILE, library),
    }
    Ok(files)
}

/// Common fields of the spec that are set and have no effect.
pub fn ignored<Cr: Managed>(cr: &Cr, observed: &Observed<Cr>, dependencies: &[Dependency]) -> Vec<String> {
    let common = cr.common();
    let host_files = certificates::host_files_ignored(common);
    dependency::ignored(dependencies, observed).into_iter().chain(host_files).collect()
}

/// A dependency of the spec that is stated and that no daemon of the kind uses.
pub fn unused(field: &str, is_stated: bool) -> Option<String> {
    is_stated.then(|| format!("spec.dependencies.{field}: no daemon of this kind connects to it"))
}
