//! The status that a resource would have if it served as it is planned.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use tf_api::{
    CONTRACT,
    contract::{ConditionType, NameReference, PeerStatus, Reason},
};
use tf_plan::plan::Plan;

/// As others see it.
pub fn status(plan: &Plan, generation: i64, now: Timestamp) -> PeerStatus {
    let ready = Condition {
        type_: ConditionType::Ready.as_ref().to_owned(),
        status: "True".into(),
        reason: Reason::Succeeded.as_ref().to_owned(),
        message: "supposed by this preview".into(),
        last_transition_time: Time(now),
        observed_generation: Some(generation),
    };
    let (secret, hash) = plan.connection.clone().unzip();
    PeerStatus {
        contract: Some(CONTRACT.to_owned()),
        observed_generation: Some(generation),
        initialized: true,
        members: plan.members.clone(),
        endpoints: plan.endpoints.clone(),
        connection_secret_ref: secret.map(|name| NameReference { name }),
        connection_hash: hash,
        conditions: vec![ready],
        ..PeerStatus::default()
    }
}
