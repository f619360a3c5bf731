//! `tf-node pause`: holds a pod's namespaces. As process 1 of a pod that shares them it reaps what others leave behind.

use std::process::ExitCode;

use anyhow::Result;

use crate::{
    process,
    signals::{Event, Signals},
};

/// Sleeps until it is asked to end.
pub async fn pause() -> Result<ExitCode> {
    let mut signals = Signals::listen()?;
    loop {
        match signals.next().await {
            Event::Children => drop(process::reap()),
            Event::End => return Ok(ExitCode::SUCCESS),
            Event::Forward(_) => {}
        }
    }
}
