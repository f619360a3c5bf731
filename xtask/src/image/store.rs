//! Images of stores for the lab, which takes nothing from a container registry: a base of Debian's packages, jars, and files of
//! this repository. Other layouts than those of the release's images; what a daemon's container runs is said by its operator.

use std::{collections::BTreeMap, fs, path::PathBuf};

use anyhow::{Context, Result};
use jiff::Timestamp;
use tf_agent_api::node::USER;

use super::{
    archive::Image,
    cache,
    debian::{Base, UNSTABLE},
    layer::{Content, Layer, Tree},
    maven::Jars,
};

/// An image of a store.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// Name of the image and of its file.
    pub name: &'static str,
    /// What it is, and the name of its folder in `images`.
    pub software: &'static str,
    /// Version of the store, and its tag.
    pub version: &'static str,
    /// What it stands on.
    base: Base,
    /// Where its jars are.
    jars: Option<&'static str>,
    /// Files of its folder, where they are, and their modes.
    files: &'static [(&'static str, &'static str, u32)],
    /// Where its programs are, besides the usual places.
    programs: Option<&'static str>,
    /// Variables.
    environment: &'static [&'static str],
}

/// Those of every run. Two versions of a store, so that tests can change the image of a running one.
pub const STORES: [Store; 6] = [
    cassandra("cassandra-5.0.9", "5.0.9", JAVA, &["LAB_JAVA=17"]),
    KAFKA,
    zookeeper("zookeeper-3.9.3", "3.9.3"),
    zookeeper("zookeeper-3.9.4", "3.9.4"),
    rabbitmq("rabbitmq-3.10.8", "3.10.8", "debian-rabbitmq", "bookworm"),
    redis("redis-7.0.15", "7.0.15", "debian-redis", "bookworm"),
];

/// Other releases of stores, for long tests alone.
pub const RELEASES: [Store; 5] = [
    // The release's image has a server of this line.
    cassandra("cassandra-3.11.19", "3.11.19", JAVA_8, &["LAB_JAVA=8"]),
    cassandra("cassandra-4.1.10", "4.1.10", JAVA_11, &["LAB_JAVA=11"]),
    rabbitmq("rabbitmq-4.0.5", "4.0.5", "debian-trixie-rabbitmq", "trixie"),
    redis("redis-6.0.16", "6.0.16", "debian-bullseye-redis", "bullseye"),
    redis("redis-8.0.2", "8.0.2", "debian-trixie-redis", "trixie"),
];

/// Debian with a Java runtime.
const JAVA: Base = Base { name: "debian-java17", suite: "bookworm", packages: &["openjdk-17-jre-headless"] };
/// For Cassandra 4.x.
const JAVA_11: Base = Base { name: "debian-java11", suite: "bullseye", packages: &["openjdk-11-jre-headless"] };
/// For Cassandra 3.11. No release of Debian has it any more.
const JAVA_8: Base = Base { name: "debian-java8", suite: UNSTABLE, packages: &["openjdk-8-jre-headless"] };

/// Where the release's image has its configuration, so has this one.
/// `java`: the variable that says which of the files of options are for its Java.
const fn cassandra(name: &'static str, version: &'static str, base: Base, java: &'static [&'static str; 1]) -> Store {
    Store {
        name,
        software: "cassandra",
        version,
        base,
        jars: Some("/opt/cassandra/lib"),
        files: &[
            ("cassandra", "/usr/local/bin/cassandra", 0o755),
            ("java11.options", "/etc/cassandra/java11.options", 0o644),
            ("java17.options", "/etc/cassandra/java17.options", 0o644),
            ("java8.options", "/etc/cassandra/java8.options", 0o644),
            ("lab.options", "/opt/cassandra/lab.options", 0o644),
            ("logback-tools.xml", "/opt/cassandra/logback-tools.xml", 0o644),
            ("nodetool", "/usr/local/bin/nodetool", 0o755),
        ],
        programs: None,
        environment: java,
    }
}

