//! A cluster grows and shrinks, and what queues need of its members is kept.

use super::*;
use crate::whole::images::{REGISTRY, images};
use rabbitmq_op::plan::CONTAINER;

#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_queue_is_on_members_that_joined_and_keeps_its_majority() -> Result<()> {
    if !Long::QuorumQueues.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            resources::apply(client, RABBITMQ, NAMESPACE, NAME, json!({"commonConfiguration": {"replicas": 1}}))
                .await?;
            let rabbitmq = STORE.certified(client).await?;
            let first: IpAddr = members(&rabbitmq).first().context("no member")?.address.parse()?;
            let access = Access::of(client).await?;
            let channel = access.connect(first).await?.create_channel().await?;
            let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
            let mut arguments = FieldTable::default();
            arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
            channel.queue_declare("ledger (1)".into(), durable, arguments).await?;
            let on = async |count: usize| {
                let is_on = async || {
                    let pod = STORE.pods(client).await?.into_keys().next().context("no pod")?;
                    let list = [
                        "rabbitmqctl",
                        "-q",
                        "--formatter",
                        "json",
                        "--vhost",
                        access.vhost(),
                        "list_queues",
                        "members",
                    ];
                    let queues: serde_json::Value = serde_json::from_str(&STORE.exec(lab, &pod, &list)?)?;
                    let members = queues[0]["members"].as_array().map(Vec::len);
                    Ok((members == Some(count)).then_some(()))
                };
                eventually(&format!("the queue to be on {count} members"), MENDED, is_on).await
            };
            on(1).await?;
            resize(client, 2).await?;
            on(2).await?;
            // Neither of them may be stopped. What they take as they run they take.
            let (begun, before) = (Instant::now(), SERVER.processes(lab)?);
            let former = running(client, RABBITMQ).await?;
            let wish = json!({"spec": {"commonConfiguration": {"logLevel": "debug"}}});
            resources::api(client, RABBITMQ, NAMESPACE)
                .patch(NAME, &PatchParams::default(), &Patch::Merge(wish))
                .await?;
            followed(client, RABBITMQ, &former, ROLL).await?;
            STORE.through(client, "another log level").await?;
            println!("with the queue on both of two members: another log level after {:.1?}", begun.elapsed());
            ensure!(SERVER.processes(lab)? == before, "servers were started anew: {before:?}");
            resize(client, 3).await?;
            on(3).await?;
            // Nobody could be stopped if it were on fewer.
            rolled(client, 3, 1).await
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_member_becomes_three_without_a_restart_and_messages_arrive_everywhere() -> Result<()> {
    if !Long::Growth.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let replicas = |count: usize| json!({"commonConfiguration": {"replicas": count}});
            resources::apply(client, RABBITMQ, NAMESPACE, NAME, replicas(1)).await?;
            let rabbitmq = STORE.certified(client).await?;
            let first: Vec<IpAddr> =
                members(&rabbitmq).iter().filter_map(|member| member.address.parse().ok()).collect();
            ensure!(first.len() == 1, "{first:?}");
            let access = Access::of(client).await?;
            let traffic = Traffic::begin(&access, &first).await?;
            resources::apply(client, RABBITMQ, NAMESPACE, NAME, replicas(3)).await?;
            STORE.resized(client, 3, ROLL).await?;
            // One that was restarted would have turned its clients away.
            let summary = traffic.end().await?;
            ensure!(summary.refused == 0, "the first server was restarted: {summary}");
            good("one becomes three", &summary)?;
            let summary = Traffic::begin(&access, &lab.real_nodes()?.addresses()?).await?.end().await?;
            good("by three", &summary)
        })
        .await
}

/// Asks for a number of members and waits until the cluster has so many, and nothing is left to do.
pub async fn resize(client: &Client, replicas: usize) -> Result<()> {
    self::replicas(client, replicas).await?;
    STORE.resized(client, replicas, ROLL).await.map(drop)
}

/// Asks for a number of members.
async fn replicas(client: &Client, replicas: usize) -> Result<()> {
    let wish = json!({"spec": {"commonConfiguration": {"replicas": replicas}}});
    let api = resources::api(client, RABBITMQ, NAMESPACE);
    api.patch(NAME, &PatchParams::default(), &Patch::Merge(wish)).await?;
    Ok(())
}

