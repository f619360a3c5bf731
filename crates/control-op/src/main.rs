//! The operator for control nodes.

fn main() -> std::process::ExitCode {
    tf_runtime::main::<control_op::Component>()
}
