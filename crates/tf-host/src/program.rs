//! Programs that are started, and what they print.

use std::{
    io,
    process::{Command, Stdio},
};

/// Letters of what a program printed that are quoted.
const QUOTED: usize = 300;

/// Runs a command to its end and returns what it printed.
///
/// # Errors
/// When it cannot be started or fails; the message has what it printed.
pub fn run(command: &mut Command) -> io::Result<String> {
    let said = |command: &Command| {
        let words = [command.get_program()].into_iter().chain(command.get_args());
        words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    };
    let output = command.stdin(Stdio::null()).output();
    let program = || command.get_program().to_string_lossy();
    let output = output.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program())))?;
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
    let printed = printed.join("\n").trim().to_owned();
    if output.status.success() {
        return Ok(printed);
    }
    Err(io::Error::other(format!("{}: {}: {}", said(command), output.status, quoted(&printed))))
}

/// The beginning of what a program printed, in one line.
pub fn quoted(printed: &str) -> String {
    let line = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() { "it printed nothing".into() } else { line.chars().take(QUOTED).collect() }
}
