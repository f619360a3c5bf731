//! A container of a pod without Kubernetes: mounted volumes as the kubelet writes them, and the real program.
#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(missing_docs, clippy::unwrap_used, reason = "helpers of tests")]

pub mod api_server;
pub mod redis;
pub mod tls;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;
use tf_agent_api::{
    content::{ContentHash, content_hash},
    launch::{Launch, OnChange, Signal as LaunchSignal, Stop},
    state::{Phase, State},
};
use tf_node::{paths::Paths, state_file};

/// Name of the daemon.
pub const DAEMON: &str = "d";
/// Longest time any of the tests' changes may take. Generous: machines are shared.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The files of the member, by name.
pub type Files = BTreeMap<String, String>;

pub fn files<const N: usize>(files: [(&str, &str); N]) -> Files {
    files.map(|(name, text)| (name.to_owned(), text.to_owned())).into()
}

/// A daemon that is a shell script. It is asked to stop by SIGTERM and has 10 s.
pub fn shell(script: &str) -> Launch {
    let mut launch = Launch::new(["/bin/sh", "-c", script].map(str::to_owned).to_vec());
    launch.stop = Stop { signal: LaunchSignal::Term, seconds: 10 };
    launch
}

/// A daemon that notes each start and each SIGHUP in a file, and goes on for ever.
pub fn noting(log: &Path) -> Launch {
    let log = log.display();
    let script = format!(
        "trap 'echo hup >> {log}' HUP; trap 'echo term >> {log}; exit 0' TERM; echo start >> {log}; while :; do sleep 0.05; done"
    );
    let mut launch = shell(&script);
    launch.files = BTreeMap::from([
        ("hard".into(), OnChange::Restart),
        ("soft".into(), OnChange::Signal(LaunchSignal::Hup)),
        ("none".into(), OnChange::Nothing),
    ]);
    launch
}

/// Long enough for anything that must not happen to happen.
pub fn settle() {
    thread::sleep(Duration::from_millis(400));
}

pub struct Container {
    pub root: TempDir,
    pub child: Option<Child>,
    pub environment: Vec<(String, String)>,
    pub binary: PathBuf,
    generation: AtomicU32,
}

impl Container {
    pub fn new() -> Self {
        let container = Self {
            root: tempfile::tempdir().unwrap(),
            child: None,
            environment: Vec::new(),
            binary: env!("CARGO_BIN_EXE_tf-node").into(),
            generation: AtomicU32::new(0),
        };
        container.annotate(None);
        container
    }

    pub fn paths(&self) -> Paths {
        Paths::below(self.root.path())
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.paths().at(path)
    }

    /// What the daemon noted in a file of this name.
    pub fn notes(&self, name: &str) -> Vec<String> {
        fs::read_to_string(self.path(name)).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Mounts this ConfigMap, or changes it.
    pub fn configure(&self, launch: &Launch, files: &Files) -> ContentHash {
        let mut files = files.clone();
        files.insert(format!("{DAEMON}.launch"), launch.render().unwrap());
        self.publish(&self.paths().config_dir(), &files);
        content_hash(&files)
    }

    /// Mounts a volume as the kubelet does.
    pub fn publish(&self, volume: &Path, files: &Files) {
        let generation = self.generation.fetch_add(1, Ordering::Relaxed);
        let data = volume.join(format!("..{generation}"));
        fs::create_dir_all(&data).unwrap();
        for (key, content) in files {
            fs::write(data.join(key), content).unwrap();
            let _ = symlink(format!("..data/{key}"), volume.join(key));
        }
        symlink(format!("..{generation}"), volume.join("..data_tmp")).unwrap();
        let old = fs::read_link(volume.join("..data")).ok();
        fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
        if let Some(old) = old {
            fs::remove_dir_all(volume.join(old)).unwrap();
        }
    }

    /// Sets or removes the annotation of the configuration.
    pub fn annotate(&self, hash: Option<&ContentHash>) {
        self.annotate_with("tf.tungsten.io/active-config", hash);
    }

    /// Sets or removes this annotation, the only one of ours.
    pub fn annotate_with(&self, annotation: &str, hash: Option<&ContentHash>) {
        let annotation = hash.map(|hash| format!("{annotation}=\"{hash}\"\n")).unwrap_or_default();
        let text = format!("kubernetes.io/config.source=\"api\"\n{annotation}");
        self.publish(&self.paths().pod_info_dir(), &files([("annotations", &text)]));
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg("--root").arg(self.root.path()).args(arguments);
        command.env("POD_IP", "127.0.0.1").env("POD_NAME", "pod-0").env("NODE_NAME", "node-0");
        command.envs(self.environment.iter().cloned());
        command
    }

    /// Starts the container.
    pub fn run(&mut self) {
        let log = File::options().create(true).append(true).open(self.log_path()).unwrap();
        let mut command = self.command(&["run", DAEMON]);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.child = Some(command.spawn().unwrap());
    }

    fn log_path(&self) -> PathBuf {
        self.root.path().join("log")
    }

    /// Everything that tf-node and the daemon have written.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    pub fn state(&self) -> Option<State> {
        state_file::read(&self.paths(), DAEMON)
    }

    /// Waits until the state is as it should be.
    pub fn wait(&self, what: &str, holds: impl Fn(&State) -> bool) -> State {
        self.wait_for(what, || self.state().filter(|state| holds(state)))
    }

    pub fn wait_for<T>(&self, what: &str, found: impl Fn() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(found) = found() {
                return found;
            }
            assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}; {:#?}\n{}", self.state(), self.log());
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn running(&self, hash: &ContentHash) -> State {
        self.wait("running", |state| state.phase == Phase::Running && state.active.as_ref() == Some(hash))
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().unwrap())
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits for the end of the container.
    pub fn ended(&mut self) -> ExitStatus {
        let mut child = self.child.take().unwrap();
        let start = Instant::now();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "the container does not end: {}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.ended()
    }

    /// Ends every process of the container at once, as the kernel does when process 1 is killed.
    pub fn kill(&mut self) {
        let daemon = self.state().and_then(|state| state.pid).and_then(Pid::from_raw);
        self.signal(Signal::KILL);
        self.ended();
        daemon.map(|pid| kill_process_group(pid, Signal::KILL));
    }

    /// Exit code and output of a probe.
    pub fn probe(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.command(&[&["probe"], arguments, &[DAEMON]].concat()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}
