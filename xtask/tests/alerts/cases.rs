//! What can be the case, and which alerts fire when.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};

use super::scene::{LENGTH, Scene, Subject, always, from};

/// One case.
pub struct Case {
    pub name: &'static str,
    /// Series with their values.
    pub series: BTreeMap<String, String>,
    /// At these minutes exactly these alerts fire.
    pub fires: Vec<(usize, Vec<String>)>,
    /// What some alerts say, in promtool's words.
    pub texts: Vec<Value>,
}

fn case(name: &'static str, scene: Scene, fires: &[(usize, &[&str])]) -> Case {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let fires = fires.iter().map(|(minute, names)| (*minute, owned(names))).collect();
    Case { name, series: scene.series, fires, texts: Vec::new() }
}

/// Every case of an operator.
pub fn cases(subject: &Subject) -> Result<Vec<Case>> {
    let mut all = of_operator(subject);
    all.extend(of_resources(subject));
    if subject.operator != "manager-op" {
        all.extend(of_members(subject)?);
    }
    if subject.has_agents {
        all.extend(of_certificates(subject));
    }
    if subject.registers() {
        all.extend(of_registration(subject));
    }
    match subject.operator {
        "config-op" | "kubemanager-op" => all.extend(of_election(subject)),
        "cassandra-op" => all.extend(of_cassandra(subject)),
        "rabbitmq-op" => all.extend(of_rabbitmq(subject)),
        _ => {}
    }
    Ok(all)
}

fn of_operator(subject: &Subject) -> Vec<Case> {
    let well = || Scene::well(subject);
    let nobody = well().of_pod("tf_leader", "a", "", &from(30, 1, 0));
    let fails = well().of_pod("tf_resources_in_backoff", "a", "", &from(30, 0, 1));
    let errors = |values: &str| well().of_pod("tf_watch_errors_total", "a", "kind=\"Pod\"", values);
    // One in ten minutes.
    let now_and_then = (0..LENGTH / 10).map(|count| format!("{count}x9")).collect::<Vec<_>>().join(" ");
    vec![
        case("all is well", well().and_another(), &[(20, &[]), (LENGTH - 1, &[])]),
        case("no process is there", Scene::empty(subject), &[(9, &[]), (11, &["TfOperatorAbsent"])]),
        case("no process leads", nobody, &[(34, &[]), (36, &["TfOperatorWithoutLeader"])]),
        case("a resource fails on and on", fails, &[(59, &[]), (61, &["TfOperatorFails"])]),
        // A refused watch is tried again every 30 to 38 s.
        case(
            "a watch is refused on and on",
            errors(&format!("0x30 2+2x{LENGTH}")),
            &[(30, &[]), (70, &["TfWatchFails"])],
        ),
        case("a watch fails now and then", errors(&now_and_then), &[(70, &[]), (LENGTH - 1, &[])]),
    ]
}

fn of_resources(subject: &Subject) -> Vec<Case> {
    let well = || Scene::well(subject);
    let [not_ready, stalled, paused] = ["NotReady", "Stalled", "Paused"].map(|name| subject.alert(name));
    let patience = subject.unready_minutes;
    let unready = [not_ready.as_str()];
    let unknown = well().turns("Ready", 10, false).number("tf_members_wanted", "_").number("tf_members_ready", "_");
    vec![
        case(
            "not Ready, and nothing else is said",
            well().turns("Ready", 10, false),
            &[(10 + patience - 1, &[]), (10 + patience + 1, &[&not_ready]), (180, &[&not_ready])],
        ),
        case("nobody can read the resource", unknown, &[(10 + patience - 1, &[]), (10 + patience + 1, &[&not_ready])]),
        case(
            "the user has to change something",
            well().turns("Ready", 10, false).turns("Stalled", 10, true),
            &[(14, &[]), (16, &[&stalled]), (180, &[&stalled])],
        ),
        case(
            "not Ready beside a store that sleeps",
            well().turns("Ready", 10, false).beside_a_store_that_sleeps(10),
            &[(180, if subject.needs_stores() { &[] } else { &unready })],
        ),
        case("paused and forgotten", well().paused_for(23 * 60), &[(59, &[]), (67, &[&paused])]),
    ]
}

