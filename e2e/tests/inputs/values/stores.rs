//! The same of stores.

use serde_json::json;
use tf_api::kinds::{CASSANDRA, RABBITMQ, REDIS, ZOOKEEPER};

use super::kinds::{Kind, too_high, zero};

/// Every store.
pub fn stores() -> [Kind; 4] {
    [cassandra(), rabbitmq(), redis(), zookeeper()]
}

fn cassandra() -> Kind {
    let volume = json!({ "hostPath": { "path": "/var/lib/backups" } });
    let backup = json!({ "name": "other", "backup": "b1" });
    Kind {
        containers: &["cassandra"],
        refused: vec![
            too_high("cqlPort"),
            zero("jmxLocalPort"),
            (json!({ "storagePort": 7013 }), ["sslStoragePort", "must differ"]),
            (json!({ "maxHeapSize": "8 gigabytes" }), ["maxHeapSize", "should match"]),
            (
                json!({ "cassandraParameters": { "memtableAllocationType": "somewhere" } }),
                ["memtableAllocationType", "supported values"],
            ),
        ],
        stalled: vec![
            (json!({ "cqlPort": 60000 }), ["cqlPort has to be at most 55515", "node agents"]),
            (json!({ "jmxLocalPort": 19061 }), ["jmxLocalPort uses 19061", "where node agents have theirs"]),
            (
                json!({ "minHeapSize": "2G", "maxHeapSize": "1G" }),
                ["minHeapSize 2G is larger than maxHeapSize 1G", "swap"],
            ),
            (json!({ "backup": {} }), ["serviceConfiguration.backup", "has to name one volume"]),
        ],
        beginning: vec![
            (json!({ "restoreFrom": backup }), ["restoreFrom: there is no volume", "serviceConfiguration.backup"]),
            (
                json!({ "restoreFrom": { "name": "../other", "backup": "b1" }, "backup": volume }),
                ["restoreFrom", "no backup can be called so"],
            ),
        ],
        ignored: vec![
            (json!({ "restoreFrom": backup, "backup": volume }), ["restoreFrom", "was brought up before"]),
            (json!({ "listenAddress": "192.0.2.1" }), ["listenAddress", "address of their node"]),
            (json!({ "reaperEnabled": true }), ["reaperEnabled", "automaticRepair"]),
        ],
        ..Kind::of(CASSANDRA)
    }
}

fn rabbitmq() -> Kind {
    Kind {
        containers: &["rabbitmq"],
        refused: vec![
            too_high("erlEpmdPort"),
            zero("port"),
            (json!({ "erlEpmdPort": 25673 }), ["erlEpmdPort", "must differ"]),
            (json!({ "erlangCookie": "not a cookie" }), ["erlangCookie", "should match"]),
            (json!({ "clusterPartitionHandling": "panic" }), ["clusterPartitionHandling", "supported values"]),
        ],
        stalled: vec![
            (json!({ "user": "tf-node" }), ["clients cannot be called tf-node", "choose another"]),
            (json!({ "user": "who:ever" }), ["serviceConfiguration.user", "ASCII letters"]),
            (json!({ "vhost": "ho st" }), ["serviceConfiguration.vhost", "ASCII letters"]),
        ],
        beginning: vec![(json!({ "erlEpmdPort": 15692 }), ["erlEpmdPort is 15692, which", "choose another"])],
        founded: vec![
            (json!({ "erlEpmdPort": 15692 }), ["erlEpmdPort differs from what the members run with", "set it back"]),
            (json!({ "erlangCookie": "ANOTHER" }), ["erlangCookie differs", "set it back or remove it"]),
        ],
        ..Kind::of(RABBITMQ)
    }
}

fn redis() -> Kind {
    Kind {
        containers: &["redis"],
        refused: vec![
            too_high("redisPort"),
            zero("redisPort"),
            (json!({ "mode": "Cluster" }), ["mode", "supported values"]),
        ],
        stalled: vec![(json!({ "redisPort": 60000 }), ["redisPort has to be at most 55515", "node agents"])],
        founded: vec![(json!({ "mode": "Sentinel" }), ["founded as Independent", "set it back"])],
        ignored: vec![(json!({ "clusterName": "redis" }), ["clusterName", "no cluster"])],
        ..Kind::of(REDIS)
    }
}

fn zookeeper() -> Kind {
    Kind {
        containers: &["zookeeper"],
        refused: vec![
            too_high("clientPort"),
            zero("tickTime"),
            (json!({ "clientPort": 2888 }), ["electionPort", "must differ"]),
            (json!({ "adminEnabled": "yes" }), ["adminEnabled", "boolean"]),
        ],
        stalled: vec![(
            json!({ "tls": { "clientPort": 2183 } }),
            ["agentPort: 2183 is used for something else", "set another port"],
        )],
        ignored: vec![(json!({ "adminEnabled": false, "adminPort": 2190 }), ["adminPort", "adminEnabled is false"])],
        ..Kind::of(ZOOKEEPER)
    }
}
