//! Operators in a lab: installed from their charts, run as processes of this machine.
//!
//! A chart is installed by Helm with no replicas, so everything else of it is real: definitions, ServiceAccount, roles. The
//! process gets the environment that the chart's Deployment states and a token of the chart's ServiceAccount, so a right
//! that the chart does not grant is a right the process does not have.

use std::{
    collections::BTreeSet,
    env,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;

use crate::{
    Lab, audit, helm,
    kubeconfig::{self, Endpoint},
    process::{Process, Spec},
    wait::eventually,
};

/// The operators of this repository.
pub const ALL: [&str; 11] = [
    "analytics-op",
    "cassandra-op",
    "config-op",
    "control-op",
    "kubemanager-op",
    "manager-op",
    "rabbitmq-op",
    "redis-op",
    "vrouter-op",
    "webui-op",
    "zookeeper-op",
];

/// Variable with the operators whose cases are tried by tests that have some for each, separated by spaces. `cargo xtask soak` sets it.
pub const NAMED: &str = "TF_CASES_OF";

/// The operators that the environment names. None if it names none: all are meant.
///
/// # Errors
/// When a word is no operator's name.
pub fn named() -> Result<Option<BTreeSet<String>>> {
    let Ok(text) = env::var(NAMED) else { return Ok(None) };
    let names: BTreeSet<String> = text.split_whitespace().map(str::to_owned).collect();
    match names.iter().find(|name| !ALL.contains(&name.as_str())) {
        Some(unknown) => bail!("{NAMED}: there is no {unknown}; operators are {}", ALL.join(", ")),
        None => Ok(Some(names)),
    }
}

/// Kinds that an operator is for, each with watches of its own.
pub fn kinds_of(operator: &str) -> usize {
    tf_api::kinds::ALL.iter().filter(|kind| kind.operator == operator).count().max(1)
}

/// Largest executable of an operator in profile `lab`, in KiB: 14 MiB. A published one is smaller. How much of it is resident is the kernel's choice,
/// which maps what it has cached around what runs: on one machine 80 % of the file, on another 90 %. The size of the file bounds that part, and is the
/// same everywhere.
pub const LARGEST_EXECUTABLE: u64 = 14 * 1024;

/// Largest resident memory of an idle operator beside its executable, in KiB: 5 MiB, and 3 more for each further kind in the process.
pub fn largest_own(operator: &str) -> u64 {
    (2 + 3 * kinds_of(operator) as u64) * 1024
}

/// How an operator is installed.
#[derive(Clone, Debug, Default)]
pub struct Install {
    /// Helm values as `key=value`, in addition to the lab's own.
    pub values: Vec<String>,
    /// Install only roles and account; the definitions are there already.
    pub without_definitions: bool,
}

/// Where the process finds the API server, and what its environment says besides what the chart says.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Another endpoint than the API server's own, for example that of a fault-injecting proxy.
    pub endpoint: Option<Endpoint>,
    /// Variables that replace those of the chart.
    pub env: Vec<(String, String)>,
    /// Folder of the executables; where [`binary`] looks if none is given.
    pub binaries: Option<PathBuf>,
}

/// A running operator.
#[derive(Debug)]
pub struct Operator {
    /// Name of the operator, of its chart and of its release.
    pub name: &'static str,
    /// Namespace of the release.
    pub namespace: String,
    /// User name of its ServiceAccount in the audit log.
    pub user: String,
    /// Where it serves health and metrics.
    pub address: String,
    /// The process.
    pub process: Process,
}

impl Operator {
    /// A page of its HTTP server, with the status code.
    pub async fn get(&self, path: &str) -> Result<(u16, String)> {
        use http_body_util::BodyExt as _;
        let stream = tokio::net::TcpStream::connect(&self.address).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = http::Request::get(path).header("host", &self.address).body(String::new())?;
        let answer = sender.send_request(request).await?;
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok((code, String::from_utf8_lossy(&body).into_owned()))
    }

    /// The value of a metric; 0 if it is not there. `labels` are pieces its label list has to contain.
    pub async fn metric(&self, name: &str, labels: &[&str]) -> Result<f64> {
        let (_, text) = self.get("/metrics").await?;
        let of_interest = |line: &&str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
                && labels.iter().all(|l| line.contains(l))
        };
        let values = text.lines().filter(of_interest).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        Ok(values.sum())
    }

    /// Waits until it is ready to work.
    pub async fn ready(&self) -> Result<()> {
        eventually(&format!("{} to be ready", self.name), Duration::from_secs(30), async || {
            ensure!(self.process.is_running(), "{} ended:\n{}", self.name, self.process.tail(20));
            Ok(matches!(self.get("/readyz").await, Ok((200, _))).then_some(()))
        })
        .await
    }
}

