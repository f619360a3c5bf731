//! Plays a daemon of Tungsten Fabric: the one whose name it is called by.

fn main() -> std::process::ExitCode {
    tf_sim::main()
}
