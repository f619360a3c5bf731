//! A daemon from its first start to its end.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::{
    fs,
    io::Write as _,
    net::{Ipv4Addr, TcpListener},
    num::NonZeroU16,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use common::{Container, DAEMON, files, noting, settle, shell};
use rustix::process::{Pid, Signal, kill_process};
use tf_agent_api::{
    launch::{Drain, Launch, OnChange, Place, Probe, Signal as LaunchSignal, Stop, When, one_worker},
    state::{Exit, Phase},
};

fn forever() -> Launch {
    shell("trap 'exit 0' TERM; while :; do sleep 0.05; done")
}

#[test]
fn a_daemon_waits_for_what_is_missing_says_so_and_starts_when_it_is_complete() {
    let mut container = Container::new();
    container.run();
    let state = container.wait("waiting", |state| state.phase == Phase::Waiting);
    assert_eq!(state.message.unwrap(), "waits for its configuration: d.launch is missing");
    assert_eq!(container.probe(&[]).0, Some(1));
    assert_eq!(container.probe(&["--alive"]).0, Some(0), "a new container would wait as well");

    let mut launch = forever();
    launch.files.insert("a".into(), OnChange::Restart);
    launch.files.insert("b".into(), OnChange::Restart);
    fs::create_dir_all(container.paths().config_dir()).unwrap();
    container.configure(&launch, &files([("a", "1")]));
    // The directory came into being after the start, so that only the safety net finds it; an annotation file wakes earlier.
    container.annotate(None);
    let expected = "waits for its configuration: missing: b";
    container.wait("half a set", |state| state.message.as_deref() == Some(expected));
    let (code, text) = container.probe(&[]);
    assert_eq!((code, text), (Some(1), format!("not started yet: {expected}")));

    let hash = container.configure(&launch, &files([("a", "1"), ("b.127.0.0.1", "2"), ("b.127.0.0.2", "3")]));
    let state = container.wait("running", |state| state.phase == Phase::Running);
    assert_ne!(state.active, Some(hash), "the files of others do not count");
    assert_eq!(fs::read_to_string(container.path("/etc/contrail/b")).unwrap(), "2");
    assert_eq!(container.probe(&[]), (Some(0), "its process runs".to_owned()));
    assert_eq!(container.terminate().code(), Some(0));
    assert_eq!(container.state(), None);
    assert_eq!(container.probe(&[]), (Some(1), "no node agent supervises it".to_owned()));
}

#[test]
fn garbage_in_the_launch_file_is_named_and_starts_nothing() {
    let mut container = Container::new();
    container.publish(&container.paths().config_dir(), &files([("d.launch", "{\"argv\": \"hunter2\"}")]));
    container.run();
    let state = container.wait("waiting", |state| state.message.is_some());
    let message = state.message.unwrap();
    assert!(message.starts_with("waits for its configuration: d.launch: line 1, column"), "{message}");
    assert!(!container.log().contains("hunter2"));
}

#[test]
fn a_daemon_that_crashes_is_started_again_after_growing_waits() {
    let mut container = Container::new();
    let log = container.path("/starts");
    let words = container.path("/words");
    let script = format!("date +%s%N >> {}; echo no huge pages > {}; exit 3", log.display(), words.display());
    let launch = Launch { last_words: Some("/words".into()), ..shell(&script) };
    container.configure(&launch, &files([]));
    container.run();
    let state = container.wait("two restarts", |state| state.restarts == 2 && state.phase == Phase::BackOff);
    assert_eq!(state.last_exit.unwrap().exit, Exit::Code(3));
    let starts: Vec<u64> = container.notes("/starts").iter().map(|time| time.parse().unwrap()).collect();
    let waits: Vec<u64> = starts.windows(2).map(|pair| (pair[1] - pair[0]) / 1_000_000).collect();
    assert!(waits[0] >= 1000 && waits[1] >= 2000, "{waits:?}");
    let (code, text) = container.probe(&[]);
    let expected = "ended with exit code 3 and waits for its next start: no huge pages";
    assert_eq!((code, text.as_str()), (Some(1), expected));
    assert_eq!(container.terminate().code(), Some(0), "it can be ended while it waits");
}

