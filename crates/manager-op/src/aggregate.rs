//! How the components are, all together.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tf_api::{
    CONTRACT, Manager,
    contract::{ConditionStatus, ConditionType, Draft, Reason},
};
use tf_plan::{
    observed::{Observed, Peer},
    text::{shorten, shorten_messages},
};

use crate::{children::Child, own_status, service_status};

/// Conditions and status fields of a Manager.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// Conditions.
    pub drafts: Vec<Draft>,
    /// Fields only Manager has.
    pub own_status: Map<String, Value>,
}

/// State of one component.
struct State<'a> {
    child: &'a Child,
    label: String,
    exists: bool,
    /// Its conditions, or what stands in for them.
    ready: Draft,
    available: ConditionStatus,
    progressing: ConditionStatus,
    degraded: ConditionStatus,
    upgradeable: ConditionStatus,
}

/// Looks at the resource of every entry.
pub fn aggregate(children: &[Child], observed: &Observed<Manager>) -> Aggregate {
    // A profile is a piece of configuration and is never Ready by itself.
    let with_state = children.iter().filter(|child| child.service.kind.kind != "VrouterProfile");
    let states: Vec<State<'_>> = with_state.map(|child| state(child, observed)).collect();
    let mut drafts = by_kind(&states);
    drafts.extend(summary(&states));
    let ready = states.iter().filter(|state| state.ready.is_true()).count();
    let mut fields = own_status(
        states
            .iter()
            .map(|state| {
                let active = state.available == ConditionStatus::True;
                (state.child, service_status(&state.child.name, active, state.exists))
            })
            .collect(),
    );
    fields.insert("membersReady".into(), json!(format!("{ready}/{}", states.len())));
    Aggregate { drafts, own_status: fields }
}

fn state<'a>(child: &'a Child, observed: &Observed<Manager>) -> State<'a> {
    let kind = child.service.kind;
    let label = format!("{} {}", kind.kind, child.name);
    let absent = |status: ConditionStatus, reason: Reason, message: String| State {
        child,
        label: label.clone(),
        exists: false,
        ready: Draft::new(kind.shown_as, status, reason, message),
        available: ConditionStatus::False,
        progressing: ConditionStatus::False,
        degraded: ConditionStatus::False,
        upgradeable: ConditionStatus::True,
    };
    let peers = match observed.peers(kind.kind) {
        Ok(peers) => peers,
        Err(why) if why.reason == Reason::CrdMissing => {
            let message =
                format!("{label}: the definition of kind {} is not installed; install {}", kind.kind, kind.operator);
            return absent(ConditionStatus::False, Reason::CrdMissing, message);
        }
        Err(why) => return absent(ConditionStatus::False, why.reason, format!("{label}: {}", why.message)),
    };
    let namespace = child.object.namespace.as_deref().unwrap_or_default();
    match peers.iter().find(|peer| peer.namespace == namespace && peer.name == child.name) {
        Some(peer) => reported(child, label, peer),
        None => absent(ConditionStatus::Unknown, Reason::NotYetReported, format!("{label} does not exist yet")),
    }
}

fn reported<'a>(child: &'a Child, label: String, peer: &Peer) -> State<'a> {
    let kind = child.service.kind;
    let status = |name: ConditionType| {
        let condition = peer.status.condition(name.as_ref());
        condition.and_then(|condition| condition.status.parse().ok()).unwrap_or(ConditionStatus::Unknown)
    };
    let draft =
        |status: ConditionStatus, reason: Reason, message: String| Draft::new(kind.shown_as, status, reason, message);
    let ready = peer.status.condition(ConditionType::Ready.as_ref());
    let ready = if peer.status.contract.is_none() {
        draft(
            ConditionStatus::Unknown,
            Reason::NotYetReported,
            format!("{label} has no status; is {} installed and running?", kind.operator),
        )
    } else if peer.status.contract.as_deref() != Some(CONTRACT) {
        draft(
            ConditionStatus::Unknown,
            Reason::ContractUnsupported,
            format!("{label} speaks another version of the status contract; upgrade {} or manager-op", kind.operator),
        )
    } else if peer.status.observed_generation != Some(peer.generation) {
        draft(
            ConditionStatus::False,
            Reason::DependencyStale,
            format!("{label}: its operator has not seen its last change"),
        )
    } else {
        match ready {
            Some(ready) => draft(
                ready.status.parse().unwrap_or(ConditionStatus::Unknown),
                ready.reason.parse().unwrap_or(Reason::DependencyNotReady),
                format!("{label}: {}", ready.message),
            ),
            None => draft(ConditionStatus::Unknown, Reason::NotYetReported, format!("{label} has not reported Ready")),
        }
    };
    State {
        child,
        label,
        exists: true,
        ready,
        available: status(ConditionType::Available),
        progressing: status(ConditionType::Progressing),
        degraded: status(ConditionType::Degraded),
        upgradeable: status(ConditionType::Upgradeable),
    }
}

