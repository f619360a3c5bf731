//! How a daemon ends by itself.

/// The exit code, and what the daemon says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Exit {
    /// Exit code.
    pub code: u8,
    /// The exception and what it is about. It quotes no value: that may be a password.
    pub why: String,
}

/// What ends a Python daemon that catches nothing.
pub fn exception(why: impl Into<String>) -> Exit {
    Exit { code: 1, why: why.into() }
}

/// What Python's parser of arguments does not take.
pub fn usage(why: impl Into<String>) -> Exit {
    Exit { code: 2, why: why.into() }
}
