//! What the operator would do, kind by kind and situation by situation.

use std::path::Path;

use analytics_op::{Analytics, OPERATOR};
use tf_testing::{golden, laws::security};

#[test]
fn plans_are_as_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let plans = golden::plans::<Analytics>(&folder.join("analytics"));
    security::no_exception_is_unused(OPERATOR, &plans);
}
