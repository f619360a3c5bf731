//! What each daemon of a resource does, for its status: what `contrail-status` shows of one node, of all of them and in bounded size.

use std::collections::{BTreeMap, BTreeSet};

use tf_agent_api::state::{State, Status};
use tf_api::contract::{ConnectionStatus, DaemonStatus, DaemonTrouble};

use crate::{
    images,
    observed::{Agent, Pod},
    reports::Reports,
};

/// Versions, connections and troubles that are listed of a daemon.
const VERSIONS: usize = 4;
const CONNECTIONS: usize = 16;
const TROUBLES: usize = 10;
/// Characters of a trouble.
const LONGEST: usize = 200;

/// How the daemons of these pods are, by their names. `main`: the daemon whose agent speaks for a pod; `wanted`: the number of pods, where another
/// one is wanted than there are.
pub fn statuses(main: &str, wanted: Option<i32>, reports: &Reports<'_>) -> Vec<DaemonStatus> {
    let mut places: BTreeMap<&str, Vec<Place<'_>>> = BTreeMap::new();
    for pod in reports.pods {
        for (daemon, image) in &pod.images {
            places.entry(daemon).or_default().push(Place::of(pod, daemon, image, daemon == main, reports));
        }
    }
    places.into_iter().map(|(daemon, places)| summary(daemon, &places, wanted)).collect()
}

/// A daemon in one pod.
struct Place<'a> {
    version: &'a str,
    /// Whether it waits to take over, where it serves; else where it does not, and why.
    serves: Result<bool, DaemonTrouble>,
    connections: Option<&'a BTreeMap<String, bool>>,
}

impl<'a> Place<'a> {
    fn of(pod: &'a Pod, daemon: &str, image: &'a str, is_main: bool, reports: &Reports<'a>) -> Self {
        let status = reports.of(pod);
        let state = status.and_then(|status| status.daemons.get(daemon));
        let serves = match (reports.agents.get(&pod.uid), status) {
            (Some(Agent::Silent(why)), _) => Err(format!("its agent does not answer: {why}")),
            (_, Some(status)) if is_main => speaker(status),
            (_, Some(_)) => companion(state),
            // Nobody can be asked: another operator made it, or it has not begun.
            (_, None) if pod.ready => Ok(false),
            (_, None) => Err(pod.trouble.clone().unwrap_or_else(|| "it has not begun".to_owned())),
        };
        let node = pod.node.as_ref().unwrap_or(&pod.name);
        let trouble = |why: String| DaemonTrouble { node: node.clone(), message: why.chars().take(LONGEST).collect() };
        let connections = state.map(|state| &state.connections);
        Self { version: images::tag(image), serves: serves.map_err(trouble), connections }
    }
}

/// The daemon whose agent answers. In: its pod's status. Out: whether it waits to take over, or why it does not serve.
fn speaker(status: &Status) -> Result<bool, String> {
    match &status.health {
        Some(health) if health.serves => Ok(health.standby),
        Some(health) => Err(health.message.clone()),
        None => Err("its agent has not looked at it yet".to_owned()),
    }
}

/// The same of a daemon beside it.
fn companion(state: Option<&State>) -> Result<bool, String> {
    let Some(state) = state else { return Err("its container does not run".to_owned()) };
    match (state.amiss(), state.serves) {
        (Some(what), _) => Err(format!("it {what}")),
        (None, Some(false)) => Err("it does not serve yet".to_owned()),
        (None, _) => Ok(state.standby),
    }
}

