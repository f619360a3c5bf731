//! Which RabbitMQ is in this container, before its server runs. `rabbitmqctl version` would tell, after a second of Erlang; beside the tool is a
//! folder of plugins, in which the server itself is `rabbit-VERSION` (RabbitMQ, "Plugins"), in the images of the project, of Tungsten Fabric and in
//! Debian.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::store::line;

/// Its tools, where programs are looked for.
const TOOL: &str = "rabbitmqctl";
/// Beginning of the server's name in the folder of plugins.
const SERVER: &str = "rabbit-";

/// Its release, if it can be told.
pub fn version() -> Option<String> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).find_map(|folder| beside(&folder.join(TOOL)))
}

/// First number of its release.
pub fn major() -> Option<u32> {
    version()?.split('.').next()?.parse().ok()
}

/// The release of the server that a tool is beside.
fn beside(tool: &Path) -> Option<String> {
    let home: PathBuf = fs::canonicalize(tool).ok()?.ancestors().nth(2)?.to_owned();
    let entries = fs::read_dir(home.join("plugins")).ok()?;
    entries.flatten().find_map(|entry| number(entry.file_name().to_str()?))
}

/// That of `rabbit-3.10.8`; not of `rabbit_common-3.10.8`. Some releases have their plugins in files.
fn number(name: &str) -> Option<String> {
    line::version(name.strip_prefix(SERVER)?.trim_end_matches(".ez"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_servers_folder_beside_its_tool_tells_the_release() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("lib/rabbitmq_server-4.0.5");
        for folder in ["sbin", "plugins/rabbit_common-4.0.5", "plugins/rabbit-4.0.5"] {
            fs::create_dir_all(home.join(folder)).unwrap();
        }
        fs::write(home.join("sbin/rabbitmqctl"), "").unwrap();
        let link = root.path().join("rabbitmqctl");
        symlink(home.join("sbin/rabbitmqctl"), &link).unwrap();
        assert_eq!(beside(&link).as_deref(), Some("4.0.5"));
        assert_eq!(beside(&root.path().join("nothing")), None);
    }

    #[test]
    fn other_plugins_are_not_taken_for_the_server() {
        for (name, expected) in [
            ("rabbit-3.10.8", Some("3.10.8")),
            ("rabbit-3.10.8.ez", Some("3.10.8")),
            ("rabbit_common-3.10.8", None),
            ("rabbit-", None),
        ] {
            assert_eq!(number(name).as_deref(), expected, "{name}");
        }
    }
}