/// One condition per kind; of several resources the worst speaks.
fn by_kind(states: &[State<'_>]) -> Vec<Draft> {
    let mut kinds: BTreeMap<ConditionType, Vec<&Draft>> = BTreeMap::new();
    for state in states {
        kinds.entry(state.ready.kind).or_default().push(&state.ready);
    }
    let merge = |drafts: Vec<&Draft>| {
        let worst = drafts.iter().min_by_key(|draft| draft.status)?;
        let messages: Vec<String> = if worst.is_true() {
            drafts.iter().map(|draft| draft.message.clone()).collect()
        } else {
            drafts.iter().filter(|draft| !draft.is_true()).map(|draft| draft.message.clone()).collect()
        };
        Some(Draft { message: messages.join("; "), ..(*worst).clone() })
    };
    kinds.into_values().filter_map(merge).collect()
}

/// How far the state of a component is from its cause.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Distance {
    /// The component itself has failed, or asks for something.
    Cause,
    /// The component is on its way.
    UnderWay,
    /// The component waits for another one.
    Follower,
}

impl Distance {
    fn of(reason: Reason) -> Self {
        use Reason::{
            DependencyNotReady, DependencyStale, DependencyUnavailable, NotYetReported, Progressing,
            ProvisioningPending, RolloutInProgress,
        };
        match reason {
            DependencyNotReady | DependencyUnavailable => Self::Follower,
            DependencyStale | NotYetReported | Progressing | ProvisioningPending | RolloutInProgress => Self::UnderWay,
            _ => Self::Cause,
        }
    }
}

/// Why a Manager is not Ready: causes first, and of the components that wait for others only the names, unless all do. None where no component is unready.
fn blame<'s, 'a: 's>(unready: impl Iterator<Item = &'s State<'a>>) -> Option<Draft> {
    let mut ranked: Vec<(Distance, &State<'_>)> =
        unready.map(|state| (Distance::of(state.ready.reason), state)).collect();
    ranked.sort_by_key(|(distance, _)| *distance);
    let (nearest, first) = ranked.first()?;
    let split = match nearest {
        Distance::Follower => ranked.len(),
        _ => ranked.partition_point(|(distance, _)| *distance < Distance::Follower),
    };
    let (causes, followers) = ranked.split_at(split);
    let messages: Vec<String> = causes.iter().map(|(_, state)| state.ready.message.clone()).collect();
    let mut message = shorten_messages(&messages);
    if !followers.is_empty() {
        let names: Vec<String> = followers.iter().map(|(_, state)| state.label.clone()).collect();
        message = format!("{message}; waiting for other components: {}", shorten(&names));
    }
    Some(Draft::fails(ConditionType::WorkloadReady, first.ready.reason, message))
}

fn summary(states: &[State<'_>]) -> Vec<Draft> {
    use ConditionType::{Available, Degraded, Progressing, Upgradeable, WorkloadReady};
    let pick = |wanted: &dyn Fn(&State<'_>) -> bool| -> Vec<String> {
        states.iter().filter(|state| wanted(state)).map(|state| state.label.clone()).collect()
    };
    let unready = states.iter().filter(|state| !state.ready.is_true());
    let workload = blame(unready).unwrap_or_else(|| {
        Draft::holds(WorkloadReady, Reason::Succeeded, format!("all {} components are Ready", states.len()))
    });
    let unavailable = pick(&|state| state.available != ConditionStatus::True);
    let progressing = pick(&|state| state.progressing == ConditionStatus::True);
    let degraded = pick(&|state| state.degraded == ConditionStatus::True);
    let locked = pick(&|state| state.upgradeable == ConditionStatus::False);
    vec![
        workload,
        if states.is_empty() {
            Draft::fails(Available, Reason::NotRequested, "no component is listed")
        } else if unavailable.is_empty() {
            Draft::holds(Available, Reason::Succeeded, "all components can be used")
        } else {
            Draft::fails(Available, Reason::ReplicasUnavailable, format!("not usable: {}", shorten(&unavailable)))
        },
        if progressing.is_empty() {
            Draft::fails(Progressing, Reason::Succeeded, "no component is being rolled out")
        } else {
            Draft::holds(Progressing, Reason::Progressing, format!("under way: {}", shorten(&progressing)))
        },
        if degraded.is_empty() {
            Draft::fails(Degraded, Reason::Succeeded, "no component is degraded")
        } else {
            Draft::holds(Degraded, Reason::ReplicasUnavailable, format!("degraded: {}", shorten(&degraded)))
        },
        if locked.is_empty() {
            Draft::holds(Upgradeable, Reason::Succeeded, "no component forbids an upgrade")
        } else {
            Draft::fails(Upgradeable, Reason::UpgradeBlocked, format!("blocked by {}", shorten(&locked)))
        },
    ]
}
