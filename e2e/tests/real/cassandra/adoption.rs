//! A ring that the Go tf-operator made changes hands: its pods are replaced one at a time, its servers go on, of release 3.11 as in its images.
//! Besides what [`crate::former`] has: its `cassandra.yaml` as far as it says something that the server does not assume, stores made by `keytool` in
//! the container, certificates of an authority of its own (`templates/cassandra_config.go`, `v1alpha1/base_types.go`).
//! For whoever asks for it, as in [`super::releases`]: `cargo xtask soak life --only cassandra::adoption --release cassandra-3.11.19`.

use anyhow::ensure;
use tf_pki::authority::{AUTHORITY_LIFETIME, Curve};
use tf_testing::real::whole::SMALL_HEAP;

use super::releases::{self, of};
use super::*;
use kube::ResourceExt as _;

use crate::{
    former::{self, Former},
    store::BRING_UP,
};

/// What its images hold, of today.
const RELEASE: &str = "3.11.19";
/// What its wrapper around a daemon comes to. The certificate is one that its init container would have asked for.
const WRAPPER: &str = r#"
set -e
cd /tmp
openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj "/CN=$POD_IP" 2>/dev/null
printf "subjectAltName=IP:$POD_IP\nextendedKeyUsage=serverAuth,clientAuth\n" >server.ext
openssl x509 -req -in server.csr -CA /authority/tls.crt -CAkey /authority/tls.key -set_serial "0x$(openssl rand -hex 8)" -days 30 -extfile server.ext -out server.crt 2>/dev/null
openssl pkcs12 -export -in server.crt -inkey server.key -chain -CAfile /authority/tls.crt -password pass:keystorePw -name localhost -out server.p12
mkdir -p /etc/keystore
keytool -keystore /etc/keystore/server-truststore.jks -keypass keystorePw -storepass truststorePw -noprompt -alias CARoot -import -file /authority/tls.crt
keytool -importkeystore -deststorepass keystorePw -destkeypass keystorePw -destkeystore /etc/keystore/server-keystore.jks -deststoretype pkcs12 -srcstorepass keystorePw -srckeystore server.p12 -srcstoretype PKCS12 -alias localhost -noprompt
until [ -e /etc/contrailconfigmaps/cassandra.$POD_IP.yaml ]; do sleep 1; done
cp /etc/contrailconfigmaps/cassandra.$POD_IP.yaml /etc/cassandra/cassandra.yaml
cp /opt/cassandra/logback-tools.xml /etc/cassandra/logback.xml
exec cassandra -f"#;

/// `cassandra.yaml` of a server: what is YAML can be written as JSON.
fn yaml(address: &str, seeds: &str) -> Value {
    let stores = |kind: &str| {
        json!({
            "keystore": "/etc/keystore/server-keystore.jks", "keystore_password": "keystorePw",
            "truststore": "/etc/keystore/server-truststore.jks", "truststore_password": "truststorePw",
            "store_type": "JKS", "require_client_auth": kind == "server",
        })
    };
    let (mut server, mut client) = (stores("server"), stores("client"));
    server["internode_encryption"] = json!("all");
    (client["enabled"], client["optional"]) = (json!(true), json!(false));
    json!({
        "cluster_name": "ContrailConfigDB", "num_tokens": 256, "auto_bootstrap": true,
        "authenticator": "AllowAllAuthenticator", "authorizer": "AllowAllAuthorizer",
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner", "endpoint_snitch": "SimpleSnitch",
        "data_file_directories": ["/var/lib/cassandra/data"], "commitlog_directory": "/var/lib/cassandra/commitlog",
        "hints_directory": "/var/lib/cassandra/hints", "saved_caches_directory": "/var/lib/cassandra/saved_caches",
        "commitlog_sync": "periodic", "commitlog_sync_period_in_ms": 10000,
        "seed_provider": [
            {"class_name": "org.apache.cassandra.locator.SimpleSeedProvider", "parameters": [{"seeds": seeds}]}
        ],
        "storage_port": 7012, "ssl_storage_port": INTERNODE_PORT,
        "listen_address": address, "broadcast_address": address, "rpc_address": address, "broadcast_rpc_address": address,
        "start_native_transport": true, "native_transport_port": CQL_PORT, "start_rpc": true, "rpc_port": 9161,
        "server_encryption_options": server, "client_encryption_options": client,
        "internode_compression": "all", "inter_dc_tcp_nodelay": false,
    })
}

