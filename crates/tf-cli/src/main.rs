//! `kubectl-tf`, which kubectl calls for `kubectl tf`.

fn main() -> std::process::ExitCode {
    tf_cli::main()
}
