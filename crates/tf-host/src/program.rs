//! Programs that are started, and what they print.

use std::{
    io::{self, Read},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Letters of what a program printed that are quoted.
const QUOTED: usize = 300;
/// For a program to end. The kernel module allocates its tables while `modprobe` waits, which takes seconds on a large node.
const LIMIT: Duration = Duration::from_secs(30);
/// For one that was killed to end. A program that waits inside the kernel does not.
const KILLED: Duration = Duration::from_secs(1);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// Runs a command to its end, for at most 30 s, and returns what it printed.
///
/// # Errors
/// When it cannot be started, fails, or does not end; the message has what it printed. One that does not end is killed.
pub fn run(command: &mut Command) -> io::Result<String> {
    run_for(command, LIMIT)
}

fn run_for(command: &mut Command, limit: Duration) -> io::Result<String> {
    let said = |command: &Command| {
        let words = [command.get_program()].into_iter().chain(command.get_args());
        words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    };
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let program = || command.get_program().to_string_lossy();
    let mut child = child.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program())))?;
    // Read beside it: a program that fills a pipe waits for its reader.
    let printed = [child.stdout.take().map(read), child.stderr.take().map(read)];
    let Some(status) = ended(&mut child, limit)? else {
        let _ = child.kill();
        let is_killed = ended(&mut child, KILLED)?.is_some();
        let what = if is_killed { "it was killed" } else { "it cannot be killed, since it waits inside the kernel" };
        let message = format!("{} did not end within {} s; {what}", said(command), limit.as_secs());
        return Err(io::Error::new(io::ErrorKind::TimedOut, message));
    };
    let printed = printed.into_iter().flatten().filter_map(|reader| reader.join().ok());
    let printed = printed.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()).collect::<Vec<_>>();
    let printed = printed.join("\n").trim().to_owned();
    if status.success() {
        return Ok(printed);
    }
    Err(io::Error::other(format!("{}: {status}: {}", said(command), quoted(&printed))))
}

/// All that a program prints.
fn read(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is quoted.
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

/// How a program ended, if it does within this time.
fn ended(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    loop {
        let status = child.try_wait()?;
        if status.is_some() || begun.elapsed() > limit {
            return Ok(status);
        }
        thread::sleep(LOOK);
    }
}

/// The beginning of what a program printed, in one line.
pub fn quoted(printed: &str) -> String {
    let line = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() { "it printed nothing".into() } else { line.chars().take(QUOTED).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> io::Result<String> {
        run(Command::new("sh").args(["-c", script]))
    }

    #[test]
    fn what_a_program_prints_is_returned_and_quoted_where_it_fails() {
        assert_eq!(shell("echo a; echo b >&2").unwrap(), "a\nb");
        // More than a pipe holds.
        assert_eq!(shell("head -c 300000 /dev/zero | tr '\\0' x").unwrap().len(), 300_000);
        let error = shell("echo no such vif >&2; exit 3").unwrap_err().to_string();
        assert!(error.ends_with("exit status: 3: no such vif"), "{error}");
    }

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let begun = Instant::now();
        let error = run_for(Command::new("sleep").arg("60"), Duration::from_millis(100)).unwrap_err();
        assert_eq!(error.to_string(), "sleep 60 did not end within 0 s; it was killed");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}
