//! What containers may do: nothing, with the exceptions listed here.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use tf_plan::{
    object::{DAEMON_SET, STATEFUL_SET},
    plan::Plan,
};

/// A container that needs more than nothing.
struct Exception {
    /// The operators whose pods it is in.
    operators: &'static [&'static str],
    container: &'static str,
    needs: Needs,
    why: &'static str,
}

/// What an exception may have, and no more.
#[derive(Debug)]
enum Needs {
    /// The user root with these capabilities.
    Root(&'static [&'static str]),
    /// Everything.
    Privileged,
}

const MEMBERS: [&str; 9] = [
    "analytics-op",
    "cassandra-op",
    "config-op",
    "control-op",
    "kubemanager-op",
    "rabbitmq-op",
    "redis-op",
    "webui-op",
    "zookeeper-op",
];

const EXCEPTIONS: [Exception; 15] = [
    Exception {
        operators: &MEMBERS,
        container: "tf-node",
        needs: Needs::Root(&["CHOWN", "DAC_OVERRIDE", "FOWNER"]),
        why: "it gives directories of the node to the daemons' user before they start",
    },
    Exception {
        operators: &["vrouter-op"],
        container: "tf-node",
        needs: Needs::Root(&["CHOWN", "DAC_OVERRIDE", "FOWNER"]),
        why: "the same init container, which has nothing to give away there",
    },
    Exception {
        operators: &["analytics-op", "cassandra-op", "config-op", "control-op", "vrouter-op"],
        container: "nodemanager",
        needs: Needs::Privileged,
        why: "it asks the container runtime for the state of other containers; it runs only where a spec lists it",
    },
    Exception {
        operators: &["config-op"],
        container: "devicemanager",
        needs: Needs::Root(&["KILL", "SYS_PTRACE"]),
        why: "it finds and ends dnsmasq, which runs as another user",
    },
    Exception {
        operators: &["config-op"],
        container: "dnsmasq",
        needs: Needs::Root(&["NET_ADMIN", "NET_RAW", "NET_BIND_SERVICE", "SETGID", "SETUID", "KILL"]),
        why: "it serves DHCP and TFTP, and becomes nobody",
    },
    Exception {
        operators: &["control-op"],
        container: "control",
        needs: Needs::Root(&["NET_BIND_SERVICE"]),
        why: "its port for BGP is one of the system's",
    },
    Exception {
        operators: &["control-op"],
        container: "named",
        needs: Needs::Root(&["NET_BIND_SERVICE", "CHOWN", "SETUID", "SETGID", "KILL"]),
        why: "its port for DNS is one of the system's, and it becomes another user, whom its agent has to end",
    },
    Exception {
        operators: &["vrouter-op"],
        container: "vrouterkernelinit",
        needs: Needs::Privileged,
        why: "it installs the kernel module on the node",
    },
    Exception {
        operators: &["vrouter-op"],
        container: "vrouteragent",
        needs: Needs::Privileged,
        why: "it talks to the kernel module",
    },
    Exception {
        operators: &["vrouter-op"],
        container: "preflight",
        needs: Needs::Privileged,
        why: "it reads what the node has, which SELinux lets only privileged containers do; the node's files are mounted read-only",
    },
    Exception {
        operators: &["vrouter-op"],
        container: "vhost0",
        needs: Needs::Privileged,
        why: "it loads the kernel module and moves the node's addresses and routes to vhost0; it runs only where a spec has vhost0: Managed",
    },
    Exception {
        operators: &["vrouter-op"],
        container: "vrouteragentdpdk",
        needs: Needs::Privileged,
        why: "it gives hardware another driver and moves the node's addresses and routes to vhost0; it runs only on nodes of the DPDK mode",
    },
    Exception {
        operators: &["vrouter-op"],
        container: "virtual-functions",
        needs: Needs::Privileged,
        why: "it has the kernel make virtual functions, by a file below /sys; it runs only where a spec states their number",
    },
    Exception {
        operators: &["vrouter-op"],
        container: "removal",
        needs: Needs::Privileged,
        why: "it gives addresses and routes back to the node's interface and takes files away; it runs only on nodes that leave",
    },
    Exception {
        operators: &["vrouter-op"],
        container: "vroutercni",
        needs: Needs::Root(&[]),
        why: "it writes into directories of the node that are root's",
    },
];

