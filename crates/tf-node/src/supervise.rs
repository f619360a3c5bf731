//! `tf-node run`: keeps one daemon running with the content it is meant to run with.
//!
//! A loop over what happens: files changed, a child ended, a signal came, a time has come. What follows is decided in
//! [`crate::activation`] and [`crate::back_off`]; here it is carried out. Times are those of a clock that nobody sets.

use std::{fs, future::pending, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Result;
use rustix::process::Pid;
use serde_json::json;
use tf_agent_api::{
    content::ContentHash,
    launch::{Launch, Signal},
    node,
    state::{Exit, LastExit, Phase, State},
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep_until},
};

use crate::{
    VERSION,
    activation::{self, Decision, Mounted, Situation},
    agent::Agent,
    annotations::{Annotations, Wanted},
    back_off::BackOff,
    health::Monitor,
    identity,
    level::{self, LevelChange},
    log,
    materialise::{RunDir, Staged},
    paths::Paths,
    place,
    pod::Pod,
    process,
    set::{Effect, Set},
    signals::{Event, Signals},
    source, state_file,
    state_file::StateFile,
    store,
    watch::Watch,
};

/// Letters of what a daemon says when it ends that are handed on.
const LAST_WORDS: usize = 500;
/// How often to look for changes that inotify did not tell of.
const SAFETY_NET: Duration = Duration::from_secs(30);

/// The process of the daemon.
enum Process {
    /// It has not been started.
    Idle,
    /// It runs.
    Running { pid: Pid, since: Instant },
    /// It, or what it started, is being stopped.
    Stopping { leader: Pid, leader_runs: bool, kill_at: Option<Instant>, after: After },
    /// It waits for its next start.
    BackOff { until: Instant },
    /// It ended after it was taken out of service, and stays like that.
    Drained,
}

/// What comes after a stop.
enum After {
    Start,
    BackOff { until: Instant },
    Drained,
    Exit,
}

struct Supervisor {
    paths: Paths,
    daemon: String,
    pod: Pod,
    run_dir: RunDir,
    state_file: StateFile,
    agent: Agent,
    health: Monitor,
    process: Process,
    /// What the daemon has.
    set: Option<Set>,
    /// What it gets when it has stopped.
    staged: Option<Staged>,
    wanted: Wanted,
    /// What is mounted and what the process that runs would take as it runs.
    takes: Option<ContentHash>,
    back_off: BackOff,
    /// The certificate and authorities that there were when the daemon started, if it starts with them.
    certificate: Option<ContentHash>,
    /// Whether nobody but the agent reaches the daemon that runs.
    is_private: bool,
    /// What goes on until the daemon knows what it does not read by itself: what clients log in with, and what has changed since it started.
    introduction: Option<JoinHandle<LevelChange>>,
    /// What sets the log level of a standby once it is elected.
    standby_level: Option<JoinHandle<()>>,
    /// The set that a running server goes by until it has taken what it was told of a later one.
    former: Option<Set>,
    starts: u32,
    last_exit: Option<LastExit>,
    /// What is waited for.
    waits: Option<String>,
    /// What could not be done.
    trouble: Option<String>,
    done: Option<u8>,
}

