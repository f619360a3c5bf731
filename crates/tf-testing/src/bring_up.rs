//! From an empty folder to a control plane that answers.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::Request;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;

use crate::{
    assets::{self, Tool},
    components::{AUDIT_POLICY, Component, Programs, STAGES, spec},
    folder::{Folder, write_atomically},
    kubeconfig::{self, Credential, Endpoint},
    options::{Options, Tier},
    pki::{Authority, write_pair, write_service_account_key},
    ports::Ports,
    process::Process,
    real::dns,
    wait::eventually,
};

/// How long an API server may take to answer. It needs 4 to 10 s when the machine is not otherwise busy.
const READY_WITHIN: Duration = Duration::from_mins(2);

/// The longest name under which pods reach the API server.
const SERVICE_NAME: &str = "kubernetes.default.svc.cluster.local";

/// How often ports are chosen again after somebody else took one between the choice and its use.
const PORT_ATTEMPTS: u32 = 4;

/// Finds or builds what a tier needs.
pub async fn programs(tier: Tier) -> Result<Programs> {
    // Building blocks for minutes.
    tokio::task::spawn_blocking(move || {
        Ok(Programs {
            control_plane: assets::find(Tool::ControlPlane)?,
            kwok: (tier == Tier::Fleet).then(|| assets::find(Tool::Kwok)).transpose()?,
            core_dns: (tier == Tier::Real).then(|| assets::find(Tool::CoreDns)).transpose()?,
        })
    })
    .await?
}

/// Starts the components of a tier, the API server on `address`. On return that is ready and the namespace `default` exists.
pub async fn control_plane(
    folder: &Folder,
    programs: &Programs,
    options: &Options,
    address: IpAddr,
) -> Result<BTreeMap<Component, Process>> {
    folder.path().to_str().context("the state folder's path is not UTF-8")?;
    let authority = keys(folder, options, address)?;
    write_atomically(&folder.path().join("audit-policy.yaml"), AUDIT_POLICY.as_bytes())?;
    write_atomically(&folder.path().join("stages.yaml"), STAGES.as_bytes())?;
    if options.tier == Tier::Real {
        let corefile = dns::corefile(address, &folder.kubeconfig(Component::CoreDns.name()));
        write_atomically(&folder.path().join("Corefile"), corefile.as_bytes())?;
    }

    let (ports, mut processes) = store_and_api_server(folder, programs, options, &authority, address).await?;
    for component in &Component::of(options.tier)[2..] {
        let spec = spec(*component, programs, folder, ports, options).context("no executable")?;
        processes.insert(*component, Process::spawn(folder, spec)?);
    }
    Ok(processes)
}

async fn store_and_api_server(
    folder: &Folder,
    programs: &Programs,
    options: &Options,
    authority: &Authority,
    address: IpAddr,
) -> Result<(Ports, BTreeMap<Component, Process>)> {
    for _ in 0..PORT_ATTEMPTS {
        let ports = Ports::choose(address)?;
        kubeconfigs(folder, authority, ports, options.tier)?;
        let mut processes = BTreeMap::new();
        // The API server tries to reach etcd for longer than etcd needs.
        for component in [Component::Etcd, Component::ApiServer] {
            let spec = spec(component, programs, folder, ports, options).context("no executable")?;
            processes.insert(component, Process::spawn(folder, spec)?);
        }
        let client = crate::lab::client(&folder.kubeconfig("admin")).await?;
        let all_run = || processes.values().all(Process::is_running);
        let Err(error) = until_ready(&client, all_run).await else { return Ok((ports, processes)) };

        let ended: Vec<&Process> = processes.values().filter(|process| !process.is_running()).collect();
        if !ended.iter().any(|process| process.tail(20).contains("address already in use")) {
            let tails: Vec<String> =
                processes.values().map(|p| format!("{} logged:\n{}", p.name(), p.tail(10))).collect();
            return Err(error.context(format!("the control plane does not come up\n{}", tails.join("\n"))));
        }
        let logs: Vec<_> = processes.values().map(Process::log).collect();
        drop(processes);
        for log in logs {
            fs::remove_file(log)?;
        }
        fs::remove_dir_all(folder.path().join("etcd"))?;
    }
    bail!("somebody else took the chosen ports, {PORT_ATTEMPTS} times in a row")
}

/// Waits until the API server reports ready and its first objects exist; fails early when `running` says false.
pub async fn until_ready(client: &kube::Client, running: impl Fn() -> bool) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespaces = &namespaces;
    let running = &running;
    eventually("the API server to be ready", READY_WITHIN, async || {
        if !running() {
            bail!("a process has ended");
        }
        let probe = async {
            client.request_text(Request::get("/readyz").body(Vec::new())?).await?;
            namespaces.get("default").await?;
            anyhow::Ok(())
        };
        // Not listening yet, not authorised yet (RBAC's own roles are made after the start), not ready yet: ask again.
        let answer = tokio::time::timeout(Duration::from_secs(2), probe).await;
        Ok(matches!(answer, Ok(Ok(()))).then_some(()))
    })
    .await
}

fn keys(folder: &Folder, options: &Options, address: IpAddr) -> Result<Authority> {
    let authority = Authority::create(folder)?;
    let loopback: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    write_pair(folder, "etcd", &authority.server("etcd", &loopback, &["localhost"])?)?;
    let names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", SERVICE_NAME];
    let addresses = [loopback[0], loopback[1], options.ip_family.kubernetes_service(), address];
    write_pair(folder, "kube-apiserver", &authority.server("kube-apiserver", &addresses, &names)?)?;
    write_pair(folder, "kubelet-client", &authority.client("lab-api-server", Some("system:masters"))?)?;
    write_service_account_key(folder)?;
    Ok(authority)
}

fn kubeconfigs(folder: &Folder, authority: &Authority, ports: Ports, tier: Tier) -> Result<()> {
    let endpoint = Endpoint { url: format!("https://{}", ports.api_server), ca: Some(authority.certificate()) };
    let admin = ("admin", "lab-admin", Some("system:masters"));
    let components = Component::of(tier)
        .iter()
        .filter_map(|component| component.user().map(|(user, group)| (component.name(), user, group)));
    for (file, user, group) in components.chain([admin]) {
        let pair = authority.client(user, group)?;
        kubeconfig::write(&folder.kubeconfig(file), &endpoint, &Credential::Certificate(&pair), "default")?;
    }
    Ok(())
}
