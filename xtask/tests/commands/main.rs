//! The commands that start clusters, run as a user runs them: the executable, its output, its exit code, and what it leaves.

// Says to clippy that the helpers below are tests, too, and may unwrap.
#![cfg(test)]

mod demo;
mod lab;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use tempfile::TempDir;
use tf_testing::folder;

/// The labs of one test, apart from all others of this user.
struct Labs(TempDir);

impl Labs {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn root(&self) -> PathBuf {
        self.0.path().join("labs")
    }

    /// `cargo xtask` with these arguments. Its standard error goes to a file, so that nobody has to read both at once.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.args(arguments).env("TF_LAB_STATE", self.root());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(fs::File::create(self.errors()).unwrap());
        command
    }

    /// Runs it to its end.
    fn run(&self, arguments: &[&str]) -> Outcome {
        self.finish(&mut self.command(arguments))
    }

    fn finish(&self, command: &mut Command) -> Outcome {
        let output = command.output().unwrap();
        self.outcome(output.status, String::from_utf8(output.stdout).unwrap())
    }

    fn outcome(&self, status: ExitStatus, output: String) -> Outcome {
        Outcome { status, output, errors: fs::read_to_string(self.errors()).unwrap() }
    }

    fn errors(&self) -> PathBuf {
        self.0.path().join("stderr")
    }

    /// Neither a folder nor a process is left of any lab. Every process of a lab inherits the variable that says where labs are.
    fn assert_gone(&self) {
        assert!(folder::list(&self.root()).unwrap().is_empty());
        let files = fs::read_dir(self.root()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(files.collect::<Vec<_>>(), ["lock"]);
        let mark = format!("TF_LAB_STATE={}\0", self.root().display());
        let left: Vec<String> = processes().into_iter().filter(|pid| has(pid, &mark)).map(|pid| line(&pid)).collect();
        assert!(left.is_empty(), "these still run: {left:#?}");
    }
}

impl Drop for Labs {
    /// Of a test that fails, too, nothing is left.
    fn drop(&mut self) {
        for (folder, _) in folder::list(&self.root()).unwrap_or_default() {
            let _ = folder::destroy(&folder);
        }
    }
}

/// What a command did.
#[derive(Debug)]
struct Outcome {
    status: ExitStatus,
    output: String,
    errors: String,
}

/// A command that runs; killed with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn processes() -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    entries.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).collect()
}

fn has(pid: &str, mark: &str) -> bool {
    let environment = fs::read(Path::new("/proc").join(pid).join("environ")).unwrap_or_default();
    String::from_utf8_lossy(&environment).contains(mark)
}

fn line(pid: &str) -> String {
    let line = fs::read(Path::new("/proc").join(pid).join("cmdline")).unwrap_or_default();
    format!("{pid} {}", String::from_utf8_lossy(&line).replace('\0', " "))
}