/// Runs a daemon until this process is asked to end.
pub async fn run(paths: Paths, daemon: &str) -> Result<ExitCode> {
    let mut signals = Signals::listen()?;
    process::adopt_orphans()?;
    let pod = Pod::from_environment()?;
    let state_file = StateFile::claim(&paths, daemon)?;
    let (watch, watching) = Watch::new(watched(&paths));
    if let Err(error) = watching {
        let fields = json!({"daemon": daemon, "error": error.to_string(), "seconds": SAFETY_NET.as_secs()});
        log::warn("files cannot be watched, changes are noticed late", &fields);
    }
    let run_dir = RunDir::new(paths.run_dir());
    let set = run_dir.load(daemon).unwrap_or_else(|error| {
        let fields = json!({"daemon": daemon, "error": format!("{error:#}")});
        log::warn("the configuration of the last run is not used", &fields);
        None
    });
    let health = Monitor::new(paths.clone(), daemon, pod.clone());
    let mut supervisor = Supervisor {
        agent: Agent::new(paths.clone(), daemon, pod.clone(), health.view()),
        health,
        daemon: daemon.to_owned(),
        paths,
        pod,
        run_dir,
        state_file,
        process: Process::Idle,
        set,
        staged: None,
        wanted: Wanted::Unset,
        takes: None,
        back_off: BackOff::default(),
        certificate: None,
        is_private: false,
        introduction: None,
        standby_level: None,
        former: None,
        starts: 0,
        last_exit: None,
        waits: None,
        trouble: None,
        done: None,
    };
    supervisor.log("started", json!({"version": VERSION}));
    let (mut certificate, mut health) = (supervisor.agent.report(), supervisor.health.told());
    loop {
        supervisor.reap();
        // In this order no change falls in between.
        watch.refresh();
        supervisor.reconsider();
        let look_again = Instant::now() + SAFETY_NET;
        // Until the files have to be looked at again.
        loop {
            supervisor.publish();
            if let Some(code) = supervisor.done {
                supervisor.log("ends", json!({"code": code}));
                return Ok(ExitCode::from(code));
            }
            let due = supervisor.due();
            tokio::select! {
                () = watch.changed() => break,
                () = sleep_until(look_again) => break,
                // Only the message of the state is another one.
                Ok(()) = certificate.changed() => {}
                Ok(()) = health.changed() => {
                    let hangs = health.borrow_and_update().hangs;
                    supervisor.ends_hanging(hangs);
                }
                event = signals.next() => {
                    if supervisor.signalled(event) {
                        break;
                    }
                }
                told = end_of(&mut supervisor.introduction) => {
                    supervisor.introduced(told);
                    break;
                }
                () = sleep_until(due.unwrap_or(look_again)), if due.is_some() => supervisor.elapsed(),
            }
        }
        supervisor.agent.files_changed();
    }
}

/// The end of what goes on beside the daemon, if anything does.
async fn end_of(work: &mut Option<JoinHandle<LevelChange>>) -> LevelChange {
    match work {
        Some(work) => work.await.unwrap_or(LevelChange::Taken),
        None => pending().await,
    }
}

/// Directories whose files matter. Not all pods have all of them.
fn watched(paths: &Paths) -> Vec<PathBuf> {
    let mounted = [node::SECRET_DIR, node::CONFIG_DIR, node::POD_INFO_DIR, node::CERTIFICATE_DIR, node::CA_DIR];
    let host = paths.at(node::HOST_FILES_DIR);
    let host = [host.join(node::HOST_CERTIFICATES), host.join(node::HOST_AUTHORITIES), host];
    mounted.iter().map(|directory| paths.at(directory)).chain(host).collect()
}

/// What a daemon waits for that does not start without its certificate, or without files of others. When it comes the files are
/// looked at again.
fn missing(launch: &Launch, paths: &Paths) -> Option<String> {
    let is_required = launch.identity.as_ref().is_some_and(|identity| identity.required);
    let certificate = [node::KEYSTORE_PEM, node::TRUSTSTORE_PEM].into_iter().filter(|_| is_required);
    let mut needed = certificate.chain(launch.awaits.iter().map(String::as_str));
    needed.find(|path| !paths.at(path).exists()).map(|path| format!("waits for {path}"))
}

/// The address that the certificate is not for yet, of a daemon that has not been started. One that was goes on with what there is.
fn uncertified(launch: &Launch, paths: &Paths) -> Option<String> {
    let address = identity::lacks(paths, &launch.addresses)?;
    Some(format!("waits for a certificate that is for {address}, too"))
}

impl Supervisor {
    /// Looks at the files and does what follows.
    fn reconsider(&mut self) {
        let leaving = matches!(self.process, Process::Stopping { after: After::Exit | After::Drained, .. });
        if leaving || matches!(self.process, Process::Drained) {
            return;
        }
        let Annotations { config, certificate } = Annotations::read(&self.paths.pod_info_dir());
        self.wanted = config;
        let renews = self.renews(&certificate);
        let (mounted, set) = self.mounted();
        let effect = match (&self.set, &set) {
            (Some(old), Some(new)) if !renews => old.effect(new),
            _ => Effect::Restart,
        };
        let materialised = self.staged.as_ref().map(|staged| &staged.set).or(self.set.as_ref()).map(|set| &set.hash);
        let running = matches!(self.process, Process::Running { .. });
        self.takes = set.as_ref().filter(|_| running && effect != Effect::Restart).map(|set| set.hash.clone());
        let (decision, waits) = activation::decide(&Situation {
            wanted: &self.wanted,
            mounted: &mounted,
            materialised,
            started: !matches!(self.process, Process::Idle),
            running,
            effect,
        });
        if self.set.is_none() && self.staged.is_none() && matches!(mounted, Mounted::Unusable(..)) {
            self.tell_of_waiting();
        }
        // What a daemon waits for that would be started now is the same as before.
        let idle = self.set.as_ref().filter(|_| matches!(self.process, Process::Idle));
        let missing = idle.and_then(|set| self.lacking(&set.launch));
        let told = self.former.as_ref().map(|_| "waits for the daemon to apply its configuration".to_owned());
        self.wait_for(waits.or(missing).or(told));
        match (decision, set) {
            (Decision::StartMaterialised, _) => self.start(),
            (Decision::StartMounted | Decision::Restart, Some(set)) => self.restart_with(set),
            (Decision::Signal(signals), Some(set)) => self.signal_with(set, &signals),
            (Decision::Keep, _) if renews => {
                self.log("restarts the daemon, for its certificate", json!({}));
                self.stop(After::Start);
            }
            (Decision::Keep, _) if matches!(self.process, Process::Running { .. }) => self.trouble = None,
            (Decision::Wait | Decision::Keep, _) | (_, None) => {}
        }
    }

