//! The operator for analytics.

use tf_runtime::Part;

fn main() -> std::process::ExitCode {
    tf_runtime::main_of(&[Part::of::<analytics_op::Analytics>()])
}
