//! The operator for ZooKeeper.

fn main() -> std::process::ExitCode {
    tf_runtime::main::<zookeeper_op::Component>()
}