#[test]
fn a_program_that_is_not_there_is_trouble_and_not_the_end() {
    let mut container = Container::new();
    container.configure(&Launch::new(vec!["/absent".into()]), &files([]));
    container.run();
    let state = container.wait("back-off", |state| state.phase == Phase::BackOff);
    assert!(matches!(state.last_exit.unwrap().exit, Exit::NotStarted(_)));
    assert!(state.message.unwrap().contains("/absent"));
    let hash = container.configure(&forever(), &files([]));
    container.annotate(Some(&hash));
    container.running(&hash);
}

#[test]
fn a_daemon_gets_its_stop_signal_and_is_killed_when_it_does_not_obey() {
    let mut container = Container::new();
    let mut launch = shell("trap 'echo int >> \"$LOG\"' INT; trap '' TERM; while :; do sleep 0.05; done");
    launch.environment.insert("LOG".into(), container.path("/notes").display().to_string());
    launch.stop = Stop { signal: LaunchSignal::Int, seconds: 1 };
    let hash = container.configure(&launch, &files([]));
    container.run();
    container.running(&hash);
    settle();
    assert_eq!(container.terminate().code(), Some(128 + 9));
    assert_eq!(container.notes("/notes"), ["int"]);
    assert!(container.log().contains("did not stop in time"));
}

