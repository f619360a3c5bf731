//! `status.serviceStatus` as the Go tf-operator published it: by node and container whether a server serves. There the kubelet's word on the
//! container said so; here the server's agent does.

use std::collections::BTreeMap;

use tf_agent_api::state::{Phase, State, Status};
use tf_api::{Webui, kinds::WebuiModule};
use tf_plan::{
    images::Chosen,
    observed::{Observed, Pod},
    reports::Reports,
};

use crate::daemons::web;

/// The servers of a pod, by the names of their containers with a capital.
pub type Modules = BTreeMap<String, WebuiModule>;

/// What is known of the servers in these containers of every pod, by nodes.
pub fn service_status(containers: &[Chosen], observed: &Observed<Webui>) -> BTreeMap<String, Modules> {
    let reports = Reports::of_observed(observed);
    let of_pod = |pod: &Pod| {
        let of = |name: &str| (capitalized(name), module(name, serves(reports.of(pod), pod, name)));
        Some((pod.node.clone()?, containers.iter().map(|chosen| of(chosen.name)).collect()))
    };
    reports.pods.iter().filter(|pod| !pod.terminating && pod.address.is_some()).filter_map(of_pod).collect()
}

/// Of a pod whose agent says nothing the kubelet's word is the only one.
fn serves(said: Option<&Status>, pod: &Pod, container: &str) -> bool {
    let Some(status) = said else { return pod.ready };
    let runs = |state: &State| state.phase == Phase::Running && state.unwell.is_none() && state.serves != Some(false);
    // The agent beside the web server speaks for that apart from the others.
    let is_well = container != web::CONTAINER.name || status.health.as_ref().is_some_and(|health| health.serves);
    is_well && status.daemons.get(container).is_some_and(runs)
}

fn module(name: &str, serves: bool) -> WebuiModule {
    let state = if serves { "Functional" } else { "Non-Functional" };
    WebuiModule { module_name: Some(name.to_owned()), state: Some(state.to_owned()) }
}

fn capitalized(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}
