//! The operator for Cassandra.

fn main() -> std::process::ExitCode {
    tf_runtime::main::<cassandra_op::Component>()
}
