//! Which Cassandra is in this container, before its server runs: by the name of its archive, in the images of the project,
//! of Tungsten Fabric and of Docker's library, and in Debian's package.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::store::line;

/// Says where it is installed.
const HOME: &str = "CASSANDRA_HOME";
/// Where it is otherwise, with its archives there or below.
const HOMES: [&str; 2] = ["/opt/cassandra", "/usr/share/cassandra"];

/// Its release, if it can be told.
pub(super) fn version() -> Option<String> {
    let homes = env::var_os(HOME).map(PathBuf::from).into_iter().chain(HOMES.map(PathBuf::from));
    homes.flat_map(|home| [home.join("lib"), home]).find_map(|folder| within(&folder))
}

fn within(folder: &Path) -> Option<String> {
    fs::read_dir(folder).ok()?.flatten().find_map(|entry| named(entry.file_name().to_str()?))
}

/// That of `apache-cassandra-3.11.19.jar`, which Maven calls `cassandra-all-3.11.19.jar`; not of `apache-cassandra-thrift-3.11.19.jar`.
fn named(name: &str) -> Option<String> {
    let archive = ["apache-cassandra-", "cassandra-all-"].iter().find_map(|prefix| name.strip_prefix(prefix));
    line::version(archive?.strip_suffix(".jar")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_own_archive_tells_the_release() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(within(root.path()), None);
        for name in ["apache-cassandra-thrift-3.11.19.jar", "guava-18.0.jar", "apache-cassandra-3.11.19.jar"] {
            fs::write(root.path().join(name), "").unwrap();
        }
        assert_eq!(within(root.path()).as_deref(), Some("3.11.19"));
        assert_eq!(named("cassandra-all-5.0.9.jar").as_deref(), Some("5.0.9"));
        assert_eq!(within(&root.path().join("absent")), None);
    }
}
