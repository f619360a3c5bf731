//! The operator for the config API.

fn main() -> std::process::ExitCode {
    tf_runtime::main::<config_op::Component>()
}
