//! How a changed configuration reaches a daemon that runs.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener},
    num::NonZeroU16,
    os::unix::fs::PermissionsExt as _,
    process::Command,
};

use common::{Container, Files, files, noting, settle};
use tf_agent_api::{
    content::ContentHash,
    launch::{Launch, Level, Probe, Tell},
    state::Phase,
};

/// The daemon's files with some of them changed.
fn with(changes: &[(&str, &str)]) -> Files {
    let mut files = files([("hard", "1"), ("soft", "1"), ("none", "1"), ("other", "1")]);
    files.extend(changes.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())));
    files
}

/// A container whose daemon runs and notes what happens to it.
fn started() -> (Container, Launch, ContentHash) {
    let mut container = Container::new();
    let launch = noting(&container.path("/notes"));
    let hash = container.configure(&launch, &with(&[]));
    container.run();
    container.running(&hash);
    container.wait_for("start", || (container.notes("/notes") == ["start"]).then_some(()));
    (container, launch, hash)
}

#[test]
fn what_is_merely_mounted_changes_nothing() {
    let (container, launch, hash) = started();
    container.configure(&launch, &with(&[("hard", "2")]));
    settle();
    let state = container.running(&hash);
    assert_eq!((state.message, state.takes), (None, None));
    assert_eq!(container.notes("/notes"), ["start"]);
    assert_eq!(fs::read_to_string(container.path("/etc/contrail/hard")).unwrap(), "1");
    // What the daemon would take as it runs is said, and changes nothing, either.
    let soft = container.configure(&launch, &with(&[("soft", "2")]));
    container.wait("said", |state| state.takes.as_ref() == Some(&soft) && state.active.as_ref() == Some(&hash));
    settle();
    assert_eq!(container.notes("/notes"), ["start"]);
    container.annotate(Some(&soft));
    assert_eq!(container.wait("taken", |state| state.active.as_ref() == Some(&soft)).takes, None);
}

#[test]
fn an_annotation_for_mounted_content_is_followed_and_does_only_what_the_change_needs() {
    let (container, launch, _) = started();
    let pid = container.state().unwrap().pid;
    let activate = |changes: &[(&str, &str)]| {
        let hash = container.configure(&launch, &with(changes));
        container.annotate(Some(&hash));
        container.running(&hash)
    };
    // A file of another daemon of the pod, and one that the daemon looks at by itself.
    assert_eq!(activate(&[("other", "2")]).pid, pid);
    assert_eq!(activate(&[("other", "2"), ("none", "2")]).pid, pid);
    assert_eq!(fs::read_to_string(container.path("/etc/contrail/none")).unwrap(), "2");
    settle();
    assert_eq!(container.notes("/notes"), ["start"]);

    assert_eq!(activate(&[("soft", "2")]).pid, pid);
    container.wait_for("signal", || (container.notes("/notes") == ["start", "hup"]).then_some(()));

    let state = activate(&[("soft", "2"), ("hard", "2")]);
    assert_ne!(state.pid, pid);
    assert_eq!(state.restarts, 1);
    container.wait_for("restart", || (container.notes("/notes") == ["start", "hup", "term", "start"]).then_some(()));
    assert_eq!(fs::read_to_string(container.path("/etc/contrail/hard")).unwrap(), "2");
}

#[test]
fn another_log_level_is_told_to_the_daemon_and_one_that_does_not_listen_is_started_anew() {
    let mut container = Container::new();
    let said = container.path("/said");
    let with = |value: &str, program: &str| {
        let mut launch = noting(&container.path("/notes"));
        let argv = vec!["sh".into(), "-c".into(), format!("{program} {value} >> {}", said.display())];
        let lines = ["level = ".to_owned()].into();
        launch.level = Some(Level { value: value.into(), lines, tell: Tell::Command { argv } });
        let hard = format!("a = 1\nlevel = {value}\n");
        (launch, files([("hard", hard.as_str()), ("soft", "1"), ("none", "1")]))
    };
    let [usual, other, mute] = [with("info", "echo"), with("debug", "echo"), with("none", "false")];
    let hash = container.configure(&usual.0, &usual.1);
    container.run();
    let pid = container.running(&hash).pid;
    let hash = container.configure(&other.0, &other.1);
    container.annotate(Some(&hash));
    let state = container.running(&hash);
    assert_eq!((state.pid, state.restarts), (pid, 0));
    assert_eq!(fs::read_to_string(&said).unwrap(), "debug\n");
    assert_eq!(fs::read_to_string(container.path("/etc/contrail/hard")).unwrap(), "a = 1\nlevel = debug\n");

    let hash = container.configure(&mute.0, &mute.1);
    container.annotate(Some(&hash));
    container.wait("another process", |state| state.restarts == 1 && state.active.as_ref() == Some(&hash));
    assert_eq!(fs::read_to_string(&said).unwrap(), "debug\n");
}

