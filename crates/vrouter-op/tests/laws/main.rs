//! Laws of the plan: no field lies, secrets stay in Secrets, nothing grows with the cluster, no input breaks it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a law that cannot be checked is a failing test"
)]

mod fields;
mod files;
mod hostile;
mod size;
mod world;
