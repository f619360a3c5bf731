//! What a node is and what keeps a vRouter from it: findings from made-up facts, facts from a real kernel in a network
//! namespace, and what people see of both.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod dpdk;
mod fixture;
mod kernel;
mod managers;
mod namespace;
mod node;
mod observed;
mod pci;
mod preflight;
mod reload;
mod router;
mod setup;
mod show;
mod switch;
mod virtual_functions;
