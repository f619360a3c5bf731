//! The operator for Redis.

fn main() -> std::process::ExitCode {
    tf_runtime::main::<redis_op::Component>()
}
