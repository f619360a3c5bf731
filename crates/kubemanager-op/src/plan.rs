//! Desired state of kube-manager.

use serde_json::{Map, json};
use tf_api::{
    Kubemanager, Managed as _,
    common::AuthMode,
    contract::{ConditionType, Draft, Reason},
    kinds::KUBEMANAGER,
    ports,
};
use tf_contrail::daemon::{self, Daemons};
use tf_plan::{
    build::configuration::Files,
    certificates, cluster,
    component::Agents,
    dependency,
    keystone::{self, Keystone},
    member_set::{MemberSet, Parts, Traits},
    members::SizeRule,
    not_ready::NotReady,
    observed::Observed,
    plan::Plan,
    selection,
};

use crate::{
    OPERATOR,
    cluster::Cluster,
    daemons::{
        self, MEMBERS,
        kube_manager::{self, ORCHESTRATORS, orchestrator},
    },
    kubernetes::Kubernetes,
    objects::Objects,
    services::{self, Services},
    token,
};

/// Time for the daemon to give up its lock in ZooKeeper.
const GRACE_SECONDS: i64 = 60;

/// Plans kube-manager.
///
/// # Errors
/// When a service is not usable yet, an input is missing, there are no members to plan for, or the spec asks for what cannot be.
pub fn plan(cr: &Kubemanager, observed: &Observed<Kubemanager>) -> Result<Plan, NotReady> {
    let (resolved, mut drafts) = dependency::resolve_for(&services::dependencies(cr), cr, observed);
    let spec = &cr.spec.service_configuration;
    let facts = cluster::Cluster::of(&observed.facts, &observed.foreign);
    let kubernetes = Kubernetes::of(spec, &facts);
    if let Ok(kubernetes) = &kubernetes {
        let told = format!("everything the spec refers to exists; {}", kubernetes.told);
        drafts.push(Draft::holds(ConditionType::InputsReady, Reason::Succeeded, told));
    }
    let desired = || {
        selection::require(&spec.containers, &[kube_manager::CONTAINER.name])?;
        alone_where_nobody_is_elected(cr)?;
        let kubernetes = kubernetes?;
        keeps_its_name(cr, &kubernetes.name)?;
        let objects = Objects::of(spec, &kubernetes.name)?;
        let keystone = Keystone::let_in(cr, observed)?;
        let mut services = Services::of(&resolved?)?;
        services.notes.extend(facts.problems);
        let token = token::of(cr, observed)?;
        let table = daemons::table();
        let containers = daemon::containers(&table);
        let rule = if spec.nested_mode { SizeRule::Exactly(1) } else { SizeRule::EveryNode };
        let traits = Traits { rule, ..Traits::without_data(OPERATOR, &containers, &spec.containers) };
        let mut member_set = MemberSet::prepare(cr, observed, &traits)?;
        member_set.membership.notes.extend(services.notes.iter().cloned());
        member_set.membership.notes.extend(keystone.as_ref().and_then(Keystone::note));
        let agents = agents(cr, &observed.operator.cluster_domain);
        let cluster = Cluster {
            spec,
            log_level: cr.spec.common_configuration.log_level.unwrap_or_default(),
            services: &services,
            kubernetes: &kubernetes,
            objects: &objects,
            keystone: keystone.as_ref(),
            token: token.expose(),
            members: member_set.members(),
            agents: &agents,
        };
        let daemons = Daemons::of(&table, &member_set.containers, &cluster)?;
        let parts = Parts {
            objects: token::objects(cr).into(),
            grace_seconds: GRACE_SECONDS,
            ignored: ignored(cr, observed),
            drafts: drafts.clone(),
            own_status: Map::from_iter([("clusterName".to_owned(), json!(kubernetes.name))]),
            ..daemons.parts(daemon::logs("kubemanager", KUBEMANAGER, &member_set.identity), Files::default())
        };
        member_set.roll_out(parts, &MEMBERS, |_| ())
    };
    desired().map_err(|not_ready| not_ready.with_drafts(drafts.clone()))
}

/// In nested mode there is no election (upstream `kube_manager.py`, `main`): two members would both be at work.
fn alone_where_nobody_is_elected(cr: &Kubemanager) -> Result<(), NotReady> {
    let replicas = cr.spec.common_configuration.replicas.unwrap_or(1);
    if cr.spec.service_configuration.nested_mode && replicas > 1 {
        let message = format!(
            "commonConfiguration.replicas is {replicas}, and in nested mode no member is elected: all of them would be at work; set it to 1"
        );
        return Err(NotReady::invalid(Reason::InvalidSpec, message));
    }
    Ok(())
}

/// Projects, networks and pods are named after the cluster: with another name the daemon makes all of them anew, and what runs stays
/// with those that nobody looks after any more (docs/upstream/kube-manager.md#names-and-subnets).
fn keeps_its_name(cr: &Kubemanager, name: &str) -> Result<(), NotReady> {
    let recorded = cr.status.as_ref().and_then(|status| status.own.cluster_name.as_deref());
    match recorded.filter(|recorded| cr.is_initialized() && *recorded != name) {
        None => Ok(()),
        Some(recorded) => Err(NotReady::invalid(
            Reason::InvalidSpec,
            format!(
                "the cluster would be called {name}, and what is in the config API was made with the name {recorded}, which no pod that runs can leave; \
                 set serviceConfiguration.clusterName to {recorded}, and for another name make the Kubemanager anew"
            ),
        )),
    }
}

/// How members' agents are reached, and what members are called.
pub fn agents(cr: &Kubemanager, cluster_domain: &str) -> Agents {
    Agents::of(OPERATOR, cr, ports::KUBE_MANAGER_AGENT, cluster_domain)
}

/// Fields of the spec that are set and have no effect.
fn ignored(cr: &Kubemanager, observed: &Observed<Kubemanager>) -> Vec<String> {
    let spec = &cr.spec.service_configuration;
    let token = format!("the daemon takes the token itself, from Secret {}", token::secret(cr));
    let platforms = format!("it is none of {}", ORCHESTRATORS.join(", "));
    let fields = [
        (orchestrator(spec).is_none(), "cloudOrchestrator", platforms.as_str()),
        (
            spec.kubernetes_api_port.is_some(),
            "kubernetesAPIPort",
            "with a token the daemon uses the port with TLS alone",
        ),
        (spec.kubernetes_token_file.as_ref().is_some_and(|file| !file.is_empty()), "kubernetesTokenFile", &token),
    ];
    let fields = fields
        .into_iter()
        .filter(|(set, ..)| *set)
        .map(|(_, name, why)| format!("spec.serviceConfiguration.{name}: {why}"));
    let auth = cr.spec.common_configuration.auth_parameters.as_ref();
    let keystone = auth.filter(|auth| auth.auth_mode == Some(AuthMode::Keystone));
    let region = keystone.and_then(|auth| auth.keystone_auth_parameters.as_ref()?.region.as_ref());
    let region = region.map(|_| {
        "spec.commonConfiguration.authParameters.keystoneAuthParameters.region: the daemon has no setting for it"
            .to_owned()
    });
    let dependencies = dependency::ignored(&services::dependencies(cr), observed);
    let host_files = certificates::host_files_ignored(&cr.spec.common_configuration);
    fields.chain(keystone::ignored(auth)).chain(region).chain(dependencies).chain(host_files).collect()
}