fn exception(operator: &str, container: &str) -> Option<&'static Exception> {
    EXCEPTIONS.iter().find(|exception| exception.operators.contains(&operator) && exception.container == container)
}

/// Every container of every pod has the restricted security context, or exactly what its exception says.
///
/// # Panics
/// When one has not.
pub fn check(name: &str, operator: &str, plan: &Plan) {
    for (workload, pod) in pods(plan) {
        let label = format!("{name}: {workload}");
        assert_eq!(pod.automount_service_account_token, Some(false), "{label} gets a token");
        assert!(pod.host_pid != Some(true) && pod.host_ipc != Some(true), "{label} sees processes of the node");
        let profile = pod.security_context.as_ref().and_then(|context| context.seccomp_profile.as_ref());
        assert!(profile.is_some_and(|profile| profile.type_ == "RuntimeDefault"), "{label}: {profile:?}");
        for container in containers(&pod) {
            let label = format!("{label}, container {}", container.name);
            match exception(operator, &container.name) {
                Some(exception) => {
                    let (needs, why) = (&exception.needs, exception.why);
                    assert!(has(container, needs), "{label} may have {needs:?}, because {why}: {container:?}");
                }
                None => assert!(is_restricted(container), "{label} may do too much: {:?}", container.security_context),
            }
        }
    }
}

/// An exception that no container of the recorded plans needs any more goes away.
///
/// # Panics
/// When there is one.
pub fn no_exception_is_unused(operator: &str, plans: &[Plan]) {
    let used: BTreeSet<String> = plans
        .iter()
        .flat_map(pods)
        .flat_map(|(_, pod)| containers(&pod).map(|c| c.name.clone()).collect::<Vec<_>>())
        .collect();
    let unused: Vec<_> = EXCEPTIONS
        .iter()
        .filter(|exception| exception.operators.contains(&operator) && !used.contains(exception.container))
        .map(|exception| exception.container)
        .collect();
    assert!(unused.is_empty(), "{operator} has no situation with the containers {unused:?}");
}

fn pods(plan: &Plan) -> Vec<(String, PodSpec)> {
    let workloads = plan.objects.iter().filter(|object| matches!(object.kind, STATEFUL_SET | DAEMON_SET));
    workloads
        .map(|object| {
            let spec = object.body["spec"]["template"]["spec"].clone();
            let pod = serde_json::from_value(spec).unwrap_or_else(|error| panic!("{}: {error}", object.describe()));
            (object.describe(), pod)
        })
        .collect()
}

fn containers(pod: &PodSpec) -> impl Iterator<Item = &Container> {
    pod.init_containers.iter().flatten().chain(&pod.containers)
}

fn is_restricted(container: &Container) -> bool {
    container
        .security_context
        .as_ref()
        .is_some_and(|context| context.run_as_non_root == Some(true) && context.run_as_user != Some(0))
        && has_exactly(container, &[])
}

fn has(container: &Container, needs: &Needs) -> bool {
    let Some(context) = &container.security_context else { return false };
    match needs {
        Needs::Root(capabilities) => context.run_as_user == Some(0) && has_exactly(container, capabilities),
        Needs::Privileged => context.privileged == Some(true),
    }
}

/// No privileges, no way to more of them, the runtime's seccomp profile and these capabilities of all.
fn has_exactly(container: &Container, wanted: &[&str]) -> bool {
    let Some(context) = &container.security_context else { return false };
    let Some(capabilities) = &context.capabilities else { return false };
    let added: Vec<&str> = capabilities.add.iter().flatten().map(String::as_str).collect();
    context.privileged != Some(true)
        && context.allow_privilege_escalation == Some(false)
        && context.seccomp_profile.is_none()
        && capabilities.drop.as_deref() == Some(&["ALL".to_owned()])
        && added == wanted
}
