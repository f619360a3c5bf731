//! Images of stores. They need packages from Debian and Maven the first time.

use std::collections::BTreeSet;

use tf_testing::skip;

use super::{Image, archive};

/// An image, or none where it cannot be made: then the test that asks is counted as skipped.
fn made(name: &str) -> Option<Image> {
    let archive = archive(name);
    if !archive.exists() {
        skip::this_test("this machine cannot make images of stores: they need mmdebstrap and maven").unwrap();
        return None;
    }
    Some(Image::read(&archive))
}

#[test]
fn two_versions_of_a_store_share_their_base_and_differ_in_jars() {
    let versions = ["3.9.3", "3.9.4"];
    let [Some(old), Some(new)] = versions.map(|version| made(&format!("zookeeper-{version}"))) else { return };
    assert_eq!(old.manifest.layers()[0], new.manifest.layers()[0]);
    assert_ne!(old.manifest.layers()[1], new.manifest.layers()[1]);
    for (store, version) in [&old, &new].into_iter().zip(versions) {
        assert_eq!(store.reference(), format!("tungstenfabric/lab-zookeeper:{version}"));
        assert_eq!(store.configuration.rootfs().diff_ids(), &store.diff_ids);
        assert_eq!(store.configuration.config().clone().unwrap().user().as_deref(), Some("1999:1999"));
        let jars: BTreeSet<_> = store.files.keys().filter_map(|path| path.strip_prefix("opt/zookeeper/lib/")).collect();
        for jar in ["zookeeper", "zookeeper-jute", "zookeeper-prometheus-metrics"] {
            assert!(jars.contains(format!("{jar}-{version}.jar").as_str()), "{jars:?}");
        }
        for library in ["jetty-servlet", "logback-classic", "netty-handler", "snappy-java"] {
            assert!(jars.iter().any(|jar| jar.starts_with(library)), "{library} is missing");
        }
        assert!(store.files.contains_key("opt/zookeeper/conf/logback.xml"));
        assert!(store.files.contains_key("./usr/bin/java"));
        let accounts = String::from_utf8(store.files["./etc/passwd"].content.clone()).unwrap();
        assert!(accounts.lines().any(|line| line.starts_with("contrail:x:1999:1999:")));
        // The machine that made it is not named.
        assert!(!store.files.contains_key("./etc/hostname") && !store.files.contains_key("./etc/resolv.conf"));
    }
}

#[test]
fn cassandra_is_where_the_release_has_it_with_all_that_it_depends_on() {
    let Some(store) = made("cassandra-5.0.9") else { return };
    assert_eq!(store.reference(), "tungstenfabric/lab-cassandra:5.0.9");
    assert_eq!(store.configuration.config().clone().unwrap().user().as_deref(), Some("1999:1999"));
    let jars: BTreeSet<_> = store.files.keys().filter_map(|path| path.strip_prefix("opt/cassandra/lib/")).collect();
    assert!(jars.contains("cassandra-all-5.0.9.jar"), "{jars:?}");
    for library in ["logback-classic", "netty-tcnative-boringssl-static", "snakeyaml"] {
        assert!(jars.iter().any(|jar| jar.starts_with(library)), "{library} is missing");
    }
    for program in ["usr/local/bin/cassandra", "usr/local/bin/nodetool"] {
        assert!(store.files[program].content.starts_with(b"#!/bin/sh\n"), "{program}");
    }
    // What the operator's pods copy, and what is the lab's alone.
    assert!(store.files.contains_key("etc/cassandra/java17.options"));
    let options = String::from_utf8(store.files["opt/cassandra/lab.options"].content.clone()).unwrap();
    assert!(!options.contains("-Xm"), "heaps are for the operator to say");
}

#[test]
fn kafka_is_where_the_release_has_it_with_all_that_it_depends_on() {
    let Some(store) = made("kafka-3.9.1") else { return };
    assert_eq!(store.reference(), "tungstenfabric/lab-kafka:3.9.1");
    let jars: BTreeSet<_> = store.files.keys().filter_map(|path| path.strip_prefix("opt/kafka/libs/")).collect();
    assert!(jars.contains("kafka_2.13-3.9.1.jar") && jars.contains("slf4j-reload4j-1.7.36.jar"), "{jars:?}");
    let program = &store.files["opt/kafka/bin/kafka-server-start.sh"];
    assert!(program.content.starts_with(b"#!/bin/sh\n"));
    assert!(store.files.contains_key("opt/kafka/config/log4j.properties"));
}

#[test]
fn redis_is_as_debian_has_it() {
    let Some(store) = made("redis-7.0.15") else { return };
    assert_eq!(store.reference(), "tungstenfabric/lab-redis:7.0.15");
    assert_eq!(store.configuration.config().clone().unwrap().user().as_deref(), Some("1999:1999"));
    assert!(store.files.contains_key("./usr/bin/redis-server"));
}
