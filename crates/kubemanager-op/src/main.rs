//! The operator for kube-manager.

fn main() -> std::process::ExitCode {
    tf_runtime::main::<kubemanager_op::Component>()
}
