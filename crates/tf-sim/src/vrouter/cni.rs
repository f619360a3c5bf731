//! contrail-k8s-cni, the CNI plugin: it asks the agent of its node for the address of a pod, as there, and has the plugins `ptp` and `static` of the
//! node connect the pod, in the place of the kernel module.
//!
//! Like the plugin it reads its settings from a file in the directory of configurations first, whatever the runtime gives it, and ends where
//! there is none, also when a pod is deleted.

use std::{
    env, fs,
    io::{Read as _, Write as _, stdin},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use http_body_util::Full;
use hyper::{Method, Request, StatusCode, body::Bytes};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::ports::{ADDRESS, GATEWAY, LENGTH, UUID};
use crate::http;

/// Name of the program.
pub const NAME: &str = "contrail-k8s-cni";
/// Where it looks for its settings.
const CONFIGURATIONS: &str = "/etc/cni/net.d";
/// The plugin that connects the pod.
const DELEGATE: &str = "ptp";

/// Carries out the command of the runtime. Out: what is printed, also of a failure.
pub async fn run() -> (String, bool) {
    match command().await {
        Ok(printed) => (printed, true),
        Err(error) => {
            (json!({"cniVersion": "0.3.1", "code": 999, "msg": format!("{NAME}: {error:#}")}).to_string(), false)
        }
    }
}

async fn command() -> Result<String> {
    let command = env::var("CNI_COMMAND").context("CNI_COMMAND")?;
    if command == "VERSION" {
        return Ok(json!({"cniVersion": "0.3.1", "supportedVersions": ["0.3.0", "0.3.1"]}).to_string());
    }
    let settings = settings(Path::new(CONFIGURATIONS))?;
    let mut given = String::new();
    stdin().read_to_string(&mut given)?;
    let given: Value = serde_json::from_str(&given)?;
    let agent = &settings["contrail"];
    let pod = Pod::of(&env::var("CNI_ARGS").unwrap_or_default())?;
    let port = u16::try_from(agent["vrouter-port"].as_u64().context("no vrouter-port")?)?;
    let host = agent["vrouter-ip"].as_str().context("no vrouter-ip")?;
    let ask = async |method: Method, path: String, body: Value| -> Result<(StatusCode, Value)> {
        let request = Request::builder().method(method).uri(path).body(Full::new(Bytes::from(body.to_string())))?;
        let told = http::ask(host, port, None, request).await?;
        Ok((told.status, serde_json::from_slice(&told.body).unwrap_or_default()))
    };
    let directory = PathBuf::from(agent["config-dir"].as_str().context("no config-dir")?);
    let cluster = agent["cluster-name"].as_str().unwrap_or("k8s");
    let kept = directory.join(format!("{cluster}__{}__{}", pod.namespace, pod.name));
    let name = given["name"].as_str().unwrap_or(NAME);
    if command == "DEL" {
        // The agent may have forgotten it, or be away.
        let _ = ask(Method::DELETE, format!("/vm/{}", pod.uid), Value::Null).await;
        let _ = fs::remove_dir_all(&kept);
        return delegate(name, None);
    }
    ensure!(command == "ADD", "{command} is not played");
    ask(Method::POST, "/vm".into(), json!({UUID: pod.uid})).await?;
    let mut given = None;
    let (pause, tries) = (agent["poll-timeout"].as_u64().unwrap_or(3), agent["poll-retries"].as_u64().unwrap_or(20));
    for _ in 0..tries {
        let (status, answer) = ask(Method::GET, format!("/vm/{}", pod.uid), Value::Null).await?;
        let text = |key: &str| answer[0][key].as_str().filter(|_| status == StatusCode::OK).map(str::to_owned);
        given = text(ADDRESS).zip(text(LENGTH)).zip(text(GATEWAY));
        if given.is_some() {
            break;
        }
        sleep(Duration::from_secs(pause)).await;
    }
    let ((address, length), gateway) = given.context("the agent gives no address")?;
    fs::create_dir_all(&kept)?;
    fs::write(kept.join(&pod.uid), json!({UUID: pod.uid, ADDRESS: address}).to_string())?;
    delegate(name, Some((&format!("{address}/{length}"), &gateway)))
}

/// The first of its files, by name.
fn settings(directory: &Path) -> Result<Value> {
    let is_one = |name: &String| name.ends_with("contrail.conf") || name.ends_with("tf-cni.conf");
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let first = entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(is_one).min();
    let first = first.with_context(|| format!("no settings in {}", directory.display()))?;
    Ok(serde_json::from_slice(&fs::read(directory.join(first))?)?)
}

/// Has the other plugin do the same, with the environment of this one.
fn delegate(name: &str, given: Option<(&str, &str)>) -> Result<String> {
    let port = |(address, gateway): (&str, &str)| json!({"address": address, "gateway": gateway});
    let addresses: Vec<Value> = given.map(port).into_iter().collect();
    let ipam = json!({"type": "static", "addresses": addresses, "routes": [{"dst": "0.0.0.0/0"}]});
    let configuration = json!({"cniVersion": "0.3.1", "name": name, "type": DELEGATE, "ipMasq": false, "ipam": ipam});
    let directories = env::var("CNI_PATH").unwrap_or_default();
    let program = env::split_paths(&directories).map(|directory| directory.join(DELEGATE)).find(|path| path.exists());
    let program = program.with_context(|| format!("no {DELEGATE} in {directories}"))?;
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().context("no input")?.write_all(configuration.to_string().as_bytes())?;
    let output = child.wait_with_output()?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{DELEGATE}: {printed}");
    }
    Ok(printed)
}

/// Whose port it is.
struct Pod {
    namespace: String,
    name: String,
    uid: String,
}

impl Pod {
    /// `CNI_ARGS` of a runtime for Kubernetes: `KEY=VALUE` between semicolons.
    fn of(arguments: &str) -> Result<Self> {
        let value = |key: &str| {
            let found = arguments.split(';').filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == key);
            found.map(|(_, value)| value.to_owned()).with_context(|| format!("CNI_ARGS without {key}"))
        };
        Ok(Self { namespace: value("K8S_POD_NAMESPACE")?, name: value("K8S_POD_NAME")?, uid: value("K8S_POD_UID")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_file_of_its_names_has_its_settings() {
        let directory = tempfile::tempdir().unwrap();
        assert!(settings(directory.path()).is_err());
        for (name, text) in [("05-bridge.conf", "{}"), ("10-tf-cni.conf", r#"{"a": 1}"#), ("99-contrail.conf", "{}")] {
            fs::write(directory.path().join(name), text).unwrap();
        }
        assert_eq!(settings(directory.path()).unwrap()["a"], 1);
    }

    #[test]
    fn a_pod_is_named_by_the_runtime() {
        let pod = Pod::of("IgnoreUnknown=1;K8S_POD_NAMESPACE=a;K8S_POD_NAME=b;K8S_POD_UID=c").unwrap();
        assert_eq!((pod.namespace.as_str(), pod.name.as_str(), pod.uid.as_str()), ("a", "b", "c"));
        assert!(Pod::of("K8S_POD_NAME=b").is_err());
    }
}