    /// Whether the daemon runs with another certificate, or other authorities, than there are and than it shall go by.
    fn renews(&self, wanted: &Wanted) -> bool {
        let (Wanted::Content(wanted), Some(read)) = (wanted, &self.certificate) else { return false };
        let runs = matches!(self.process, Process::Running { .. });
        // One that starts before they are there would have to be started once more.
        runs && read != wanted && identity::hash(&self.paths) == *wanted
    }

    /// What is not there yet that the daemon is started with.
    fn lacking(&self, launch: &Launch) -> Option<String> {
        let is_new = matches!(self.process, Process::Idle);
        missing(launch, &self.paths).or_else(|| uncertified(launch, &self.paths).filter(|_| is_new))
    }

    fn wait_for(&mut self, waits: Option<String>) {
        if waits != self.waits {
            if let Some(waits) = &waits {
                self.log("waits", json!({"for": waits}));
            }
            self.waits = waits;
        }
    }

    fn mounted(&self) -> (Mounted, Option<Set>) {
        match source::read(&self.paths, self.pod.address) {
            Ok(content) => match Set::select(&content, &self.daemon, &self.pod.node) {
                Ok(set) => (Mounted::Usable(content.hash), Some(set)),
                Err(error) => (Mounted::Unusable(content.hash, format!("{error:#}")), None),
            },
            Err(error) => (Mounted::Unreadable(format!("{error:#}")), None),
        }
    }

    /// Takes a set and starts the daemon with it, after stopping it if it runs. If the set cannot be written, everything
    /// stays as it is.
    fn restart_with(&mut self, set: Set) {
        let staged = match self.run_dir.stage(set) {
            Ok(staged) => staged,
            Err(error) => {
                self.has_trouble(&format!("{error:#}"));
                // A daemon that has an older set starts with that.
                if matches!(self.process, Process::Idle) && self.set.is_some() {
                    self.start();
                }
                return;
            }
        };
        self.trouble = None;
        self.staged = Some(staged);
        self.back_off.reset();
        match &mut self.process {
            Process::Running { .. } => self.stop(After::Start),
            Process::Stopping { after, .. } => *after = After::Start,
            Process::Idle | Process::BackOff { .. } => self.start(),
            Process::Drained => {}
        }
    }

    /// Takes a set that the running daemon reads by itself or after signals.
    fn signal_with(&mut self, set: Set, signals: &[Signal]) {
        let present = self.set.clone();
        self.staged = match self.run_dir.stage(set) {
            Ok(staged) => Some(staged),
            Err(error) => return self.has_trouble(&format!("{error:#}")),
        };
        if !self.switch() {
            return;
        }
        self.trouble = None;
        if let Process::Running { pid, .. } = self.process {
            for signal in signals {
                self.log("signals the daemon", json!({"signal": signal}));
                process::signal(pid, *signal);
            }
            if let (Some(former), Some(set)) = (&present, &self.set)
                && let Err(error) = place::place_again(former, set, &self.paths, store::major(set))
            {
                self.has_trouble(&format!("{error:#}"));
            }
            self.introduce(present.as_ref());
        }
    }

    /// Lets the daemon's directory hold the staged set, if there is one.
    fn switch(&mut self) -> bool {
        let Some(staged) = self.staged.take() else { return true };
        match self.run_dir.switch(staged) {
            Ok(set) => {
                self.log("took a configuration", json!({"hash": set.hash}));
                self.agent.serve(&set.launch);
                self.health.follow(&set.launch);
                // Passwords of stores may be others.
                self.agent.files_changed();
                self.set = Some(set);
                true
            }
            Err(error) => {
                self.has_trouble(&format!("{error:#}"));
                false
            }
        }
    }