impl Lab {
    /// Installs an operator from its chart, or upgrades the release, and returns what Helm tells the user.
    pub async fn install(&self, operator: &str, namespace: &str, install: &Install) -> Result<String> {
        let mut command = self.helm()?;
        command.args(["upgrade", "--install", operator]).arg(chart(operator));
        command.args(["--namespace", namespace, "--create-namespace", "--set", "replicaCount=0"]);
        if install.without_definitions {
            command.args(["--set", "crds.install=false"]);
        }
        for value in &install.values {
            command.args(["--set", value]);
        }
        helm::run(command).await.with_context(|| format!("installing {operator}"))
    }

    /// Uninstalls an operator.
    pub async fn uninstall(&self, operator: &str, namespace: &str) -> Result<String> {
        let mut command = self.helm()?;
        command.args(["uninstall", operator, "--namespace", namespace]);
        helm::run(command).await.with_context(|| format!("uninstalling {operator}"))
    }

    /// Starts an installed operator as a process.
    pub async fn operate(&self, operator: &'static str, namespace: &str, how: &Run) -> Result<Operator> {
        let deployments: Api<Deployment> = Api::namespaced(self.client().await?, namespace);
        let deployment = deployments.get(operator).await.with_context(|| format!("{operator} is not installed"))?;
        let pod = deployment.spec.and_then(|spec| spec.template.spec).context("a Deployment without a pod")?;
        let account = pod.service_account_name.clone().context("a pod without a ServiceAccount")?;
        let token = self.service_account_kubeconfig(namespace, &account).await?;
        let unique = format!("{namespace}.{operator}.{:08x}", rand::random::<u32>());
        let kubeconfig = match &how.endpoint {
            None => token,
            Some(endpoint) => {
                let redirected = self.folder().kubeconfig(&unique);
                kubeconfig::redirect(&token, &redirected, endpoint)?;
                redirected
            }
        };
        let address = free_address()?;
        let mut spec = Spec::new(
            unique,
            how.binaries.as_ref().map_or_else(|| binary(operator), |folder| Ok(folder.join(operator)))?,
        );
        for variable in pod.containers.first().and_then(|container| container.env.as_ref()).into_iter().flatten() {
            let value = match variable.name.as_str() {
                "POD_NAMESPACE" => namespace.to_owned(),
                "POD_NAME" => operator.to_owned(),
                "LISTEN_ADDRESS" => address.clone(),
                _ => variable.value.clone().unwrap_or_default(),
            };
            spec = spec.env(&variable.name, value);
        }
        spec = spec.env("KUBECONFIG", kubeconfig.to_string_lossy());
        if let Ok(apis) = self.config_apis() {
            spec = spec.env("CONFIG_API_PROXY", apis.proxy());
        }
        for (name, value) in &how.env {
            spec = spec.env(name, value);
        }
        let process = self.spawn(spec)?;
        let user = audit::service_account(namespace, &account);
        Ok(Operator { name: operator, namespace: namespace.to_owned(), user, address, process })
    }

    /// Helm, acting on this lab as its administrator.
    fn helm(&self) -> Result<Command> {
        let mut command = helm::command(&self.folder().path().join("helm"))?;
        command.arg("--kubeconfig").arg(self.kubeconfig());
        Ok(command)
    }
}

/// Folder of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Folder of an operator's chart.
pub fn chart(operator: &str) -> PathBuf {
    repository().join("charts").join(operator)
}

/// The executable of an operator: in `$TF_OPERATORS`, else where `cargo build --profile lab` puts it.
pub fn binary(operator: &str) -> Result<PathBuf> {
    let folder = match (std::env::var_os("TF_OPERATORS"), std::env::var_os("CARGO_TARGET_DIR")) {
        (Some(folder), _) => PathBuf::from(folder),
        (None, Some(target)) => PathBuf::from(target).join("lab"),
        (None, None) => repository().join("target/lab"),
    };
    let path = folder.join(operator);
    if !path.exists() {
        bail!("{} does not exist; build it with: cargo build --profile lab -p {operator}", path.display());
    }
    Ok(path)
}

/// A port that was free a moment ago.
fn free_address() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}
