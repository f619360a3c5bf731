//! The program `vif` that `tf-sim` plays, for tests of `tf-node host`.

use std::{env, io, io::Write as _};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    io::stdout().write_all(tf_sim::module::vif::run(&arguments)?.as_bytes())
}
