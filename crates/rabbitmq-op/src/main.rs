//! The operator for RabbitMQ.

fn main() -> std::process::ExitCode {
    tf_runtime::main::<rabbitmq_op::Component>()
}
