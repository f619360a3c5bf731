//! A store whose procedures are disturbed, with the operator as a process behind a proxy.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Error, Result};
use kube::Client;
use serde_json::Value;
use tf_api::contract::MemberStatus;
use tf_plan::component::Component;
use tf_testing::Lab;
use tf_testing::kubeconfig::Endpoint;
use tf_testing::operators::{Operator, Run};
use tf_testing::proxy::{Point, Proxy};
use tf_testing::resources::{self, Resource};
use tf_testing::wait::eventually;
use tokio::sync::oneshot;

use super::{Disturbance, Round, Wish};
use crate::store::{NAMESPACE, Store, Turn, members};

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
    async fn end(clients: Self::Clients, servers: &[Ipv4Addr]) -> Result<String>;

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
    servers: Vec<Ipv4Addr>,
}

impl<S: Subject> Stage<S> {
    /// A lab with the store as it is before the round; none where its images cannot be made.
    pub async fn set(round: Round<S::Wish>) -> Result<Option<Self>> {
        let Some(lab) = S::STORE.lab(S::NODES, &["replicaCount=0"], S::IMAGES).await? else { return Ok(None) };
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

    /// Carries a wish out, with a disturbance after a write. Whether there was that write.
    async fn disturbed(&mut self, wish: S::Wish, after: u64, disturbance: Disturbance) -> Result<bool> {
        let former = self.now;
        let armed = Arc::new(AtomicBool::new(true));
        let (send, sprung) = oneshot::channel();
        let (is_armed, operator) = (Arc::clone(&armed), Arc::clone(&self.operator));
        self.proxy.after_nth(disturbance.counts(), after, Point::BeforeDelivery, move |_| async move {
            if is_armed.load(Ordering::SeqCst) {
                if disturbance == Disturbance::Killed {
                    let _ = operator.lock().unwrap().process.kill();
                }
                let _ = send.send(());
            }
        });
        self.wish(wish).await?;
        if wish.common().replaces_node {
            self.replace_node().await?;
        }
        let is_sprung = tokio::select! {
            biased;
            sprung = sprung => sprung.is_ok(),
            done = self.told(wish) => done.map(|_| false)?,
        };
        armed.store(false, Ordering::SeqCst);
        if is_sprung {
            match disturbance {
                Disturbance::Killed => self.operator.lock().unwrap().process.restart()?,
                Disturbance::Reverted => self.found(former).await?,
                Disturbance::Changed => self.found(self.round.other).await?,
                Disturbance::Deleted => self.delete().await?,
            }
            if disturbance != Disturbance::Killed {
                self.wish(wish).await?;
            }
        }
        self.fulfilled(wish).await?;
        Ok(is_sprung)
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

    /// Carries out one wish after the other, each with the same disturbance. How many of these procedures were disturbed.
    pub async fn carry_out(&mut self, wishes: &[S::Wish], after: u64, disturbance: Disturbance) -> Result<usize> {
        let mut disturbed = 0;
        for wish in wishes {
            let what = || format!("{disturbance:?} after write {after} on the way to {wish}");
            let clients = self.subject.clients(&self.site).await.with_context(what)?;
            // What they wrote goes with the store.
            let clients = (disturbance != Disturbance::Deleted).then_some(clients);
            let outcome = self.disturbed(*wish, after, disturbance).await;
            let is_disturbed = outcome.with_context(|| self.log()).with_context(what)?;
            println!("{}: {}", what(), if is_disturbed { "as wished" } else { "there is no such write" });
            disturbed += usize::from(is_disturbed);
            if let Some(clients) = clients {
                println!("{}", S::end(clients, &self.servers).await.with_context(what)?);
            }
        }
        Ok(disturbed)
    }
}

/// Addresses of members.
pub fn servers(members: &[MemberStatus]) -> Result<Vec<Ipv4Addr>> {
    members.iter().map(|member| Ok(member.address.parse()?)).collect()
}
