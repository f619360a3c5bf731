//! Log lines of the agent itself: one JSON object a line on standard error.
//!
//! The daemon's own output is inherited and goes untouched to the same place. A field never holds the content of a file, a
//! value of an environment or an argument of a daemon.

use std::io::Write as _;

use serde_json::{Value, json};

/// How much attention a line wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// It went as it should.
    Info,
    /// It did not, and the agent goes on.
    Warn,
}

/// Writes one line. `fields` is an object. A line that cannot be written is lost: a full pipe must not stop a daemon.
pub fn line(level: Level, message: &str, fields: &Value) {
    let level = match level {
        Level::Info => "info",
        Level::Warn => "warn",
    };
    let mut line = json!({
        "time": jiff::Timestamp::now().to_string(),
        "level": level,
        "program": "tf-node",
        "message": message,
    });
    if let (Some(line), Some(fields)) = (line.as_object_mut(), fields.as_object()) {
        line.extend(fields.clone());
    }
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Something went as it should.
pub fn info(message: &str, fields: &Value) {
    line(Level::Info, message, fields);
}

/// Something did not go as it should.
pub fn warn(message: &str, fields: &Value) {
    line(Level::Warn, message, fields);
}
