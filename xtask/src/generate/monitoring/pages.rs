//! The pages of the documents with all metrics and all alerts.

use std::fmt::Write as _;

use tf_plan::metrics::{self as table, Metric};

use super::{
    super::{OPERATORS, docs::HEADER},
    Target,
    alerts::{self, Alert},
};

/// `docs/reference/metrics.md`.
pub fn metrics() -> String {
    let mut text = format!(
        "{HEADER}# Metrics\n\nWhat alerts and dashboards may rest on; [monitoring](../monitoring.md) says how to collect it. Every metric of an operator has the label\n\
         `{}` besides.\n",
        table::OPERATOR_LABEL
    );
    let operators = "Each operator, at `/metrics` on the port `http` of its pod (8080). No label but those of resources has an open set of values, and at most a hundred \
                     resources of an operator have metrics of their own.";
    let process = "The process of each operator, at the same place.";
    let rabbitmq = "Each RabbitMQ server, at `/metrics` over TLS on the port 10019 above the one for AMQP (15692), from its plugin `rabbitmq_prometheus`. It exports many more.";
    let zookeeper = "Each ZooKeeper server from 3.6 on, at `/metrics` on `serviceConfiguration.metricsPort` where that is set, from its `PrometheusMetricsProvider`. It exports many more.";
    for (title, what, metrics) in [
        ("Operators", operators, table::OPERATOR.as_slice()),
        ("Processes", process, &table::PROCESS),
        ("RabbitMQ", rabbitmq, &table::RABBITMQ),
        ("ZooKeeper", zookeeper, &table::ZOOKEEPER),
    ] {
        let _ = write!(
            text,
            "\n## {title}\n\n{what}\n\n| Name | Type | Labels | Unit | Exported by | Meaning |\n| --- | --- | --- | --- | --- | --- |\n"
        );
        for Metric { name, kind, labels, unit, meaning, told } in metrics {
            let [kind, unit, told]: [&str; 3] = [(*kind).into(), (*unit).into(), (*told).into()];
            let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
            let _ = writeln!(text, "| `{name}` | {kind} | {} | {unit} | {told} | {meaning} |", labels.join(", "));
        }
    }
    text.push_str("\nRedis and Cassandra export no metrics over HTTP here: use those of their operators.\n");
    text
}

/// `docs/reference/alerts.md`.
pub fn alerts() -> String {
    let mut text = format!(
        "{HEADER}# Alerts\n\nThe rules are in `files/alerts.yaml` of each chart. What to do when one fires is said where its annotation `runbook` points.\n"
    );
    for operator in OPERATORS {
        let _ =
            write!(text, "\n## {}\n\n| Alert | Severity | After | Says |\n| --- | --- | --- | --- |\n", operator.name);
        for alert in alerts::all(&Target::of(&operator)) {
            let _ = writeln!(text, "{}", row(&alert));
        }
    }
    text
}

fn row(alert: &Alert) -> String {
    let severity: &str = alert.severity.into();
    // What Prometheus puts in.
    let placeholders = [
        ("{{ $labels.kind }}", "KIND"),
        ("{{ $labels.resource_namespace }}", "NAMESPACE"),
        ("{{ $labels.resource_name }}", "NAME"),
        ("{{ $labels.instance }}", "ADDRESS"),
        ("{{ $value }}", "N"),
    ];
    let says = placeholders.iter().fold(alert.summary.clone(), |text, (from, to)| text.replace(from, to));
    format!("| [`{}`]({}) | {severity} | {} | {says} |", alert.name, link(&alert.runbook), alert.after)
}

/// A path in the repository, as the page links to it.
fn link(runbook: &str) -> String {
    runbook.replacen("docs/", "../", 1)
}
