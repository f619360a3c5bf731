//! Refusals and answers, as docs/upstream/config-api.md#requests has them.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

const SYSTEM: &str = "default-global-system-config";

async fn api() -> Rest<Memory> {
    let rest = Rest::new(Memory::default());
    rest.begin().await.unwrap();
    rest
}

async fn ask(rest: &Rest<impl Store>, method: &str, path: &str, body: Value) -> (u16, Value) {
    let (status, text) = rest.answer(method, path, body.to_string().as_bytes()).await;
    (status.as_u16(), serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

fn router(name: &str, address: &str) -> Value {
    json!({"bgp-router": {
        "fq_name": ["default-domain", "default-project", "ip-fabric", "__default__", name],
        "parent_type": "routing-instance",
        "bgp_router_parameters": {"address": address, "identifier": address, "autonomous_system": 64512},
    }})
}

async fn made(rest: &Rest<impl Store>, path: &str, body: Value) -> String {
    let (status, answer) = ask(rest, "POST", path, body).await;
    assert_eq!(status, 200, "{answer}");
    let (_, object) = answer.as_object().unwrap().iter().next().unwrap();
    object["uuid"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_name_is_had_once_and_parents_references_and_values_have_to_be_right() {
    let rest = api().await;
    made(&rest, "/bgp-routers", router("n1", "10.0.0.1")).await;
    assert_eq!(ask(&rest, "POST", "/bgp-routers", router("n1", "10.0.0.2")).await.0, 409);
    assert_eq!(ask(&rest, "POST", "/bgp-routers", router("n2", "n2.example.org")).await.0, 400);
    let elsewhere = json!({"config-node": {"fq_name": ["no-system", "n1"], "parent_type": "global-system-config"}});
    assert_eq!(ask(&rest, "POST", "/config-nodes", elsewhere).await.0, 400);
    assert_eq!(ask(&rest, "POST", "/unknown-things", json!({})).await.0, 404);
    let mut unknown = router("n2", "10.0.0.2");
    unknown["bgp-router"]["sub_cluster_refs"] = json!([{"to": ["edge"]}]);
    assert_eq!(ask(&rest, "POST", "/bgp-routers", unknown).await.0, 404);
}

/// A memory that keeps nothing at first, or says so although it does, as a database where an answer is late.
#[derive(Debug, Default)]
struct Ailing {
    memory: Memory,
    is_well: AtomicBool,
    is_late: bool,
}

impl Store for Ailing {
    async fn get(&self, key: &str) -> Result<Option<String>> {
        self.memory.get(key).await
    }

    async fn put(&self, key: &str, text: &str) -> Result<()> {
        let is_well = self.is_well.load(Ordering::Relaxed);
        if is_well || self.is_late {
            self.memory.put(key, text).await?;
        }
        anyhow::ensure!(is_well, "no answer");
        Ok(())
    }

    async fn remove(&self, key: &str) -> Result<()> {
        self.memory.remove(key).await
    }

    async fn all(&self, beginning: &str) -> Result<Vec<String>> {
        self.memory.all(beginning).await
    }

    async fn claim(&self, name: &str, uuid: &str) -> Result<bool> {
        self.memory.claim(name, uuid).await
    }

    async fn release(&self, name: &str) -> Result<()> {
        self.memory.release(name).await
    }
}

#[tokio::test]
async fn what_could_not_be_stored_does_not_keep_its_name() {
    for is_late in [false, true] {
        let rest = Rest::new(Ailing { is_late, ..Ailing::default() });
        let body = json!({"global-system-config": {"fq_name": [SYSTEM]}});
        assert_eq!(ask(&rest, "POST", "/global-system-configs", body.clone()).await.0, 500);
        rest.store.is_well.store(true, Ordering::Relaxed);
        let (_, list) = ask(&rest, "GET", "/global-system-configs", json!({})).await;
        assert_eq!(list, json!({"global-system-configs": []}), "who does not have its name is not there");
        let uuid = made(&rest, "/global-system-configs", body).await;
        let router = json!({"virtual-router": {"fq_name": [SYSTEM, "n1"], "parent_type": "global-system-config"}});
        made(&rest, "/virtual-routers", router).await;
        let (_, list) = ask(&rest, "GET", "/global-system-configs", json!({})).await;
        assert_eq!(list["global-system-configs"].as_array().map(Vec::len), Some(1));
        assert_eq!(list["global-system-configs"][0]["uuid"], uuid);
    }
}

#[tokio::test]
async fn lists_are_of_one_parent_and_have_the_fields_that_are_asked_for() {
    let rest = api().await;
    made(&rest, "/bgp-routers", router("n1", "10.0.0.1")).await;
    let below = "parent_fq_name_str=default-domain:default-project:ip-fabric:__default__";
    let (_, list) = ask(&rest, "GET", &format!("/bgp-routers?fields=bgp_router_parameters&{below}"), json!({})).await;
    assert_eq!(list["bgp-routers"][0]["bgp_router_parameters"]["address"], "10.0.0.1");
    assert!(list["bgp-routers"][0].get("parent_type").is_none(), "{list}");
    let (_, list) = ask(&rest, "GET", &format!("/bgp-routers?detail=true&{below}"), json!({})).await;
    assert_eq!(list["bgp-routers"][0]["bgp-router"]["parent_type"], "routing-instance");
    let (_, list) = ask(&rest, "GET", "/bgp-routers?parent_fq_name_str=other", json!({})).await;
    assert_eq!(list, json!({"bgp-routers": []}));
}

#[tokio::test]
async fn what_is_referred_to_or_has_children_cannot_be_deleted_unless_that_was_allowed() {
    let rest = api().await;
    let router = made(&rest, "/bgp-routers", router("n1", "10.0.0.1")).await;
    let (_, system) =
        ask(&rest, "POST", "/fqname-to-id", json!({"type": "global-system-config", "fq_name": [SYSTEM]})).await;
    let refer = json!({
        "type": "global-system-config", "uuid": system["uuid"], "ref-type": "bgp-router", "ref-uuid": router,
        "operation": "ADD", "attr": null,
    });
    assert_eq!(ask(&rest, "POST", "/ref-update", refer).await.0, 200);
    let path = format!("/bgp-router/{router}");
    assert_eq!(ask(&rest, "DELETE", &path, json!({})).await.0, 409);
    let relax = json!({"uuid": system["uuid"], "ref-uuid": router});
    assert_eq!(ask(&rest, "POST", "/ref-relax-for-delete", relax).await.0, 200);
    assert_eq!(ask(&rest, "DELETE", &path, json!({})).await.0, 200);
    assert_eq!(ask(&rest, "GET", &path, json!({})).await.0, 404);
    let system = format!("/global-system-config/{}", system["uuid"].as_str().unwrap());
    let (_, after) = ask(&rest, "GET", &system, json!({})).await;
    assert_eq!(after["global-system-config"]["bgp_router_refs"], json!([]));
    assert_eq!(ask(&rest, "DELETE", &system, json!({})).await.0, 409, "others are in it");
    assert_eq!(
        rest.journal().last().unwrap(),
        &format!("DELETE {path} default-domain:default-project:ip-fabric:__default__:n1")
    );
}

#[tokio::test]
async fn a_change_leaves_other_properties_and_names_as_they_are() {
    let rest = api().await;
    let body = json!({"virtual-router": {"fq_name": [SYSTEM, "n1"], "virtual_router_ip_address": "10.0.0.1", "a": 1}});
    let path = format!("/virtual-router/{}", made(&rest, "/virtual-routers", body).await);
    let change = json!({"virtual-router": {"virtual_router_ip_address": "10.0.0.2"}});
    assert_eq!(ask(&rest, "PUT", &path, change).await.0, 200);
    let (_, after) = ask(&rest, "GET", &path, json!({})).await;
    assert_eq!(
        (&after["virtual-router"]["virtual_router_ip_address"], &after["virtual-router"]["a"]),
        (&json!("10.0.0.2"), &json!(1))
    );
    assert_eq!(ask(&rest, "PUT", &path, json!({"virtual-router": {"fq_name": [SYSTEM, "n2"]}})).await.0, 400);
}

#[tokio::test]
async fn what_is_in_several_objects_is_listed_at_once_and_a_vrouter_with_machines_stays() {
    let rest = api().await;
    let mut routers = Vec::new();
    for name in ["n1", "n2", "n3"] {
        let body = json!({"virtual-router": {"fq_name": [SYSTEM, name], "virtual_router_ip_address": "10.0.0.1"}});
        routers.push(made(&rest, "/virtual-routers", body).await);
        let network = json!([{"to": ["default-domain", "default-project", "ip-fabric"]}]);
        let body = json!({"fq_name": [SYSTEM, name, "vhost0"], "virtual_network_refs": network, "a": 1});
        made(&rest, "/virtual-machine-interfaces", json!({"virtual-machine-interface": body})).await;
    }
    let parents = format!("{},{}", routers[0], routers[2]);
    let body = json!({"type": "virtual-machine-interface", "parent_id": parents, "fields": "a"});
    let (status, list) = ask(&rest, "POST", "/list-bulk-collection", body).await;
    assert_eq!((status, list["virtual-machine-interfaces"].as_array().unwrap().len()), (200, 2), "{list}");
    assert_eq!(list["virtual-machine-interfaces"][0]["a"], 1);
    let list = ask(&rest, "POST", "/list-bulk-collection", json!({"type": "unknown-thing"})).await;
    assert_eq!(list.0, 400);

    made(&rest, "/virtual-machines", json!({"virtual-machine": {"fq_name": ["m"]}})).await;
    let body = json!({"virtual-router": {"fq_name": [SYSTEM, "n4"], "virtual_machine_refs": [{"to": ["m"]}]}});
    let busy = format!("/virtual-router/{}", made(&rest, "/virtual-routers", body).await);
    assert_eq!(ask(&rest, "DELETE", &busy, json!({})).await.0, 409);
    assert_eq!(ask(&rest, "PUT", &busy, json!({"virtual-router": {"virtual_machine_refs": []}})).await.0, 200);
    assert_eq!(ask(&rest, "DELETE", &busy, json!({})).await.0, 200);
}
