//! The operator for the web user interface.

fn main() -> std::process::ExitCode {
    tf_runtime::main::<webui_op::Component>()
}
