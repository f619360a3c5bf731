//! A watch that looks all the time whether members take turns, by the daemon that speaks for the service: the one whose container serves the agent API.
//! A member is away from when its pod goes or a process of that daemon ends until its agent reports that the daemon serves. While one is, no other one of its
//! workload that serves may be stopped, whatever the kubelet reports of its pod; nor while one has not been Ready for so long that its operator has to know. A
//! member that lost what it lives on is not Ready, was stopped by no operator, and may be; so is one whose daemon ends by itself, which its pod was not told to:
//! one that begins to work with a password that is another one since, say. The config API is asked itself, too: it is back when none of its workers answers 503.

use tf_agent_api::node::{AGENT_PORT, READY_PATH};
use tf_api::names::{ANNOTATION_ACTIVE_CERTIFICATE, ANNOTATION_ACTIVE_CONFIG, LABEL_TYPE};
use tf_testing::identity::Identity;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::daemons::Daemons;
use super::*;

/// Container of the config API.
const API: &str = "api";
/// Between two looks.
const PERIOD: Duration = Duration::from_millis(500);

/// Members by their workload and their node, which stays the same whatever their pods are called.
type Place = (String, String);

/// The one who looks.
pub struct Turns {
    end: watch::Sender<bool>,
    /// Ends with who was stopped while who was away.
    task: JoinHandle<Result<Vec<String>>>,
}

impl Turns {
    /// Begins, where everything is at work, and has seen it when it returns.
    pub async fn begin(lab: &Lab, client: &Client) -> Result<Self> {
        let mut watch = Watch { nodes: lab.real_nodes()?.all()?, client: client.clone(), members: BTreeMap::new() };
        watch.look().await?;
        let (end, ended) = watch::channel(false);
        Ok(Self { end, task: tokio::spawn(watch.go_on(ended)) })
    }

    /// Ends. Members must have taken turns.
    ///
    /// # Errors
    /// With who was stopped while who was away; or when it could not look.
    pub async fn end(self) -> Result<()> {
        self.end.send_replace(true);
        let together = self.task.await??;
        ensure!(together.is_empty(), "members did not take turns:\n{}", together.join("\n"));
        Ok(())
    }
}

/// What operators tell pods to run with: files, and certificates.
type AgentReport = [Option<String>; 2];

/// A member, as it was seen at work last.
#[derive(Default)]
struct Member {
    uid: Option<String>,
    processes: Vec<Identity>,
    /// What its pod was told last to run with.
    told: AgentReport,
    /// When it was seen to have been stopped, if it is not back.
    stopped: Option<Instant>,
    /// Since when its pod was not Ready.
    unready: Option<Instant>,
    /// Whether the daemon that speaks for it does not serve either, as its agent reports.
    is_mute: bool,
}

impl Member {
    fn has_ended(&self) -> bool {
        !self.processes.iter().all(Identity::is_alive)
    }

    /// Whether its daemons ended in the pod that it had, which was told nothing since.
    fn has_ended_by_itself(&self, pod: &Pod) -> bool {
        pod.uid() == self.uid && !is_going(pod) && told(pod) == self.told && self.has_ended()
    }

    /// Why no other one may be stopped.
    fn is_away(&self) -> Option<String> {
        let stopped = self.stopped.map(|since| format!("stopped {:.1?} before", since.elapsed()));
        let unready = self.unready.filter(|since| since.elapsed() > HONEST_WITHIN);
        stopped.or(unready.map(|since| format!("not Ready for {:.1?}", since.elapsed())))
    }
}

struct Watch {
    nodes: Vec<RealNode>,
    client: Client,
    members: BTreeMap<Place, Member>,
}

impl Watch {
    async fn go_on(mut self, ended: watch::Receiver<bool>) -> Result<Vec<String>> {
        let (begun, mut together) = (Instant::now(), Vec::new());
        while !*ended.borrow() {
            for found in self.look().await? {
                println!("members did not take turns: {found}");
                together.push(format!("after {:.1?}: {found}", begun.elapsed()));
            }
            tokio::time::sleep(PERIOD).await;
        }
        Ok(together)
    }

    /// Who was stopped while who was away.
    async fn look(&mut self) -> Result<Vec<String>> {
        let begun = Instant::now();
        // Before it is seen who is back: of whom somebody waited for, the end comes after that.
        let is_at_work = |member: &Member| member.stopped.is_none() && !member.is_mute;
        let at_work: Vec<Place> = self.members.iter().filter(|it| is_at_work(it.1)).map(|it| it.0.clone()).collect();
        let ended: Vec<Place> = self.members.iter().filter(|it| it.1.has_ended()).map(|it| it.0.clone()).collect();
        let pods = self.pods().await?;
        self.greet(&pods).await?;
        let mut together = Vec::new();
        let places: Vec<Place> = self.members.keys().cloned().collect();
        for place in places {
            let Some(member) = self.members.get(&place) else { continue };
            let is_same = pods.get(&place).is_some_and(|pod| pod.uid() == member.uid && !is_going(pod));
            let is_its_own = pods.get(&place).is_some_and(|pod| member.has_ended_by_itself(pod));
            // One that is back has other processes than those that had ended.
            let is_stopped = !is_same || (ended.contains(&place) && member.has_ended() && !is_its_own);
            if member.stopped.is_none() && is_stopped {
                if at_work.contains(&place) {
                    together.extend(self.others_away(&place, &pods, begun).await);
                }
                if let Some(member) = self.members.get_mut(&place) {
                    member.stopped = Some(Instant::now());
                }
            }
        }
        Ok(together)
    }

