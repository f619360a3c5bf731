//! A store whose procedures are disturbed, with the operator as a process behind a proxy.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Error, Result, bail};
use kube::Client;
use serde_json::Value;
use tf_api::contract::MemberStatus;
use tf_plan::component::Component;
use tf_testing::Lab;
use tf_testing::kubeconfig::Endpoint;
use tf_testing::operators::{Operator, Run};
use tf_testing::proxy::{Match, Proxy};
use tf_testing::request::RequestInfo;
use tf_testing::resources::{self, Resource};
use tf_testing::wait::eventually;

use super::trap::Trap;
use super::{Disturbance, Round, Wish};
use crate::store::{self, NAMESPACE, Store, Turn, members};

/// More writes than any procedure has: an operator that is killed after each of them and never gets anywhere is told.
const NO_END: usize = 500;

/// A store as its procedures are disturbed.
pub trait Subject: Default {
    type Component: Component;
    type Wish: Wish;
    /// Clients that keep account of what was acknowledged.
    type Clients;

    const STORE: Store;
    const NODES: u32 = 3;
    /// Archives of images that wishes name.
    const IMAGES: &'static [&'static str];
    /// For a procedure that is disturbed once.
    const LIMIT: Duration;
    /// How long servers may say something else than the status.
    const SAID: Duration;

    /// Sets up what the round needs beside the operator.
    async fn begin(&mut self, _lab: &Lab, _round: &Round<Self::Wish>) -> Result<()> {
        Ok(())
    }

    /// The spec that says so, whole.
    fn spec(wish: Self::Wish) -> Value {
        wish.spec()
    }

    /// Whether what is not common to all stores is told to be as wished.
    async fn is_told(&self, _wish: Self::Wish, _resource: &Resource) -> Result<bool> {
        Ok(true)
    }

    /// Fails if the servers of these members do not say that the store is as wished.
    async fn ask(&mut self, site: &Site, wish: Self::Wish, members: &[MemberStatus]) -> Result<()>;

    /// Begins to use the store.
    async fn clients(&self, site: &Site) -> Result<Self::Clients>;

    /// Ends that, and fails if something was lost that these servers should have. What the clients did, for people.
    async fn end(clients: Self::Clients, servers: &[IpAddr]) -> Result<String>;

    /// The store was deleted, with its data.
    fn deleted(&mut self) {}
}

/// Where the store is.
pub struct Site {
    pub lab: Turn,
    pub client: Client,
}

/// A store in a round.
pub struct Stage<S: Subject> {
    site: Site,
    proxy: Proxy,
    operator: Arc<Mutex<Operator>>,
    subject: S,
    round: Round<S::Wish>,
    now: S::Wish,
    servers: Vec<IpAddr>,
}

impl<S: Subject> Stage<S> {
    /// A lab with the store as it is before the round; none where its images cannot be made.
    pub async fn set(round: Round<S::Wish>) -> Result<Option<Self>> {
        let Some(lab) = S::STORE.lab(store::options(S::NODES)?, &["replicaCount=0"], S::IMAGES).await? else {
            return Ok(None);
        };
        let proxy = lab.proxy().await?;
        let how = Run {
            endpoint: Some(Endpoint { url: proxy.url(), ca: None }),
            env: vec![("LEADER_ELECTION".into(), "false".into())],
            ..Run::default()
        };
        let operator = lab.operate(S::STORE.operator, NAMESPACE, &how).await?;
        operator.ready().await?;
        let operator = Arc::new(Mutex::new(operator));
        let mut subject = S::default();
        subject.begin(&lab, &round).await?;
        let site = Site { client: lab.client().await?, lab };
        let mut stage = Self { site, proxy, operator, subject, round, now: round.rest(), servers: Vec::new() };
        stage.found(round.rest()).await?;
        Ok(Some(stage))
    }

    /// Has it become like this, undisturbed.
    pub async fn found(&mut self, wish: S::Wish) -> Result<()> {
        self.wish(wish).await?;
        self.fulfilled(wish).await
    }

    async fn wish(&self, wish: S::Wish) -> Result<()> {
        S::STORE.apply(&self.site.client, S::spec(wish)).await
    }

    /// Puts another node in the place of the one that has been there for the longest time.
    async fn replace_node(&self) -> Result<()> {
        let Site { lab, client } = &self.site;
        let lost = lab.real_nodes()?.all()?.into_iter().next().context("a node")?;
        S::STORE.replace_node(lab, client, &lost).await.map(drop)
    }

