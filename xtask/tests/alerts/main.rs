//! Alert rules, as promtool judges them: each fires when it shall, not before, and nothing else fires with it.

mod cases;
mod scene;

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tf_testing::{assets, operators};

use self::{
    cases::{Case, cases},
    scene::Subject,
};

fn promtool(arguments: &[&str], file: &Path) -> Result<String> {
    let output = Command::new(assets::promtool()?).args(arguments).arg(file).output()?;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "promtool {arguments:?} {}:\n{said}", file.display());
    Ok(said)
}

fn rules_of(operator: &str) -> std::path::PathBuf {
    operators::chart(operator).join("files/alerts.yaml")
}

/// Names of the alerts of an operator.
fn names(operator: &str) -> Result<BTreeSet<String>> {
    let rules: Value = serde_saphyr::from_str(&fs::read_to_string(rules_of(operator))?)?;
    let groups = rules["groups"].as_array().context("no groups")?;
    let rules = groups.iter().flat_map(|group| group["rules"].as_array().into_iter().flatten());
    Ok(rules.filter_map(|rule| Some(rule["alert"].as_str()?.to_owned())).collect())
}

/// A case in promtool's words: at each moment exactly these alerts fire.
fn test(case: &Case, names: &BTreeSet<String>) -> Value {
    let series = |(series, values): (&String, &String)| json!({"series": series, "values": values});
    let moments = case.fires.iter().map(|(minute, expected)| {
        let samples = expected.iter().filter(|name| names.contains(*name));
        let samples = samples.map(|name| json!({"labels": format!("{{alertname=\"{name}\"}}"), "value": 1}));
        json!({
            "expr": "count by (alertname) (ALERTS{alertstate=\"firing\"})", "eval_time": format!("{minute}m"),
            "exp_samples": samples.collect::<Vec<_>>(),
        })
    });
    json!({
        "name": case.name, "interval": "1m", "promql_expr_test": moments.collect::<Vec<_>>(), "alert_rule_test": case.texts,
        "input_series": case.series.iter().map(series).collect::<Vec<_>>(),
    })
}

#[test]
fn the_rules_of_every_chart_are_rules() -> Result<()> {
    for operator in operators::ALL {
        let said = promtool(&["check", "rules"], &rules_of(operator))?;
        let count = format!("{} rules found", names(operator)?.len());
        ensure!(said.contains(&count), "{operator}: {said}");
    }
    Ok(())
}

#[test]
fn each_alert_fires_in_its_case_after_its_time_and_alone() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for operator in operators::ALL {
        let names = names(operator)?;
        let cases = cases(&Subject::of(operator)?)?;
        let fired: BTreeSet<_> =
            cases.iter().flat_map(|case| case.fires.iter().flat_map(|(_, names)| names.clone())).collect();
        let never: Vec<_> = names.difference(&fired).collect();
        ensure!(never.is_empty(), "{operator}: no case has these fire: {never:?}");
        let tests: Vec<_> = cases.iter().map(|case| test(case, &names)).collect();
        let file = folder.path().join(format!("{operator}.yaml"));
        let rules = rules_of(operator).canonicalize()?;
        let content = json!({"rule_files": [rules], "evaluation_interval": "1m", "tests": tests});
        fs::write(&file, content.to_string())?;
        promtool(&["test", "rules"], &file).with_context(|| operator.to_owned())?;
    }
    Ok(())
}

/// The way to look at rules shows a rule that does not do what it should.
#[test]
fn a_case_with_another_outcome_is_refused() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let operator = "zookeeper-op";
    let names = names(operator)?;
    let mut case =
        cases(&Subject::of(operator)?)?.into_iter().find(|case| case.name == "all is well").context("no such case")?;
    case.fires = vec![(30, vec!["ZookeeperDegraded".to_owned()])];
    let content = json!({
        "rule_files": [rules_of(operator).canonicalize()?], "evaluation_interval": "1m", "tests": [test(&case, &names)],
    });
    let file = folder.path().join("wrong.yaml");
    fs::write(&file, content.to_string())?;
    let error = promtool(&["test", "rules"], &file).unwrap_err();
    let said = format!("{error}");
    ensure!(said.contains("exp: {alertname=\"ZookeeperDegraded\"}") && said.contains("got: nil"), "{said}");
    Ok(())
}
