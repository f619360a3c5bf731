//! Members and nodes fail in one way after the other, under a writer. Throughout: nothing that was acknowledged is lost, a
//! failure and its end are told in time, and nobody is called Ready or Available without a quorum (docs/testing.md#long-runs).
//!
//! `TF_SAMPLE` says how many ways, drawn with `TF_TEST_SEED`, or `all` (`cargo xtask soak faults`).

use std::fmt;
use std::time::Instant;

use anyhow::ensure;
use tf_testing::RealNode;
use tf_testing::real::partition::API_SERVER;

use super::journal::Journal;
use super::watchman::{Watch, Watchman};
use super::*;
use crate::store::HONEST_WITHIN;

/// Ways that are tried if nothing else is said.
const DEFAULT: usize = 1;
/// How long a cut lasts: longer than ZooKeeper needs to find out, and to elect.
const CUT: Duration = Duration::from_secs(40);
/// From the end of a failure to three servers that serve. The kubelet lets a container wait that fails again and again.
const MENDED: Duration = Duration::from_mins(3);

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The server of a member that follows is killed.
    Follower,
    /// The server that leads is killed.
    Leader,
    /// The process that runs a member's server is killed, and the server with it.
    Agent,
    /// The kubelet of a member's node is killed until its node is given up; the member is not.
    Kubelet,
    /// The node of a member has no power.
    NodeOff,
    /// The node of a member cannot reach the API server until it is given up.
    ApiCutOff,
    /// A member that follows cannot reach the other two.
    FollowerCutOff,
    /// The leader cannot reach the other two.
    LeaderAlone,
    /// No member can reach another one.
    MajorityLost,
    /// The disk of a member's node is full.
    DiskFull,
    /// All nodes lose their power at once and get it back in this order.
    Outage([usize; 3]),
}

impl Fault {
    const ALL: [Self; 16] = [
        Self::Follower,
        Self::Leader,
        Self::Agent,
        Self::Kubelet,
        Self::NodeOff,
        Self::ApiCutOff,
        Self::FollowerCutOff,
        Self::LeaderAlone,
        Self::MajorityLost,
        Self::DiskFull,
        Self::Outage([0, 1, 2]),
        Self::Outage([0, 2, 1]),
        Self::Outage([1, 0, 2]),
        Self::Outage([1, 2, 0]),
        Self::Outage([2, 0, 1]),
        Self::Outage([2, 1, 0]),
    ];

    /// Whether a majority serves throughout.
    fn spares_the_quorum(self) -> bool {
        !matches!(self, Self::MajorityLost | Self::Outage(_))
    }
}

/// How long it took until the status told, and how long it did so after the end.
#[derive(Default)]
struct Course {
    told: Option<Duration>,
    serving: Duration,
    ready: Duration,
}

impl fmt::Display for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |duration: Duration| format!("{:.1} s", duration.as_secs_f64());
        match self.told {
            Some(told) => write!(f, "told after {}", seconds(told))?,
            None => write!(f, "not told")?,
        }
        write!(f, ", all serve {} after its end, Ready {} later", seconds(self.serving), seconds(self.ready))
    }
}

/// An ensemble of three.
struct Scene {
    lab: Turn,
    client: Client,
    members: Vec<RealNode>,
}

impl Scene {
    async fn set() -> Result<Option<Self>> {
        let Some(lab) = STORE.lab(store::options(3)?, &[], &[]).await? else { return Ok(None) };
        let client = lab.client().await?;
        resources::apply(&client, ZOOKEEPER, NAMESPACE, NAME, json!({"commonConfiguration": {"replicas": 3}})).await?;
        certified(&client).await?;
        let members = lab.real_nodes()?.all()?;
        Ok(Some(Self { lab, client, members }))
    }

    fn addresses(&self) -> Vec<IpAddr> {
        self.members.iter().map(RealNode::address).collect()
    }

    async fn pod(&self, node: &RealNode) -> Result<Pod> {
        STORE.pod_on(&self.client, node).await
    }

    /// The member that plays a part, and is not beside the operator: from there the operator would see what it sees.
    async fn member(&self, mode: &str) -> Result<&RealNode> {
        for _ in 0..5 {
            let operator = operator::node_of(&self.client, OPERATOR, NAMESPACE).await?;
            for member in self.members.iter().filter(|member| member.name() != operator) {
                if modes(&[member.address()]).await? == [mode] {
                    return Ok(member);
                }
            }
            // The leader is beside the operator: another one shall be.
            let beside = self.members.iter().find(|member| member.name() == operator).context("the operator's node")?;
            beside.kill("java")?;
            self.all_serve().await?;
        }
        anyhow::bail!("no {mode} on another node than the operator")
    }

