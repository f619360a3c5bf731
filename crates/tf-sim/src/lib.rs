//! Plays the daemons of Tungsten Fabric where they cannot be had: in the laboratory, whose nodes are real and whose stores are.
//!
//! It is called as a daemon is, reads what the daemon reads, and refuses what the daemon was seen to refuse
//! (docs/upstream/observed.md#options, docs/upstream/files.md#files-of-the-daemons): separators, `%`, spellings of booleans, exit codes. Then it
//! connects to every store that the files name, with the certificates and logins they give, and tells on its introspect port how that went.
//!
//! kube-manager it plays as far as that goes without objects of the config API ([`kubernetes`]). The vRouter agent it plays as far as that goes without the kernel module ([`vrouter`]), control nodes and DNS without routes and names
//! ([`control`]), the web UI without pages ([`webui`]), those of analytics without messages and queries ([`analytics`]).
//!
//! Beside them it plays a Keystone, which the API asks about its clients ([`keystone`]), and uWSGI as far as it runs workers of the API ([`uwsgi`]).
//!
//! How slowly and unreliably those in Python do all this, two variables say ([`unkind`]).
//!
//! It knows nothing of our crates on purpose: what an operator renders is read here by another program. In one thing it is stricter than
//! the daemons: it does check the certificate of Cassandra. The vRouter's kernel module ([`module`]) is the exception: it is played for `tf-host` alone,
//! whose facts of the network it uses.

pub mod analytics;
mod api;
pub mod boost;
mod cli;
pub mod client;
mod collector;
pub mod control;
mod device_manager;
mod dnsmasq;
mod elected;
mod exit;
mod hangup;
mod http;
pub mod ini;
mod introspect;
pub mod keystone;
pub mod kubernetes;
pub mod library;
mod log;
pub mod module;
mod notice;
pub mod options;
pub mod rest;
pub mod status;
mod stores;
mod tables;
mod tls;
pub mod unkind;
pub mod uwsgi;
pub mod vrouter;
pub mod webui;

pub use cli::main;
