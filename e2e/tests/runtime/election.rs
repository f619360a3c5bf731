//! Of several processes of one operator one writes; another takes its place when it is gone, and never before.
//!
//! With the timing that is shipped: a lease of 30 s, and no write of a leader that could not renew for 20 s.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Api;
use tf_testing::{
    Proxy,
    operators::{Operator, Run},
    proxy::{Fault, Match, Which},
    wait::eventually,
};

use crate::support::{FLEET, PROBE, PROMPT, QUIET, SOON, Stage, level, terminate, through};

const LEASE: Duration = Duration::from_secs(30);
const DEADLINE: Duration = Duration::from_secs(20);
/// What a takeover may take beyond the lease.
const SLACK: Duration = Duration::from_secs(2);
/// What slow answers of the API server may add to that.
const LARGEST_ALLOWANCE: Duration = Duration::from_secs(1);

/// A process and what it asks for: both of a pair have the same user, so the audit log cannot tell them apart.
struct Candidate {
    name: &'static str,
    operator: Operator,
    proxy: Proxy,
}

impl Candidate {
    async fn start(stage: &Stage, name: &'static str) -> Result<Self> {
        let proxy = stage.lab.proxy().await?;
        let how = Run { env: vec![("POD_NAME".into(), name.into())], ..through(&proxy) };
        let operator = stage.probe(how).await?;
        Ok(Self { name, operator, proxy })
    }

    /// Changes it has asked for, the lease apart.
    fn writes(&self) -> usize {
        let writes = Match::writes();
        self.proxy.seen().iter().filter(|seen| writes.matches(&seen.request)).count()
    }

    async fn says_it_leads(&self) -> Result<bool> {
        Ok(self.operator.metric("tf_leader", &[]).await? > 0.0)
    }
}

struct Pair {
    stage: Stage,
    leader: Candidate,
    standby: Candidate,
}

impl Pair {
    async fn set(namespace: &str) -> Result<Self> {
        let stage = Stage::set(FLEET.get().await?, namespace, &[PROBE]).await?;
        stage.install_probe(&[namespace]).await?;
        let leader = Candidate::start(&stage, "one").await?;
        let pair = Self { leader, standby: Candidate::start(&stage, "two").await?, stage };
        pair.led_by("one", SOON).await?;
        pair.stage.apply(PROBE, "a", level("info")).await?;
        pair.stage.ready(PROBE, "a").await?;
        Ok(pair)
    }

    async fn lease(&self) -> Result<LeaseSpec> {
        let leases: Api<Lease> = Api::namespaced(self.stage.client.clone(), &self.stage.namespace);
        leases.get("probe-op").await?.spec.context("an empty lease")
    }

    async fn led_by(&self, name: &str, limit: Duration) -> Result<LeaseSpec> {
        eventually(&format!("{name} to lead"), limit, async || {
            let lease = self.lease().await?;
            let holder = lease.holder_identity.as_deref().unwrap_or_default();
            Ok(holder.starts_with(&format!("{name}-")).then_some(lease))
        })
        .await
    }

    async fn change(&self, wanted: &str) -> Result<()> {
        self.stage.apply(PROBE, "a", level(wanted)).await
    }

    async fn acted(&self, wanted: &str, limit: Duration) -> Result<()> {
        self.stage.acted("a", wanted, limit).await?;
        Ok(())
    }
}

/// How the standby took over.
struct Takeover {
    /// Seconds between the last renewal by the former leader and the standby's first write of the lease.
    gap: f64,
    /// Seconds that the standby's own requests for the lease took, the slowest of them: a busy machine, and not its doing.
    slowest: f64,
}

impl Takeover {
    /// By the standby's requests as they arrived at its proxy. Whether it was allowed to does not depend on what it wrote.
    fn since(last: &LeaseSpec, standby: &Candidate) -> Result<Self> {
        let renewed = last.renew_time.as_ref().context("no renewal")?.0;
        let mut requests = standby.proxy.seen();
        requests.retain(|seen| seen.request.resource == "leases" && seen.arrived > renewed);
        let first =
            requests.iter().find(|seen| seen.request.verb.is_mutating()).context("it never asked for the lease")?;
        let slowest = requests.iter().map(|seen| seen.took).max().unwrap_or_default();
        Ok(Self { gap: first.arrived.duration_since(renewed).as_secs_f64(), slowest: slowest.as_secs_f64() })
    }

    fn is_right(&self) -> Result<()> {
        let Self { gap, slowest } = *self;
        ensure!(gap >= LEASE.as_secs_f64(), "the lease was still respected: {gap} s");
        let most = (LEASE + SLACK).as_secs_f64() + (2.0 * slowest).min(LARGEST_ALLOWANCE.as_secs_f64());
        ensure!(gap <= most, "the lease was taken {gap} s after its last renewal; requests took up to {slowest} s");
        Ok(())
    }
}