    /// Serves the agent API for a daemon that cannot be started yet, so that its operator is told what it waits for.
    fn tell_of_waiting(&mut self) {
        let content = source::read(&self.paths, self.pod.address).ok();
        if let Some(launch) = content.and_then(|content| Set::launch(&content, &self.daemon)) {
            self.agent.serve(&launch);
        }
    }

    /// Completes the files of a daemon that is about to start anew: the node may be another one than it was, with other addresses, say.
    /// While it runs it keeps what it has.
    fn complete_again(&mut self) {
        let Some(present) = self.set.as_ref().filter(|_| self.staged.is_none()) else { return };
        let (_, Some(new)) = self.mounted() else { return };
        if new.hash == present.hash && new.files != present.files {
            match self.run_dir.stage(new) {
                Ok(staged) => self.staged = Some(staged),
                Err(error) => self.has_trouble(&format!("{error:#}")),
            }
        }
    }

    /// Starts the daemon, with the staged set if there is one.
    fn start(&mut self) {
        self.complete_again();
        // If the new set cannot be taken, the old one is still there.
        self.switch();
        let Some(set) = &self.set else {
            self.process = Process::Idle;
            return;
        };
        self.agent.serve(&set.launch);
        self.health.follow(&set.launch);
        if let Some(missing) = self.lacking(&set.launch) {
            self.process = Process::Idle;
            self.wait_for(Some(missing));
            return;
        }
        // Before it reads them: one that reads later ones is merely started anew in vain.
        self.certificate = set.launch.starts_with_certificate().then(|| identity::hash(&self.paths));
        self.state_file.publish(State { phase: Phase::Starting, pid: None, ..self.state() });
        let mut is_private = false;
        let prepared = store::prepare(set, &self.paths).and_then(|()| {
            // What another member left may have been put aside.
            is_private = store::is_private(set, &self.paths);
            place::place(set, &self.paths, is_private, store::major(set))
        });
        let started = prepared.and_then(|()| {
            process::spawn(set).map_err(|error| anyhow::anyhow!("start {}: {error}", set.launch.argv[0]))
        });
        match started {
            Ok(pid) => {
                self.log("started the daemon", json!({"pid": pid.as_raw_nonzero().get(), "hash": set.hash}));
                self.starts += 1;
                self.trouble = None;
                self.process = Process::Running { pid, since: Instant::now() };
                self.is_private = is_private;
                // It reads everything.
                self.former = None;
                self.introduce(None);
            }
            Err(error) => {
                let error = format!("{error:#}");
                self.has_trouble(&error);
                self.ended(Exit::NotStarted(error));
                self.process = Process::BackOff { until: Instant::now() + self.back_off.after(Duration::ZERO) };
            }
        }
    }

    /// Has the daemon know what clients log in with, and what of its set it reads only when it starts. `former`: the set that it has run with
    /// so far, if it runs on.
    fn introduce(&mut self, former: Option<&Set>) {
        if let Some(before) = self.introduction.take() {
            before.abort();
        }
        if let Some(before) = self.standby_level.take() {
            before.abort();
        }
        let Some(set) = &self.set else { return };
        let address = self.pod.address;
        let is_taken = self.former.is_none();
        let formers: Vec<&Set> = self.former.iter().chain(former).collect();
        let login = store::introduce(&set.launch, &formers, address, &self.paths, self.is_private);
        let is_login_other = login.is_some() && formers.iter().any(|former| store::has_other_login(former, set));
        let commands = self.agent.commands();
        let definitions = former.and_then(|former| store::tell(former, is_taken, set, &self.paths, commands));
        let level = former.and_then(|former| level::tell(former, is_taken, set, address, &self.paths, commands));
        if let Some(former) = former.filter(|_| definitions.is_some() || level.is_some() || is_login_other) {
            self.former.get_or_insert_with(|| former.clone());
        }
        if login.is_none() && definitions.is_none() && level.is_none() {
            return;
        }
        self.introduction = Some(tokio::spawn(async move {
            if let Some(login) = login {
                login.await;
            }
            if let Some(definitions) = definitions {
                definitions.await;
            }
            match level {
                Some(level) => level.await,
                None => LevelChange::Taken,
            }
        }));
    }

