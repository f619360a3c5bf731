//! What a real API server makes of our definitions and charts: no controller acts and no node exists here.

// Says to clippy that the helpers below are tests, too, and may unwrap.
#![cfg(test)]

mod cli;
mod columns;
mod daemon;
mod declarations;
mod definitions;
mod go_operator;
mod kstatus;
mod kubectl;
#[path = "../shared/kubectl_tf.rs"]
mod kubectl_tf;
mod preview;
mod protection;
mod releases;
mod rendering;
mod rights;
mod rules;
mod statuses;
mod support;
mod validation;
mod values;
