//! Whether there is a database of analytics, and which: collectors store nothing where no query could ask for it (the part with the database is
//! optional), and wait for ever for a database that is not there (docs/upstream/analytics.md#database).

use tf_api::{
    Analytics, Managed as _,
    contract::{ConditionType, Draft, Reason},
    kinds::{CASSANDRA, QUERY_ENGINE},
    names::ANALYTICSDB,
};
use tf_contrail::services::{CQL, dependency};
use tf_plan::{
    dependency::{Dependency, Need, wait_to_see},
    not_ready::NotReady,
    observed::Observed,
};

/// The database of analytics as a dependency.
pub fn dependency_of(cr: &Analytics) -> Dependency {
    let source = cr.spec.dependencies.cassandra.as_ref();
    let database = dependency(ConditionType::AnalyticsDatabaseReady, CASSANDRA, source, CQL, Need::Optional);
    Dependency { default_name: ANALYTICSDB, ..database }
}

/// Why there is none: the spec names none, there is no Cassandra of the usual name, and no QueryEngine that would ask one. With a
/// QueryEngine it is the only Cassandra there is, as with the Go tf-operator.
///
/// # Errors
/// When it depends on a QueryEngine, and cannot be seen whether there is one. A Cassandra that cannot be seen is reported by the dependency.
pub fn is_absent(cr: &Analytics, observed: &Observed<Analytics>) -> Result<Option<Draft>, NotReady> {
    let home = cr.home();
    let here = |kind: &str, is_it: &dyn Fn(&str) -> bool| match observed.peers(kind) {
        Ok(peers) => Ok(peers.iter().any(|it| it.namespace == home && is_it(&it.name))),
        Err(why) if why.reason == Reason::CrdMissing => Ok(false),
        Err(why) => Err(why),
    };
    let is_named = cr.spec.dependencies.cassandra.is_some();
    if is_named || here(CASSANDRA.kind, &|name| name == ANALYTICSDB).unwrap_or(true) {
        return Ok(None);
    }
    let asked = here(QUERY_ENGINE.kind, &|_| true);
    let is_asked = asked.map_err(|why| wait_to_see(ConditionType::AnalyticsDatabaseReady, why))?;
    let message = format!(
        "there is neither a Cassandra {ANALYTICSDB} nor a QueryEngine in namespace {home}: collectors keep the current state alone"
    );
    Ok((!is_asked).then(|| Draft::unknown(ConditionType::AnalyticsDatabaseReady, Reason::NotRequested, message)))
}