    /// The daemon has what it was told. If nobody could reach it, or it does not listen, it is started anew.
    fn introduced(&mut self, told: LevelChange) {
        self.introduction = None;
        if let Some(former) = self.former.take() {
            self.log("the daemon goes by its configuration", json!({"former": former.hash}));
        }
        if !matches!(self.process, Process::Running { .. }) {
            return;
        }
        if self.is_private {
            self.log("starts the daemon for clients, too", json!({}));
            self.stop(After::Start);
        } else if told == LevelChange::Unanswered {
            self.log("restarts the daemon, which does not listen", json!({}));
            self.stop(After::Start);
        } else if told == LevelChange::Standby
            && let Some(set) = &self.set
        {
            self.log("leaves a standby running, whose log level is set when it is elected or starts again", json!({}));
            let level = level::once_elected(set, self.pod.address, &self.paths, self.agent.commands());
            self.standby_level = level.map(tokio::spawn);
        }
    }

    /// Kills a process that does not answer any more. What follows is as with every process that ends.
    fn ends_hanging(&mut self, hangs: Option<i32>) {
        let Process::Running { pid, .. } = self.process else { return };
        if hangs == Some(pid.as_raw_nonzero().get()) {
            log::warn("kills the daemon, which hangs", &self.with_daemon(json!({"pid": hangs})));
            process::kill_group(pid);
        }
    }

    /// Asks the daemon to stop.
    fn stop(&mut self, after: After) {
        let (Process::Running { pid, .. }, Some(set)) = (&self.process, &self.set) else { return };
        let (pid, stop) = (*pid, set.launch.stop);
        self.log("stops the daemon", json!({"signal": stop.signal, "seconds": stop.seconds}));
        process::signal(pid, stop.signal);
        let kill_at = Some(Instant::now() + Duration::from_secs(stop.seconds.into()));
        self.process = Process::Stopping { leader: pid, leader_runs: true, kill_at, after };
    }

    /// Whether the files have to be looked at: a daemon that has been stopped and started may have missed a change.
    fn signalled(&mut self, event: Event) -> bool {
        match event {
            Event::Children => return self.reap(),
            Event::End => self.end(),
            Event::Forward(signal) => {
                if let Process::Running { pid, .. } = self.process {
                    self.log("forwards a signal", json!({"signal": signal}));
                    process::signal(pid, signal);
                }
            }
        }
        false
    }

    fn end(&mut self) {
        match &mut self.process {
            Process::Running { .. } => self.stop(After::Exit),
            Process::Stopping { after, .. } => *after = After::Exit,
            Process::Idle | Process::BackOff { .. } | Process::Drained => self.done = Some(0),
        }
    }

    fn reap(&mut self) -> bool {
        for (pid, exit) in process::reap() {
            match &mut self.process {
                Process::Running { pid: daemon, since } if *daemon == pid => {
                    let ran = since.elapsed();
                    self.crashed(pid, exit, ran);
                }
                Process::Stopping { leader, leader_runs, .. } if *leader == pid => {
                    *leader_runs = false;
                    self.ended(exit);
                    // What it started is asked as well, and has what is left of the time.
                    if let Some(set) = &self.set {
                        process::signal_group(pid, set.launch.stop.signal);
                    }
                }
                _ => self.agent.commands().ended(pid, &exit),
            }
        }
        match &self.process {
            Process::Stopping { leader, leader_runs: false, .. } if !process::has_group(*leader) => self.stopped(),
            _ => false,
        }
    }

    /// The daemon ended by itself.
    fn crashed(&mut self, pid: Pid, exit: Exit, ran: Duration) {
        let after = if state_file::is_draining(&self.paths, &self.daemon) {
            After::Drained
        } else {
            After::BackOff { until: Instant::now() + self.back_off.after(ran) }
        };
        let fields = json!({"exit": exit, "ranSeconds": ran.as_secs()});
        log::warn("the daemon ended", &self.with_daemon(fields));
        self.ended(exit);
        self.trouble = self.last_words().or_else(|| self.trouble.take());
        // What it left behind may hold its ports and files.
        let stop = self.set.as_ref().map(|set| set.launch.stop);
        stop.inspect(|stop| process::signal_group(pid, stop.signal));
        let kill_at = stop.map(|stop| Instant::now() + Duration::from_secs(stop.seconds.into()));
        self.process = Process::Stopping { leader: pid, leader_runs: false, kill_at, after };
    }

