//! Alert rules, dashboards and the pages about them, all from the table of metrics ([`tf_plan::metrics`]).
//!
//! Rules and dashboards are plain files in the charts' folder `files`, for whoever has no Prometheus operator, and the charts' templates put them into
//! objects. What names a metric or a label here does so through the table; tests look into the finished files all the same.

mod alerts;
mod dashboards;
mod pages;
#[cfg(test)]
mod promql;

use std::path::PathBuf;

use anyhow::Result;
use tf_plan::metrics::Metric;

use super::{Files, OPERATORS, Operator};

/// Labels that say of which resource something is told.
const RESOURCE: &str = "kind, resource_namespace, resource_name";

/// Adds the files.
pub fn generate(files: &mut Files) -> Result<()> {
    for operator in OPERATORS {
        let folder = PathBuf::from("charts").join(operator.name).join("files");
        files.insert(folder.join("alerts.yaml"), alerts::file(&Target::of(&operator)));
        files.insert(folder.join("operators.json"), dashboards::operators()?);
        files.insert(folder.join("dashboard.json"), dashboards::of(&Target::of(&operator))?);
    }
    files.insert(PathBuf::from("docs/reference/metrics.md"), pages::metrics());
    files.insert(PathBuf::from("docs/reference/alerts.md"), pages::alerts());
    Ok(())
}

/// An operator, as far as alerts and dashboards differ from one to the next.
#[derive(Clone)]
struct Target {
    /// Its name.
    operator: &'static str,
    /// The kind that it looks after, or the first one of several: alerts are called after it.
    kind: &'static str,
    /// What selects the series of its resources by their kind.
    kinds: String,
    /// Whether it speaks with agents in its members.
    has_agents: bool,
    /// The page about its kind, where there is one.
    page: Option<&'static str>,
    /// Hours that a roll-out may take until somebody is told.
    rollout_hours: u32,
    /// Whether it cannot be well while a store of its namespace hibernates.
    needs_stores: bool,
    /// Whether it registers something in the config API.
    registers: bool,
}

impl Target {
    fn of(operator: &Operator) -> Self {
        let declaration = (operator.declaration)();
        let (page, rollout_hours) = match operator.name {
            // Repairs take as long as the data is large.
            "cassandra-op" => (Some("docs/cassandra.md"), 6),
            "analytics-op" => (Some("docs/analytics.md"), 1),
            "config-op" => (Some("docs/config.md"), 1),
            "control-op" => (Some("docs/control.md"), 1),
            "kubemanager-op" => (Some("docs/kubemanager.md"), 1),
            "manager-op" => (Some("docs/manager.md"), 1),
            "rabbitmq-op" => (Some("docs/rabbitmq.md"), 1),
            "redis-op" => (Some("docs/redis.md"), 1),
            "webui-op" => (Some("docs/webui.md"), 1),
            "zookeeper-op" => (Some("docs/zookeeper.md"), 1),
            // Node by node.
            "vrouter-op" => (None, 6),
            _ => (None, 1),
        };
        let kind = declaration.primary.kind;
        let kinds = match declaration.further.as_slice() {
            [] => kind.to_owned(),
            _ => format!("~{}", declaration.reconciled().map(|it| it.kind).collect::<Vec<_>>().join("|")),
        };
        let needs_stores = matches!(
            operator.name,
            "analytics-op" | "config-op" | "control-op" | "kubemanager-op" | "manager-op" | "webui-op"
        );
        let registers = matches!(operator.name, "analytics-op" | "config-op" | "control-op" | "vrouter-op");
        let (operator, has_agents) = (operator.name, declaration.calls_agents);
        Self { operator, kind, kinds, has_agents, page, rollout_hours, needs_stores, registers }
    }

    /// The operator whose resource stands for those of all others.
    fn aggregates(&self) -> bool {
        self.operator == "manager-op"
    }

    /// Whether members are several daemons of Tungsten Fabric, and not one server.
    fn runs_daemons(&self) -> bool {
        !self.aggregates() && !matches!(self.operator, "cassandra-op" | "rabbitmq-op" | "redis-op" | "zookeeper-op")
    }
}

