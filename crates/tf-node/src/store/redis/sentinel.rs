//! The Sentinel beside a Redis server: what it says, and the file that it reads and writes anew.

use std::{fs, io, net::IpAddr};

use anyhow::{Context as _, Result, bail};
use tf_agent_api::redis::{DIRECTORY, Replication, SENTINEL_FILES, Sentinel};
use tf_host::atomic;

use super::{
    open_as_peer,
    wire::{Connection, Reply},
};
use crate::{paths::Paths, probe::Target, set::Set};

/// Whether the Sentinel answers requests.
pub async fn serves(target: &Target, paths: &Paths) -> Result<String> {
    match open_as_peer(target, paths).await?.ask(&["PING"]).await? {
        Reply::Word(word) if word == "PONG" => Ok(format!("port {} answers requests", target.port)),
        other => bail!("the Sentinel answers PING with {other}"),
    }
}

/// Connects to the Sentinel of a member.
pub(super) async fn open(host: IpAddr, replication: &Replication, paths: &Paths) -> Result<Connection> {
    open_as_peer(&Target { host, port: replication.sentinel.get(), tls: true }, paths).await
}

/// What the Sentinel of a member has as the server that takes writes.
pub(super) async fn says(host: IpAddr, replication: &Replication, paths: &Paths) -> Result<Sentinel> {
    said(&mut open(host, replication, paths).await?, replication).await
}

/// What it says on this connection.
pub(super) async fn said(sentinel: &mut Connection, replication: &Replication) -> Result<Sentinel> {
    let said = match sentinel.ask(&["SENTINEL", "MASTER", &replication.master]).await? {
        Reply::List(said) => read(&said)?,
        other => bail!("the Sentinel answers SENTINEL MASTER with {other}"),
    };
    let refuses = match sentinel.ask(&["SENTINEL", "CKQUORUM", &replication.master]).await? {
        Reply::Word(_) => None,
        Reply::Refusal(why) => Some(why),
        other => bail!("the Sentinel answers SENTINEL CKQUORUM with {other}"),
    };
    Ok(Sentinel { refuses, ..said })
}

/// Names, each with its value.
fn read(said: &[String]) -> Result<Sentinel> {
    let value = |name: &str| {
        let found = said.chunks_exact(2).find(|pair| pair[0] == name).map(|pair| pair[1].as_str());
        found.with_context(|| format!("the Sentinel does not report {name}"))
    };
    let master = value("ip")?.parse().context("the Sentinel has no address of the server")?;
    let epoch = value("config-epoch")?.parse().context("the Sentinel has no number of the failover")?;
    let others = value("num-other-sentinels")?.parse().context("the Sentinel has no number of others")?;
    Ok(Sentinel { master, epoch, others: Some(others), refuses: None })
}

/// Has the Sentinel end, so that its agent starts it again: it reads its certificate when it starts and never again, and knows the other
/// members alone then ([`prepare`]).
pub(super) async fn restart(target: &Target, paths: &Paths) -> Result<()> {
    // There is no answer.
    let _ = open_as_peer(target, paths).await?.ask(&["SHUTDOWN"]).await;
    Ok(())
}

/// Writes the file before the Sentinel is started: who the others are, as the operator has it, and what it noted itself.
pub(crate) fn prepare(set: &Set, paths: &Paths) -> Result<()> {
    let text = |name: &str| set.files.get(name).map(|file| String::from_utf8_lossy(&file.bytes).into_owned());
    let [rendered, secret] = SENTINEL_FILES.map(|name| text(name).with_context(|| format!("{name} is missing")));
    let path = paths.at(DIRECTORY).join(SENTINEL_FILES[0]);
    let noted = match fs::read_to_string(&path) {
        Ok(noted) => noted,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
    };
    Ok(atomic::replace(&path, merged(&rendered?, &secret?, &noted).as_bytes(), 0o600)?)
}

/// The arguments of a `sentinel` directive.
fn arguments(line: &str) -> Option<Vec<&str>> {
    let mut words = line.split_whitespace();
    (words.next() == Some("sentinel")).then(|| words.collect())
}