    async fn all_serve(&self) -> Result<()> {
        eventually("three servers to serve", MENDED, async || {
            let modes = modes(&self.addresses()).await.ok();
            Ok(modes.filter(|modes| modes == &["follower", "follower", "leader"]).map(drop))
        })
        .await
    }

    /// Waits until the status tells that a member fails, by the name of its pod, and why.
    async fn told(&self, pod: &Pod, since: Instant, limit: Duration) -> Result<Duration> {
        let cause = format!("pod {}: ", pod.name_any());
        let tells = |zookeeper: &Resource| {
            !zookeeper.is_ready()
                && zookeeper.status.conditions.iter().any(|condition| condition.message.contains(&cause))
        };
        let what = format!("told that {} fails", pod.name_any());
        resources::until(&self.client, ZOOKEEPER, NAMESPACE, NAME, &what, limit, tells).await?;
        Ok(since.elapsed())
    }

    /// Waits until all serve, and then, no longer than this, until the status says so.
    async fn recovers(&self, told: Option<Duration>, mended: Instant, limit: Duration) -> Result<Course> {
        self.all_serve().await?;
        let serving = mended.elapsed();
        resources::ready(&self.client, ZOOKEEPER, NAMESPACE, NAME, limit).await?;
        Ok(Course { told, serving, ready: mended.elapsed().saturating_sub(serving) })
    }

    async fn suffer(&self, fault: Fault) -> Result<Course> {
        let nodes = self.lab.real_nodes()?;
        match fault {
            Fault::Follower => self.killed(self.member("follower").await?, "java").await,
            Fault::Leader => self.killed(self.member("leader").await?, "java").await,
            Fault::Agent => self.killed(self.member("follower").await?, "tf-node").await,
            Fault::Kubelet => {
                let member = self.member("follower").await?;
                self.given_up(member, async || member.kill_kubelet(), async || member.start_kubelet()).await
            }
            Fault::ApiCutOff => {
                let member = self.member("follower").await?;
                let ends = ([member.name()], [API_SERVER]);
                self.given_up(
                    member,
                    async || nodes.cut(&ends.0, &ends.1).await,
                    async || nodes.heal(&ends.0, &ends.1).await,
                )
                .await
            }
            Fault::NodeOff => {
                let member = self.member("follower").await?;
                let (stop, start) =
                    (async || nodes.stop(member.name()).await, async || nodes.start(member.name()).await);
                self.suffered(member, HONEST_WITHIN, stop, start).await
            }
            Fault::FollowerCutOff => self.cut_off(self.member("follower").await?).await,
            Fault::LeaderAlone => self.cut_off(self.member("leader").await?).await,
            Fault::MajorityLost => self.majority_lost().await,
            Fault::DiskFull => {
                let member = self.member("follower").await?;
                self.suffered(member, HONEST_WITHIN, async || member.fill_disk(), async || member.free_disk()).await
            }
            Fault::Outage(order) => {
                for node in &self.members {
                    nodes.stop(node.name()).await?;
                }
                for index in order {
                    nodes.start(self.members[index].name()).await?;
                }
                // The operator has to start, too, and to win its lease back.
                self.recovers(None, Instant::now(), BRING_UP).await
            }
        }
    }

    /// What is killed comes back by itself, perhaps before anybody could tell.
    async fn killed(&self, member: &RealNode, process: &str) -> Result<Course> {
        let (pod, begun) = (self.pod(member).await?, Instant::now());
        member.kill(process)?;
        let told = tokio::select! {
            told = self.told(&pod, begun, HONEST_WITHIN) => Some(told?),
            // Not at once: the server may still answer while it is being killed.
            serve = async { tokio::time::sleep(Duration::from_secs(1)).await; self.all_serve().await } => serve.map(|()| None)?,
        };
        let course = self.recovers(told, begun, HONEST_WITHIN).await?;
        ensure!(course.serving < HONEST_WITHIN, "all serve only after {:?}", course.serving);
        Ok(course)
    }

    /// Something fails until it is told, and that and its end are told within this time.
    async fn suffered(
        &self,
        member: &RealNode,
        limit: Duration,
        fail: impl AsyncFnOnce() -> Result<()>,
        mend: impl AsyncFnOnce() -> Result<()>,
    ) -> Result<Course> {
        let (pod, begun) = (self.pod(member).await?, Instant::now());
        fail().await?;
        let told = self.told(&pod, begun, limit).await;
        mend().await?;
        self.recovers(Some(told?), Instant::now(), limit).await
    }