fn of_members(subject: &Subject) -> Result<Vec<Case>> {
    let well = || Scene::well(subject);
    let [unavailable, down, degraded, slow] =
        ["Unavailable", "MemberDown", "Degraded", "RolloutSlow"].map(|name| subject.alert(name));
    let lost = |ready: i64| {
        let scene = well().turns("Ready", 10, false).turns("Degraded", 15, true);
        scene.number("tf_members_ready", &from(10, 3, ready))
    };
    let changing = || well().turns("Ready", 10, false).turns("Progressing", 10, true).turns("Degraded", 20, true);
    let late = 10 + subject.rollout_hours * 60;
    let labels = json!({
        "severity": "warning", "kind": subject.kind, "resource_namespace": "tf", "resource_name": "one",
    });
    let told = |scene: Scene, name, fires: &[(usize, &[&str])]| {
        let name_of_resource = format!("{} tf/one", subject.kind);
        let texts = json!({
            "summary": format!("Members of {name_of_resource} are not ready: 1"),
            "description": format!(
                "{name_of_resource} is available, but not all of its members have been ready for 15 minutes (missing: 1), and no rollout is in progress. The condition WorkloadReady has the pod and the cause."
            ),
            "runbook": format!("docs/{}.md#when-an-alert-fires", subject.operator.trim_end_matches("-op")),
        });
        let expected = json!([{"exp_labels": labels, "exp_annotations": texts}]);
        let texts = vec![json!({"alertname": down, "eval_time": "30m", "exp_alerts": expected})];
        Case { texts, ..case(name, scene, fires) }
    };
    let down_beside: &[&str] = if subject.needs_stores() { &[] } else { &[&unavailable] };
    let beside = [(14, [].as_slice()), (16, down_beside), (180, down_beside)];
    Ok(vec![
        case(
            "the majority is lost",
            lost(1).turns("Available", 10, false),
            &[(14, &[]), (16, &[&unavailable]), (180, &[&unavailable])],
        ),
        case(
            "the first bring-up does not end",
            changing()
                .turns("Available", 1, false)
                .number("tf_initialized", &always(0))
                .number("tf_members_ready", &always(0)),
            &[(late, &[]), (late + 7, &[&slow])],
        ),
        told(
            lost(2).and_another(),
            "one member of one resource is down",
            &[(24, &[]), (26, &[&down]), (180, &[&down])],
        ),
        case(
            "a member is down while another process takes over",
            lost(2).handed_over(20)?,
            &[(24, &[]), (26, &[&down]), (180, &[&down])],
        ),
        case(
            "it hibernates",
            lost(0).turns("Degraded", 15, false).turns("Available", 10, false).turns("Hibernated", 10, true),
            &[(16, &[]), (LENGTH - 1, &[])],
        ),
        case("what it needs hibernates", lost(0).turns("Available", 10, false).beside_a_store_that_sleeps(10), &beside),
        case(
            "members serve and something cannot be carried out",
            well().turns("Ready", 10, false).turns("Degraded", 10, true),
            &[(24, &[]), (26, &[&degraded]), (180, &[&degraded])],
        ),
        case(
            "a member restarts in a roll-out that goes on and on",
            changing().number("tf_members_ready", &from(10, 3, 2)),
            &[(late, &[]), (late + 7, &[&slow])],
        ),
        case("a roll-out is paused", changing().turns("Paused", 10, true), &[(late + 7, &[])]),
        case(
            "the majority is lost in a roll-out",
            changing().turns("Available", 10, false),
            &[(14, &[]), (16, &[&unavailable]), (late + 7, &[&unavailable])],
        ),
    ])
}

