//! `kubectl-tf` for the tests of this package: cargo builds what a test starts only from its own package.

fn main() -> std::process::ExitCode {
    tf_cli::main()
}
