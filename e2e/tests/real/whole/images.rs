//! Each service gets other images, as with another release, first one store after the other and then all others at once, one member of each at a time, under a
//! client of the config API that notices nothing but that.

use serde_json::{Value, json};
use tf_api::kinds::{ANALYTICS, ANALYTICS_SNMP, QUERY_ENGINE, RABBITMQ, REDIS, ZOOKEEPER};
use tf_api::ports::KUBE_MANAGER_INTROSPECT;

use super::elected::Lookout;
use super::world::World;
use super::*;

/// For another kube-manager to be elected and to find everything.
const HANDED_OVER: Duration = Duration::from_secs(30);

/// Services of the manifest, stores first, in the order in which the others need them.
pub const SERVICES: [(&str, KindInfo); 13] = [
    ("zookeeper", ZOOKEEPER),
    ("cassandras", CASSANDRA),
    ("rabbitmq", RABBITMQ),
    ("redis", REDIS),
    ("config", CONFIG_KIND),
    ("analytics", ANALYTICS),
    ("queryengine", QUERY_ENGINE),
    ("analyticsSnmp", ANALYTICS_SNMP),
    ("analyticsAlarm", ANALYTICS_ALARM),
    ("controls", CONTROL),
    ("kubemanager", KUBEMANAGER),
    ("webui", WEBUI),
    ("vrouters", VROUTER),
];

/// Those of them that others live on.
pub const STORES: [&str; 4] = ["zookeeper", "cassandras", "rabbitmq", "redis"];

/// The same image by its full name, which is another one to Kubernetes.
pub const REGISTRY: &str = "docker.io/";

#[tokio::test(flavor = "multi_thread")]
async fn images_of_each_service_change_under_a_client_of_the_api_and_none_of_its_requests_fails() -> Result<()> {
    Long::Images.run(story).await
}

pub async fn story(lab: &Lab, client: &Client) -> Result<()> {
    let world = World::of(lab, client).await?;
    let mut manifest: Value = serde_saphyr::from_str(&whole::manifest()?)?;
    let (stores, others): (Vec<_>, Vec<_>) = SERVICES.into_iter().partition(|(service, _)| STORES.contains(service));
    for services in stores.chunks(1).chain([&others[..]]) {
        for (service, kind) in services {
            let images = images(client, *kind).await?;
            ensure!(images.values().all(|image| !image.starts_with(REGISTRY)), "{service}: {images:?}");
            let full = |(name, image): (String, String)| (name, format!("{REGISTRY}{image}"));
            set(&mut manifest["spec"]["services"][service], &images.into_iter().map(full).collect());
        }
        let apply = async { lab.apply(&manifest.to_string()).await.map(drop) };
        let kinds: Vec<KindInfo> = services.iter().map(|(_, kind)| *kind).collect();
        let lookout =
            kinds.contains(&KUBEMANAGER).then(|| Lookout::begin(&world.addresses, KUBE_MANAGER_INTROSPECT.get()));
        let what = if let [(service, _)] = services { service } else { "others" };
        world.goes_through(what, apply, &kinds).await?;
        if let Some(lookout) = lookout {
            let longest = lookout.end().await?;
            println!("kube-manager: none was at work for {longest:.1?} at most");
            ensure!(longest < HANDED_OVER, "kube-manager: none was at work for {longest:.1?}");
        }
        for (service, kind) in services {
            let changed = self::images(client, *kind).await?;
            ensure!(changed.values().all(|image| image.starts_with(REGISTRY)), "{service}: {changed:?}");
        }
    }
    Ok(())
}

/// Images of the containers of a kind that are not its agent's.
pub async fn images(client: &Client, kind: KindInfo) -> Result<BTreeMap<String, String>> {
    let pods = resources::pods(client, kind, NAMESPACE).await?;
    let containers = pods.into_iter().filter_map(|pod| pod.spec).flat_map(|spec| spec.containers);
    let found = containers.filter_map(|container| Some((container.name, container.image?)));
    Ok(found.filter(|(_, image)| !image.contains("tf-node")).collect())
}

/// States images of containers in all resources of a service.
pub fn set(service: &mut Value, images: &BTreeMap<String, String>) {
    let containers: Vec<Value> = images.iter().map(|(name, image)| json!({ "name": name, "image": image })).collect();
    for resource in resources_of(service) {
        resource["spec"]["serviceConfiguration"]["containers"] = containers.clone().into();
    }
}

/// The resources of a service: of some there may be several.
pub fn resources_of(service: &mut Value) -> Vec<&mut Value> {
    match service {
        Value::Array(resources) => resources.iter_mut().collect(),
        one => vec![one],
    }
}