    /// Why this one should not have been stopped.
    async fn others_away(&self, place: &Place, pods: &BTreeMap<Place, Pod>, begun: Instant) -> Option<String> {
        let (workload, node) = place;
        // It may have been the first one to be stopped.
        if self.is_at_work(place, pods).await {
            return None;
        }
        let mut away = Vec::new();
        for (other, member) in self.members.iter().filter(|((of, on), _)| of == workload && on != node) {
            let Some(why) = member.is_away() else { continue };
            let is_news = member.stopped.is_some_and(|since| since >= begun);
            let is_back = is_another(member, pods.get(other)) || is_news && self.is_at_work(other, pods).await;
            if !is_back {
                away.push(format!("{} ({why})", other.1));
            }
        }
        (!away.is_empty())
            .then(|| format!("{workload} on {node} was stopped while these were away: {}", away.join(", ")))
    }

    /// Whether a member of which a look finds that it was stopped is back already: on a busy machine that takes no longer than from look to look.
    async fn is_at_work(&self, place: &Place, pods: &BTreeMap<Place, Pod>) -> bool {
        match pods.get(place) {
            Some(pod) => self.is_back(place, pod).await,
            None => false,
        }
    }

    /// Notes who is new or back, and who is Ready.
    async fn greet(&mut self, pods: &BTreeMap<Place, Pod>) -> Result<()> {
        for (place, pod) in pods {
            let is_away = |member: &Member| member.stopped.is_some() || member.has_ended_by_itself(pod);
            let is_away = self.members.get(place).is_none_or(is_away);
            if is_away && self.is_back(place, pod).await {
                let processes = Daemons::on(&self.nodes)?;
                let mut processes = processes.of_pod(&pod.name_any());
                let speaker = speaker(pod).map(|(name, _)| name).unwrap_or_default();
                if let Some(processes) = processes.remove(speaker) {
                    let processes = processes.to_vec();
                    self.members.insert(
                        place.clone(),
                        Member { uid: pod.uid(), processes, told: told(pod), ..Member::default() },
                    );
                }
            }
            let is_ready = resources::is_pod_ready(pod);
            let is_mute = !is_ready && !self.serves(place, pod).await;
            if let Some(member) = self.members.get_mut(place) {
                member.unready = (!is_ready).then(|| member.unready.unwrap_or_else(Instant::now));
                member.is_mute = is_mute;
            }
        }
        Ok(())
    }

    /// Whether its agent reports that the daemon which speaks for it serves, and no worker of an API refuses requests, to any of which clients come.
    async fn is_back(&self, place: &Place, pod: &Pod) -> bool {
        let is_api = speaker(pod).is_some_and(|(speaker, _)| speaker == API);
        self.serves(place, pod).await && !(is_api && self.has_worker_that_is_not_ready(place).await)
    }

    /// Whether its agent reports that the daemon which speaks for it serves. That is what operators go by; the kubelet asks it, too, and rarely.
    async fn serves(&self, (_, node): &Place, pod: &Pod) -> bool {
        if is_going(pod) {
            return false;
        }
        let node = self.nodes.iter().find(|it| it.name() == node);
        let Some((node, (speaker, port))) = node.zip(speaker(pod)) else { return false };
        let path = format!("{READY_PATH}{speaker}");
        let ask = format!(r"exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET {path} HTTP/1.0\r\n\r\n' >&3; head -1 <&3");
        let answer = node.run("timeout", &["5", "bash", "-c", &ask]).await.unwrap_or_default();
        answer.contains(" 200 ")
    }

    /// Whether a worker of the API on a node cannot take requests yet, whatever its agent reports.
    async fn has_worker_that_is_not_ready(&self, (_, node): &Place) -> bool {
        let node = self.nodes.iter().find(|it| it.name() == node);
        match (node, Visitor::of(&self.client, NAMESPACE).await) {
            (Some(node), Ok(visitor)) => visitor.has_worker_that_is_not_ready(node.address()).await,
            _ => false,
        }
    }

    /// Pods of ours that have a node.
    async fn pods(&self) -> Result<BTreeMap<Place, Pod>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut found = BTreeMap::new();
        for pod in pods.list(&ListParams::default().labels(LABEL_TYPE)).await? {
            let (name, node) = (pod.name_any(), pod.spec.as_ref().and_then(|spec| spec.node_name.clone()));
            let (Some((workload, _)), Some(node)) = (name.rsplit_once('-'), node) else { continue };
            let place = (workload.to_owned(), node);
            // Of a DaemonSet the former pod may be there still.
            if !is_going(&pod) || !found.contains_key(&place) {
                found.insert(place, pod);
            }
        }
        Ok(found)
    }
}

/// Whether a member has another pod that is Ready: then it has been at work, whatever its agent says at this moment.
fn is_another(member: &Member, pod: Option<&Pod>) -> bool {
    pod.is_some_and(|pod| pod.uid() != member.uid && !is_going(pod) && resources::is_pod_ready(pod))
}

/// The container whose daemon speaks for a pod, and the port of the agent there.
fn speaker(pod: &Pod) -> Option<(&str, i32)> {
    pod.spec.iter().flat_map(|spec| &spec.containers).find_map(|container| {
        let port = container.ports.iter().flatten().find(|port| port.name.as_deref() == Some(AGENT_PORT))?;
        Some((container.name.as_str(), port.container_port))
    })
}

fn is_going(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

fn told(pod: &Pod) -> AgentReport {
    [ANNOTATION_ACTIVE_CONFIG, ANNOTATION_ACTIVE_CERTIFICATE].map(|name| pod.annotations().get(name).cloned())
}