fn of_certificates(subject: &Subject) -> Vec<Case> {
    let [overdue, expired] = ["CertificateOverdue", "CertificateExpired"].map(|name| subject.alert(name));
    let ends = |late: i64, end: i64| {
        Scene::well(subject)
            .number("tf_certificate_overdue_timestamp_seconds", &always(late))
            .number("tf_certificate_expiry_timestamp_seconds", &always(end))
    };
    let authority = Scene::well(subject).of_pod(
        "tf_authority_overdue_timestamp_seconds",
        "a",
        "resource_namespace=\"tf\"",
        &always(3600),
    );
    let mut renewed = ends(3600, 7200);
    renewed = renewed.number("tf_certificate_overdue_timestamp_seconds", &from(80, 3600, 6_000_000));
    vec![
        case(
            "a certificate is not renewed",
            ends(3600, 7200),
            &[(89, &[]), (92, &[&overdue]), (119, &[&overdue]), (123, &[&expired])],
        ),
        case(
            "a certificate is renewed late",
            renewed.number("tf_certificate_expiry_timestamp_seconds", &from(80, 7200, 7_000_000)),
            &[(79, &[]), (200, &[])],
        ),
        case("the authority is not replaced", authority, &[(119, &[]), (123, &["TfAuthorityOverdue"])]),
    ]
}

fn of_registration(subject: &Subject) -> Vec<Case> {
    let unregistered = subject.alert("Unregistered");
    let not_ready = subject.alert("NotReady");
    let missing = |values: &str| Scene::well(subject).number("tf_unregistered_objects", values);
    let unready = missing(&from(30, 0, 2)).turns("Ready", 30, false);
    vec![
        case("all is registered", missing(&always(0)), &[(LENGTH - 1, &[])]),
        case("something is not registered", missing(&from(30, 0, 2)), &[(44, &[]), (46, &[&unregistered])]),
        case("something is registered late", missing(&from(10, 1, 0)), &[(9, &[]), (60, &[])]),
        case("who is not registered is not Ready", unready, &[(44, &[]), (46, &[&not_ready])]),
        case(
            "a change registers something",
            missing(&from(30, 0, 2)).turns("Progressing", 30, true),
            &[(46, &[]), (80, &[])],
        ),
    ]
}

fn of_election(subject: &Subject) -> Vec<Case> {
    let no_leader = subject.alert("NoLeader");
    let run = |serving: &str, standby: &str| {
        let daemon = |scene: Scene, name| scene.daemon(name, serving, standby);
        daemon(Scene::well(subject).daemon("api", &always(3), &always(0)), "schematransformer")
    };
    let none = || run(&always(3), &from(30, 2, 3));
    vec![
        case("one process is active", run(&always(3), &always(2)), &[(LENGTH - 1, &[])]),
        case("all processes are standby", none(), &[(31, &[]), (33, &[&no_leader]), (LENGTH - 1, &[&no_leader])]),
        case("the active process is handed over", run(&always(3), "2x29 3x1 2x400"), &[(31, &[]), (33, &[])]),
        case("no process runs", run(&from(30, 3, 0), &from(30, 2, 0)), &[(33, &[])]),
        case("it hibernates", none().turns("Hibernated", 30, true), &[(60, &[])]),
    ]
}

fn of_cassandra(subject: &Subject) -> Vec<Case> {
    let overdue = subject.alert("RepairOverdue");
    let due = |values: &str| Scene::well(subject).number("tf_repair_overdue_timestamp_seconds", values);
    vec![
        case("a ring is not repaired", due(&always(3600)), &[(119, &[]), (123, &[&overdue]), (180, &[&overdue])]),
        case("a ring is repaired late", due(&from(100, 3600, 7_000_000)), &[(99, &[]), (180, &[])]),
        case("a ring that sleeps is not repaired", due(&always(3600)).turns("Hibernated", 10, true), &[(180, &[])]),
    ]
}

fn of_rabbitmq(subject: &Subject) -> Vec<Case> {
    let alarm = |name, metric: &str, alert: &str| {
        let mut scene = Scene::well(subject);
        scene.series.insert(format!("{metric}{{instance=\"10.0.0.1:15692\"}}"), from(10, 0, 1));
        scene.series.insert(format!("{metric}{{instance=\"10.0.0.2:15692\"}}"), always(0));
        case(name, scene, &[(14, &[]), (16, &[alert])])
    };
    vec![
        alarm("a server is short of memory", "rabbitmq_alarms_memory_used_watermark", "RabbitmqMemoryAlarm"),
        alarm("a server is short of disk", "rabbitmq_alarms_free_disk_space_watermark", "RabbitmqDiskAlarm"),
    ]
}
