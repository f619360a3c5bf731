//! Laws of the plan: no field lies, secrets stay in Secrets, nothing grows with the cluster, no input breaks it.

mod fields;
mod files;
mod hostile;
mod size;
mod world;
