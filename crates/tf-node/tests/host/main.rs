//! `tf-node host apply` and `remove` as programs, on a node that is a network namespace, with a stand-in for the module.

#![allow(clippy::unwrap_used, clippy::panic, dead_code, reason = "helpers of tests")]

#[path = "../../../tf-host/tests/host/kernel.rs"]
mod kernel;
#[path = "../../../tf-host/tests/host/node.rs"]
mod node;
#[path = "../../../tf-host/tests/host/pci.rs"]
mod pci;
#[path = "../../../tf-host/tests/host/router.rs"]
mod router;

mod change;
mod forward;
mod vhost0;
