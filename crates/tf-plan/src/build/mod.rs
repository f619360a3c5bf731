//! Builders for Kubernetes objects. Each returns a value; none changes one that is half built.

pub mod claims;
pub mod configuration;
pub mod identity;
pub mod memory;
pub mod pod;
pub mod publish;
pub mod quantity;
pub mod service;
pub mod storage;
pub mod workload;