#[tokio::test]
async fn only_the_leader_writes_and_one_that_is_asked_to_stop_hands_over_at_once() -> Result<()> {
    let mut pair = Pair::set("handover").await?;
    assert!(pair.leader.writes() > 0);
    assert_eq!(pair.standby.writes(), 0, "{:#?}", pair.standby.proxy.seen());
    assert!(pair.leader.says_it_leads().await? && !pair.standby.says_it_leads().await?);
    let (ready, _) = pair.standby.operator.get("/readyz").await?;
    assert_eq!(ready, 200, "a standby is ready: a roll-out of the operator must not wait for it to lead");

    let took = terminate(&mut pair.leader.operator, SOON).await?;
    assert!(took < Duration::from_secs(5), "it took {took:?} to end");
    pair.led_by("two", PROMPT).await?;
    pair.change("debug").await?;
    pair.acted("debug", PROMPT).await?;
    assert!(pair.standby.writes() > 0);
    Ok(())
}

#[tokio::test]
async fn a_leader_that_dies_is_succeeded_when_its_lease_is_over_and_not_before() -> Result<()> {
    let _quiet = QUIET.read().await;
    let mut pair = Pair::set("killed").await?;
    pair.leader.operator.process.kill()?;
    let last = pair.lease().await?;
    pair.change("debug").await?;
    pair.led_by("two", LEASE + 5 * SLACK).await?;
    Takeover::since(&last, &pair.standby)?.is_right()?;
    pair.acted("debug", PROMPT).await?;
    pair.stage.ready(PROBE, "a").await?;
    assert!(pair.standby.says_it_leads().await?);
    Ok(())
}

/// Cut off from nothing but the lease, so that every write which it should not make would be carried out.
#[tokio::test]
async fn a_leader_that_cannot_renew_writes_nothing_after_its_deadline_and_may_lead_again_later() -> Result<()> {
    let _quiet = QUIET.read().await;
    let mut pair = Pair::set("cut-off").await?;
    let no_lease = pair.leader.proxy.add(Match::resource("leases"), Which::Every, Fault::Hang);
    let last = pair.lease().await?;
    pair.change("debug").await?;
    pair.acted("debug", PROMPT).await.context("until its deadline it leads")?;

    let renewed = last.renew_time.as_ref().context("no renewal")?.0;
    let age = std::time::SystemTime::now().duration_since(renewed.into())?;
    tokio::time::sleep((DEADLINE + Duration::from_millis(250)).saturating_sub(age)).await;
    let (former, other) = (pair.leader.writes(), pair.standby.writes());
    assert_eq!(other, 0);
    // Nobody leads for ten seconds, and there is always something to do.
    let mut levels = ["warning", "info"].into_iter().cycle();
    eventually("the standby to lead", LEASE.saturating_sub(DEADLINE) + 5 * SLACK, async || {
        let lease = pair.lease().await?;
        if lease.holder_identity.as_deref().is_some_and(|holder| holder.starts_with(pair.standby.name)) {
            return Ok(Some(()));
        }
        let wanted = levels.next().context("no level")?;
        pair.change(wanted).await?;
        Ok(None)
    })
    .await?;
    Takeover::since(&last, &pair.standby)?.is_right()?;
    assert!(!pair.leader.says_it_leads().await?);
    pair.change("error").await?;
    pair.acted("error", PROMPT).await?;
    assert_eq!(pair.leader.writes(), former, "it wrote after its deadline");

    pair.leader.proxy.remove(no_lease);
    terminate(&mut pair.standby.operator, SOON).await?;
    pair.led_by("one", SOON).await.context("it does not rejoin")?;
    pair.change("critical").await?;
    pair.acted("critical", PROMPT).await?;
    ensure!(pair.leader.operator.process.is_running(), "it ended");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_started_again_in_its_pod_leads_at_once() -> Result<()> {
    let stage = Stage::set(FLEET.get().await?, "same-pod", &[PROBE]).await?;
    stage.install_probe(&["same-pod"]).await?;
    let proxy = stage.lab.proxy().await?;
    let env = [("POD_NAME", "one"), ("POD_UID", "0b6b4fa2-7eeb-485a-9d6e-000000000000")];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let mut operator = stage.probe(Run { env, ..through(&proxy) }).await?;
    stage.apply(PROBE, "a", level("info")).await?;
    stage.ready(PROBE, "a").await?;
    operator.process.kill()?;
    operator.process.restart()?;
    let begun = Instant::now();
    stage.apply(PROBE, "a", level("debug")).await?;
    stage.acted("a", "debug", SOON).await?;
    ensure!(begun.elapsed() < LEASE / 2, "it waited for its own lease: {:?}", begun.elapsed());
    Ok(())
}
