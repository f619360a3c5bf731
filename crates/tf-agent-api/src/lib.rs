//! The contract between operators and the node agent `tf-node`: what an operator puts into a pod, and what the agent reports.
//!
//! An init container copies the static binary into a shared volume; every daemon's container starts through it. The agent
//! picks the files of its own address from the mounted configuration, waits for what is missing, supervises the
//! daemon and answers probes (`docs/adr/0005`). What it does for a daemon is in that daemon's launch file ([`launch`]); what it reports is its
//! [`state`]. Each store has a module with the requests that operators send to the agents of its servers.
//!
//! A file is stored under one of three keys, tried in this order, in the Secret first and then in the ConfigMap:
//! `<file>.<address>` for one member, `<file>.node` as a template that every node completes for itself
//! ([`template`]), and `<file>` for everybody ([`content`]).

pub mod cassandra;
pub mod content;
pub mod family;
pub mod host;
pub mod launch;
pub mod node;
pub mod rabbitmq;
pub mod redis;
pub mod release;
pub mod state;
pub mod template;
pub mod vrouter;
pub mod zookeeper;
