//! The operator for the vRouters.

fn main() -> std::process::ExitCode {
    tf_runtime::main::<vrouter_op::Component>()
}