#[test]
fn another_log_level_leaves_a_standby_running_and_is_set_when_it_is_elected() {
    let mut container = Container::new();
    // The listener is gone: the port refuses connections.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let port = NonZeroU16::new(port).unwrap();
    let with = |value: &str| {
        let mut launch = noting(&container.path("/notes"));
        let lines = ["level = ".to_owned()].into();
        launch.level = Some(Level { value: value.into(), lines, tell: Tell::Introspection { port, tls: false } });
        let optional = BTreeSet::new();
        launch.alive = Some(Probe::NodeStatus { port, tls: false, functional: false, optional, elected: true });
        let hard = format!("a = 1\nlevel = {value}\n");
        (launch, files([("hard", hard.as_str()), ("soft", "1"), ("none", "1")]))
    };
    let [usual, other] = [with("info"), with("debug")];
    let hash = container.configure(&usual.0, &usual.1);
    container.run();
    let pid = container.running(&hash).pid;
    container.wait("a standby", |state| state.standby);
    let hash = container.configure(&other.0, &other.1);
    container.wait("an offer", |state| state.takes.as_ref() == Some(&hash));
    container.annotate(Some(&hash));
    let state = container.running(&hash);
    assert_eq!((state.pid, state.restarts), (pid, 0));
    assert_eq!(fs::read_to_string(container.path("/etc/contrail/hard")).unwrap(), "a = 1\nlevel = debug\n");

    let elected = TcpListener::bind((Ipv4Addr::LOCALHOST, port.get())).unwrap();
    let asked = elected.incoming().flatten().find_map(|mut stream| {
        let mut request = [0; 4096];
        let length = stream.read(&mut request).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        let request = String::from_utf8_lossy(&request[..length]).into_owned();
        request.contains("Snh_SandeshLoggingParamsSet").then_some(request)
    });
    assert!(asked.unwrap().contains("log_level=debug"));
    assert_eq!(container.state().unwrap().pid, pid);
    assert_eq!(container.notes("/notes"), ["start"]);
}

#[test]
fn an_annotation_before_its_content_is_waited_for_while_the_daemon_runs_on() {
    let (container, launch, old) = started();
    let pid = container.state().unwrap().pid;
    let elsewhere = Container::new();
    let new = elsewhere.configure(&launch, &with(&[("hard", "2")]));
    container.annotate(Some(&new));
    let state = container.wait("waits", |state| state.message.is_some());
    let expected = format!("waits for the kubelet to mount the configuration {new}; {old} is mounted");
    assert_eq!(state.message.as_deref(), Some(expected.as_str()));
    assert_eq!(
        (state.phase, state.pid, state.active, state.wanted),
        (Phase::Running, pid, Some(old), Some(new.clone()))
    );

    container.configure(&launch, &with(&[("hard", "3")]));
    settle();
    assert_eq!(container.state().unwrap().pid, pid, "other content is not taken instead");
    container.configure(&launch, &with(&[("hard", "2")]));
    assert_eq!(container.running(&new).message, None);
}

#[test]
fn a_broken_annotation_or_broken_content_is_named_and_the_daemon_runs_on() {
    let (container, launch, _) = started();
    let pid = container.state().unwrap().pid;
    let text = files([("annotations", "tf.tungsten.io/active-config=\"latest\"\n")]);
    container.publish(&container.paths().pod_info_dir(), &text);
    let expected = "annotation tf.tungsten.io/active-config is not 32 hexadecimal digits in lower case";
    container.wait("message", |state| state.message.as_deref() == Some(expected));

    let mut half = with(&[]);
    half.remove("hard");
    let hash = container.configure(&launch, &half);
    container.annotate(Some(&hash));
    let expected = format!("the configuration {hash} cannot be used: missing: hard");
    let state = container.wait("message", |state| state.message.as_deref() == Some(expected.as_str()));
    assert_eq!((state.phase, state.pid), (Phase::Running, pid));

    let hash = container.configure(&launch, &with(&[("none", "2")]));
    container.annotate(Some(&hash));
    assert_eq!((container.running(&hash).pid, container.state().unwrap().message), (pid, None));
}

