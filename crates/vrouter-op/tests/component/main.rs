//! Laws of the plan: no field lies, secrets stay in Secrets, nothing grows with the cluster, no input breaks it.

#![expect(clippy::expect_used, reason = "a law that cannot be checked is a failing test")]

mod fields;
mod files;
mod goldens;
mod hostile;
mod keystone;
mod placement;
mod profiles;
mod registration;
mod removal;
mod rollout;
mod services;
mod size;
mod taint;
mod world;