/// The StatefulSet.
fn workload(former: &Former<'_>) -> Value {
    let heap = SMALL_HEAP.map(|(field, size)| format!("-Xm{}{size}", if field.starts_with("min") { 's' } else { 'x' }));
    let container = json!({
        "name": "cassandra", "image": format!("tungstenfabric/lab-cassandra:{RELEASE}"), "command": ["sh", "-c", WRAPPER],
        "env": [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "JVM_EXTRA_OPTS", "value": format!("-Dcassandra.jmx.local.port={JMX_PORT} {}", heap.join(" "))},
        ],
        "securityContext": {"runAsUser": 0, "runAsGroup": 0},
        "lifecycle": {"preStop": {"exec": {"command": ["nodetool", "-p", JMX_PORT, "drain"]}}},
        "volumeMounts": [
            {"name": "files", "mountPath": "/etc/contrailconfigmaps"},
            {"name": "authority", "mountPath": "/authority"},
            {"name": "config-database-cassandra-data", "mountPath": "/var/lib/cassandra"},
        ],
    });
    let volumes = json!([
        {"name": "files", "configMap": {"name": former.files_name()}},
        {"name": "authority", "secret": {"secretName": "contrail-ca-certificate"}},
        {"name": "config-database-cassandra-data", "hostPath": {"path": "/var/lib/contrail/config-database"}},
    ]);
    former.workload(&container, &volumes)
}

/// Identities of the servers, when all say of all that they are up.
async fn identities(lab: &Lab, client: &Client) -> Result<BTreeSet<String>> {
    eventually("all servers to see all others up", BRING_UP, async || {
        let mut all = BTreeSet::new();
        for pod in STORE.pods(client).await?.keys() {
            let Ok(status) = STORE.exec(lab, pod, &["nodetool", "-p", JMX_PORT, "status"]) else { return Ok(None) };
            let up: Vec<&str> = status.lines().filter(|line| line.starts_with("UN ")).collect();
            if up.len() != 3 {
                return Ok(None);
            }
            all.extend(up.iter().filter_map(|line| line.split_whitespace().rev().nth(1)).map(str::to_owned));
        }
        Ok(Some(all))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ring_of_the_go_tf_operator_is_taken_over_one_pod_at_a_time_under_a_writer() -> Result<()> {
    if !releases::are_asked_for()? {
        return Ok(());
    }
    STORE
        .with(3, &[], &[&format!("cassandra-{RELEASE}")], async |lab, client| {
            former::scale(client, 0).await?;
            let (nodes, addresses) = (lab.real_nodes()?.all()?, lab.real_nodes()?.addresses()?);
            let authority = Authority::generate("tf_csr_singer", Curve::P256, AUTHORITY_LIFETIME, Timestamp::now())?;
            for object in former::authorities(&authority) {
                lab.apply(&object.to_string()).await?;
            }
            let resource = resources::apply(client, CASSANDRA, NAMESPACE, NAME, of(RELEASE)).await?;
            let uid = resource.uid().context("no uid")?;
            let former = Former { store: &STORE, uid: &uid };
            lab.apply(&workload(&former).to_string()).await?;
            let members = former.placed(client, &nodes).await?;
            let seeds: Vec<&str> = members.iter().take(2).map(|member| member.address.as_str()).collect();
            let file =
                |address: &str| (format!("cassandra.{address}.yaml"), yaml(address, &seeds.join(",")).to_string());
            let files: BTreeMap<String, String> = members.iter().map(|member| file(&member.address)).collect();
            lab.apply(&former.files(&json!(files)).to_string()).await?;
            let before = identities(lab, client).await?;
            ensure!(before.len() == 3, "{before:?}");

            let access = Access::showing(&authority.certificates_pem(), None)?;
            table(&access, &addresses).await?;
            let writer = Writer::begin(&access, &addresses);
            let pods = STORE.pods(client).await?;
            let begun = Instant::now();
            former::scale(client, 1).await?;
            STORE.through(client, "taken over").await?;
            former::are_replaced(&STORE, client, &pods).await?;
            good(&format!("taken over after {:.0?}", begun.elapsed()), &writer.end().await?)?;

            ensure!(identities(lab, client).await? == before, "servers are others than before");
            ring(lab, client, 3).await?;
            members_alone(client, &addresses).await?;
            let resource = resources::get(client, CASSANDRA, NAMESPACE, NAME).await?.context("no resource")?;
            let status = &resource.object.data["status"];
            ensure!(status["clusterName"] == "ContrailConfigDB", "{status:#}");
            ensure!(status["members"] == json!(members), "{status:#}");
            Ok(())
        })
        .await
}
