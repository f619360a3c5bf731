//! The change of a ZooKeeper ensemble's list of members, by the member's own server.
//!
//! Servers refuse it from everybody but the user `super`, whose password is a file of the member's content.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context as _, Result, ensure};
use tf_agent_api::zookeeper::{Reconfigure, SUPER_FILE, Server, Servers};
use tokio::time::timeout;

use super::{
    connect,
    wire::{Refusal, Session},
};
use crate::{materialise::RunDir, paths::Paths, probe::Target};

/// For everything. A new server has followed before it is added, so a quorum takes the change at once.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no new list.
#[derive(Debug)]
pub enum Failure {
    /// It is not a change that could be asked for.
    Nonsense(&'static str),
    /// The ensemble does not want it.
    Refused(Refusal),
    /// It could not be asked, or the answer was lost and it may be carried out.
    NotAsked(anyhow::Error),
}

/// Has the ensemble change its list.
pub async fn reconfigure(
    change: &Reconfigure,
    target: &Target,
    paths: &Paths,
    daemon: &str,
) -> Result<Servers, Failure> {
    check(change).map_err(Failure::Nonsense)?;
    let exchange = async {
        let password = password(paths, daemon)?;
        let mut session = Session::open(connect(target, paths).await?).await?;
        session.authenticate("super", &password).await?;
        let servers = ask(&mut session, change).await;
        session.close().await;
        servers
    };
    let result = timeout(PATIENCE, exchange).await.context("no answer in time").and_then(|result| result);
    result.map_err(|error| match error.downcast_ref::<Refusal>() {
        Some(refusal) if refusal.is_of_the_ensemble() => Failure::Refused(*refusal),
        Some(&Refusal::NO_AUTH) => Failure::NotAsked(error.context("the server does not know this password of super")),
        _ => Failure::NotAsked(error),
    })
}

async fn ask(session: &mut Session, change: &Reconfigure) -> Result<Servers> {
    // Checked: the number of a transaction is not negative.
    match change {
        Reconfigure::Add { id, server, version } => {
            session.reconfigure(Some(&format!("server.{id}={server}")), None, version.cast_signed()).await
        }
        Reconfigure::Remove { id, version } => session.reconfigure(None, Some(*id), version.cast_signed()).await,
    }
}

fn password(paths: &Paths, daemon: &str) -> Result<Vec<u8>> {
    let set = RunDir::new(paths.run_dir()).load(daemon)?;
    let file = set.as_ref().and_then(|set| set.files.get(SUPER_FILE));
    let file = file.with_context(|| format!("the server's configuration has no file {SUPER_FILE:?}"))?;
    let password = file.bytes.trim_ascii();
    ensure!(!password.is_empty(), "the file {SUPER_FILE:?} of the server's configuration is empty");
    Ok(password.to_vec())
}

/// Entries travel as text with commas between them, so an address must be nothing else.
fn check(change: &Reconfigure) -> Result<(), &'static str> {
    let (Reconfigure::Add { id, version, .. } | Reconfigure::Remove { id, version }) = change;
    let holds = |holds: bool, why| if holds { Ok(()) } else { Err(why) };
    holds((1..=255).contains(id), "an identity is a number from 1 to 255")?;
    holds(i64::try_from(*version).is_ok(), "no list has this version")?;
    let Reconfigure::Add {
        server: Server { address, client_address, quorum_port, election_port, client_port, .. },
        ..
    } = change
    else {
        return Ok(());
    };
    holds(is_host(address) && is_host(client_address), "an address is neither an address nor a name")?;
    holds([quorum_port, election_port, client_port].iter().all(|port| **port != 0), "a port is 0")
}

fn is_host(text: &str) -> bool {
    let is_name = || text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    text.parse::<IpAddr>().is_ok() || !text.is_empty() && is_name()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(change: impl FnOnce(&mut Server)) -> Result<(), &'static str> {
        let list: Servers = "server.4=10.0.0.4:2888:3888;10.0.0.4:2181".parse().unwrap();
        let mut server = list.servers[&4].clone();
        change(&mut server);
        check(&Reconfigure::Add { id: 4, server, version: 7 })
    }

    #[test]
    fn only_one_entry_can_be_asked_for() {
        assert_eq!(add(|_| {}), Ok(()));
        assert_eq!(add(|server| server.address = "fd00::4".into()), Ok(()));
        assert_eq!(add(|server| server.address = "zk-3.tf.svc".into()), Ok(()));
        for address in ["", "a:1:2;3,server.5=b", "a\nb", "[fd00::4]", "a b", "a|b"] {
            assert!(add(|server| server.address = address.into()).is_err(), "{address}");
            assert!(add(|server| server.client_address = address.into()).is_err(), "{address}");
        }
        assert!(add(|server| server.client_port = 0).is_err());
    }

    #[test]
    fn identities_and_versions_are_those_of_zookeeper() {
        for (id, version, good) in
            [(1, 0, true), (255, 1 << 62, true), (0, 1, false), (256, 1, false), (1, 1 << 63, false)]
        {
            assert_eq!(check(&Reconfigure::Remove { id, version }).is_ok(), good, "{id} {version}");
        }
    }
}
