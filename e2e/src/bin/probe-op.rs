//! The operator that the tests of `tf-runtime` run: see [`e2e::probe`].

fn main() -> std::process::ExitCode {
    tf_runtime::main::<e2e::probe::Probe>()
}