fn summary(daemon: &str, places: &[Place<'_>], wanted: Option<i32>) -> DaemonStatus {
    let count = |is: fn(&bool) -> bool| places.iter().filter(|it| it.serves.as_ref().is_ok_and(is)).count() as i32;
    let standby = count(|standby| *standby);
    let versions: BTreeSet<&str> = places.iter().map(|place| place.version).collect();
    let mut troubles: Vec<DaemonTrouble> = places.iter().filter_map(|it| it.serves.as_ref().err().cloned()).collect();
    troubles.sort_unstable();
    troubles.truncate(TROUBLES);
    DaemonStatus {
        name: daemon.to_owned(),
        wanted: wanted.unwrap_or(places.len() as i32),
        serving: count(|_| true),
        standby: (standby > 0).then_some(standby),
        unelected_since: None,
        versions: versions.into_iter().take(VERSIONS).map(str::to_owned).collect(),
        connections: connections(places),
        troubles,
    }
}

fn connections(places: &[Place<'_>]) -> Vec<ConnectionStatus> {
    let mut all: BTreeMap<&str, ConnectionStatus> = BTreeMap::new();
    for (name, is_up) in places.iter().filter_map(|place| place.connections).flatten() {
        let one = all.entry(name).or_insert_with(|| ConnectionStatus { name: name.clone(), ..Default::default() });
        *(if *is_up { &mut one.up } else { &mut one.down }) += 1;
    }
    let mut all: Vec<ConnectionStatus> = all.into_values().collect();
    all.sort_by_key(|connection| connection.down == 0);
    all.truncate(CONNECTIONS);
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

#[cfg(test)]
mod tests {
    use tf_agent_api::state::{Health, Phase};

    use super::*;

    fn pod(index: usize, images: &[(&str, &str)]) -> Pod {
        Pod {
            name: format!("set-{index}"),
            uid: format!("uid-{index}"),
            node: Some(format!("node{index:03}")),
            images: images.iter().map(|(name, image)| ((*name).to_owned(), (*image).to_owned())).collect(),
            ..Pod::default()
        }
    }

    fn running(connections: &[(&str, bool)]) -> State {
        let connections = connections.iter().map(|(name, up)| ((*name).to_owned(), *up)).collect();
        State { phase: Phase::Running, connections, ..State::default() }
    }

    fn says(health: Health, daemons: Vec<(&str, State)>) -> Agent {
        let daemons = daemons.into_iter().map(|(name, state)| (name.to_owned(), state)).collect();
        Agent::Says(Box::new(Status { health: Some(health), daemons, ..Status::default() }))
    }

    fn of(pods: &[Pod], agents: Vec<(usize, Agent)>, wanted: Option<i32>) -> Vec<DaemonStatus> {
        let agents = agents.into_iter().map(|(index, agent)| (format!("uid-{index}"), agent)).collect();
        statuses("api", wanted, &Reports { pods, agents: &agents })
    }

    fn trouble(node: &str, message: &str) -> DaemonTrouble {
        DaemonTrouble { node: node.into(), message: message.into() }
    }

    #[test]
    fn a_daemon_is_told_with_who_waits_what_it_is_connected_to_and_where_it_does_not_serve() {
        let images = [("api", "registry:5000/api:R2"), ("schema", "schema:R1")];
        let pods: Vec<Pod> = (0..3).map(|index| pod(index, &images)).collect();
        let bus = "Database:RabbitMQ";
        let waits = State { standby: true, ..running(&[]) };
        let hangs = State { unwell: Some("no answer".into()), ..running(&[(bus, false)]) };
        let well = Health::new(true, "");
        let agents = vec![
            (0, says(well.clone(), vec![("api", running(&[(bus, true)])), ("schema", running(&[(bus, true)]))])),
            (1, says(well, vec![("api", running(&[(bus, false)])), ("schema", waits)])),
            (2, says(Health::new(false, "status 503"), vec![("schema", hangs)])),
        ];
        let [api, schema] = of(&pods, agents, Some(3)).try_into().expect("two daemons");
        assert_eq!((api.name.as_str(), api.serving, api.wanted, api.standby), ("api", 2, 3, None));
        assert_eq!(api.versions, ["R2"]);
        assert_eq!(api.connections, [ConnectionStatus { name: bus.into(), up: 1, down: 1 }]);
        assert_eq!(api.troubles, [trouble("node002", "status 503")]);
        assert_eq!((schema.serving, schema.standby, schema.is_well()), (2, Some(1), false));
        assert_eq!(schema.troubles, [trouble("node002", "it does not serve: no answer")]);
    }

    #[test]
    fn what_nobody_can_be_asked_about_is_told_by_the_kubelets_word() {
        let image = [("api", "api")];
        let pods = [
            Pod { ready: true, ..pod(0, &image) },
            Pod { trouble: Some("not scheduled: no room".into()), node: None, ..pod(1, &image) },
            pod(2, &image),
        ];
        let [api] = of(&pods, vec![(2, Agent::Silent("no route".into()))], Some(4)).try_into().expect("one daemon");
        assert_eq!((api.serving, api.wanted), (1, 4));
        let expected =
            [trouble("node002", "its agent does not answer: no route"), trouble("set-1", "not scheduled: no room")];
        assert_eq!(api.troubles, expected);
        assert!(of(&[], Vec::new(), Some(3)).is_empty(), "it hibernates");
    }

    #[test]
    fn a_daemon_beside_it_serves_when_its_process_was_seen_to() {
        let trouble_of = |state: State| {
            let agents = vec![(0, says(Health::new(true, ""), vec![("schema", state)]))];
            let [schema] = of(&[pod(0, &[("schema", "a:1")])], agents, None).try_into().expect("one daemon");
            schema.troubles.first().map(|trouble| trouble.message.clone())
        };
        assert_eq!(trouble_of(running(&[])), None);
        assert_eq!(trouble_of(State { serves: Some(true), ..running(&[]) }), None);
        assert_eq!(trouble_of(State { serves: Some(false), ..running(&[]) }).as_deref(), Some("it does not serve yet"));
        let back_off = State { phase: Phase::BackOff, message: Some("exit code 1".into()), ..State::default() };
        assert_eq!(
            trouble_of(back_off).as_deref(),
            Some("it does not run: ended by itself and waits for its next start: exit code 1")
        );
    }

    #[test]
    fn no_list_grows_with_the_cluster() {
        let pods: Vec<Pod> = (0..500).map(|index| pod(index, &[("api", &format!("api:{index}"))])).collect();
        let connections: Vec<(String, bool)> = (0..32).map(|index| (format!("XMPP:{index:02}"), index != 31)).collect();
        let connections: Vec<(&str, bool)> = connections.iter().map(|(name, up)| (name.as_str(), *up)).collect();
        let agent = || says(Health::new(false, "a ".repeat(500)), vec![("api", running(&connections))]);
        let [api] = of(&pods, (0..500).map(|index| (index, agent())).collect(), None).try_into().expect("one daemon");
        assert_eq!((api.wanted, api.serving), (500, 0));
        assert_eq!((api.versions.len(), api.connections.len(), api.troubles.len()), (VERSIONS, CONNECTIONS, TROUBLES));
        assert!(
            api.connections.iter().any(|it| (it.name.as_str(), it.down) == ("XMPP:31", 500)),
            "what is down is told first"
        );
        assert!(serde_json::to_string(&api).expect("JSON").len() < 4096);
    }
}
