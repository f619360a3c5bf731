//! `cargo xtask lint`: the layers of the workspace, checked against what the manifests say, what libraries compile, circles of imports, what comments cite, and words
//! that the glossary replaces, which may only become fewer.

mod circles;
mod citations;
mod reach;
mod words;

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// What a crate may depend on.
struct Layer {
    name: &'static str,
    /// Crates of ours it may use.
    ours: &'static [&'static str],
    /// Crates of others it must not use directly: I/O, clocks and randomness in crates that only decide.
    never: &'static [&'static str],
}

const DECIDES: &[&str] = &["kube", "tokio", "rand", "axum", "reqwest", "hyper", "tf-runtime"];
const OPERATOR: &[&str] =
    &["tf-agent-api", "tf-api", "tf-config-api", "tf-config-files", "tf-contrail", "tf-pki", "tf-plan", "tf-runtime"];
const OPERATOR_NEVER: &[&str] = &["kube", "tokio", "rand", "hyper", "reqwest"];

/// Who may use the operators' pure halves, all of them.
const ABOVE_OPERATORS: [&str; 2] = ["tf-cli", "xtask"];

/// Bottom to top, as in `docs/architecture.md`.
const LAYERS: [Layer; 26] = [
    Layer { name: "tf-api", ours: &[], never: &["tokio", "rand", "hyper", "reqwest"] },
    Layer { name: "tf-pki", ours: &[], never: DECIDES },
    Layer { name: "tf-config-files", ours: &[], never: DECIDES },
    Layer { name: "tf-agent-api", ours: &["tf-api", "tf-config-files", "tf-pki"], never: DECIDES },
    Layer { name: "tf-config-api", ours: &[], never: DECIDES },
    Layer {
        name: "tf-plan",
        ours: &["tf-agent-api", "tf-api", "tf-config-api", "tf-config-files", "tf-pki"],
        never: DECIDES,
    },
    Layer { name: "tf-contrail", ours: &["tf-agent-api", "tf-api", "tf-config-files", "tf-plan"], never: DECIDES },
    // It reads nodes and knows nothing of Kubernetes, so that it works where there is no cluster.
    Layer { name: "tf-host", ours: &[], never: &["kube", "k8s-openapi", "tokio", "rand", "axum", "hyper", "reqwest"] },
    Layer {
        name: "tf-node",
        ours: &["tf-agent-api", "tf-api", "tf-config-files", "tf-host", "tf-pki"],
        never: &["kube", "axum", "rand", "reqwest"],
    },
    Layer {
        name: "tf-runtime",
        ours: &["tf-agent-api", "tf-api", "tf-config-api", "tf-config-files", "tf-pki", "tf-plan"],
        never: &["reqwest"],
    },
    Layer { name: "cassandra-op", ours: OPERATOR, never: OPERATOR_NEVER },
    Layer { name: "config-op", ours: OPERATOR, never: OPERATOR_NEVER },
    Layer { name: "control-op", ours: OPERATOR, never: OPERATOR_NEVER },
    Layer { name: "analytics-op", ours: OPERATOR, never: OPERATOR_NEVER },
    Layer { name: "kubemanager-op", ours: OPERATOR, never: OPERATOR_NEVER },
    Layer { name: "manager-op", ours: OPERATOR, never: OPERATOR_NEVER },
    Layer { name: "rabbitmq-op", ours: OPERATOR, never: OPERATOR_NEVER },
    Layer { name: "redis-op", ours: OPERATOR, never: OPERATOR_NEVER },
    Layer { name: "vrouter-op", ours: OPERATOR, never: OPERATOR_NEVER },
    Layer { name: "webui-op", ours: OPERATOR, never: OPERATOR_NEVER },
    Layer { name: "zookeeper-op", ours: OPERATOR, never: OPERATOR_NEVER },
    // It reads what operators render without what they render it with.
    // It plays the kernel module for `tf-host`, by the same facts of the network. What operators render it reads by itself.
    Layer { name: "tf-sim", ours: &["tf-host"], never: &["kube"] },
    Layer { name: "tf-cli", ours: &["tf-agent-api", "tf-api", "tf-plan"], never: &["rand", "hyper", "reqwest"] },
    Layer {
        name: "tf-testing",
        ours: &["tf-agent-api", "tf-api", "tf-config-api", "tf-config-files", "tf-plan", "tf-runtime", "tf-sim"],
        never: &[],
    },
    Layer {
        name: "e2e",
        ours: &["tf-agent-api", "tf-api", "tf-cli", "tf-plan", "tf-runtime", "tf-testing"],
        never: &[],
    },
    Layer { name: "xtask", ours: &["e2e", "tf-agent-api", "tf-api", "tf-plan", "tf-testing"], never: &[] },
];