#[test]
fn a_corrected_configuration_does_not_wait_for_the_end_of_a_back_off() {
    let mut container = Container::new();
    let broken = common::shell("exit 1");
    container.configure(&broken, &files([]));
    container.run();
    container.wait("back-off", |state| state.restarts >= 2 && state.phase == Phase::BackOff);
    let hash = container.configure(&common::shell("while :; do sleep 0.05; done"), &files([]));
    container.annotate(Some(&hash));
    let start = std::time::Instant::now();
    container.running(&hash);
    assert!(start.elapsed().as_secs() < 3, "the back-off had 4 s to go");
}

#[test]
fn going_back_works_as_going_forth() {
    let (container, launch, old) = started();
    let new = container.configure(&launch, &with(&[("hard", "2")]));
    container.annotate(Some(&new));
    container.running(&new);
    container.configure(&launch, &with(&[]));
    container.annotate(Some(&old));
    container.running(&old);
    assert_eq!(fs::read_to_string(container.path("/etc/contrail/hard")).unwrap(), "1");
}

/// Takes a small file system away again.
struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_leaves_the_old_set_and_the_daemon_running() {
    let mut container = Container::new();
    let run_dir = container.path("/etc/contrail");
    fs::create_dir_all(&run_dir).unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=128k", "tmpfs"]).arg(&run_dir).output();
    if !mount.is_ok_and(|output| output.status.success()) {
        println!("skipped: file systems cannot be mounted here");
        return;
    }
    let _mounted = Mounted(run_dir.clone());
    let launch = noting(&container.path("/notes"));
    let old = container.configure(&launch, &with(&[]));
    container.run();
    let pid = container.running(&old).pid;
    let big = "x".repeat(512 * 1024);
    let new = container.configure(&launch, &with(&[("hard", &big)]));
    container.annotate(Some(&new));
    let state = container.wait("message", |state| state.message.is_some());
    assert!(state.message.unwrap().contains("No space left"), "{:?}", container.state());
    assert_eq!((state.phase, state.pid, state.active), (Phase::Running, pid, Some(old)));
    assert_eq!(fs::read_to_string(run_dir.join("hard")).unwrap(), "1");
    // Smaller content fits: nothing was left behind.
    let new = container.configure(&launch, &with(&[("hard", "2")]));
    container.annotate(Some(&new));
    container.running(&new);
}

#[test]
fn secrets_are_in_the_daemons_files_and_nowhere_else() {
    const SECRET: &str = "hunter2-never-shown";
    let mut container = Container::new();
    let mut launch = noting(&container.path("/notes"));
    launch.files.insert("key".into(), tf_agent_api::launch::OnChange::Restart);
    container.configure(&launch, &with(&[]));
    let secrets =
        |suffix: &str| files([("key", &format!("{SECRET}{suffix}")), ("d.env", &format!("PASSWORD='{SECRET}'\n"))]);
    container.publish(&container.paths().secret_dir(), &secrets("1"));
    container.run();
    let state = container.wait("running", |state| state.phase == Phase::Running);
    let mode = fs::metadata(container.path("/etc/contrail/key")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o640);
    assert!(fs::read_to_string(container.path("/etc/contrail/key")).unwrap().contains(SECRET));
    // Broken in every way that could tempt somebody to quote it.
    for broken in ["PASSWORD=hunter2-never-shown\n", "hunter2-never-shown", "\u{0}hunter2-never-shown='"] {
        let mut files = secrets("2");
        files.insert("d.env".into(), broken.into());
        files.insert("d.launch".into(), format!("{{\"argv\": [\"{SECRET}\"], \"stop\": \"{SECRET}\"}}"));
        container.publish(&container.paths().secret_dir(), &files);
        container.annotate(Some(&"0".repeat(32).parse().unwrap()));
        settle();
    }
    let arguments = fs::read(format!("/proc/{}/cmdline", state.pid.unwrap())).unwrap();
    let states = fs::read_to_string(container.path("/tf-node/state/d.json")).unwrap();
    for text in [container.log(), states, String::from_utf8_lossy(&arguments).into_owned(), container.probe(&[]).1] {
        assert!(!text.contains(SECRET), "{text}");
    }
    let lines = container.log();
    let ours: Vec<&str> = lines.lines().collect();
    assert!(
        !ours.is_empty() && ours.iter().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()),
        "{lines}"
    );
}