    /// Kubernetes gives a node up that does not renew its lease, and says so of its pods. The member goes on. In the end the kubelet
    /// has to come back first, and to say how its pods are.
    async fn given_up(
        &self,
        member: &RealNode,
        fail: impl AsyncFnOnce() -> Result<()>,
        mend: impl AsyncFnOnce() -> Result<()>,
    ) -> Result<Course> {
        let before = started(&self.pod(member).await?)?;
        let course = self.suffered(member, NOTICED, fail, mend).await?;
        ensure!(started(&self.pod(member).await?)? == before, "the server was started anew");
        Ok(course)
    }

    async fn cut_off(&self, member: &RealNode) -> Result<Course> {
        let nodes = self.lab.real_nodes()?;
        let others: Vec<&str> = self.members.iter().map(RealNode::name).filter(|name| *name != member.name()).collect();
        let (pod, begun) = (self.pod(member).await?, Instant::now());
        nodes.cut(&[member.name()], &others).await?;
        let told = self.told(&pod, begun, HONEST_WITHIN).await;
        tokio::time::sleep(CUT.saturating_sub(begun.elapsed())).await;
        let rest: Vec<IpAddr> =
            self.members.iter().filter(|other| other.name() != member.name()).map(RealNode::address).collect();
        let serving = modes(&rest).await;
        let alone = modes(&[member.address()]).await;
        nodes.heal(&[member.name()], &others).await?;
        let mended = Instant::now();
        ensure!(alone.is_err(), "who is alone serves: {alone:?}");
        ensure!(serving? == ["follower", "leader"], "the majority goes on");
        self.recovers(Some(told?), mended, HONEST_WITHIN).await
    }

    /// Every member is alone. Nobody is restarted for that.
    async fn majority_lost(&self) -> Result<Course> {
        let nodes = self.lab.real_nodes()?;
        let names: Vec<&str> = self.members.iter().map(RealNode::name).collect();
        let (before, begun) = (self.all_started().await?, Instant::now());
        nodes.cut(&names[..1], &names[1..]).await?;
        nodes.cut(&names[1..2], &names[2..]).await?;
        let tells = |zookeeper: &Resource| !zookeeper.is_ready() && zookeeper.is("Available", "False");
        let what = "told that the quorum is lost";
        let told = resources::until(&self.client, ZOOKEEPER, NAMESPACE, NAME, what, HONEST_WITHIN, tells).await;
        let told = told.map(|_| begun.elapsed());
        tokio::time::sleep(CUT.saturating_sub(begun.elapsed())).await;
        let mut serving = Vec::new();
        for address in self.addresses() {
            serving.extend(modes(&[address]).await.ok());
        }
        nodes.heal_all().await?;
        let mended = Instant::now();
        ensure!(serving.is_empty(), "without a majority somebody serves: {serving:?}");
        let course = self.recovers(Some(told?), mended, HONEST_WITHIN).await?;
        ensure!(self.all_started().await? == before, "somebody was restarted for the want of a quorum");
        Ok(course)
    }

    async fn all_started(&self) -> Result<Vec<Vec<String>>> {
        pods(&self.client).await?.values().map(started).collect()
    }
}

/// When a pod's containers were started.
fn started(pod: &Pod) -> Result<Vec<String>> {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref()).context("containers")?;
    Ok(statuses.iter().filter_map(|status| status.container_id.clone()).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn members_and_nodes_fail_and_come_back_and_nothing_is_lost_and_no_status_lies() -> Result<()> {
    let sample = Sample::from_environment(DEFAULT)?;
    if sample.is_empty() {
        return skip::this_test("none of its cases is drawn; cargo xtask soak runs them");
    }
    let Some(scene) = Scene::set().await? else { return Ok(()) };
    for index in sample.draw(Fault::ALL.len(), 0) {
        let fault = Fault::ALL[index];
        let what = || format!("{fault:?}{sample}");
        let journal = Journal::begin(&scene.addresses()).await?;
        journal.goes_on().await?;
        // In an outage the operator has no power either.
        let watchman = (!matches!(fault, Fault::Outage(_))).then(|| Watchman::begin(&scene.client, Watch::Any));
        let course = scene.suffer(fault).await.with_context(what)?;
        watchman.map_or(Ok(()), Watchman::end).with_context(what)?;
        journal.goes_on().await.with_context(what)?;
        let account = journal.end(&scene.addresses()).await.with_context(what)?;
        ensure!(account.lost_sessions == 0 || !fault.spares_the_quorum(), "{} lost a session", what());
        println!(
            "{fault:?}: {course}; {} writes, longest pause {:.1} s, {} sessions lost",
            account.acknowledged.len(),
            account.longest_pause.as_secs_f64(),
            account.lost_sessions
        );
    }
    Ok(())
}
