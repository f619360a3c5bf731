//! What a daemon connects to.

pub mod cassandra;
pub mod rabbitmq;
pub mod zookeeper;