/// The release's image keeps its programs and libraries there, too.
const KAFKA: Store = Store {
    name: "kafka-3.9.1",
    software: "kafka",
    version: "3.9.1",
    base: JAVA,
    jars: Some("/opt/kafka/libs"),
    files: &[
        ("kafka-server-start.sh", "/opt/kafka/bin/kafka-server-start.sh", 0o755),
        ("log4j.properties", "/opt/kafka/config/log4j.properties", 0o644),
    ],
    programs: None,
    environment: &[],
};

/// As Debian has it. Its scripts in `/usr/sbin` insist on a user of their own, so those of the distribution come first.
const fn rabbitmq(name: &'static str, version: &'static str, base: &'static str, suite: &'static str) -> Store {
    let base = Base { name: base, suite, packages: &["rabbitmq-server"] };
    Store { programs: Some("/usr/lib/rabbitmq/bin"), ..packaged(name, "rabbitmq", version, base) }
}

/// As Debian has it.
const fn redis(name: &'static str, version: &'static str, base: &'static str, suite: &'static str) -> Store {
    packaged(name, "redis", version, Base { name: base, suite, packages: &["redis-server"] })
}

/// What consists of Debian's packages alone.
const fn packaged(name: &'static str, software: &'static str, version: &'static str, base: Base) -> Store {
    Store { name, software, version, base, jars: None, files: &[], programs: None, environment: &[] }
}

const fn zookeeper(name: &'static str, version: &'static str) -> Store {
    Store {
        name,
        software: "zookeeper",
        version,
        base: JAVA,
        jars: Some("/opt/zookeeper/lib"),
        files: &[
            ("logback.xml", "/opt/zookeeper/conf/logback.xml", 0o644),
            ("zkServer.sh", "/usr/local/bin/zkServer.sh", 0o755),
        ],
        programs: None,
        // For its tools, whatever a command line says about the class path.
        environment: &["JDK_JAVA_OPTIONS=-Dlogback.configurationFile=/opt/zookeeper/conf/logback.xml"],
    }
}

impl Store {
    /// The image.
    pub fn assemble(&self, reference: String) -> Result<Image> {
        let base = self.base.layer()?;
        let program = self.program()?;
        let title = "org.opencontainers.image.title".to_owned();
        let labels = BTreeMap::from([
            (title, format!("{} for the laboratory", self.software)),
            ("org.opencontainers.image.version".into(), self.version.into()),
        ]);
        let usual = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let path = self.programs.map_or_else(|| format!("PATH={usual}"), |own| format!("PATH={own}:{usual}"));
        Ok(Image {
            reference,
            // What is in it does not depend on a commit.
            created: Timestamp::UNIX_EPOCH,
            user: format!("{USER}:{USER}"),
            environment: [path].into_iter().chain(self.environment.iter().map(|&it| it.to_owned())).collect(),
            entrypoint: Vec::new(),
            labels,
            layers: vec![(base, self.base.name.to_owned()), (program, self.name.to_owned())],
        })
    }

    /// Writes down which jars it has.
    pub fn relock(&self) -> Result<()> {
        let folder = self.folder()?;
        self.jars.map_or(Ok(()), |_| Jars { folder: &folder, version: self.version }.relock())
    }

    /// The layer with what the store itself consists of.
    fn program(&self) -> Result<Layer> {
        let folder = self.folder()?;
        let mut recipe = Vec::new();
        for (name, to, _) in self.files {
            let path = folder.join(name);
            recipe.push((*to).to_owned());
            recipe.push(fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?);
        }
        let jars = Jars { folder: &folder, version: self.version };
        if let Some(to) = self.jars {
            let path = jars.checksums();
            recipe.push(to.to_owned());
            recipe.push(fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?);
        }
        let recipe: Vec<_> = recipe.iter().map(String::as_str).collect();
        cache::layer(self.name, &recipe, |out| {
            let fetched = tempfile::tempdir()?;
            let mut tree = Tree::default();
            for (name, to, mode) in self.files {
                tree.file(to, *mode, Content::File(folder.join(name)));
            }
            if let Some(to) = self.jars {
                for name in jars.fetch(fetched.path())? {
                    tree.file(&format!("{to}/{name}"), 0o644, Content::File(fetched.path().join(&name)));
                }
            }
            tree.write(out, 0)
        })
    }

    fn folder(&self) -> Result<PathBuf> {
        Ok(crate::root()?.join("images").join(self.software))
    }
}