    /// Waits until the store is told to be as wished, on nodes that there are.
    async fn told(&self, wish: S::Wish) -> Result<Vec<MemberStatus>> {
        let is_told = |resource: &Resource| {
            resource.is_ready_with(wish.common().members)
                && resource.is("CertificatesReady", "True")
                && resource.is("Progressing", "False")
        };
        let mut last = String::new();
        eventually(&wish.to_string(), S::LIMIT, async || {
            let found = resources::get(&self.site.client, S::STORE.kind, NAMESPACE, S::STORE.name).await?;
            let resource = found.context("it is gone")?;
            last = resources::conditions(&resource);
            let nodes = self.site.lab.real_nodes()?.addresses()?;
            let members = members(&resource);
            let is_there = is_told(&resource) && servers(&members)?.iter().all(|server| nodes.contains(server));
            Ok((is_there && self.subject.is_told(wish, &resource).await?).then_some(members))
        })
        .await
        .with_context(|| last.clone())
    }

    /// Waits until the store is as wished, in the words of its servers, too.
    async fn fulfilled(&mut self, wish: S::Wish) -> Result<()> {
        let members = self.told(wish).await?;
        // What is set back at once was said to be so by a server that was told to restart meanwhile.
        let what = format!("{wish}, in the words of the servers");
        let mut last: Option<Error> = None;
        eventually(&what, S::SAID, async || {
            let asked = self.subject.ask(&self.site, wish, &members).await;
            Ok(asked.map_err(|error| last = Some(error)).ok())
        })
        .await
        .with_context(|| format!("{last:?}"))?;
        (self.now, self.servers) = (wish, servers(&members)?);
        Ok(())
    }

    /// Lets it happen after the so-manieth of these writes from now on.
    fn trap(&self, counts: Match, after: u64, disturbance: Disturbance) -> Trap {
        let victim = (disturbance == Disturbance::Killed).then(|| Arc::clone(&self.operator));
        Trap::set(&self.proxy, counts, after, victim)
    }

    /// Begins to carry a wish out.
    async fn begin(&self, wish: S::Wish) -> Result<()> {
        self.wish(wish).await?;
        if wish.common().replaces_node {
            self.replace_node().await?;
        }
        Ok(())
    }

    /// Waits until a write springs the trap, or everything is as wished without it. Which write it was.
    async fn springs(&self, mut trap: Trap, wish: S::Wish) -> Result<Option<RequestInfo>> {
        tokio::select! {
            biased;
            sprung = trap.sprung() => sprung.map(Some),
            told = self.told(wish) => {
                told?;
                // The write after which all was told may have sprung it meanwhile.
                trap.disarm().await
            }
        }
    }

    /// Begins to carry a wish out, and has it disturbed after a write: what was there before is there again, or something else,
    /// or the operator begins anew. Whether there was that write; without it everything is as wished.
    async fn disturbed(&mut self, wish: S::Wish, after: u64, disturbance: Disturbance) -> Result<bool> {
        let former = self.now;
        let trap = self.trap(disturbance.counts(), after, disturbance);
        self.begin(wish).await?;
        let is_sprung = self.springs(trap, wish).await?.is_some();
        if is_sprung {
            match disturbance {
                Disturbance::Killed => self.restart()?,
                Disturbance::Reverted => self.found(former).await?,
                Disturbance::Changed => self.found(self.round.other).await?,
                Disturbance::Deleted => self.delete().await?,
            }
        }
        Ok(is_sprung)
    }

    /// Carries a wish out, with a disturbance after a write. Whether there was that write.
    async fn disturbed_once(&mut self, wish: S::Wish, after: u64, disturbance: Disturbance) -> Result<bool> {
        let is_sprung = self.disturbed(wish, after, disturbance).await?;
        if is_sprung && disturbance != Disturbance::Killed {
            self.wish(wish).await?;
        }
        self.fulfilled(wish).await?;
        Ok(is_sprung)
    }

    /// Carries a wish out by operators of which each is killed after its first write. How many there were.
    async fn killed_throughout(&mut self, wish: S::Wish) -> Result<usize> {
        let mut trap = self.trap(Match::writes(), 1, Disturbance::Killed);
        self.begin(wish).await?;
        for killed in 0..NO_END {
            let Some(last) = self.springs(trap, wish).await? else {
                self.fulfilled(wish).await?;
                return Ok(killed);
            };
            let counts = if last.is_told() { Match::deeds() } else { Match::writes() };
            trap = self.trap(counts, 1, Disturbance::Killed);
            self.restart()?;
        }
        bail!("no end after {NO_END} writes")
    }