#[test]
fn a_daemon_that_answers_no_more_is_killed_and_started_anew_and_one_that_refuses_is_left_alone() {
    let mut container = Container::new();
    // It stands for the daemon's port: it answers while it should, and refuses afterwards.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answers = Arc::new(AtomicBool::new(true));
    let still = Arc::clone(&answers);
    let (end, ended) = mpsc::channel();
    let server = thread::spawn(move || {
        let mut kept = Vec::new();
        listener.set_nonblocking(true).unwrap();
        while ended.try_recv().is_err() {
            match listener.accept() {
                Ok((mut stream, _)) if still.load(Ordering::Relaxed) => {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
                    kept.push(stream);
                }
                Ok((stream, _)) => kept.push(stream),
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    });
    let mut launch = forever();
    launch.ready = Probe::Http {
        port: NonZeroU16::new(port).unwrap(),
        path: "/".into(),
        host: Some(Ipv4Addr::LOCALHOST.into()),
        tls: false,
        contains: None,
        workers: one_worker(),
    };
    launch.patience = Some(3);
    let hash = container.configure(&launch, &files([]));
    container.run();
    let first = container.running(&hash).pid;
    thread::sleep(Duration::from_secs(5));
    let state = container.state().unwrap();
    assert!(state.unwell.is_none() && state.pid == first, "{state:?}");
    // The next process is not taken for well because the one before it was.
    kill_process(Pid::from_raw(first.unwrap()).unwrap(), Signal::KILL).unwrap();
    let state = container.wait("the next process", |state| state.restarts == 1 && state.phase == Phase::Running);
    assert_eq!(state.unwell.as_deref(), Some("it has begun and was not seen to serve yet"));
    container.wait("a look at it", |state| state.unwell.is_none());
    answers.store(false, Ordering::Relaxed);
    let unwell = container.wait("words about it", |state| state.unwell.is_some());
    assert_eq!(unwell.unwell.unwrap(), "no answer within 1500 ms");
    let state = container.wait("a restart", |state| state.restarts == 2 && state.phase == Phase::Running);
    assert_eq!(state.last_exit.unwrap().exit, Exit::Signal(9));
    assert!(container.log().contains("which hangs"));
    answers.store(true, Ordering::Relaxed);
    container.wait("an answer", |state| state.unwell.is_none());
    end.send(()).unwrap();
    server.join().unwrap();
    container.wait("a refusal", |state| state.unwell.as_ref().is_some_and(|why| why.contains("refused")));
    thread::sleep(Duration::from_secs(5));
    assert_eq!(container.state().unwrap().restarts, 2);
}

#[test]
fn other_signals_reach_the_daemon() {
    let mut container = Container::new();
    let hash =
        container.configure(&noting(&container.path("/notes")), &files([("hard", ""), ("soft", ""), ("none", "")]));
    container.run();
    container.running(&hash);
    container.wait_for("start", || (container.notes("/notes").len() == 1).then_some(()));
    container.signal(Signal::HUP);
    container.wait_for("signal", || (container.notes("/notes") == ["start", "hup"]).then_some(()));
}

#[test]
fn what_a_daemon_started_is_gone_before_its_next_start() {
    let mut container = Container::new();
    // The second start finds the helper of the first one, or does not.
    let script = "if [ -e $D/helper ]; then kill -0 $(cat $D/helper) 2>/dev/null && touch $D/overlap; \
        while :; do sleep 0.05; done; fi; (trap '' TERM; sleep 1.5) & echo $! > $D/helper; exit 1";
    let mut launch = shell(script);
    launch.environment.insert("D".into(), container.root.path().display().to_string());
    let hash = container.configure(&launch, &files([]));
    container.run();
    container.wait("second start", |state| state.restarts == 1 && state.active.as_ref() == Some(&hash));
    settle();
    assert!(!container.path("/overlap").exists());
}

/// Direct children of a process that have ended and are not reaped.
fn zombies_of(parent: Pid) -> usize {
    let stats =
        fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let parent = parent.as_raw_nonzero().to_string();
    let of_parent = |stat: &String| {
        let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        fields.next() == Some("Z") && fields.next() == Some(parent.as_str())
    };
    stats.filter(of_parent).count()
}

#[test]
fn orphans_are_reaped() {
    let mut container = Container::new();
    let script =
        "i=0; while [ $i -lt 20 ]; do (sleep 0.05 &); i=$((i+1)); done; touch $D/done; while :; do sleep 0.05; done";
    let mut launch = shell(script);
    launch.environment.insert("D".into(), container.root.path().display().to_string());
    let hash = container.configure(&launch, &files([]));
    container.run();
    container.running(&hash);
    container.wait_for("orphans", || container.path("/done").exists().then_some(()));
    settle();
    assert_eq!(zombies_of(container.pid()), 0);
}

#[test]
fn the_pause_command_ends_when_asked() {
    let container = Container::new();
    let mut child = container.command(&["pause"]).spawn().unwrap();
    thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none());
    rustix::process::kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_killed_agent_goes_on_with_exactly_what_it_had() {
    let mut container = Container::new();
    let log = container.path("/notes");
    let first = container.configure(&noting(&log), &files([("hard", "1"), ("soft", ""), ("none", "")]));
    container.run();
    container.running(&first);
    container.kill();
    assert_eq!(container.state(), None, "a state does not outlive its writer");
    container.configure(&noting(&log), &files([("hard", "2"), ("soft", ""), ("none", "")]));
    container.run();
    container.running(&first);
    assert_eq!(fs::read_to_string(container.path("/etc/contrail/hard")).unwrap(), "1");
}

#[test]
fn copies_are_made_before_each_start_or_only_where_there_is_none() {
    let mut container = Container::new();
    let mut launch = shell("while :; do sleep 0.05; done");
    let place = |file: &str, when| Place { file: file.into(), to: format!("/data/{file}"), when, private: false };
    launch.place = vec![place("always", When::Always), place("once", When::Absent)];
    launch.place.push(Place { private: true, to: "/data/cookie".into(), ..place("once", When::Always) });
    launch.stop.seconds = 1;
    container.configure(&launch, &files([("always", "1"), ("once", "1")]));
    container.run();
    let state = container.wait("trouble", |state| state.phase == Phase::BackOff);
    assert!(state.message.unwrap().contains("/data/always"), "a directory that is not mounted is not made up");
    fs::create_dir(container.path("/data")).unwrap();
    container.wait("running", |state| state.phase == Phase::Running);
    launch.argv.push("again".into());
    let hash = container.configure(&launch, &files([("always", "2"), ("once", "2")]));
    container.annotate(Some(&hash));
    container.running(&hash);
    let read = |name: &str| fs::read_to_string(container.path(&format!("/data/{name}"))).unwrap();
    assert_eq!((read("always"), read("once")), ("2".into(), "1".into()));
    let mode =
        |name: &str| fs::metadata(container.path(&format!("/data/{name}"))).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("once"), mode("cookie")), (0o644, 0o600));
}

#[test]
fn variables_of_the_container_win_over_the_environment_file_and_that_over_the_launch_file() {
    let mut container = Container::new();
    let mut launch = shell("echo \"$A $B $C $WD\" > out; pwd >> out; while :; do sleep 0.05; done");
    launch.environment = [("A", "launch"), ("B", "launch"), ("C", "launch")].map(|(n, v)| (n.into(), v.into())).into();
    launch.working_directory = Some(container.root.path().display().to_string());
    container.environment = vec![("C".into(), "container".into())];
    let hash = container.configure(&launch, &files([("d.env", "B='file'\nC='file'\n")]));
    container.run();
    container.running(&hash);
    let out = container.wait_for("output", || Some(container.notes("/out")).filter(|out| out.len() == 2));
    assert_eq!(out, ["launch file container ".to_owned(), container.root.path().display().to_string()]);
}

