//! What a daemon that runs needs when its files change.

use std::{collections::BTreeSet, num::NonZeroU16};

use serde::{Deserialize, Serialize};

/// What a running daemon needs when a file changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnChange {
    /// A restart.
    Restart,
    /// A signal, after which it reads the file again.
    Signal(Signal),
    /// Nothing: it looks for itself, or the change counts from the next start.
    Nothing,
}

/// Signals that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "the names of signal(7)")]
pub enum Signal {
    Hup,
    Int,
    Quit,
    Usr1,
    Usr2,
    Term,
}

/// The log level of a daemon that can be told another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Level {
    /// The level, in its words.
    pub value: String,
    /// Beginnings of the lines of its files that state with which level it starts. For files that differ in no other line it is not started
    /// anew.
    pub lines: BTreeSet<String>,
    /// How it is told.
    pub tell: Tell,
}

/// Lists that a running daemon reads again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lists {
    /// Beginnings of the lines of its files that hold them. For files that differ in no other line, and have each of these lines, it gets the
    /// signal and is not started anew.
    pub lines: BTreeSet<String>,
    /// After which it reads them.
    pub signal: Signal,
}

impl Lists {
    /// Those that daemons of Tungsten Fabric read again after a SIGHUP (docs/upstream/daemons.md#sighup).
    pub fn of(keys: &[&str]) -> Self {
        Self { lines: keys.iter().map(|key| format!("{key} = ")).collect(), signal: Signal::Hup }
    }
}

/// How a running daemon is told its log level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all_fields = "camelCase")]
pub enum Tell {
    /// By introspection (`SandeshLoggingParamsSet`), as people do with OpenSDN's `introspect`.
    Introspection {
        /// Port of introspection on the member's address.
        port: NonZeroU16,
        /// Whether the port speaks TLS.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tls: bool,
    },
    /// By a command, which runs in the daemon's environment.
    Command {
        /// Program and arguments.
        argv: Vec<String>,
    },
    /// By `CONFIG SET`, a server of [`Probe::Redis`].
    Redis,
}
