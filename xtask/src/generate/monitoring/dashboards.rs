//! Dashboards for Grafana: one for each operator's kind, and one for the operators themselves.

use anyhow::Result;
use serde_json::{Value, json};
use tf_plan::metrics::{self as table, Metric};

use super::{RESOURCE, Target, select};

/// Columns of Grafana's grid.
const COLUMNS: u64 = 24;
/// Rows that a panel takes.
const HEIGHT: u64 = 7;

/// What a panel shows.
struct Panel {
    title: &'static str,
    /// `stat`, `timeseries` or `state-timeline`.
    kind: &'static str,
    /// As Grafana calls it.
    unit: &'static str,
    /// Columns that it takes.
    width: u64,
    /// Expressions with their legends.
    lines: Vec<(String, &'static str)>,
}

impl Panel {
    fn chart(title: &'static str, unit: &'static str, lines: Vec<(String, &'static str)>) -> Self {
        Self { title, kind: "timeseries", unit, width: COLUMNS / 2, lines }
    }

    fn number(title: &'static str, unit: &'static str, lines: Vec<(String, &'static str)>) -> Self {
        Self { title, kind: "stat", unit, width: COLUMNS / 4, lines }
    }

    fn json(&self, id: usize, x: u64, y: u64) -> Value {
        let targets = self.lines.iter().zip('A'..).map(|((expr, legend), letter)| {
            json!({"refId": letter.to_string(), "expr": expr, "legendFormat": legend, "datasource": source()})
        });
        let mut defaults = json!({"unit": self.unit, "min": if self.kind == "stat" { Value::Null } else { json!(0) }});
        if self.unit == "bool_yes_no" {
            defaults["thresholds"] =
                json!({"mode": "absolute", "steps": [{"color": "red", "value": null}, {"color": "green", "value": 1}]});
        }
        json!({
            "id": id, "title": self.title, "type": self.kind, "datasource": source(),
            "gridPos": {"x": x, "y": y, "w": self.width, "h": HEIGHT},
            "fieldConfig": {"defaults": defaults, "overrides": []},
            "targets": targets.collect::<Vec<_>>(),
        })
    }
}

fn source() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

/// A variable whose values are those of a label.
fn variable(name: &str, label: &str, selector: &str) -> Value {
    json!({
        "name": name, "type": "query", "datasource": source(), "query": format!("label_values({selector}, {label})"),
        "refresh": 2, "includeAll": true, "multi": true, "allValue": ".*", "current": {"text": "All", "value": "$__all"},
    })
}

fn dashboard(uid: &str, title: &str, variables: Vec<Value>, panels: &[Panel]) -> Result<String> {
    let (mut x, mut y) = (0, 0);
    let place = |(id, panel): (usize, &Panel)| {
        if x + panel.width > COLUMNS {
            (x, y) = (0, y + HEIGHT);
        }
        let placed = panel.json(id + 1, x, y);
        x += panel.width;
        placed
    };
    let panels: Vec<Value> = panels.iter().enumerate().map(place).collect();
    let mut list = vec![json!({"name": "datasource", "type": "datasource", "query": "prometheus"})];
    list.extend(variables);
    let dashboard = json!({
        "uid": uid, "title": title, "tags": ["tungsten-fabric"], "schemaVersion": 39, "editable": false,
        "time": {"from": "now-6h", "to": "now"}, "refresh": "1m", "templating": {"list": list}, "panels": panels,
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&dashboard)?))
}

/// The dashboard of an operator's kind.
pub fn of(target: &Target) -> Result<String> {
    let kind = target.kind;
    let selected = |metric: &Metric, more: &[(&str, &str)]| {
        let chosen =
            [("kind", target.kinds.as_str()), ("resource_namespace", "~$namespace"), ("resource_name", "~$name")];
        select(metric, &[chosen.as_slice(), more].concat())
    };
    let of = |function: &str, metric, more: &[(&str, &str)]| {
        format!("{function} by ({RESOURCE}) ({})", selected(metric, more))
    };
    let condition = |name| of("max", &table::CONDITION, &[("type", name), ("status", "True")]);
    let name = "{{resource_namespace}}/{{resource_name}}";
    let mut panels = vec![
        Panel::number("Ready", "bool_yes_no", vec![(condition("Ready"), name)]),
        Panel::number("Can be used", "bool_yes_no", vec![(condition("Available"), name)]),
        Panel::number(
            "Change under way for",
            "s",
            vec![(
                format!(
                    "time() - {} and {} == 1",
                    of("max", &table::CONDITION_SINCE, &[("type", "Progressing")]),
                    condition("Progressing")
                ),
                name,
            )],
        ),
        Panel::number("Brought up once", "bool_yes_no", vec![(of("max", &table::INITIALIZED, &[]), name)]),
        Panel {
            title: "Conditions that hold",
            kind: "state-timeline",
            unit: "bool_yes_no",
            width: COLUMNS / 2,
            lines: vec![(
                format!("max by ({RESOURCE}, type) ({})", selected(&table::CONDITION, &[("status", "True")])),
                "{{resource_name}} {{type}}",
            )],
        },
        Panel::chart(
            "Members",
            "none",
            vec![
                (of("max", &table::MEMBERS_READY, &[]), "{{resource_name}} ready"),
                (of("max", &table::MEMBERS_WANTED, &[]), "{{resource_name}} wanted"),
            ],
        ),
    ];
    if target.has_agents {
        let agents = format!("max by ({RESOURCE}, state) ({})", selected(&table::AGENTS, &[]));
        let left = |metric| format!("{} - time()", of("min", metric, &[]));
        panels.push(Panel::chart("Node agents", "none", vec![(agents, "{{resource_name}} {{state}}")]));
        panels.push(Panel::number("First certificate ends in", "s", vec![(left(&table::CERTIFICATE_END), name)]));
        panels.push(Panel::number("Renewal is late in", "s", vec![(left(&table::CERTIFICATE_LATE), name)]));
        if target.operator == "cassandra-op" {
            panels.push(Panel::number("Repair is late in", "s", vec![(left(&table::REPAIR_LATE), name)]));
        }
    }
    if target.runs_daemons() {
        panels.extend(of_daemons(&selected));
    }
    if target.registers {
        let missing = of("max", &table::UNREGISTERED, &[]);
        panels.push(Panel::number("Not in the config API as it shall be", "none", vec![(missing, name)]));
    }
    panels.extend(of_servers(target));
    let variables = vec![
        variable("namespace", "resource_namespace", &select(&table::CONDITION, &[("kind", kind)])),
        variable(
            "name",
            "resource_name",
            &select(&table::CONDITION, &[("kind", kind), ("resource_namespace", "~$namespace")]),
        ),
    ];
    dashboard(&format!("tf-{}", target.operator), &format!("Tungsten Fabric: {kind}"), variables, &panels)
}

/// What is known of each daemon. `selected`: a metric of the resources that are chosen.
fn of_daemons(selected: &impl Fn(&Metric, &[(&str, &str)]) -> String) -> [Panel; 3] {
    let each = |metric| format!("max by ({RESOURCE}, daemon) ({})", selected(metric, &[]));
    let daemon = "{{resource_name}} {{daemon}}";
    let unserved = format!("{} - {}", each(&table::DAEMON_WANTED), each(&table::DAEMON_SERVING));
    [
        Panel::chart(
            "Pods in which daemons serve, and of these wait to take over",
            "none",
            vec![
                (each(&table::DAEMON_SERVING), daemon),
                (each(&table::DAEMON_STANDBY), "{{resource_name}} {{daemon}} waits"),
            ],
        ),
        Panel::chart("Pods in which daemons shall serve and do not", "none", vec![(unserved, daemon)]),
        Panel::chart(
            "Connections of daemons that are down",
            "none",
            vec![(each(&table::DAEMON_CONNECTIONS_DOWN), daemon)],
        ),
    ]
}

/// What the servers tell themselves, where they do and are scraped.
fn of_servers(target: &Target) -> Vec<Panel> {
    let instance = "{{instance}}";
    let each = |metric: &Metric, legend| (select(metric, &[]), legend);
    match target.operator {
        "rabbitmq-op" => vec![
            Panel::chart(
                "Memory of servers, and what raises the alarm",
                "bytes",
                vec![
                    each(&table::RABBITMQ_MEMORY, instance),
                    each(&table::RABBITMQ_MEMORY_LIMIT, "{{instance}} limit"),
                ],
            ),
            Panel::chart(
                "Free disk of servers, and what raises the alarm",
                "bytes",
                vec![each(&table::RABBITMQ_DISK, instance), each(&table::RABBITMQ_DISK_LIMIT, "{{instance}} limit")],
            ),
            Panel::chart(
                "Messages",
                "none",
                vec![
                    each(&table::RABBITMQ_READY, "{{instance}} waiting"),
                    each(&table::RABBITMQ_UNACKNOWLEDGED, "{{instance}} unacknowledged"),
                ],
            ),
            Panel::chart("Connections of clients", "none", vec![each(&table::RABBITMQ_CONNECTIONS, instance)]),
            Panel::chart(
                "Alarms of servers",
                "none",
                vec![
                    each(&table::RABBITMQ_MEMORY_ALARM, "{{instance}} memory"),
                    each(&table::RABBITMQ_DISK_ALARM, "{{instance}} disk"),
                ],
            ),
        ],
        "zookeeper-op" => vec![
            Panel::chart(
                "Servers with a vote, and followers in sync",
                "none",
                vec![each(&table::ZOOKEEPER_SIZE, instance), each(&table::ZOOKEEPER_SYNCED, "{{instance}} in sync")],
            ),
            Panel::chart("Requests that wait", "none", vec![each(&table::ZOOKEEPER_OUTSTANDING, instance)]),
            Panel::chart("Time to an answer", "ms", vec![each(&table::ZOOKEEPER_LATENCY, instance)]),
            Panel::chart("Connections of clients", "none", vec![each(&table::ZOOKEEPER_CONNECTIONS, instance)]),
            Panel::chart("Nodes in the tree", "none", vec![each(&table::ZOOKEEPER_NODES, instance)]),
            Panel::chart("Size of the data", "bytes", vec![each(&table::ZOOKEEPER_DATA, instance)]),
        ],
        _ => Vec::new(),
    }
}

/// The dashboard of all operators.
pub fn operators() -> Result<String> {
    let chosen = |metric: &Metric| select(metric, &[(table::OPERATOR_LABEL, "~$operator")]);
    let rate = |labels: &str, metric| format!("sum by ({labels}) (rate({}[$__rate_interval]))", chosen(metric));
    let max = |metric| format!("max by (operator) ({})", chosen(metric));
    // What a histogram appends.
    let buckets = chosen(&table::RECONCILE_DURATION).replacen('{', "_bucket{", 1);
    let left = |metric| format!("min by (resource_namespace) ({}) - time()", chosen(metric));
    let operator = "{{operator}}";
    let panels = [
        Panel::number("Has a leader", "bool_yes_no", vec![(max(&table::LEADER), operator)]),
        Panel::number("Resources that fail", "none", vec![(max(&table::IN_BACKOFF), operator)]),
        Panel::number("Authority ends in", "s", vec![(left(&table::AUTHORITY_END), "{{resource_namespace}}")]),
        Panel::number(
            "Its replacement is late in",
            "s",
            vec![(left(&table::AUTHORITY_LATE), "{{resource_namespace}}")],
        ),
        Panel::chart(
            "Resources",
            "none",
            vec![
                (format!("sum by (operator, ready) ({})", chosen(&table::RESOURCES)), "{{operator}} ready: {{ready}}"),
                (max(&table::RESOURCES_OMITTED), "{{operator}} without metrics of their own"),
            ],
        ),
        Panel::chart(
            "Passes",
            "ops",
            vec![(rate("operator, outcome", &table::RECONCILES), "{{operator}} {{outcome}}")],
        ),
        Panel::chart(
            "Nine of ten passes take less than",
            "s",
            vec![(
                format!("histogram_quantile(0.9, sum by (operator, le) (rate({buckets}[$__rate_interval])))"),
                operator,
            )],
        ),
        Panel::chart("Objects", "ops", vec![(rate("operator, action", &table::OBJECTS), "{{operator}} {{action}}")]),
        Panel::chart(
            "Requests to the API server",
            "reqps",
            vec![(rate("operator, verb", &table::API_REQUESTS), "{{operator}} {{verb}}")],
        ),
        Panel::chart(
            "Errors of watches",
            "ops",
            vec![(rate("operator, kind", &table::WATCH_ERRORS), "{{operator}} {{kind}}")],
        ),
        Panel::chart("Memory", "bytes", vec![(max(&table::PROCESS_MEMORY), operator)]),
        Panel::chart("Processor", "percentunit", vec![(rate("operator", &table::PROCESS_CPU), operator)]),
    ];
    let variables = vec![variable("operator", table::OPERATOR_LABEL, &select(&table::LEADER, &[]))];
    dashboard("tf-operators", "Tungsten Fabric: operators", variables, &panels)
}
