//! Servers and their nodes fail: it is told what fails, and in the end the cluster is whole again by itself.

use kube::ResourceExt as _;
use tf_testing::RealNode;
use tf_testing::sample::Sample;

use super::sizes::rolled;
use super::*;
use crate::store::HONEST_WITHIN;

/// Until RabbitMQ has noticed that a member is cut off (`net_ticktime` and a quarter), and then some.
const PARTED: Duration = Duration::from_secs(90);
/// How long no server takes messages.
const FULL: Duration = Duration::from_secs(20);
/// The orders in which three nodes can get their power back.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// Cuts a member off from the other two for longer than RabbitMQ needs to notice, and waits until the cluster is whole again by itself. Whether it serves
/// alone is what the handling says.
async fn parted(lab: &Lab, client: &Client, handling: &str, serves_alone: bool) -> Result<Summary> {
    let spec = json!({"serviceConfiguration": {"clusterPartitionHandling": handling}});
    resources::apply(client, RABBITMQ, NAMESPACE, NAME, spec).await?;
    STORE.certified(client).await?;
    STORE.through(client, handling).await?;
    let (access, nodes) = (Access::of(client).await?, lab.real_nodes()?);
    let all = nodes.all()?;
    let cut = STORE.node_without_operator(lab, client).await?;
    let others: Vec<&str> = all.iter().map(RealNode::name).filter(|name| *name != cut.name()).collect();
    let traffic = Traffic::begin(&access, &nodes.addresses()?).await?;
    let begun = Instant::now();
    nodes.cut(&[cut.name()], &others).await?;
    let told = |rabbitmq: &Resource| !rabbitmq.is_ready();
    resources::until(client, RABBITMQ, NAMESPACE, NAME, "the cut", PARTED, told).await?;
    println!("{handling}: told after {:.1?}", begun.elapsed());
    tokio::time::sleep(PARTED.saturating_sub(begun.elapsed())).await;
    let serves = access.connect(cut.address()).await.is_ok();
    ensure!(serves == serves_alone, "{handling}: whether the member serves alone: {serves}");
    nodes.heal(&[cut.name()], &others).await?;
    let begun = Instant::now();
    STORE.through(client, "one cluster").await?;
    println!("{handling}: whole {:.1?} after the cut's end", begun.elapsed());
    traffic.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_is_told_and_heals_as_configured() -> Result<()> {
    if !Long::Partition.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            // Whoever is alone stops serving, and has nothing that the others lack.
            let summary = parted(lab, client, "pause_minority", false).await?;
            println!("pause_minority: {summary}");
            ensure!(summary.lost == 0, "pause_minority: {summary}");
            // Whoever is alone goes on serving, and gives up what only it has. What that was is not promised.
            println!("autoheal: {}", parted(lab, client, "autoheal", true).await?);
            let summary =
                Traffic::begin(&Access::of(client).await?, &lab.real_nodes()?.addresses()?).await?.end().await?;
            good("afterwards", &summary)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_is_told_and_loses_no_message() -> Result<()> {
    if !Long::Killed.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            for node in lab.real_nodes()?.all()? {
                let traffic = Traffic::begin(&access, &addresses).await?;
                let begun = Instant::now();
                node.kill(SERVER.name)?;
                STORE.told(client).await?;
                let told = begun.elapsed();
                STORE.through(client, "the server's return").await?;
                good(&format!("killed, told after {told:.1?}"), &traffic.end().await?)?;
            }
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_lost_its_data_joins_again_by_itself() -> Result<()> {
    if !Long::LostData.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            let directory = STORE.directory(client).await?.context("no directory")?;
            let traffic = Traffic::begin(&access, &addresses).await?;
            let node = lab.real_nodes()?.all()?.into_iter().next().context("no node")?;
            node.run("rm", &["-rf", &format!("{directory}/mnesia")]).await?;
            node.kill(SERVER.name)?;
            STORE.told(client).await?;
            STORE.through(client, "the member's return").await?;
            access.connect(node.address()).await?;
            good("a member without its data", &traffic.end().await?)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_whose_node_is_gone_for_good_is_replaced_on_another_node() -> Result<()> {
    if !Long::Replacement.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            let lost = STORE.node_without_operator(lab, client).await?;
            let traffic = Traffic::begin(&access, &addresses).await?;
            let new = STORE.replace_node(lab, client, &lost).await?;
            STORE.replaced(client, &new, 3, ROLL).await?;
            access.connect(new.address()).await?;
            rolled(client, 3, 1).await?;
            let summary = traffic.end().await?;
            println!("a node replaced: {summary}");
            ensure!(summary.lost == 0, "{summary}");
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_without_power_come_back_in_any_order_and_serve() -> Result<()> {
    if !Long::Outage.is_drawn()? {
        return Ok(());
    }
    let sample = Sample::from_environment(1)?;
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, _) = three(lab, client).await?;
            let nodes = lab.real_nodes()?;
            let all = nodes.all()?;
            for order in sample.draw(ORDERS.len(), 6) {
                for node in &all {
                    nodes.stop(node.name()).await?;
                }
                for index in ORDERS[order] {
                    nodes.start(all[index].name()).await?;
                }
                let begun = Instant::now();
                for node in &all {
                    let what = format!("{} to serve, in order {:?}", node.address(), ORDERS[order]);
                    let limit = UP_AGAIN.saturating_sub(begun.elapsed());
                    eventually(&what, limit, async || Ok(access.connect(node.address()).await.ok())).await?;
                }
                println!("{:?}: all serve {:.1?} after the last node is up", ORDERS[order], begun.elapsed());
                resources::ready(client, RABBITMQ, NAMESPACE, NAME, BRING_UP).await?;
                let addresses = nodes.addresses()?;
                good("afterwards", &Traffic::begin(&access, &addresses).await?.end().await?)?;
            }
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_and_publishers_go_on_when_there_is_room() -> Result<()> {
    if !Long::DiskFull.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            STORE.through(client, "the bring-up").await?;
            let victim = STORE.node_without_operator(lab, client).await?;
            let pod = STORE.pod_on(client, &victim).await?.name_any();
            let traffic = Traffic::begin(&access, &addresses).await?;
            traffic.goes_on().await?;
            let begun = Instant::now();
            victim.fill_disk()?;
            let is_told = |it: &Resource| {
                let why = it.explain("Ready");
                !it.is_ready() && why.contains(&pod) && why.contains("disk")
            };
            let told = STORE.until(client, &format!("told that {pod} has no room"), HONEST_WITHIN, is_told).await;
            let after = begun.elapsed();
            tokio::time::sleep(FULL).await;
            victim.free_disk()?;
            println!("a full disk: told after {after:.1?}: {}", told?.explain("Ready"));
            let begun = Instant::now();
            STORE.through(client, "there is room").await?;
            println!("whole {:.1?} after it had room", begun.elapsed());
            let summary = traffic.end().await?;
            println!("a full disk: {summary}");
            ensure!(summary.lost == 0, "{summary}");
            good("afterwards", &Traffic::begin(&access, &addresses).await?.end().await?)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_waits_for_good_is_told_and_started_anew() -> Result<()> {
    if !Long::Waiting.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            STORE.through(client, "the bring-up").await?;
            let victim = STORE.node_without_operator(lab, client).await?;
            let pod = STORE.pod_on(client, &victim).await?.name_any();
            let traffic = Traffic::begin(&access, &addresses).await?;
            // As 3.10.8 can be after a cut with autoheal: Erlang runs, RabbitMQ in it does not, and nobody starts it.
            STORE.exec(lab, &pod, &["rabbitmqctl", "stop_app"])?;
            let begun = Instant::now();
            let is_told = |it: &Resource| !it.is_ready() && it.explain("Ready").contains(&pod);
            STORE.until(client, &format!("told of {pod}"), HONEST_WITHIN, is_told).await?;
            let told = begun.elapsed();
            STORE.through(client, "the server's return").await?;
            println!("waits for good: told after {told:.1?}, serves again after {:.0?}", begun.elapsed());
            access.connect(victim.address()).await?;
            good("a server that waits", &traffic.end().await?)
        })
        .await
}
