//! What a daemon reads again when it gets SIGHUP (docs/upstream/daemons.md#sighup). Every other one ends, as any process does that has not said what
//! to do then.

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use crate::{
    exit::{Exit, exception},
    log,
};

/// What is never another one.
pub fn fixed<T>(value: T) -> watch::Receiver<T> {
    watch::channel(value).1
}

/// What is read again after each SIGHUP from now on. What cannot be read changes nothing.
///
/// # Errors
/// When the signal cannot be waited for.
pub fn followed<T: Send + Sync + 'static>(
    first: T,
    read: impl Fn() -> Result<T, Exit> + Send + 'static,
) -> Result<watch::Receiver<T>, Exit> {
    let mut hangups = signal(SignalKind::hangup()).map_err(|error| exception(error.to_string()))?;
    let (lists, followers) = watch::channel(first);
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            match read() {
                Ok(value) => {
                    log::say("Received SIGHUP, lists of servers are read again");
                    lists.send_replace(value);
                }
                Err(exit) => log::say(&exit.why),
            }
        }
    });
    Ok(followers)
}
