//! Images of stores. They need packages from Debian and Maven the first time.

use std::{collections::BTreeSet, path::Path, process::Command};

use super::{Image, image, skip};

#[test]
fn two_versions_of_a_store_share_their_base_and_differ_in_jars() {
    let test = "stores::two_versions_of_a_store_share_their_base_and_differ_in_jars";
    for (tool, package) in [("mmdebstrap", "mmdebstrap"), ("mvn", "maven")] {
        if Command::new(tool).arg("--version").output().is_err() {
            return skip(test, &format!("{package} is not installed"));
        }
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stores");
    let said = image(Command::new(env!("CARGO_BIN_EXE_xtask")).args(["image", "stores", "--output"]).arg(&folder));
    let versions = ["3.9.3", "3.9.4"];
    let [old, new] = versions.map(|version| Image::read(&folder.join(format!("zookeeper-{version}.tar"))));
    assert_eq!(old.manifest.layers()[0], new.manifest.layers()[0]);
    assert_ne!(old.manifest.layers()[1], new.manifest.layers()[1]);
    for (store, version) in [&old, &new].into_iter().zip(versions) {
        assert!(said.contains(&format!("tungstenfabric/lab-zookeeper:{version}")));
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