    /// Why the daemon has ended, where it says that in a file.
    fn last_words(&self) -> Option<String> {
        let path = self.set.as_ref()?.launch.last_words.as_ref()?;
        let words = fs::read_to_string(self.paths.at(path)).ok()?;
        let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
        (!line.is_empty()).then(|| line.chars().take(LAST_WORDS).collect())
    }

    /// Nothing is left of the daemon.
    fn stopped(&mut self) -> bool {
        let Process::Stopping { after, .. } = std::mem::replace(&mut self.process, Process::Drained) else {
            return false;
        };
        match after {
            After::Start => {
                self.start();
                return true;
            }
            After::BackOff { until } => self.process = Process::BackOff { until },
            After::Drained => {}
            After::Exit => self.done = Some(self.last_exit.as_ref().map_or(0, |last| process::code(&last.exit))),
        }
        false
    }

    /// When something is due.
    fn due(&self) -> Option<Instant> {
        match &self.process {
            Process::Stopping { kill_at, .. } => *kill_at,
            Process::BackOff { until } => Some(*until),
            Process::Idle | Process::Running { .. } | Process::Drained => None,
        }
    }

    fn elapsed(&mut self) {
        match &mut self.process {
            Process::Stopping { leader, kill_at, .. } => {
                *kill_at = None;
                process::kill_group(*leader);
                log::warn("kills the daemon, which did not stop in time", &self.with_daemon(json!({})));
            }
            Process::BackOff { .. } => self.start(),
            Process::Idle | Process::Running { .. } | Process::Drained => {}
        }
    }

    fn ended(&mut self, exit: Exit) {
        self.last_exit = Some(LastExit { exit, at: jiff::Timestamp::now() });
    }

    fn has_trouble(&mut self, trouble: &str) {
        if self.trouble.as_deref() != Some(trouble) {
            log::warn("has trouble", &self.with_daemon(json!({"error": trouble})));
            self.trouble = Some(trouble.to_owned());
        }
    }

    fn publish(&mut self) {
        let state = self.state();
        self.state_file.publish(state);
    }

    fn state(&self) -> State {
        let (phase, pid) = match &self.process {
            Process::Idle => (Phase::Waiting, None),
            Process::Running { pid, .. } => (Phase::Running, Some(*pid)),
            Process::Stopping { leader, leader_runs, after, .. } => {
                let phase = if matches!(after, After::BackOff { .. }) { Phase::BackOff } else { Phase::Stopping };
                (phase, leader_runs.then_some(*leader))
            }
            Process::BackOff { .. } => (Phase::BackOff, None),
            Process::Drained => (Phase::Stopping, None),
        };
        let certificate = self.agent.report().borrow().trouble().map(str::to_owned);
        let waits: Vec<String> = self.waits.iter().cloned().chain(certificate).collect();
        let pid = pid.map(|pid| pid.as_raw_nonzero().get());
        // Who does not would be started anew if it has to be told something.
        let is_spared = self.set.as_ref().is_some_and(|set| level::waits_for_election(&set.launch));
        let listens =
            pid.is_some() && self.health.serves(pid) != Some(false) && (!self.health.is_standby(pid) || is_spared);
        State {
            phase,
            since: jiff::Timestamp::now(),
            message: self.trouble.clone().or_else(|| (!waits.is_empty()).then(|| waits.join("; "))),
            serves: self.health.serves(pid),
            serves_since: self.health.serves_since(pid),
            unwell: self.health.unwell(pid),
            lacks: self.health.lacks(),
            standby: self.health.is_standby(pid),
            connections: self.health.connections(pid),
            pid,
            restarts: self.starts.saturating_sub(1),
            last_exit: self.last_exit.clone(),
            certificate: pid.and(self.certificate.clone()),
            active: self.former.as_ref().or(self.set.as_ref()).map(|set| set.hash.clone()),
            wanted: match &self.wanted {
                Wanted::Content(hash) => Some(hash.clone()),
                Wanted::Unset | Wanted::Unknown(_) => None,
            },
            takes: self.takes.clone().filter(|takes| listens && Some(takes) != self.set.as_ref().map(|set| &set.hash)),
            version: VERSION.to_owned(),
        }
    }

    fn log(&self, message: &str, fields: serde_json::Value) {
        log::info(message, &self.with_daemon(fields));
    }

    fn with_daemon(&self, mut fields: serde_json::Value) -> serde_json::Value {
        fields["daemon"] = self.daemon.as_str().into();
        fields
    }
}