/// Runs the command.
pub fn run() -> Result<ExitCode> {
    let output = crate::cargo()
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(crate::root()?)
        .output()?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let root = crate::root()?;
    let broken = check(&serde_json::from_slice(&output.stdout)?)?;
    none(&broken, "dependencies break the layers")?;
    none(&reach::check()?, "packages compile what reconciles and do not need it")?;
    println!("the layers of {} crates hold", LAYERS.len());
    none(&circles::check(&root)?, "circles of imports; move what both sides need to a file of its own")?;
    none(&citations::check(&root)?, "citations of what is not there")?;
    none(&words::check(&root)?, "files have more of the words that the glossary replaces than before")?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what was found, and fails if that is anything.
fn none(found: &[String], what: &str) -> Result<()> {
    for line in found {
        eprintln!("{line}");
    }
    ensure!(found.is_empty(), "{} {what}", found.len());
    Ok(())
}

/// Paths and texts of the files of this repository that match one of the patterns.
fn tracked(root: &Path, patterns: &[&str], exempt: &[&str]) -> Result<Vec<(String, String)>> {
    let output = Command::new("git").args(["ls-files", "--"]).args(patterns).current_dir(root).output()?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let paths = String::from_utf8(output.stdout)?;
    let paths = paths.lines().filter(|path| !exempt.iter().any(|exempt| path.starts_with(exempt)));
    // One that was deleted and not committed yet is none.
    Ok(paths.filter_map(|path| Some((path.to_owned(), fs::read_to_string(root.join(path)).ok()?))).collect())
}

/// Dependencies that no layer allows.
fn check(metadata: &Value) -> Result<Vec<String>> {
    let packages = metadata["packages"].as_array().context("no packages")?;
    let ours: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut broken = Vec::new();
    for package in packages {
        let name = package["name"].as_str().context("a package without a name")?;
        let Some(layer) = LAYERS.iter().find(|layer| layer.name == name) else {
            broken.push(format!("{name}: no layer says what it may use; add it to xtask/src/lint.rs"));
            continue;
        };
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        // Tests may use the laboratory.
        for dependency in dependencies.filter(|dependency| dependency["kind"] != "dev") {
            let used = dependency["name"].as_str().unwrap_or_default();
            let is_allowed = layer.ours.contains(&used) || ABOVE_OPERATORS.contains(&name) && used.ends_with("-op");
            if ours.contains(used) && !is_allowed {
                broken.push(format!("{name} must not use {used}"));
            } else if layer.never.contains(&used) && !is_types_only(name, dependency) {
                broken.push(format!("{name} must not use {used} directly"));
            }
        }
    }
    Ok(broken)
}

/// `tf-api` uses kube for its derive macro only.
fn is_types_only(name: &str, dependency: &Value) -> bool {
    name == "tf-api" && dependency["name"] == "kube" && dependency["features"] == serde_json::json!(["derive"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::check;

    fn package(name: &str, uses: &[&str]) -> serde_json::Value {
        let dependencies: Vec<_> = uses.iter().map(|used| json!({"name": used, "kind": null})).collect();
        json!({"name": name, "dependencies": dependencies})
    }

    #[test]
    fn an_operator_that_uses_another_or_kube_is_reported() {
        let metadata = json!({"packages": [
            package("tf-plan", &["tf-api", "tokio"]),
            package("zookeeper-op", &["config-op", "kube", "tf-plan"]),
            package("config-op", &[]),
            package("surprise", &[]),
        ]});
        assert_eq!(
            check(&metadata).unwrap(),
            [
                "tf-plan must not use tokio directly",
                "zookeeper-op must not use config-op",
                "zookeeper-op must not use kube directly",
                "surprise: no layer says what it may use; add it to xtask/src/lint.rs",
            ]
        );
    }
}