/// The rendered file and its secret part, with the server that takes writes and the numbers of failovers that the Sentinel noted: with
/// others it could vote twice, or take an older server for the one that takes writes. Rendered are all members as servers that may be
/// copies. A server that is no member any more does not count, nor one that no failover made the one that takes writes: Sentinels that began
/// with different members would never agree.
fn merged(rendered: &str, secret: &str, noted: &str) -> String {
    let find = |text: &'_ str, what: &str, index: usize| {
        let found = text.lines().filter_map(arguments).find(|words| words.first() == Some(&what));
        found.and_then(|words| words.get(index).map(ToString::to_string))
    };
    let is_member = |address: &String| {
        let is = |words: &Vec<&str>| words.first() == Some(&"known-replica") && words.get(2) == Some(&address.as_str());
        rendered.lines().filter_map(arguments).any(|words| is(&words))
    };
    let was_made = find(noted, "config-epoch", 2).is_some_and(|epoch| epoch != "0");
    let kept = find(noted, "monitor", 2).filter(|master| was_made && is_member(master));
    let master = kept.clone().or_else(|| find(rendered, "monitor", 2)).unwrap_or_default();
    let mut lines = Vec::new();
    for line in rendered.lines() {
        match arguments(line).as_deref() {
            Some(["monitor", name, _, port, quorum]) => {
                lines.push(format!("sentinel monitor {name} {master} {port} {quorum}"));
            }
            Some(["known-replica", _, address, ..]) if *address == master => {}
            _ => lines.push(line.to_owned()),
        }
    }
    lines.extend(secret.lines().map(str::to_owned));
    let is_epoch = |words: &Vec<&str>| match words.first() {
        Some(&"current-epoch" | &"leader-epoch") => true,
        Some(&"config-epoch") => kept.is_some(),
        _ => false,
    };
    let epochs = noted.lines().filter_map(arguments).filter(is_epoch);
    lines.extend(epochs.map(|words| format!("sentinel {}", words.join(" "))));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const RENDERED: &str = "port 0\nsentinel myid aa\nsentinel monitor r 10.0.0.1 6389 2\n\
                            sentinel known-replica r 10.0.0.1 6389\nsentinel known-replica r 10.0.0.2 6389\n\
                            sentinel known-sentinel r 10.0.0.2 26389 bb\n";
    const SECRET: &str = "sentinel auth-pass r secret\n";

    #[test]
    fn a_new_sentinel_begins_with_what_is_rendered() {
        let expected = "port 0\nsentinel myid aa\nsentinel monitor r 10.0.0.1 6389 2\n\
                        sentinel known-replica r 10.0.0.2 6389\nsentinel known-sentinel r 10.0.0.2 26389 bb\n\
                        sentinel auth-pass r secret\n";
        assert_eq!(merged(RENDERED, SECRET, ""), expected);
        // What it made of it changes nothing.
        assert_eq!(merged(RENDERED, SECRET, expected), expected);
    }

    #[test]
    fn failovers_are_remembered_and_members_that_left_are_not() {
        let noted = "port 0\nsentinel monitor r 10.0.0.2 6389 3\nsentinel config-epoch r 4\nsentinel leader-epoch r 5\n\
                     sentinel known-replica r 10.0.0.9 6389\nsentinel known-sentinel r 10.0.0.9 26389 99\n\
                     sentinel current-epoch 5\n";
        assert_eq!(
            merged(RENDERED, SECRET, noted),
            "port 0\nsentinel myid aa\nsentinel monitor r 10.0.0.2 6389 2\nsentinel known-replica r 10.0.0.1 6389\n\
             sentinel known-sentinel r 10.0.0.2 26389 bb\nsentinel auth-pass r secret\nsentinel config-epoch r 4\n\
             sentinel leader-epoch r 5\nsentinel current-epoch 5\n"
        );
    }

    #[test]
    fn the_server_that_another_configuration_began_with_is_not_gone_back_to() {
        let noted = "sentinel monitor r 10.0.0.2 6389 2\nsentinel config-epoch r 0\nsentinel current-epoch 0\n";
        let merged = merged(RENDERED, SECRET, noted);
        assert!(merged.contains("monitor r 10.0.0.1 6389 2") && !merged.contains("config-epoch"), "{merged}");
    }

    #[test]
    fn a_server_that_is_no_member_any_more_is_not_gone_back_to() {
        let noted = "sentinel monitor r 10.0.0.9 6389 3\nsentinel config-epoch r 4\nsentinel current-epoch 5\n";
        let merged = merged(RENDERED, SECRET, noted);
        assert!(merged.contains("monitor r 10.0.0.1 6389 2") && merged.contains("current-epoch 5"), "{merged}");
        assert!(!merged.contains("config-epoch") && !merged.contains("10.0.0.9"), "{merged}");
    }

    #[test]
    fn what_a_sentinel_says_is_read_or_refused() {
        let said = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
        // As 7.0.15 answers, in part.
        let sentinel =
            read(&said("name r ip fd00::2 port 6389 flags master config-epoch 7 num-other-sentinels 4 quorum 2"))
                .unwrap();
        assert_eq!(sentinel, Sentinel { master: "fd00::2".parse().unwrap(), epoch: 7, others: Some(4), refuses: None });
        for half in [
            "name r",
            "name r ip x config-epoch 7",
            "name r ip fd00::2 config-epoch -1",
            "ip fd00::2",
            "ip fd00::2 config-epoch 7",
        ] {
            assert!(read(&said(half)).is_err(), "{half}");
        }
    }
}
