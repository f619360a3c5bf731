//! The operator for Manager.

fn main() -> std::process::ExitCode {
    tf_runtime::main::<manager_op::Component>()
}