/// A selector of series: `name{label="value"}`. A value that begins with `~` is a pattern.
fn select(metric: &Metric, matchers: &[(&str, &str)]) -> String {
    let matchers: Vec<String> = matchers
        .iter()
        .map(|(label, value)| match value.strip_prefix('~') {
            Some(pattern) => format!("{label}=~\"{pattern}\""),
            None => format!("{label}=\"{value}\""),
        })
        .collect();
    if matchers.is_empty() { metric.name.to_owned() } else { format!("{}{{{}}}", metric.name, matchers.join(",")) }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeMap, BTreeSet},
        fs,
    };

    use serde_json::Value;
    use tf_plan::metrics::{self, Metric, OPERATOR_LABEL, Type};

    use super::{promql, *};

    /// Labels that Prometheus gives to what it scrapes, as far as rules use them: the same operator may be installed several times.
    const TARGET: [&str; 3] = ["instance", "job", "namespace"];

    fn files() -> Files {
        let mut files = Files::new();
        generate(&mut files).unwrap();
        files
    }

    /// Series by name: a histogram tells three.
    fn series() -> BTreeMap<String, (&'static Metric, &'static [&'static str])> {
        let suffixed = |metric: &'static Metric| match metric.kind {
            Type::Histogram => vec![("_bucket", ["le"].as_slice()), ("_sum", &[]), ("_count", &[])],
            Type::Counter | Type::Gauge => vec![("", [].as_slice())],
        };
        metrics::all()
            .flat_map(|metric| {
                suffixed(metric)
                    .into_iter()
                    .map(move |(suffix, more)| (format!("{}{suffix}", metric.name), (metric, more)))
            })
            .collect()
    }

    /// Checks an expression against the table; where it is from stands in front of complaints.
    fn check(place: &str, text: &str) {
        let series = series();
        let used = promql::read(text).unwrap_or_else(|error| panic!("{place}: {error}: {text}"));
        assert!(!used.selectors.is_empty(), "{place}: nothing is selected: {text}");
        let mut known: BTreeSet<&str> = TARGET.into_iter().chain([OPERATOR_LABEL]).collect();
        for (name, labels) in &used.selectors {
            let (metric, more) =
                series.get(name).unwrap_or_else(|| panic!("{place}: {name} is not in the table: {text}"));
            let own: BTreeSet<&str> = metric.labels.iter().chain(*more).copied().chain(known.clone()).collect();
            for label in labels {
                assert!(own.contains(label.as_str()), "{place}: {name} has no label {label}: {text}");
            }
        }
        for (name, _) in &used.selectors {
            let (metric, more) = series[name];
            known.extend(metric.labels.iter().chain(more));
        }
        for label in &used.grouping {
            assert!(known.contains(label.as_str()), "{place}: nothing selected has a label {label}: {text}");
        }
    }

    fn rules(file: &str) -> Vec<Value> {
        let rules: Value = serde_saphyr::from_str(file).unwrap();
        let groups = rules["groups"].as_array().unwrap();
        groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).cloned().collect()
    }

    fn alert_files() -> Vec<(String, String)> {
        let is_rules = |path: &PathBuf| path.ends_with("alerts.yaml");
        files()
            .into_iter()
            .filter(|(path, _)| is_rules(path))
            .map(|(path, text)| (path.display().to_string(), text))
            .collect()
    }

    #[test]
    fn each_metric_and_label_in_a_rule_is_in_the_table() {
        let files = alert_files();
        assert_eq!(files.len(), OPERATORS.len());
        for (path, text) in files {
            for rule in rules(&text) {
                check(&format!("{path}: {}", rule["alert"]), rule["expr"].as_str().unwrap());
            }
        }
    }

    /// What an annotation puts into its text has to be left over by the expression.
    #[test]
    fn labels_in_the_texts_of_an_alert_are_those_it_groups_by() {
        for (path, text) in alert_files() {
            for rule in rules(&text) {
                let used = promql::read(rule["expr"].as_str().unwrap()).unwrap();
                for (name, text) in rule["annotations"].as_object().unwrap() {
                    for label in text.as_str().unwrap().split("$labels.").skip(1) {
                        let label: String =
                            label.chars().take_while(|letter| letter.is_ascii_lowercase() || *letter == '_').collect();
                        let is_left = used.grouping.contains(&label) || used.grouping.is_empty() && label == "instance";
                        assert!(is_left, "{path}: {}: {name}: {label}", rule["alert"]);
                    }
                }
            }
        }
    }

    #[test]
    fn each_alert_says_how_bad_it_is_how_long_it_lasts_what_it_is_about_and_where_help_is() {
        let root = crate::root().unwrap();
        for (path, text) in alert_files() {
            let mut names = BTreeSet::new();
            for rule in rules(&text) {
                let name = rule["alert"].as_str().unwrap();
                assert!(names.insert(name.to_owned()), "{path}: {name} is there twice");
                assert!(
                    ["critical", "warning", "info"].contains(&rule["labels"]["severity"].as_str().unwrap()),
                    "{name}"
                );
                assert!(rule["for"].is_string(), "{name}");
                let annotation =
                    |key: &str| rule["annotations"][key].as_str().unwrap_or_else(|| panic!("{name}: {key}"));
                assert!(annotation("summary").len() < 120 && annotation("description").len() > 40, "{name}");
                // The page exists, has the heading, and speaks of this alert.
                let (page, heading) = annotation("runbook").split_once('#').unwrap();
                let page =
                    fs::read_to_string(root.join(page)).unwrap_or_else(|error| panic!("{name}: {page}: {error}"));
                let anchor =
                    |line: &str| line.trim_start_matches('#').trim().to_lowercase().replace('`', "").replace(' ', "-");
                assert!(
                    page.lines().any(|line| line.starts_with('#') && anchor(line) == heading),
                    "{name}: no {heading}"
                );
                assert!(page.contains(&format!("`{name}`")), "{name} is not in its runbook");
            }
        }
    }

    /// Of each panel of a dashboard its title and expressions.
    fn panels(dashboard: &Value) -> Vec<(String, Vec<String>)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let panels = dashboard["panels"].as_array().unwrap().iter();
        let targets = |panel: &Value| panel["targets"].as_array().unwrap().iter().map(|it| text(&it["expr"])).collect();
        panels.map(|panel| (text(&panel["title"]), targets(panel))).collect()
    }

    #[test]
    fn each_metric_and_label_in_a_dashboard_is_in_the_table_and_each_panel_has_a_place() {
        let dashboards = files().into_iter().filter(|(path, _)| path.extension().is_some_and(|it| it == "json"));
        let mut uids: BTreeMap<String, String> = BTreeMap::new();
        for (path, text) in dashboards {
            let place = path.display().to_string();
            let dashboard: Value = serde_json::from_str(&text).unwrap();
            let uid = dashboard["uid"].as_str().unwrap().to_owned();
            assert_eq!(
                uids.entry(uid.clone()).or_insert_with(|| text.clone()),
                &text,
                "{place}: {uid} is another one's"
            );
            for (title, expressions) in panels(&dashboard) {
                assert!(!title.is_empty() && !expressions.is_empty(), "{place}: {title}");
                for expression in expressions {
                    // Grafana puts these in.
                    check(&format!("{place}: {title}"), &expression.replace("$__rate_interval", "5m"));
                }
            }
            for variable in dashboard["templating"]["list"].as_array().unwrap() {
                if let Some(query) = variable["query"].as_str().and_then(|it| it.strip_prefix("label_values(")) {
                    let (selector, label) = query.trim_end_matches(')').rsplit_once(", ").unwrap();
                    check(&place, selector);
                    check(&place, &format!("count by ({label}) ({selector})"));
                }
            }
            let at = |panel: &Value, key: &str| panel["gridPos"][key].as_u64().unwrap();
            let cells = dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| {
                let (x, y, w, h) = (at(panel, "x"), at(panel, "y"), at(panel, "w"), at(panel, "h"));
                assert!(x + w <= 24, "{place}: {}", panel["title"]);
                (x..x + w).flat_map(move |x| (y..y + h).map(move |y| (x, y)))
            });
            let cells: Vec<_> = cells.collect();
            assert_eq!(cells.iter().collect::<BTreeSet<_>>().len(), cells.len(), "{place}: panels lie on each other");
        }
        assert_eq!(uids.len(), OPERATORS.len() + 1);
    }

    #[test]
    fn every_metric_of_a_resource_and_of_a_server_is_on_some_dashboard() {
        let all: String = files().into_values().collect();
        for metric in metrics::all().filter(|metric| metric.told != metrics::Told::Always) {
            assert!(all.matches(metric.name).count() > 1, "{} is of no use", metric.name);
        }
    }
}
