//! A cluster that the Go tf-operator made changes hands: its pods are replaced one at a time, its servers go on under their names.
//! Besides what [`crate::former`] has: its files as they are, the user with a hash that is bytes, certificates that it signed, one cookie for all
//! installations (`templates/rabbitmq_config.go`, `v1alpha1/rabbitmq_types.go`). Its wrapper joins by `rabbitmqctl` what discovery left apart; here discovery does it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tf_api::contract::MemberStatus;
use tf_api::names::ANNOTATION_FORMER_RELEASE;
use tf_pki::authority::{AUTHORITY_LIFETIME, Authority, Curve};
use tf_testing::pki;

use super::*;
use crate::former::{self, Former};

const RELEASE: &str = "3.10.8";
/// What its wrapper around a daemon comes to.
const WRAPPER: &str = "
set -e
mkdir -p /etc/rabbitmq /var/log/rabbitmq
for file in rabbitmq.conf.$POD_IP rabbitmq-env.conf.$POD_IP plugins.conf definitions.json rabbitmq-common.env; do
  until [ -e /etc/contrailconfigmaps/$file ]; do sleep 1; done
  ln -sf /etc/contrailconfigmaps/$file /etc/rabbitmq/${file%.$POD_IP}
done
until [ -e /etc/certificates/server-$POD_IP.crt ]; do sleep 1; done
. /etc/rabbitmq/rabbitmq-common.env
. /etc/rabbitmq/rabbitmq-env.conf
echo $RABBITMQ_ERLANG_COOKIE >/var/lib/rabbitmq/.erlang.cookie
chmod 0600 /var/lib/rabbitmq/.erlang.cookie
exec rabbitmq-server";
const COMMON: &str = "export RABBITMQ_ERLANG_COOKIE=47EFF3BB-4786-46E0-A5BB-58455B3C2CB4
export RABBITMQ_CONFIG_FILE=/etc/rabbitmq/rabbitmq.conf
export CONFIG_FILE=/etc/rabbitmq/rabbitmq.conf
export RABBITMQ_CONF_ENV_FILE=/etc/rabbitmq/rabbitmq-env.conf
export RABBITMQ_ENABLED_PLUGINS_FILE=/etc/rabbitmq/plugins.conf
export RABBITMQ_USE_LONGNAME=true
export RABBITMQ_PID_FILE=/var/run/rabbitmq.pid
export ERL_EPMD_PORT=4371
export RABBITMQ_DIST_PORT=25673
export DIST_PORT=25673
";
/// User, password and virtual host.
const LOGIN: [(&str, &str); 3] = [("user", "theirs"), ("password", "their0own0password"), ("vhost", "tungsten")];
/// What all servers say of who runs.
const RUNNING: &str = "lists:sort([atom_to_list(Name) || Name <- rabbit_nodes:all_running()]).";

/// What the server on a node is called.
fn host(node: &str) -> String {
    format!("{node}.theirs.example")
}

/// The hash of the password, as that operator keeps it: four bytes and a digest.
fn salted(password: &str) -> String {
    let salt = [1, 2, 253, 254];
    let digest = Sha256::digest([&salt, password.as_bytes()].concat());
    BASE64_STANDARD.encode([&salt, digest.as_slice()].concat())
}

/// The StatefulSet.
fn workload(former: &Former<'_>) -> Value {
    let container = json!({
        "name": "rabbitmq", "image": format!("tungstenfabric/lab-rabbitmq:{RELEASE}"), "command": ["sh", "-c", WRAPPER],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "securityContext": {"runAsUser": 0, "runAsGroup": 0},
        "volumeMounts": [
            {"name": "files", "mountPath": "/etc/contrailconfigmaps"},
            {"name": "certificates", "mountPath": "/etc/certificates"},
            {"name": "authority", "mountPath": "/etc/ssl/certs/kubernetes"},
            {"name": "rabbitmq-data", "mountPath": "/var/lib/rabbitmq"},
        ],
    });
    let volumes = json!([
        {"name": "files", "configMap": {"name": former.files_name()}},
        {"name": "certificates", "secret": {"secretName": "rabbitmq1-secret-certificates", "optional": true}},
        {"name": "authority", "configMap": {"name": "csr-signer-ca"}},
        {"name": "rabbitmq-data", "hostPath": {"path": "/var/lib/contrail/rabbitmq"}},
    ]);
    former.workload(&container, &volumes)
}