    /// Carries a wish out for somebody who changes his mind after every write, and again after the next one. How often he did.
    ///
    /// Two writes forth and one back; a write more every ten times, so that it comes to an end whatever it costs to go back.
    async fn wavering(&mut self, wish: S::Wish, between: S::Wish, disturbance: Disturbance) -> Result<usize> {
        let counts = || disturbance.counts();
        let mut trap = self.trap(counts(), 1, disturbance);
        self.begin(wish).await?;
        for times in 0..NO_END {
            if self.springs(trap, wish).await?.is_none() {
                self.fulfilled(wish).await?;
                return Ok(times);
            }
            let back = self.trap(counts(), 1, disturbance);
            self.wish(between).await?;
            self.springs(back, between).await?;
            trap = self.trap(counts(), 2 + times as u64 / 10, disturbance);
            self.wish(wish).await?;
        }
        bail!("no end after {NO_END} times")
    }

    fn restart(&self) -> Result<()> {
        self.operator.lock().unwrap().process.restart()
    }

    /// Deletes the resource, waits until nothing of it is left, and empties the directories of its members.
    async fn delete(&mut self) -> Result<()> {
        let Site { lab, client } = &self.site;
        let directory = S::STORE.directory(client).await?;
        S::STORE.deleted::<S::Component>(client).await?;
        if let Some(directory) = directory {
            for node in lab.real_nodes()?.all()? {
                node.run("rm", &["-rf", &directory]).await?;
            }
        }
        self.subject.deleted();
        Ok(())
    }

    /// The operator's last lines.
    fn log(&self) -> String {
        let operator = self.operator.lock().unwrap();
        let state = if operator.process.is_running() { "runs" } else { "does not run" };
        format!("the operator {state}; its log ends with\n{}", operator.process.tail(20))
    }

    /// Carries a wish out with something that disturbs it after this write, under clients. Whether there was that write.
    pub async fn carry_out(&mut self, wish: S::Wish, after: u64, disturbance: Disturbance) -> Result<bool> {
        let what = format!("{disturbance:?} after write {after} on the way to {wish}");
        let act = async |stage: &mut Self| stage.disturbed_once(wish, after, disturbance).await;
        let is_disturbed = self.under_clients(&what, disturbance, act).await?;
        println!("{what}: {}", if is_disturbed { "as wished" } else { "there is no such write" });
        Ok(is_disturbed)
    }

    /// Carries a wish out with something that disturbs it after every one of its writes, under clients. How many those were.
    ///
    /// Operators of which each is killed after its first write do it together; what is set back or changed is so in the course of
    /// it ([`Self::wavering`]).
    pub async fn carry_out_throughout(&mut self, wish: S::Wish, disturbance: Disturbance) -> Result<usize> {
        let what = format!("{disturbance:?} after every write on the way to {wish}");
        let (former, other) = (self.now, self.round.other);
        let act = async |stage: &mut Self| match disturbance {
            Disturbance::Killed => stage.killed_throughout(wish).await,
            Disturbance::Reverted => stage.wavering(wish, former, disturbance).await,
            Disturbance::Changed => stage.wavering(wish, other, disturbance).await,
            Disturbance::Deleted => stage.deleted_throughout(wish, former).await,
        };
        let times = self.under_clients(&what, disturbance, act).await?;
        println!("{what}: as wished after {times}");
        Ok(times)
    }

    /// Has the resource deleted after the first write on the way to a wish, then, having become what it was before, after the second
    /// one, and so on, until a write more than the procedure has is waited for. How many there were.
    async fn deleted_throughout(&mut self, wish: S::Wish, former: S::Wish) -> Result<usize> {
        let mut after = 1;
        while self.disturbed(wish, after, Disturbance::Deleted).await? {
            self.found(former).await?;
            println!("deleted after write {after} on the way to {wish}: as before");
            after += 1;
        }
        self.fulfilled(wish).await?;
        Ok(after as usize - 1)
    }

    /// Does something while clients use the store, who miss nothing afterwards.
    async fn under_clients<T>(
        &mut self,
        what: &str,
        disturbance: Disturbance,
        act: impl AsyncFnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let what = || what.to_owned();
        let clients = self.subject.clients(&self.site).await.with_context(what)?;
        // What they wrote goes with the store.
        let clients = (disturbance != Disturbance::Deleted).then_some(clients);
        let done = act(self).await.with_context(|| self.log()).with_context(what)?;
        if let Some(clients) = clients {
            println!("{}", S::end(clients, &self.servers).await.with_context(what)?);
        }
        Ok(done)
    }
}

/// Addresses of members.
pub fn servers(members: &[MemberStatus]) -> Result<Vec<IpAddr>> {
    members.iter().map(|member| Ok(member.address.parse()?)).collect()
}
