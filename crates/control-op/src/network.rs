//! Which addresses the daemons of members use: those of their nodes, or others in the data network (`dataSubnet`), which only the nodes
//! know and their agents tell (ADR 0061).
//!
//! What a member uses is recorded in the status, and its files, endpoints, registration and certificate go by that. So it keeps its address
//! while nobody tells it, or something else is told. Members that have none yet learn theirs at once; those that serve with another one go over one
//! after the other. Pure.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;
use serde_json::json;
use tf_api::{
    Control, ControlConfiguration,
    contract::{ConditionType, MemberStatus, Reason},
};
use tf_plan::{
    member_set::MemberSet,
    not_ready::NotReady,
    observed::Observed,
    plan::Plan,
    reports::{AgentCoverage, Reports, pod_of},
    status,
};

/// Field of the status with the record.
const FIELD: &str = "dataAddresses";

/// Addresses of members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    subnet: Option<IpNet>,
    /// What daemons use, by nodes. Members that are missing have not told theirs.
    used: BTreeMap<String, String>,
    /// What they are to use instead.
    targets: BTreeMap<String, String>,
    /// Why there is no address for a member, by nodes.
    problems: BTreeMap<String, String>,
}

impl Network {
    /// The addresses of a resource's members.
    ///
    /// # Errors
    /// `InvalidSpec` when `dataSubnet` is none.
    pub fn of(cr: &Control, member_set: &MemberSet<'_, Control>) -> Result<Self, NotReady> {
        let reports = Reports::of_observed(member_set.observed);
        let members = member_set.members();
        let mut network = Self { subnet: subnet(&cr.spec.service_configuration)?, ..Self::default() };
        for member in members {
            let is_known = member_set.recorded.iter().any(|other| other.node == member.node);
            let used = match record(cr) {
                Some(record) => record.get(&member.node).filter(|used| !used.is_empty()).cloned(),
                // It was there before anybody asked for another address.
                None => is_known.then(|| member.address.clone()),
            };
            network.used.extend(used.map(|used| (member.node.clone(), used)));
        }
        for member in members {
            let node = member.node.clone();
            match (network.wanted(member, members, &reports), network.used.get(&node)) {
                (Ok(Some(address)), None) => drop(network.used.insert(node, address)),
                (Ok(Some(address)), Some(used)) if *used != address => drop(network.targets.insert(node, address)),
                (Ok(_), _) => {}
                (Err(why), None) => drop(network.problems.insert(node, why)),
                (Err(why), Some(used)) => {
                    let why = format!("{why}; its control node keeps {used}");
                    network.problems.insert(node, why);
                }
            }
        }
        Ok(network)
    }

    /// The network, where one is stated.
    pub fn subnet(&self) -> Option<IpNet> {
        self.subnet
    }

    /// The address that the daemons of a member use; none where it is not known yet.
    pub fn address(&self, member: &MemberStatus) -> Option<&str> {
        self.used.get(&member.node).map(String::as_str)
    }

    /// The same, where it is another one than the node's.
    pub fn beside(&self, member: &MemberStatus) -> Option<IpAddr> {
        self.address(member).filter(|used| *used != member.address)?.parse().ok()
    }

    /// The addresses of all members that have one, sorted.
    pub fn addresses(&self) -> Vec<String> {
        let mut addresses: Vec<String> = self.used.values().cloned().collect();
        addresses.sort_unstable();
        addresses
    }

    /// The address that a member is to use; none where nobody has told it.
    ///
    /// # Errors
    /// Why there is none, for people.
    fn wanted(
        &self,
        member: &MemberStatus,
        members: &[MemberStatus],
        reports: &Reports<'_>,
    ) -> Result<Option<String>, String> {
        let MemberStatus { node, address: own, .. } = member;
        let Some(subnet) = self.subnet else { return Ok(Some(own.clone())) };
        if own.parse().is_ok_and(|own: IpAddr| subnet.contains(&own)) {
            return Ok(Some(own.clone()));
        }
        let told = reports.of_member(member).and_then(|status| status.network.as_ref());
        // One that goes by a former launch file tells of another network.
        let Some(told) = told.filter(|told| told.network == subnet) else { return Ok(None) };
        let usable = told.addresses.iter().filter(|address| subnet.contains(*address) && is_of_one_host(address));
        let addresses: Vec<String> = usable.map(ToString::to_string).collect();
        if let Some(used) = self.used.get(node).filter(|used| addresses.contains(used)) {
            return Ok(Some(used.clone()));
        }
        match &addresses[..] {
            [] => Err(format!(
                "node {node} has no address in {subnet}, which dataSubnet states; give it one, or state another network"
            )),
            [address] => match self.other_with(address, node, members) {
                Some(other) => Err(format!(
                    "nodes {other} and {node} both have {address}; give each an address of its own in {subnet} (dataSubnet)"
                )),
                None => Ok(Some(address.clone())),
            },
            several => Err(format!(
                "node {node} has several addresses in {subnet}, which dataSubnet states: {}; state a network in which it has one",
                several.join(" ")
            )),
        }
    }

