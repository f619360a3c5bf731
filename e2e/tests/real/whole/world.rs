//! Everything at work, to be changed under a client of the config API.

use tf_api::kinds::{ANALYTICS as ANALYTICS_KIND, KindInfo};

use super::traffic::Traffic;
use super::turns::Turns;
use super::*;
use crate::store::{followed, running};

/// For everything to be changed, one member after the other.
const CHANGED: Duration = Duration::from_mins(15);
/// How long everything has to be well before a change counts as done.
const CALM: Duration = Duration::from_secs(5);
/// Between two looks at everything, which take from those that are looked at.
const LOOK: Duration = Duration::from_secs(2);

/// Where everything has come up.
pub struct World<'a> {
    pub lab: &'a Lab,
    pub client: &'a Client,
    pub addresses: Vec<IpAddr>,
    /// Daemons of analytics on each node.
    analytics: usize,
}

impl<'a> World<'a> {
    /// Once everything is functional.
    pub async fn of(lab: &'a Lab, client: &'a Client) -> Result<Self> {
        let found = resources::all(client, NAMESPACE).await?;
        let analytics = if found.iter().any(|it| it.kind == ANALYTICS_KIND) { ANALYTICS.len() } else { 0 };
        let world = Self { lab, client, addresses: lab.real_nodes()?.addresses()?, analytics };
        world.is_functional().await?;
        Ok(world)
    }

    pub async fn is_functional(&self) -> Result<()> {
        functional_with(&Visitor::of(self.client, NAMESPACE).await?, &self.addresses, self.analytics).await
    }

    /// Makes a change under a client of the API, and waits until all pods of the kinds that follow it have done so and everything is well. Members of
    /// each workload take turns, and nothing secret is told afterwards.
    pub async fn goes_through(
        &self,
        what: &str,
        change: impl Future<Output = Result<()>>,
        followers: &[KindInfo],
    ) -> Result<()> {
        let begun = Instant::now();
        let traffic = Traffic::begin(self.client, &self.addresses, what);
        let turns = Turns::begin(self.lab, self.client).await?;
        let made = self.make(change, followers).await;
        println!("{what}: {:.0?}", begun.elapsed());
        let (told, taken) = (traffic.end(what).await, turns.end().await);
        made.with_context(|| format!("{what}: {told:?}; {taken:?}"))?;
        told?;
        taken.with_context(|| what.to_owned())?;
        self.is_functional().await?;
        secret::nothing_is_told(self.lab, self.client).await.with_context(|| what.to_owned())
    }

    async fn make(&self, change: impl Future<Output = Result<()>>, followers: &[KindInfo]) -> Result<()> {
        let mut before = Vec::new();
        for kind in followers {
            before.push((*kind, running(self.client, *kind).await?));
        }
        change.await?;
        for (kind, before) in &before {
            followed(self.client, *kind, before, CHANGED).await?;
        }
        calm(self.client).await
    }
}

/// Waits until everything is well and stays so for a while.
pub async fn calm(client: &Client) -> Result<()> {
    let mut since: Option<Instant> = None;
    eventually("everything to be well", CHANGED, async || {
        tokio::time::sleep(LOOK).await;
        let found = resources::all(client, NAMESPACE).await?;
        let is_calm = |it: &Resource| it.is_ready() && !it.is("Progressing", "True");
        since = found.iter().all(is_calm).then(|| since.unwrap_or_else(Instant::now));
        Ok(since.filter(|since| since.elapsed() > CALM).map(drop))
    })
    .await
}