/// Restarts every server by a change, which is held up as long as the cluster has a node that does not run.
pub async fn rolled(client: &Client, replicas: usize, more: u32) -> Result<()> {
    let spec = json!({"commonConfiguration": {"replicas": replicas}, "serviceConfiguration": backlog(more)});
    resources::apply(client, RABBITMQ, NAMESPACE, NAME, spec).await?;
    STORE.through(client, "a change of what is left").await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn three_members_become_one_and_three_again_and_no_message_and_no_stale_node_is_left() -> Result<()> {
    if !Long::Sizes.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            let traffic = Traffic::begin(&access, &addresses).await?;
            // The second time with what former members have on their disks, which the cluster forgot.
            for (replicas, more) in [(1, None), (3, Some(1)), (2, Some(0)), (3, None)] {
                let begun = Instant::now();
                resize(client, replicas).await?;
                println!("{replicas} members after {:.1?}", begun.elapsed());
                traffic.goes_on().await?;
                // Not of one server, whose queues end with it.
                if let Some(more) = more {
                    rolled(client, replicas, more).await?;
                }
            }
            good("three, one, three, two, three", &traffic.end().await?)?;
            for address in &addresses {
                access.connect(*address).await.with_context(|| format!("{address}"))?;
            }
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_stays_as_long_as_a_queue_has_its_messages_there_alone() -> Result<()> {
    if !Long::OwnQueues.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, _) = three(lab, client).await?;
            // On the highest ordinal, which goes first, and where no policy mirrors.
            let pods = STORE.pods(client).await?;
            let (last, pod) = pods.last_key_value().context("no pod")?;
            let address =
                pod.status.as_ref().and_then(|status| status.pod_ip.as_ref()).context("no address")?.parse()?;
            STORE.exec(lab, last, &["rabbitmqctl", "add_vhost", "own"])?;
            let rights = ["rabbitmqctl", "set_permissions", "-p", "own", access.user(), ".*", ".*", ".*"];
            STORE.exec(lab, last, &rights)?;
            let own = access.to_vhost("own");
            let channel = own.connect(address).await?.create_channel().await?;
            let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
            channel.queue_declare("ledger".into(), durable, FieldTable::default()).await?;

            let wish = json!({"spec": {"commonConfiguration": {"replicas": 1}}});
            let api = resources::api(client, RABBITMQ, NAMESPACE);
            api.patch(NAME, &PatchParams::default(), &Patch::Merge(wish)).await?;
            let is_told = |rabbitmq: &Resource| rabbitmq.explain("Ready").contains("own/ledger");
            let told =
                resources::until(client, RABBITMQ, NAMESPACE, NAME, "the queue to be named", ROLL, is_told).await?;
            ensure!(members(&told).len() == 3, "{}", resources::conditions(&told));
            own.connect(address).await.context("its server serves")?;

            let channel = own.connect(address).await?.create_channel().await?;
            channel.queue_delete("ledger".into(), QueueDeleteOptions::default()).await?;
            resize(client, 1).await
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn another_size_and_another_image_in_one_edit_are_both_taken_and_no_message_is_lost() -> Result<()> {
    if !Long::OneEdit.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            let own = images(client, RABBITMQ).await?.remove(CONTAINER).context("no image")?;
            let traffic = Traffic::begin(&access, &addresses).await?;
            for (replicas, image) in [(2, format!("{REGISTRY}{own}")), (3, own)] {
                let begun = Instant::now();
                let spec = json!({
                    "commonConfiguration": {"replicas": replicas},
                    "serviceConfiguration": {"containers": [{"name": CONTAINER, "image": image}]},
                });
                let api = resources::api(client, RABBITMQ, NAMESPACE);
                api.patch(NAME, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await?;
                STORE.resized(client, replicas, ROLL).await?;
                let pods = STORE.pods(client).await?;
                let now = pods.into_values().filter_map(|pod| pod.spec).flat_map(|spec| spec.containers);
                let now: Vec<Option<String>> = now.map(|container| container.image).collect();
                ensure!(now == vec![Some(image.clone()); replicas], "{replicas} members with {image}: {now:?}");
                println!("{replicas} members with another image after {:.1?}", begun.elapsed());
                traffic.goes_on().await?;
            }
            good("sizes with images", &traffic.end().await?)
        })
        .await
}

/// Where the agent of a member that was asked to leave notes that.
const LEAVES: &str = "/tf-node/state/rabbitmq.draining";

#[tokio::test(flavor = "multi_thread")]
async fn a_member_leaves_or_is_back_when_the_operator_is_killed_while_it_leaves() -> Result<()> {
    if !Long::CutShort.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            let (access, addresses) = three(lab, client).await?;
            let traffic = Traffic::begin(&access, &addresses).await?;
            // It goes on to leave; or it is wanted again, and is back.
            for wished in [2, 3] {
                resize(client, 3).await?;
                let pods = STORE.pods(client).await?;
                let (last, _) = pods.last_key_value().context("no pod")?;
                replicas(client, 2).await?;
                let leaves = async || Ok(STORE.exec(lab, last, &["ls", LEAVES]).ok());
                eventually("a member to leave", ROLL, leaves).await?;
                STORE.kill_operator(lab)?;
                let begun = Instant::now();
                resize(client, wished).await?;
                println!("{wished} members {:.1?} after the operator was killed", begun.elapsed());
                traffic.goes_on().await?;
            }
            rolled(client, 3, 1).await?;
            good("an operator that is killed while a member leaves", &traffic.end().await?)
        })
        .await
}
