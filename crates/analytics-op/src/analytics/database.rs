//! Whether there is a database of analytics, and which: collectors store nothing where nobody could ask for it (tf-components 7, the
//! part with the database is optional), and wait for ever for a database that is not there (tf-components 11, trap 13).

use tf_api::{
    Analytics, Managed as _,
    contract::{ConditionType, Draft, Reason},
    kinds::{CASSANDRA, QUERY_ENGINE},
};
use tf_plan::{
    dependency::{Dependency, Need},
    observed::Observed,
    services::{CQL, dependency},
};

/// The Cassandra that the Go tf-operator kept analytics in.
const USUAL: &str = "analyticsdb1";

/// The database of analytics as a dependency.
pub fn dependency_of(cr: &Analytics) -> Dependency {
    let source = cr.spec.dependencies.cassandra.as_ref();
    dependency(ConditionType::AnalyticsDatabaseReady, CASSANDRA, source, USUAL, CQL, Need::Optional)
}

/// Why there is none: the spec names none, there is no Cassandra of the usual name, and no QueryEngine that would ask one. With a
/// QueryEngine it is the only Cassandra there is, as with the Go tf-operator.
pub fn is_absent(cr: &Analytics, observed: &Observed<Analytics>) -> Option<Draft> {
    let home = cr.home();
    let here = |kind: &str, is_it: &dyn Fn(&str) -> bool| {
        let peers = observed.peers(kind).map(|peers| peers.iter().any(|it| it.namespace == home && is_it(&it.name)));
        peers.unwrap_or_default()
    };
    let is_there = cr.spec.dependencies.cassandra.is_some()
        || here(CASSANDRA.kind, &|name| name == USUAL)
        || here(QUERY_ENGINE.kind, &|_| true);
    let message = format!(
        "there is neither a Cassandra {USUAL} nor a QueryEngine in namespace {home}: collectors keep the current state alone"
    );
    (!is_there).then(|| Draft::unknown(ConditionType::AnalyticsDatabaseReady, Reason::NotRequested, message))
}
