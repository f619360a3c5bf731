//! Helm: what charts render, what they refuse, and releases of them.

use std::{env, path::Path, path::PathBuf, process::Command};

use anyhow::{Context, Result, ensure};

use crate::{
    assets::{self, KUBERNETES, Tool},
    operators::chart,
};

/// How a chart is rendered.
#[derive(Clone, Debug)]
pub struct Rendering {
    /// Name of the release.
    pub release: String,
    /// Namespace of the release.
    pub namespace: String,
    /// Files of values, later ones win.
    pub files: Vec<PathBuf>,
    /// Values as `key=value`, which win over the files.
    pub values: Vec<String>,
    /// Kinds that the cluster has besides Kubernetes' own, as `group/version/kind`.
    pub kinds: Vec<String>,
}

impl Rendering {
    /// The chart of `operator` with its default values, as the release that [`Lab::install`](crate::Lab::install) makes.
    pub fn new(operator: &str, namespace: &str) -> Self {
        Self {
            release: operator.to_owned(),
            namespace: namespace.to_owned(),
            files: Vec::new(),
            values: Vec::new(),
            kinds: Vec::new(),
        }
    }

    /// With a file of values.
    #[must_use]
    pub fn file(mut self, file: impl Into<PathBuf>) -> Self {
        self.files.push(file.into());
        self
    }

    /// With a value.
    #[must_use]
    pub fn value(mut self, value: impl Into<String>) -> Self {
        self.values.push(value.into());
        self
    }

    /// In a cluster with this kind, such as `example.com/v1/Thing`.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kinds.push(kind.into());
        self
    }
}

/// The manifests that a chart renders, with comments.
///
/// # Errors
/// What Helm says when the values do not satisfy the chart.
pub async fn template(operator: &str, rendering: &Rendering) -> Result<String> {
    let mut command = command(&env::temp_dir().join("tf-lab-helm"))?;
    command.args(["template", &rendering.release]).arg(chart(operator));
    command.args(["--namespace", &rendering.namespace]).args(kubernetes());
    for kind in &rendering.kinds {
        command.args(["--api-versions", kind]);
    }
    options(&mut command, rendering);
    run(command).await.with_context(|| format!("rendering the chart of {operator}"))
}

/// `helm lint --strict`.
///
/// # Errors
/// What Helm has to say against the chart.
pub async fn lint(operator: &str, rendering: &Rendering) -> Result<String> {
    let mut command = command(&env::temp_dir().join("tf-lab-helm"))?;
    command.args(["lint", "--strict"]).arg(chart(operator));
    command.args(["--namespace", &rendering.namespace]).args(kubernetes());
    options(&mut command, rendering);
    run(command).await.with_context(|| format!("linting the chart of {operator}"))
}

/// Helm, without the user's own configuration: nothing of it is read or written. `home`: a folder for what it keeps.
///
/// # Errors
/// When Helm is not there and cannot be built.
pub fn command(home: &Path) -> Result<Command> {
    let mut command = Command::new(assets::find(Tool::Helm)?);
    for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(variable, home);
    }
    Ok(command)
}

/// Without a cluster Helm assumes the version it was released with, which `go install` does not tell it.
fn kubernetes() -> [&'static str; 2] {
    ["--kube-version", KUBERNETES]
}

fn options(command: &mut Command, rendering: &Rendering) {
    for file in &rendering.files {
        command.arg("--values").arg(file);
    }
    for value in &rendering.values {
        command.args(["--set", value]);
    }
}

/// Runs Helm and returns what it printed.
///
/// # Errors
/// What Helm says against it.
pub async fn run(mut command: Command) -> Result<String> {
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // `helm lint` explains itself on standard output.
    ensure!(output.status.success(), "{}", format!("{err}\n{out}").trim());
    Ok(out.into_owned())
}
