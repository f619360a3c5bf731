//! What the daemon says, on standard error.

use std::time::{SystemTime, UNIX_EPOCH};

/// Says something, with the time in seconds.
pub fn say(what: &str) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    eprintln!("{}.{:03} {what}", now.as_secs(), now.subsec_millis());
}
