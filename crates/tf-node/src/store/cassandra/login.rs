//! What clients log in with: the server is told before anybody reaches it.
//!
//! A server that asks for passwords knows none on a new disk, and would make a user of its own whose password everybody knows (`cassandra`,
//! `CassandraRoleManager.setupDefaultRole`). What is on an old disk may be of a resource that is gone. So a server is first started with a
//! configuration by which it asks for no password, listens on the loopback address and wants a certificate of a member
//! ([`When::Private`](tf_agent_api::launch::When::Private)). The agent writes the one user and bars the server's own, notes both among the data,
//! and starts the server anew for everybody. Where the note is right this is left out. A server that asks nobody is told while it serves.
//!
//! Users are rows of a table (`system_auth.roles`), and written as such: statements for users are refused to whoever did not log in.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use bcrypt::Version;
use serde_json::json;
use tf_agent_api::cassandra::{self, AUTH_KEYSPACE, LOGIN_FILE, PASSWORD, USER};
use tf_config_files::env;
use tf_host::atomic;
use tokio::time::sleep;

use super::{Server, change, simple_keyspaces, wire::Connection};
use crate::{log, paths::Paths};

/// Among a server's data: user and hash that it was told last.
const NOTE: &str = ".tf-login";
/// Between two attempts.
const PERIOD: Duration = Duration::from_secs(1);
/// The smallest there is: the password is a long random one, and servers hash it for each connection.
const COST: u32 = 4;
/// The user that servers make by themselves.
const DEFAULT: &str = "cassandra";
/// The year 2100, in microseconds. No server writes that user with a later time.
const LATEST: i64 = 4_102_444_800_000_000;

/// User and password.
#[derive(PartialEq, Eq)]
pub struct Login {
    user: String,
    password: String,
}

impl Login {
    /// What clients of the server beside the agent log in with, if they are given anything.
    pub(super) fn read(paths: &Paths) -> Result<Option<Self>> {
        Self::in_directory(&paths.run_dir())
    }

    /// What they will log in with, or do already: it changes for the whole ring when the first member takes it, and is mounted at all of them.
    pub(super) fn mounted(paths: &Paths) -> Option<Self> {
        Self::in_directory(&paths.secret_dir()).ok().flatten()
    }

    fn in_directory(directory: &Path) -> Result<Option<Self>> {
        let path = directory.join(LOGIN_FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
        };
        Self::parse(&text).map(Some)
    }

    /// What this file says.
    ///
    /// # Errors
    /// When it is not of its format.
    pub fn parse(text: &str) -> Result<Self> {
        let mut read: BTreeMap<String, String> = env::parse(text).context(LOGIN_FILE)?;
        let mut take = |name| read.remove(name).with_context(|| format!("{LOGIN_FILE}: no {name}"));
        Ok(Self { user: take(USER)?, password: take(PASSWORD)? })
    }

    /// As a server wants it (SASL PLAIN, RFC 4616).
    pub(super) fn token(&self) -> Vec<u8> {
        format!("\0{}\0{}", self.user, self.password).into_bytes()
    }

    /// As servers keep it. Those before 4.0 know this version alone.
    fn hash(&self) -> Result<String> {
        Ok(bcrypt::hash_with_result(&self.password, COST)?.format_for_version(Version::TwoA))
    }

    /// Whether this is what the server was told.
    fn is_noted(&self, data: &Path) -> bool {
        let note = fs::read_to_string(data.join(NOTE)).unwrap_or_default();
        let told = note.split_once(' ').filter(|(user, _)| *user == self.user);
        told.is_some_and(|(_, hash)| bcrypt::verify(&self.password, hash).unwrap_or(false))
    }

    fn note(&self, data: &Path, hash: &str) -> Result<()> {
        atomic::write(&data.join(NOTE), format!("{} {hash}", self.user).as_bytes(), 0o600)?;
        atomic::sync_directory(data).with_context(|| format!("write {}", data.display()))
    }

    /// What has a ring let in this user, and not the one that servers make.
    fn statements(&self, hash: &str) -> [String; 2] {
        let insert = format!("INSERT INTO {AUTH_KEYSPACE}.roles");
        let (user, hash) = (literal(&self.user), literal(hash));
        [
            format!(
                "{insert} (role, can_login, is_superuser) VALUES ({}, false, false) USING TIMESTAMP {LATEST}",
                literal(DEFAULT)
            ),
            format!("{insert} (role, can_login, is_superuser, salted_hash) VALUES ({user}, true, true, {hash})"),
        ]
    }
}

/// Whether the server knows what clients log in with.
pub fn is_known(data: &Path, paths: &Paths) -> bool {
    let present = Login::read(paths).ok().flatten();
    present.into_iter().chain(Login::mounted(paths)).any(|login| login.is_noted(data))
}

/// Ends when the server knows it. `formers`: what it may know instead, if clients are to log in with something else than before.
pub async fn introduce(server: Server, how: cassandra::Login, paths: Paths, is_private: bool, formers: Vec<Login>) {
    let mut trouble = None;
    loop {
        let Err(error) = change::in_time(attempt(&server, how, &paths, is_private, &formers)).await else { return };
        let now = format!("{error:#}");
        if trouble.as_ref() != Some(&now) {
            log::info("the password of clients is not set in the server yet", &json!({"why": now}));
            trouble = Some(now);
        }
        sleep(PERIOD).await;
    }
}

