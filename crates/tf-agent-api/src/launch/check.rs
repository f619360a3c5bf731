//! What a launch file cannot ask for.

use tf_pki::member::SHORTEST_LIFETIME;

use super::{Agent, Cni, Identity, Launch, Level, Lists, Probe, Reads, Relay, Tell, When};

const LONGEST_WAIT: u32 = 86_400;

/// A launch file that cannot be used. It shows no content of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// Not of the format.
    #[error("line {line}, column {column}: not a launch file: {why}")]
    Malformed {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// Of the format, and asks for what cannot be.
    #[error("{field}: {why}")]
    Invalid {
        /// Path of the field.
        field: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl Launch {
    /// Whether it asks for what can be.
    ///
    /// # Errors
    /// The first thing that cannot be.
    pub(super) fn check(&self) -> Result<(), Unusable> {
        command("argv", &self.argv)?;
        self.working_directory.as_deref().map_or(Ok(()), |path| absolute("workingDirectory", path))?;
        for (name, value) in &self.environment {
            ensure("environment", "has a name that no variable can have", is_variable(name))?;
            ensure("environment", "has a value with a NUL character", !value.contains('\0'))?;
        }
        for file in self.files.keys() {
            ensure("files", "has a name that no file can have", is_file_name(file))?;
        }
        for place in &self.place {
            ensure("place.file", "is not the name of a file", is_file_name(&place.file))?;
            absolute("place.to", &place.to)?;
            match &place.when {
                When::NewestList { id, config, .. } => {
                    let is_placed = |file: &String| self.place.iter().any(|place| place.file == *file);
                    ensure("place.when", "goes by a file that is not placed", is_placed(id) && is_placed(config))?;
                }
                When::New { served } | When::Private { served: Some(served) } => absolute("place.when.served", served)?,
                When::Always | When::Absent | When::Private { served: None } | When::Since { .. } => {}
            }
        }
        self.awaits.iter().try_for_each(|path| absolute("awaits", path))?;
        wait("stop.seconds", self.stop.seconds)?;
        probe("ready", &self.ready)?;
        self.alive.as_ref().map_or(Ok(()), |alive| probe("alive", alive))?;
        self.patience.map_or(Ok(()), |seconds| wait("patience", seconds))?;
        let lost = self.connections.as_ref().and_then(|connections| connections.patience);
        lost.map_or(Ok(()), |seconds| wait("connections.patience", seconds))?;
        self.starting.map_or(Ok(()), |seconds| wait("starting", seconds))?;
        self.recovering.map_or(Ok(()), |seconds| wait("recovering", seconds))?;
        if let Some(Reads { token, lists, .. }) = &self.kubernetes {
            ensure("kubernetes.token", "is none of the files", self.files.contains_key(token))?;
            ensure(
                "kubernetes.lists",
                "has a path that no request can ask for",
                lists.iter().all(|list| is_path(list)),
            )?;
        }
        if let Probe::RabbitMq { definitions: Some(file), .. } = &self.ready {
            ensure("ready.definitions", "is none of the files", self.files.contains_key(file))?;
        }
        if let Some(Level { value, lines, tell }) = &self.level {
            ensure("level.value", "is not a word", is_word(value))?;
            ensure("level.lines", "are none, or one is empty", !lines.is_empty() && !lines.contains(""))?;
            match tell {
                Tell::Introspection { .. } => {}
                Tell::Command { argv } => command("level.tell.argv", argv)?,
                Tell::Redis => {
                    ensure("level.tell", "is for Redis", matches!(self.ready, Probe::Redis { .. }))?;
                }
            }
        }
        if let Some(Lists { lines, .. }) = &self.lists {
            ensure("lists.lines", "are none, or one is empty", !lines.is_empty() && !lines.contains(""))?;
        }
        ensure("onlyAtStart", "has an empty one", !self.only_at_start.contains(""))?;
        if let Some(drain) = &self.drain {
            command("drain.argv", &drain.argv)?;
            wait("drain.seconds", drain.seconds)?;
        }
        if let Some(Agent { client, .. }) = &self.agent {
            ensure("agent.client", "is empty", !client.is_empty())?;
        }
        if let Some(Identity { lifetime_seconds, reload, at_start, host_files, .. }) = &self.identity {
            // One writer of the pod's certificate.
            ensure("identity", "is only for the container that serves the agent API", self.agent.is_some())?;
            ensure(
                "identity.lifetimeSeconds",
                "is less than 600",
                u64::from(*lifetime_seconds) >= SHORTEST_LIFETIME.as_secs(),
            )?;
            reload.as_ref().map_or(Ok(()), |argv| command("identity.reload", argv))?;
            ensure("identity.atStart", "is not for files of the node", !at_start || host_files.is_none())?;
        }
        if let Some(Relay { host, authorities, password, .. }) = &self.relay {
            ensure("relay.host", "is empty", !host.is_empty())?;
            let is_given = |file: &String| self.files.contains_key(file);
            ensure("relay.authorities", "is none of the files", authorities.as_ref().is_none_or(is_given))?;
            ensure("relay.password", "is none of the files", password.as_ref().is_none_or(is_given))?;
        }
        self.last_words.iter().try_for_each(|path| absolute("lastWords", path))?;
        self.check_node()
    }

    /// The same of what the agent does to its node, one container for each pod.
    fn check_node(&self) -> Result<(), Unusable> {
        let one = |field, is_asked: bool| {
            let is_one = !is_asked || self.agent.is_some();
            ensure(field, "is only for the container that serves the agent API", is_one)
        };
        one("queues", self.queues.is_some())?;
        let mut groups = self.queues.iter().flat_map(|queues| &queues.groups);
        ensure("queues.groups", "has a number above 7", groups.all(|group| group.number < 8))?;
        one("vhost0", self.vhost0.is_some())?;
        one("settings", self.settings.is_some())?;
        if let Some(settings) = &self.settings {
            ensure("settings.file", "is none of the files", self.files.contains_key(&settings.file))?;
        }
        one("cni", self.cni.is_some())?;
        if let Some(Cni { source, targets, .. }) = &self.cni {
            ensure("cni.targets", "are none", !targets.is_empty())?;
            absolute("cni.source", source)?;
            targets.iter().try_for_each(|target| absolute("cni.targets", target))?;
        }
        Ok(())
    }
}

/// Line and column only: the messages of the parser quote what they found.
pub fn malformed(error: &serde_json::Error) -> Unusable {
    let why = match error.classify() {
        serde_json::error::Category::Eof => "it ends too early",
        serde_json::error::Category::Syntax => "no JSON",
        serde_json::error::Category::Data => "a field is missing, unknown to this version or of another type",
        serde_json::error::Category::Io => "it cannot be read",
    };
    Unusable::Malformed { line: error.line(), column: error.column(), why }
}

fn ensure(field: &'static str, why: &'static str, holds: bool) -> Result<(), Unusable> {
    if holds { Ok(()) } else { Err(Unusable::Invalid { field, why }) }
}

fn command(field: &'static str, argv: &[String]) -> Result<(), Unusable> {
    ensure(field, "names no program", argv.first().is_some_and(|program| !program.is_empty()))?;
    ensure(field, "has a NUL character", !argv.iter().any(|argument| argument.contains('\0')))
}

fn absolute(field: &'static str, path: &str) -> Result<(), Unusable> {
    let is_plain = path.starts_with('/') && !path.contains('\0') && path.split('/').all(|part| part != "..");
    ensure(field, "is not an absolute path", is_plain)
}

fn wait(field: &'static str, seconds: u32) -> Result<(), Unusable> {
    ensure(field, "is not between 1 and 86,400", (1..=LONGEST_WAIT).contains(&seconds))
}

fn probe(field: &'static str, probe: &Probe) -> Result<(), Unusable> {
    let Probe::Http { path, .. } = probe else { return Ok(()) };
    ensure(field, "has a path that no request can ask for", is_path(path))
}

fn is_path(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic())
}

/// What can stand in a query.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

/// The keys that a ConfigMap can have, less those the agent keeps for itself.
fn is_file_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
        && !name.starts_with("..")
        && name != "."
}