/// Files of all servers.
fn files(members: &[MemberStatus]) -> Value {
    let [(_, user), (_, password), (_, vhost)] = LOGIN;
    let definitions = json!({
        "users": [{"name": user, "password_hash": salted(password), "tags": "administrator"}],
        "vhosts": [{"name": vhost}],
        "permissions": [{"user": user, "vhost": vhost, "configure": ".*", "write": ".*", "read": ".*"}],
        "policies": [{
            "vhost": vhost, "name": "ha", "pattern": r"^(?!amq\.).*",
            "definition": {"ha-mode": "all", "ha-sync-mode": "automatic", "ha-sync-batch-size": 5},
        }],
    });
    let discovered: Vec<String> = members
        .iter()
        .map(|it| format!("cluster_formation.classic_config.nodes.{} = rabbit@{}\n", it.id, host(&it.node)))
        .collect();
    let mut data = BTreeMap::from([
        ("rabbitmq-common.env".to_owned(), COMMON.to_owned()),
        (
            "plugins.conf".to_owned(),
            "[rabbitmq_management,rabbitmq_management_agent,rabbitmq_peer_discovery_k8s].".to_owned(),
        ),
        ("definitions.json".to_owned(), definitions.to_string()),
    ]);
    for MemberStatus { address, node, .. } in members {
        let name = format!("rabbit@{}", host(node));
        data.insert(
            format!("rabbitmq-env.conf.{address}"),
            format!("HOME=/var/lib/rabbitmq\nNODENAME={name}\nRABBITMQ_NODENAME={name}\n"),
        );
        data.insert(
            format!("rabbitmq.conf.{address}"),
            format!(
                "listeners.tcp = none
listeners.ssl.default = {AMQP_PORT}
loopback_users = none
management.tcp.port = {}
management.load_definitions = /etc/rabbitmq/definitions.json
ssl_options.cacertfile = /etc/ssl/certs/kubernetes/ca-bundle.crt
ssl_options.keyfile = /etc/certificates/server-key-{address}.pem
ssl_options.certfile = /etc/certificates/server-{address}.crt
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = true
ssl_options.versions.1 = tlsv1.2
ssl_options.honor_cipher_order = true
ssl_options.honor_ecc_order = true
cluster_partition_handling = autoheal
log.file.level = info
cluster_formation.peer_discovery_backend = classic_config
{}",
                AMQP_PORT + 10_000,
                discovered.concat()
            ),
        );
    }
    json!(data)
}

/// User, password and virtual host in its Secret.
fn login(former: &Former<'_>) -> Value {
    let encoded = |text: &str| BASE64_STANDARD.encode(text);
    let mut data: BTreeMap<&str, String> = LOGIN.map(|(key, text)| (key, encoded(text))).into();
    data.insert("salted_password", salted(LOGIN[1].1));
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": former.metadata("rabbitmq1-secret"), "data": data})
}

/// Certificates of its servers.
fn certificates(former: &Former<'_>, authority: &Authority, members: &[MemberStatus]) -> Result<Value> {
    let signer = pki::Authority::of(&authority.certificates_pem(), &authority.key_pem())?;
    let mut data = BTreeMap::new();
    for MemberStatus { address, .. } in members {
        let pair = signer.server(address, &[address.parse::<IpAddr>()?], &[])?;
        data.insert(format!("server-{address}.crt"), pair.certificate);
        data.insert(format!("server-key-{address}.pem"), pair.key);
    }
    let metadata = former.metadata("rabbitmq1-secret-certificates");
    Ok(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}))
}

