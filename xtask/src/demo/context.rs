//! The demo on a cluster that one has: from the charts, in a namespace of its own, of which nothing is left in the cluster afterwards.

use std::{
    env,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use futures::future::try_join_all;
use k8s_openapi::{
    api::{
        certificates::v1::CertificateSigningRequest,
        core::v1::{Namespace, Node, Pod},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Client, Config, ResourceExt,
    api::{Api, DeleteParams, ListParams},
    config::KubeConfigOptions,
};
use serde_json::{Value, json};
use tf_api::{
    GROUP,
    kinds::{self, KindInfo},
};
use tf_plan::observed;
use tf_testing::{
    helm,
    manifests::{apply, documents},
    nodes,
    operators::{self, chart},
    resources,
    wait::eventually,
};

use super::{Demo, applied, finish};

/// The namespace of the demo.
const NAMESPACE: &str = "tf-demo";
/// For the operators' pods: their images are pulled meanwhile.
const OPERATORS: Duration = Duration::from_mins(10);
/// For everything that is deleted to be gone.
const GONE: Duration = Duration::from_mins(10);
/// Services of the example that keep data.
const STORES: [&str; 4] = ["cassandras", "rabbitmq", "redis", "zookeeper"];

/// A cluster by the name of its context in the user's kubeconfig.
struct Target<'a> {
    context: &'a str,
    client: Client,
}

/// Brings a manifest up on a cluster, and removes everything again, also after a failure or Ctrl-C.
///
/// # Errors
/// When the cluster cannot be reached, has such kinds or such a namespace already, or not everything becomes Ready.
pub async fn show(demo: &Demo, context: &str, text: &str) -> Result<()> {
    let manifest = in_namespace(text, demo.manifest.is_none())?;
    let options = KubeConfigOptions { context: Some(context.to_owned()), ..KubeConfigOptions::default() };
    let config = Config::from_kubeconfig(&options).await.with_context(|| format!("context {context}"))?;
    let client = Client::try_from(config)?;
    let target = Target { context, client };
    target.is_free().await?;
    let outcome = tokio::select! {
        outcome = target.run(demo, &manifest) => outcome,
        _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted")),
    };
    println!("\nremoving everything; this takes a minute");
    let removed = target.remove().await.with_context(|| {
        format!("removing the demo; do it by docs/uninstall.md, with {NAMESPACE} as the namespace and --kube-context {context}")
    });
    if let (Err(_), Err(error)) = (&outcome, &removed) {
        eprintln!("{error:#}");
    }
    outcome.and(removed)?;
    println!("removed; logs of the pods stay on the nodes in /var/log/contrail");
    Ok(())
}

/// A manifest in the namespace of the demo. The example is given stores that keep nothing, and no vRouter, which needs `vhost0` on each node.
fn in_namespace(manifest: &str, is_example: bool) -> Result<String> {
    let mut objects = documents(manifest)?;
    objects.retain(|object| object["kind"] != "Namespace");
    for object in &mut objects {
        object["metadata"]["namespace"] = NAMESPACE.into();
        if !is_example {
            continue;
        }
        let services = object["spec"]["services"].as_object_mut().context("the example has no services")?;
        services.remove("vrouters");
        for key in STORES {
            let service = services.get_mut(key).with_context(|| format!("the example has no {key}"))?;
            let each = match service {
                Value::Array(all) => all.iter_mut().collect(),
                one => vec![one],
            };
            for store in each {
                store["spec"]["commonConfiguration"]["storage"] = json!({"emptyDir": {}});
            }
        }
    }
    Ok(objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n"))
}

impl Target<'_> {
    /// The cluster may have no namespace and no definitions of these names: the demo removes them in the end.
    async fn is_free(&self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let found = namespaces.get_opt(NAMESPACE).await.with_context(|| format!("the cluster of {}", self.context))?;
        ensure!(found.is_none(), "the cluster has a namespace {NAMESPACE}; delete it, the demo makes its own");
        let kinds = self.definitions().await?;
        if let Some(kind) = kinds.first() {
            bail!(
                "the cluster has the definition {kind}, and the demo would delete it with every resource of that kind; try it on another cluster"
            );
        }
        Ok(())
    }

    async fn definitions(&self) -> Result<Vec<String>> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let all = api.list(&ListParams::default()).await?;
        Ok(all.iter().filter(|kind| kind.spec.group == GROUP).map(ResourceExt::name_any).collect())
    }

    async fn run(&self, demo: &Demo, manifest: &str) -> Result<()> {
        let took = match self.bring_up(demo, manifest).await {
            Ok(took) => took,
            Err(error) => {
                println!("{}", self.pods().await?);
                return Err(error);
            }
        };
        println!("\nReady after {:.1} s\n", took.as_secs_f64());
        super::table(&resources::all(&self.client, NAMESPACE).await?);
        finish(demo, &format!("kubectl --context {} -n {NAMESPACE} get tf", self.context)).await
    }

    /// Installs the charts and applies the manifest. How long that took to become Ready.
    async fn bring_up(&self, demo: &Demo, manifest: &str) -> Result<Duration> {
        let begun = Instant::now();
        let labels = json!({"pod-security.kubernetes.io/enforce": "privileged"});
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}});
        apply(&self.client, &namespace.to_string()).await?;
        let values = self.values(demo).await?;
        let with = if values.is_empty() { String::new() } else { format!(" with {}", values.join(" ")) };
        println!("installing {} charts{with}", operators::ALL.len());
        try_join_all(operators::ALL.map(|operator| self.install(operator, &values))).await?;
        println!("{:5.1} s  {} operators run", begun.elapsed().as_secs_f64(), operators::ALL.len());
        applied(&self.client, NAMESPACE, demo, manifest, &[], begun).await
    }

    /// Values of all charts. Where no node is Ready the cluster has no network yet.
    async fn values(&self, demo: &Demo) -> Result<Vec<String>> {
        let nodes = Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await?;
        let registry = demo.registry.iter().map(|registry| format!("registry={registry}"));
        let bootstrap = (!nodes.iter().any(nodes::is_ready)).then(|| "bootstrap=true".to_owned());
        Ok(registry.chain(bootstrap).collect())
    }

    async fn install(&self, operator: &str, values: &[String]) -> Result<()> {
        let mut command = self.helm(&["upgrade", "--install", operator])?;
        command.arg(chart(operator)).args(["--wait", "--timeout", &format!("{}s", OPERATORS.as_secs())]);
        for value in values {
            command.args(["--set", value]);
        }
        helm::run(command).await.map(drop).with_context(|| format!("installing {operator}"))
    }

    fn helm(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = helm::command(&env::temp_dir().join("tf-lab-helm"))?;
        command.args(arguments).args(["--namespace", NAMESPACE, "--kube-context", self.context]);
        Ok(command)
    }

    /// Pods that are not Ready, and why.
    async fn pods(&self) -> Result<String> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), NAMESPACE).list(&ListParams::default()).await?;
        let unready = pods.into_iter().map(observed::Pod::from).filter(|pod| !pod.ready);
        let line = |pod: observed::Pod| format!("pod {}: {}", pod.name, pod.trouble.unwrap_or("not ready".into()));
        Ok(unready.map(line).collect::<Vec<_>>().join("\n"))
    }

    /// Deletes every resource of these kinds and waits until all are gone.
    async fn delete(&self, kinds: &[KindInfo]) -> Result<()> {
        for kind in kinds {
            let api = resources::api(&self.client, *kind, NAMESPACE);
            match api.delete_collection(&DeleteParams::default(), &ListParams::default()).await {
                Ok(_) => {}
                // The charts were not installed.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error).with_context(|| format!("deleting every {}", kind.kind)),
            }
        }
        eventually("resources to be gone", GONE, async || {
            let found = resources::all(&self.client, NAMESPACE).await?;
            Ok((!found.iter().any(|resource| kinds.contains(&resource.kind))).then_some(()))
        })
        .await
    }

    /// Deletes the members' requests for certificates, which have no namespace. Kubernetes itself does that after an hour.
    async fn delete_requests(&self) -> Result<()> {
        let api: Api<CertificateSigningRequest> = Api::all(self.client.clone());
        let own = format!("system:serviceaccount:{NAMESPACE}:");
        for request in api.list(&ListParams::default()).await? {
            if request.spec.username.as_ref().is_some_and(|user| user.starts_with(&own)) {
                api.delete(&request.name_any(), &DeleteParams::default()).await?;
            }
        }
        Ok(())
    }

    async fn remove(&self) -> Result<()> {
        // Whose operator would create the others again.
        self.delete(&[kinds::MANAGER]).await?;
        self.delete(&kinds::ALL).await?;
        try_join_all(operators::ALL.map(async |operator| {
            let command = self.helm(&["uninstall", operator, "--ignore-not-found", "--wait"])?;
            helm::run(command).await.with_context(|| format!("uninstalling {operator}"))
        }))
        .await?;
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for kind in self.definitions().await? {
            definitions.delete(&kind, &DeleteParams::default()).await?;
        }
        self.delete_requests().await?;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.delete(NAMESPACE, &DeleteParams::default()).await?;
        eventually("the namespace and the definitions to be gone", GONE, async || {
            let is_gone = namespaces.get_opt(NAMESPACE).await?.is_none() && self.definitions().await?.is_empty();
            Ok(is_gone.then_some(()))
        })
        .await
    }
}
