//! The tables that a daemon makes where they are missing: under a lock in ZooKeeper that all daemons share, so one after the other (seen of upstream's
//! Cassandra driver). Who dies with the lock keeps it for the rest of its session.

use std::time::Duration;

use tokio::time::sleep;
use zookeeper_client::Client;

use crate::{
    exit::{Exit, exception},
    log,
    options::Daemon,
    stores::{cassandra::Database, zookeeper},
};

/// Where the lock is.
const LOCK: &str = "/cassandra_schema_change";
/// How long somebody waits for it.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often contrail-device-manager connects to its database, and after what time it tries again (upstream `dm_server_args.py`,
/// `job_manager_db_conn_max_retries` and `job_manager_db_conn_retry_timeout`).
const TRIES: u32 = 6;
const RETRY: Duration = Duration::from_secs(10);

/// Makes what is missing.
///
/// # Errors
/// When there is no lock to be had, or the database does not do it.
pub async fn make(daemon: Daemon, database: &Database, client: &Client, node: &str) -> Result<(), Exit> {
    let failed = |error: anyhow::Error| exception(format!("{error:#}"));
    for tries in 1.. {
        let mut missing = Vec::new();
        for keyspace in daemon.keyspaces() {
            if !database.has(keyspace).await.map_err(failed)? {
                missing.push(*keyspace);
            }
        }
        let Some(first) = missing.first() else { return Ok(()) };
        let Some(own) = zookeeper::lock(client, LOCK, node, PATIENCE).await.map_err(failed)? else {
            sleep(unlocked(daemon, first, tries)?).await;
            continue;
        };
        let made = async {
            for keyspace in missing {
                database.make(keyspace).await?;
            }
            zookeeper::release(client, &own).await
        };
        return made.await.map_err(failed);
    }
    Ok(())
}

/// After what time a daemon tries again that did not get the lock.
///
/// # Errors
/// What ends it: nothing but contrail-device-manager catches the exception, which tries again for a while.
fn unlocked(daemon: Daemon, keyspace: &str, tries: u32) -> Result<Duration, Exit> {
    let why = format!(
        "HttpError 408: ZK Lock Creation Failed for lock name (table_create_{keyspace}) Server Busy, Try again Later"
    );
    if daemon == Daemon::DeviceManager && tries < TRIES {
        log::say(&format!("Error while initializing db connection, retrying: {why}"));
        return Ok(RETRY);
    }
    Err(exception(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_lock_daemons_end_and_device_manager_tries_six_times() {
        for daemon in [Daemon::Api, Daemon::Schema, Daemon::SvcMonitor] {
            let exit = unlocked(daemon, "useragent", 1).unwrap_err();
            assert_eq!(exit.code, 1, "{daemon:?}");
            assert!(exit.why.contains("HttpError 408") && exit.why.contains("table_create_useragent"), "{exit:?}");
        }
        for tries in 1..6 {
            assert_eq!(unlocked(Daemon::DeviceManager, "dm_keyspace", tries), Ok(Duration::from_secs(10)), "{tries}");
        }
        assert_eq!(unlocked(Daemon::DeviceManager, "dm_keyspace", 6).unwrap_err().code, 1);
    }
}
