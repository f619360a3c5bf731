//! The node agent.

fn main() -> std::process::ExitCode {
    tf_node::cli::main()
}
