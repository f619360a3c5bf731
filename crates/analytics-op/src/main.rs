//! The operator for analytics.

use analytics_op::{Analytics, AnalyticsAlarm, AnalyticsSnmp, QueryEngine};
use tf_runtime::Part;

fn main() -> std::process::ExitCode {
    tf_runtime::main_of(&[
        Part::of::<Analytics>(),
        Part::of::<AnalyticsAlarm>(),
        Part::of::<AnalyticsSnmp>(),
        Part::of::<QueryEngine>(),
    ])
}
