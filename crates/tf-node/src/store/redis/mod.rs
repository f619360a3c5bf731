//! A Redis server, asked in its own protocol with the clients' password.

mod wire;

use std::{collections::BTreeMap, fs, time::Duration};

use anyhow::{Context as _, Result, bail};
use tf_plan::node::{
    KEYSTORE_PEM,
    redis::{Facts, PASSWORD_FILE},
};
use tokio::time::timeout;

use self::wire::{Connection, Reply};
use crate::{paths::Paths, probe::Target};

/// For all questions together. The operator waits for 1.5 s.
const PATIENCE: Duration = Duration::from_millis(1200);

/// Whether the server answers requests.
pub async fn serves(target: &Target, paths: &Paths) -> Result<String> {
    match open(target, paths).await?.ask(&["PING"]).await? {
        Reply::Word(word) if word == "PONG" => Ok(format!("port {} answers requests", target.port)),
        // While it loads data, among others.
        Reply::Refusal(why) => bail!("the server does not answer requests: {why}"),
        other => bail!("the server answers PING with {other}"),
    }
}

/// Everything that can be found out. What cannot stays empty.
pub async fn facts(target: &Target, paths: &Paths) -> Facts {
    let unknown = match timeout(PATIENCE, ask(target, paths)).await {
        Ok(Ok(facts)) => return facts,
        Ok(Err(error)) => format!("{error:#}"),
        Err(_) => format!("the server does not answer within {} ms", PATIENCE.as_millis()),
    };
    Facts { unknown: Some(unknown), ..Facts::default() }
}

/// Has the server read its certificate, its key and whom it trusts anew: it does so for all of them when it is told one, even if that is
/// what it has (`tls-cert-file` is `VOLATILE_CONFIG` in `config.c`).
pub async fn reload(target: &Target, paths: &Paths) -> Result<()> {
    let request = ["CONFIG", "SET", "tls-cert-file", KEYSTORE_PEM];
    open(target, paths).await?.is_done("CONFIG SET", &request).await
}

async fn open(target: &Target, paths: &Paths) -> Result<Connection> {
    let file = paths.run_dir().join(PASSWORD_FILE);
    let password = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    Connection::open(target, paths, &password).await
}

async fn ask(target: &Target, paths: &Paths) -> Result<Facts> {
    match open(target, paths).await?.ask(&["INFO"]).await? {
        Reply::Text(text) => read(&text),
        other => bail!("the server answers INFO with {other}"),
    }
}

/// `name:value` a line, with titles between.
fn read(info: &str) -> Result<Facts> {
    let values: BTreeMap<&str, &str> = info.lines().filter_map(|line| line.split_once(':')).collect();
    let value = |name: &str| values.get(name).copied().with_context(|| format!("INFO does not tell {name}"));
    let copies = match value("role")? {
        "master" => None,
        _ => Some(format!("{}:{}", value("master_host")?, value("master_port")?)),
    };
    Ok(Facts { release: value("redis_version")?.to_owned(), loading: value("loading")? != "0", copies, unknown: None })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As Redis 7.0.15 answers, in part.
    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n\r\n# Persistence\r\nloading:0\r\n\r\n\
                        # Replication\r\nrole:master\r\nconnected_slaves:0\r\n";

    #[test]
    fn a_server_on_its_own_is_read() {
        assert_eq!(read(INFO).unwrap(), Facts { release: "7.0.15".into(), ..Facts::default() });
    }

    #[test]
    fn a_server_that_loads_and_one_that_copies_another_say_so() {
        assert!(read(&INFO.replace("loading:0", "loading:1")).unwrap().loading);
        let copy = INFO.replace("role:master", "role:slave\r\nmaster_host:fd00::9\r\nmaster_port:6379");
        assert_eq!(read(&copy).unwrap().copies.as_deref(), Some("fd00::9:6379"));
    }

    #[test]
    fn half_of_it_is_not_taken_for_all_of_it() {
        for name in ["redis_version", "loading", "role"] {
            assert!(read(&INFO.replace(name, "other")).unwrap_err().to_string().contains(name));
        }
        assert!(read(&INFO.replace("role:master", "role:slave")).is_err());
    }

    proptest! {
        #[test]
        fn whatever_it_says_is_facts_or_an_error(info in "\\PC*") {
            let _ = read(&info);
        }
    }
}