#[test]
fn a_drained_daemon_counts_as_stopping_and_is_not_started_again() {
    let mut container = Container::new();
    let mut launch = forever();
    launch.drain = Some(Drain {
        argv: ["/bin/sh", "-c", "echo drained > $D/drained; exit 0"].map(str::to_owned).to_vec(),
        seconds: 5,
    });
    launch.environment.insert("D".into(), container.root.path().display().to_string());
    let hash = container.configure(&launch, &files([]));
    container.run();
    let state = container.running(&hash);
    assert!(container.command(&["drain", DAEMON]).status().unwrap().success());
    assert_eq!(container.notes("/drained"), ["drained"]);
    assert_eq!(container.probe(&[]), (Some(1), "being stopped: is taken out of service".into()));
    rustix::process::kill_process(Pid::from_raw(state.pid.unwrap()).unwrap(), Signal::TERM).unwrap();
    container.wait("gone", |state| state.pid.is_none());
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(container.state().unwrap().pid, None, "not started again");
    container.terminate();
    container.run();
    container.running(&hash);
    assert_eq!(container.probe(&[]).0, Some(0), "a new container serves");
}

#[test]
fn a_drain_that_takes_too_long_is_ended() {
    let mut container = Container::new();
    let mut launch = forever();
    launch.drain = Some(Drain { argv: vec!["/bin/sleep".into(), "600".into()], seconds: 1 });
    let hash = container.configure(&launch, &files([]));
    container.run();
    container.running(&hash);
    let output = container.command(&["drain", DAEMON]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("not finished within 1 s"));
}

#[test]
fn two_agents_never_run_one_daemon() {
    let mut container = Container::new();
    let hash = container.configure(&forever(), &files([]));
    container.run();
    container.running(&hash);
    let output = container.command(&["run", DAEMON]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("another process runs d"));
}

#[test]
fn the_program_can_be_replaced_while_it_runs() {
    let mut container = Container::new();
    fs::create_dir(container.path("/tf-node")).unwrap();
    assert!(container.command(&["install", "/tf-node"]).status().unwrap().success());
    container.binary = container.path("/tf-node/tf-node");
    let hash = container.configure(&forever(), &files([]));
    container.run();
    let before = container.running(&hash);
    let other = Command::new(env!("CARGO_BIN_EXE_tf-node"))
        .args(["place", env!("CARGO_BIN_EXE_tf-node")])
        .arg(&container.binary)
        .status();
    assert!(other.unwrap().success());
    assert_eq!(container.probe(&[]).0, Some(0), "the new program understands the old one");
    assert_eq!(container.running(&hash), before);
    assert_eq!(container.terminate().code(), Some(0));
}

#[test]
fn a_server_is_not_started_with_data_of_a_release_that_it_must_not_go_on_with_and_is_when_the_image_is_set_back() {
    let mut container = Container::new();
    let home = container.path("/rabbitmq");
    let image = |release: &str| {
        let _ = fs::remove_dir_all(&home);
        for folder in ["sbin".to_owned(), format!("plugins/rabbit-{release}")] {
            fs::create_dir_all(home.join(folder)).unwrap();
        }
        fs::write(home.join("sbin/rabbitmqctl"), "").unwrap();
    };
    image("4.0.5");
    let path = std::env::var("PATH").unwrap();
    container.environment.push(("PATH".to_owned(), format!("{}:{path}", home.join("sbin").display())));
    let databases = container.path("/tmp/mnesia");
    fs::create_dir_all(&databases).unwrap();
    fs::write(databases.join(".tf-release"), "3.10.8").unwrap();
    let mut launch = forever();
    let port = NonZeroU16::new(1).unwrap();
    launch.working_directory = Some("/tmp".into());
    launch.ready = Probe::RabbitMq { port, management: port, definitions: None };
    let hash = container.configure(&launch, &files([]));
    container.run();
    let state = container.wait("refused", |state| state.phase == Phase::BackOff);
    let why = state.down().unwrap();
    assert!(why.contains("the data is of RabbitMQ 3.10.8, and the image has 4.0.5: 3.11 has to have served"), "{why}");
    image("3.10.8");
    container.running(&hash);
}