async fn attempt(
    server: &Server,
    how: cassandra::Login,
    paths: &Paths,
    is_private: bool,
    formers: &[Login],
) -> Result<()> {
    let login = Login::read(paths)?.context("there is nothing to log in with")?;
    // Whoever is asked nothing must not bring back what the others do not know any more.
    let login = Login::mounted(paths).filter(|_| is_private).unwrap_or(login);
    let data = paths.at(&server.data);
    let mut is_noted = login.is_noted(&data);
    let mut connection = if is_private {
        Connection::open_beside(&server.clients, paths).await?
    } else {
        Connection::open(&server.clients, paths).await?
    };
    let was_asked = match connection.start(Some(&login)).await {
        Ok(was_asked) => was_asked,
        Err(error) => {
            let Some(former) = by_former(server, paths, formers.iter().filter(|former| **former != login)).await else {
                // Somebody changed it. The next start begins with telling the server again.
                if is_noted {
                    fs::remove_file(data.join(NOTE)).context("remove the note of the password")?;
                }
                return Err(error);
            };
            connection = former;
            is_noted = false;
            false
        }
    };
    if is_noted {
        return Ok(());
    }
    let hash = login.hash()?;
    if !was_asked {
        if let Some(founders) = how.founders {
            everywhere(&mut connection, founders).await?;
        }
        for statement in login.statements(&hash) {
            connection.tell(&statement).await?;
        }
    }
    login.note(&data, &hash)
}

/// A session of the first of these that the server lets in.
async fn by_former(server: &Server, paths: &Paths, formers: impl Iterator<Item = &Login>) -> Option<Connection> {
    for former in formers {
        let mut connection = Connection::open(&server.clients, paths).await.ok()?;
        if connection.start(Some(former)).await.is_ok() {
            return Some(connection);
        }
    }
    None
}

/// Has each user be on so many members, before there is any.
async fn everywhere(connection: &mut Connection, members: u32) -> Result<()> {
    match simple_keyspaces(connection).await?.get(AUTH_KEYSPACE) {
        Some(factor) if *factor != members => {
            connection.execute(&change::replicated(AUTH_KEYSPACE, members)).await.map(drop)
        }
        _ => Ok(()),
    }
}

/// A text in CQL.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file system in which this is the password, with a directory of data.
    fn machine(password: &str) -> (tempfile::TempDir, Paths) {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::below(root.path());
        fs::create_dir_all(paths.run_dir()).unwrap();
        fs::write(paths.run_dir().join(LOGIN_FILE), format!("USER='tf'\nPASSWORD='{password}'\n")).unwrap();
        (root, paths)
    }

    #[test]
    fn a_server_is_told_until_the_note_is_of_this_password() {
        let (root, paths) = machine("first");
        let data = root.path();
        assert!(!is_known(data, &paths));
        let login = Login::read(&paths).unwrap().unwrap();
        assert_eq!(login.token(), b"\0tf\0first");
        let hash = login.hash().unwrap();
        login.note(data, &hash).unwrap();
        assert!(is_known(data, &paths));
        let note = fs::read_to_string(data.join(NOTE)).unwrap();
        assert!(!note.contains("first"));
        // The form that all releases read.
        assert!(hash.starts_with("$2a$04$") && hash.len() == 60, "{hash}");
        fs::write(paths.run_dir().join(LOGIN_FILE), "USER='tf'\nPASSWORD='second'\n").unwrap();
        assert!(!is_known(data, &paths));
        fs::write(paths.run_dir().join(LOGIN_FILE), "USER='other'\nPASSWORD='first'\n").unwrap();
        assert!(!is_known(data, &paths));
        // The ring may have another one by what the operator wants of all members.
        fs::create_dir_all(paths.secret_dir()).unwrap();
        fs::write(paths.secret_dir().join(LOGIN_FILE), "USER='tf'\nPASSWORD='first'\n").unwrap();
        assert!(is_known(data, &paths));
        fs::remove_file(paths.secret_dir().join(LOGIN_FILE)).unwrap();
        fs::remove_file(paths.run_dir().join(LOGIN_FILE)).unwrap();
        assert!(!is_known(data, &paths) && Login::read(&paths).unwrap().is_none());
    }

    #[test]
    fn half_a_login_is_none_and_is_not_quoted() {
        let (_root, paths) = machine("hunter2");
        fs::write(paths.run_dir().join(LOGIN_FILE), "PASSWORD='hunter2'\n").unwrap();
        let error = format!("{:#}", Login::read(&paths).err().unwrap());
        assert_eq!(error, "login.env: no USER");
    }

    #[test]
    fn the_servers_own_user_is_barred_for_good_and_no_text_ends_its_own_quotation() {
        let login = Login { user: "a'b".into(), password: String::new() };
        let [barred, user] = login.statements("$2a$04$x");
        assert_eq!(
            barred,
            "INSERT INTO system_auth.roles (role, can_login, is_superuser) VALUES ('cassandra', false, false) USING TIMESTAMP \
             4102444800000000"
        );
        assert!(user.ends_with("VALUES ('a''b', true, true, '$2a$04$x')"), "{user}");
    }
}