    /// The other node that has an address.
    fn other_with<'m>(&self, address: &String, node: &str, members: &'m [MemberStatus]) -> Option<&'m str> {
        let has = |other: &&MemberStatus| {
            let known = [self.used.get(&other.node), self.targets.get(&other.node), Some(&other.address)];
            other.node != node && known.contains(&Some(address))
        };
        members.iter().find(has).map(|other| other.node.as_str())
    }

    /// Adds to a plan what is recorded of addresses and what there is to be said of them. The plan knows what else is under way.
    pub fn complete(&self, plan: &mut Plan, cr: &Control, observed: &Observed<Control>) {
        let reports = Reports::of_observed(observed);
        let next = self.next(plan, cr, &reports);
        let is_own = |member: &MemberStatus| next.get(&member.node) == Some(&member.address);
        plan.record = &[FIELD];
        if self.subnet.is_some() || !plan.members.iter().all(is_own) {
            // The API server drops a map that becomes empty.
            let used = |member: &MemberStatus| next.get(&member.node).cloned().unwrap_or_default();
            let record: BTreeMap<_, _> = plan.members.iter().map(|member| (&member.node, used(member))).collect();
            plan.own_status.insert(FIELD.to_owned(), json!(record));
        }
        for member in plan.members.iter().filter(|member| self.address(member).is_none()) {
            let problem = self.problems.get(&member.node).cloned();
            let why = problem
                .unwrap_or_else(|| format!("node {} has not reported its address in dataSubnet yet", member.node));
            plan.troubles.extend(pod_of(member, reports.pods).map(|pod| (pod.name.clone(), why)));
        }
        if let Some((node, target)) = self.targets.first_key_value() {
            let used = self.used.get(node).map(String::as_str).unwrap_or_default();
            let why = format!("the control node of node {node} goes over from {used} to {target} when all serve");
            plan.under_way.get_or_insert(why);
        }
        if let Some(why) = self.problems.values().next() {
            plan.held.get_or_insert((Reason::NoMatchingNodes, why.clone()));
        }
    }

    /// What members use from now on. Those that do not serve lose nothing by another address; of the others one goes over at a time.
    fn next(&self, plan: &Plan, cr: &Control, reports: &Reports<'_>) -> BTreeMap<String, String> {
        let serves = |member: &MemberStatus| pod_of(member, reports.pods).is_some_and(|pod| pod.ready);
        let target = |member: &MemberStatus| Some((member.node.clone(), self.targets.get(&member.node)?.clone()));
        let mut next = self.used.clone();
        let down: Vec<_> = plan.members.iter().filter(|member| !serves(member)).filter_map(target).collect();
        if down.is_empty() && plan.members.iter().all(serves) && is_at_rest(plan, cr, reports) {
            // As with changes of configuration the highest ordinal is the first.
            next.extend(plan.members.iter().rev().find_map(target));
        }
        next.extend(down);
        next
    }
}

/// Whether nothing else is done to members, and what tells others of them works.
fn is_at_rest(plan: &Plan, cr: &Control, reports: &Reports<'_>) -> bool {
    let is_idle = plan.step.is_none() && plan.under_way.is_none() && plan.troubles.is_empty();
    let lacks = plan.drafts.iter().any(|it| it.kind == ConditionType::DependenciesReady && !it.is_true());
    let is_unregistered =
        cr.status.as_ref().is_some_and(|it| status::is(&it.contract, ConditionType::Provisioned, "False"));
    is_idle && !lacks && !is_unregistered && reports.clarity() == AgentCoverage::Complete
}

/// What is recorded of a resource: nothing where nobody asked for other addresses than those of the nodes.
fn record(cr: &Control) -> Option<&BTreeMap<String, String>> {
    cr.status.as_ref()?.own.data_addresses.as_ref()
}

/// The address of the member on each node that its certificate is for besides the pod's own.
pub fn recorded(cr: &Control) -> BTreeMap<String, IpAddr> {
    let address = |(node, text): (&String, &String)| Some((node.clone(), text.parse().ok()?));
    record(cr).into_iter().flatten().filter_map(address).collect()
}

/// The network that a spec states, without host bits.
fn subnet(spec: &ControlConfiguration) -> Result<Option<IpNet>, NotReady> {
    let Some(text) = spec.data_subnet.as_deref().filter(|text| !text.is_empty()) else { return Ok(None) };
    let subnet: IpNet = text.parse().map_err(|_| {
        let message = "serviceConfiguration.dataSubnet is no subnet; write it like 10.1.0.0/24, or remove it";
        NotReady::invalid(Reason::InvalidSpec, message)
    })?;
    Ok(Some(subnet.trunc()))
}

/// Whether others can reach one host by an address, and a certificate can be for it (`tf_pki::member::Identity`).
fn is_of_one_host(address: &IpAddr) -> bool {
    let is_of_link = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    let is_nobodys = address.is_unspecified() || address.is_multicast() || address.is_loopback();
    !is_of_link && !is_nobodys && address.to_canonical() == *address
}
