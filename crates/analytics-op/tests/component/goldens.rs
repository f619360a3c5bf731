//! What the operator would do, kind by kind and situation by situation.

use std::path::Path;

use analytics_op::{Analytics, AnalyticsAlarm, AnalyticsSnmp, OPERATOR, QueryEngine};
use tf_testing::{golden, invariants::security};

#[test]
fn plans_are_as_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut plans = golden::plans::<Analytics>(&folder.join("analytics"));
    plans.extend(golden::plans::<AnalyticsAlarm>(&folder.join("analyticsalarm")));
    plans.extend(golden::plans::<AnalyticsSnmp>(&folder.join("analyticssnmp")));
    plans.extend(golden::plans::<QueryEngine>(&folder.join("queryengine")));
    security::no_exception_is_unused(OPERATOR, &plans);
}
