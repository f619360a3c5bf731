//! The laboratory: a real Kubernetes control plane with simulated or real nodes on any Linux machine, for tests,
//! benchmarks and the demo.
//!
//! ```no_run
//! use tf_testing::{Lab, Options};
//!
//! # async fn test() -> anyhow::Result<()> {
//! let lab = Lab::start(Options::fleet(3, 3)).await?; // etcd, API server, controllers, scheduler, six nodes
//! lab.apply("{apiVersion: v1, kind: Namespace, metadata: {name: tf}}").await?;
//! let before = lab.audit_mark().await?;
//! let client = lab.client().await?; // kube::Client of the administrator
//! // ... and when `lab` is dropped, all of it is gone.
//! # Ok(()) }
//! ```
//!
//! | To | use |
//! | --- | --- |
//! | start, attach to, end a lab | [`Lab`], [`Options`], [`SharedLab`] |
//! | add, label, cordon, fail nodes | [`Nodes`] |
//! | have pods that run | [`Options::real`], [`real`] |
//! | have all operators and a Manager | [`Cluster`] |
//! | run a program as a ServiceAccount with exactly its rights | [`Lab::service_account_kubeconfig`], [`Lab::spawn`] |
//! | count who wrote what | [`Lab::audit_mark`], [`Audit`], [`work`] |
//! | have certificates from outside | [`cert_manager`] |
//! | have what OpenShift says of itself | [`openshift`] |
//! | break the API for one program | [`Lab::proxy`], [`proxy`] |
//! | break the API for everybody | [`Lab::pause`], [`Lab::kill`], [`Lab::restart`] |
//! | render charts, and see what they grant | [`helm`], [`rights`] |
//! | draw what can be drawn again | [`seed`] |
//! | try some cases of many | [`sample`] |
//! | find secret values | [`secrets`] |
//! | log in with files of a plan | [`logins`] |
//! | plan for three members that run | [`three`] |
//! | model what happens to a store | [`model`] |
//! | wait | [`wait`] |
//!
//! Simulated pods run nothing: a pod is Ready because kwok says so. What a daemon would do must be tested elsewhere.
//! Development only: no product crate depends on this one.

pub mod assets;
pub mod audit;
mod bring_up;
pub mod cert_manager;
pub mod cluster;
pub mod components;
pub mod config_api;
pub mod folder;
pub mod golden;
pub mod helm;
pub mod identity;
pub mod invariants;
pub mod keystone;
pub mod kubeconfig;
pub mod lab;
pub mod logins;
pub mod manifests;
pub mod model;
pub mod model_runs;
pub mod nodes;
pub mod openshift;
pub mod operators;
pub mod options;
pub mod pki;
mod ports;
pub mod process;
pub mod proxy;
pub mod real;
pub mod request;
pub mod resources;
pub mod rights;
pub mod sample;
pub mod secrets;
pub mod seed;
pub mod situation;
pub mod skip;
pub mod strategies;
pub mod three;
pub mod wait;
pub mod waiting;
pub mod work;

pub use audit::{Audit, Entry, Mark};
pub use cluster::Cluster;
pub use components::Component;
pub use lab::{Lab, SharedLab};
pub use nodes::Nodes;
pub use options::{IpFamily, Options, Tier};
pub use process::{Process, Spec};
pub use proxy::Proxy;
pub use real::{RealNodes, node::RealNode};
pub use request::{RequestInfo, Verb};
