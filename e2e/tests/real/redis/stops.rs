//! Servers that copy one of them stop and go on: one that hangs, all copies, two that are to hand over at once, and everybody.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, EvictParams};
use kube::{Client, ResourceExt as _};
use rustix::process::Signal;
use tf_api::kinds::REDIS;
use tf_testing::resources::{self, Resource};
use tf_testing::{Lab, RealNode, skip};
use tokio::time::sleep;

use super::sentinel::{CONVERGED, HANDED_OVER, good, master, signal, three, with_sentinels, writing};
use super::*;
use crate::store::{BRING_UP, HONEST_WITHIN};

/// Longer than Sentinels forbear.
const HANGS: Duration = Duration::from_secs(12);
/// Between two attempts to evict a pod.
const PACE: Duration = Duration::from_millis(200);

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_is_done_without_and_acknowledges_nothing_when_it_goes_on() -> Result<()> {
    if !Long::MasterHangs.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (login, addresses) = three(lab, client).await?;
            let journal = writing(&login, &addresses).await?;
            let node = master(lab, &login, &addresses).await?;
            let begun = Instant::now();
            ensure!(signal(&node, false, Signal::STOP)?, "no server");
            STORE.told(client).await?;
            let told = begun.elapsed();
            sleep(HANGS.saturating_sub(told)).await;
            journal.goes_on(CONVERGED).await?;
            ensure!(signal(&node, false, Signal::CONT)?, "no server");
            through(client, "the return of who hung").await?;
            ensure!(login.master(&addresses).await? != node.address(), "who hangs takes writes");
            good(&format!("hangs, told after {told:.1?}"), &journal.end().await?, CONVERGED)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_copies_no_server_takes_writes_and_that_is_told() -> Result<()> {
    if !Long::CopiesHang.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (login, addresses) = three(lab, client).await?;
            let journal = writing(&login, &addresses).await?;
            let leader = master(lab, &login, &addresses).await?;
            let nodes = lab.real_nodes()?.all()?;
            let copies: Vec<&RealNode> = nodes.iter().filter(|node| node.name() != leader.name()).collect();
            let begun = Instant::now();
            for node in &copies {
                ensure!(signal(node, false, Signal::STOP)?, "no server");
            }
            let is_told = |redis: &Resource| redis.is("Available", "False");
            let redis = resources::until(client, REDIS, NAMESPACE, NAME, "unavailable", HONEST_WITHIN, is_told).await?;
            println!("told after {:.1?}: {}", begun.elapsed(), redis.explain("Available"));
            for node in &copies {
                ensure!(signal(node, false, Signal::CONT)?, "no server");
            }
            through(client, "the copies' return").await?;
            good("without copies", &journal.end().await?, CONVERGED)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_evicted_while_its_server_hands_over_loses_no_write() -> Result<()> {
    if !Long::HandOvers.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (login, addresses) = three(lab, client).await?;
            let journal = writing(&login, &addresses).await?;
            let evicted = {
                let restarted = STORE.restarted(client);
                tokio::pin!(restarted);
                let mut evicted = 0;
                loop {
                    tokio::select! {
                        done = &mut restarted => break done.map(|()| evicted)?,
                        () = sleep(PACE) => {}
                    }
                    // Nobody may be while another one is away.
                    if evicted < 3 && evict(lab, client, &login, &addresses).await {
                        evicted += 1;
                    }
                }
            };
            through(client, "the end of it").await?;
            println!("{evicted} pods were evicted");
            good("evicted while pods are replaced", &journal.end().await?, CONVERGED)
        })
        .await
}

/// Evicts the pod of the server that takes writes, if that is allowed now.
async fn evict(lab: &Lab, client: &Client, login: &Login, addresses: &[IpAddr]) -> bool {
    let evicted = async {
        let node = master(lab, login, addresses).await?;
        let pod = STORE.pod_on(client, &node).await?.name_any();
        anyhow::Ok(Api::<Pod>::namespaced(client.clone(), NAMESPACE).evict(&pod, &EvictParams::default()).await?)
    };
    evicted.await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_hibernated_serve_again_each_on_its_own_and_as_copies() -> Result<()> {
    if !Long::Hibernation.is_drawn()? {
        return Ok(());
    }
    let each_alone = STORE.with(3, &[], &[], async |lab, client| {
        let (login, addresses) = super::three(lab, client).await?;
        mark(&login, &addresses).await?;
        STORE.sleeps_and_wakes(client).await?;
        for address in &addresses {
            login.is_served(*address).await?;
        }
        Ok(())
    });
    each_alone.await?;
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (login, addresses) = three(lab, client).await?;
            STORE.sleeps_and_wakes(client).await?;
            through(client, "the end of sleep").await?;
            let journal = writing(&login, &addresses).await?;
            good("after sleep", &journal.end().await?, HANDED_OVER)
        })
        .await
}

/// Sentinels of a release that cannot be told what they have to be: `--release redis-6.0.16`.
#[tokio::test(flavor = "multi_thread")]
async fn sentinels_of_a_release_before_6_2_are_not_started_and_that_is_told() -> Result<()> {
    let releases = std::env::var(image::RELEASES).unwrap_or_default();
    if !releases.split_whitespace().any(|release| release.starts_with("redis-6.0.")) {
        return skip::this_test("nobody asked for a release before 6.2");
    }
    STORE
        .with(3, &[], &[], async |_, client| {
            STORE.apply(client, with_sentinels(json!({}))).await?;
            let is_told = |redis: &Resource| {
                let why = redis.explain("Ready");
                why.contains("6.2") && why.contains("6.0.") && why.contains(NAME)
            };
            let redis = STORE.until(client, "told what its image lacks", BRING_UP, is_told).await?;
            println!("{}", redis.explain("Ready"));
            ensure!(!redis.is("Available", "True"), "{}", redis.explain("Available"));
            Ok(())
        })
        .await
}