/// Names of the servers that run, as one in a pod of that operator says.
fn run_before(lab: &Lab, pod: &str) -> Result<String> {
    let ask = format!(
        ". /etc/rabbitmq/rabbitmq-common.env; . /etc/rabbitmq/rabbitmq-env.conf
unset RABBITMQ_ERLANG_COOKIE
rabbitmqctl --node $RABBITMQ_NODENAME eval '{RUNNING}'"
    );
    STORE.exec(lab, pod, &["sh", "-c", &ask])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_the_go_tf_operator_is_taken_over_one_pod_at_a_time_and_loses_no_message() -> Result<()> {
    if !Long::Adoption.is_drawn()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[], async |lab, client| {
            former::scale(client, 0).await?;
            let (nodes, addresses) = (lab.real_nodes()?.all()?, lab.real_nodes()?.addresses()?);
            former::find_each_other(&nodes, host).await?;
            let authority = Authority::generate("tf_csr_singer", Curve::P256, AUTHORITY_LIFETIME, Timestamp::now())?;
            for object in former::authorities(&authority) {
                lab.apply(&object.to_string()).await?;
            }
            let resource = resources::apply(client, RABBITMQ, NAMESPACE, NAME, json!({})).await?;
            let uid = resource.uid().context("no uid")?;
            let former = Former { store: &STORE, uid: &uid };
            for object in [login(&former), workload(&former)] {
                lab.apply(&object.to_string()).await?;
            }
            let members = former.placed(client, &nodes).await?;
            for object in [certificates(&former, &authority, &members)?, former.files(&files(&members))] {
                lab.apply(&object.to_string()).await?;
            }
            let pods = STORE.pods(client).await?;
            let mut names: Vec<String> = members.iter().map(|it| format!("rabbit@{}", host(&it.node))).collect();
            names.sort();
            let all = format!("[{}]", names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(","));
            eventually("its servers to form a cluster", BRING_UP, async || {
                let says_all = |pod: &String| {
                    run_before(lab, pod).is_ok_and(|says| says.split_whitespace().collect::<String>() == all)
                };
                Ok(pods.keys().all(says_all).then_some(()))
            })
            .await?;

            let access = Access::by(client, &authority).await?;
            let traffic = Traffic::begin(&access, &addresses).await?;
            let begun = Instant::now();
            former::scale(client, 1).await?;
            let wish = json!({"metadata": {"annotations": {ANNOTATION_FORMER_RELEASE: RELEASE}}});
            let api = resources::api(client, RABBITMQ, NAMESPACE);
            api.patch(NAME, &PatchParams::default(), &Patch::Merge(wish)).await?;
            STORE.through(client, "taken over").await?;
            former::are_replaced(&STORE, client, &pods).await?;
            good(&format!("taken over after {:.0?}", begun.elapsed()), &traffic.end().await?)?;

            for pod in pods.keys() {
                let says = STORE.exec(lab, pod, &["rabbitmqctl", "eval", RUNNING])?;
                ensure!(says.split_whitespace().collect::<String>() == all, "{pod}: {says}");
            }
            for address in &addresses {
                access.connect(*address).await.with_context(|| format!("{address}"))?;
                ensure!(access.without_certificate().connect(*address).await.is_err(), "{address}: no certificate");
            }
            let resource = resources::get(client, RABBITMQ, NAMESPACE, NAME).await?.context("no resource")?;
            let status = &resource.object.data["status"];
            ensure!(status["members"] == json!(members), "{status:#}");
            ensure!(status["distribution"] == json!({"tls": false, "delegates": 16}), "{status:#}");
            // It had the cookie there.
            let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
            maps.delete(&former.files_name(), &DeleteParams::default()).await?;
            nothing_secret_is_told(lab, client).await
        })
        .await
}
