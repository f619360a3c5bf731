//! CNI: which configurations are in the directories that container runtimes read, what plugin types they name, and whether
//! files can be put there.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::root::{Access, Reader};

/// Where runtimes look for configurations: the common one, OpenShift's two, k3s and RKE2.
const CONFIGURATIONS: [&str; 4] = [
    "/etc/cni/net.d",
    "/etc/kubernetes/cni/net.d",
    "/run/multus/cni/net.d",
    "/var/lib/rancher/k3s/agent/etc/cni/net.d",
];
/// Where they look for plugins: the common one and OpenShift's.
const PROGRAMS: [&str; 2] = ["/opt/cni/bin", "/var/lib/cni/bin"];
/// Settings of containerd and CRI-O.
const RUNTIMES: [(&str, &str, &str); 2] =
    [("/etc/containerd/config.toml", "conf_dir", "bin_dir"), ("/etc/crio/crio.conf", "network_dir", "plugin_dirs")];

/// CNI on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cni {
    /// Directories of configurations. The first is the common one; others only if they exist.
    pub directories: Vec<Directory>,
    /// Directories of programs, in the same way.
    pub programs: Vec<Programs>,
    /// Container runtimes whose settings state directories.
    pub runtimes: Vec<Runtime>,
}

/// A directory of configurations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Directory {
    /// Its path.
    pub path: String,
    /// Whether a configuration can be put there.
    pub access: Access,
    /// What runtimes load from it, in their order: the first counts.
    pub configurations: Vec<Configuration>,
}

/// A file that runtimes load.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Configuration {
    /// Name of the file.
    pub file: String,
    /// Name of the network.
    pub network: Option<String>,
    /// Types of the plugins, in the order that they are called in.
    pub types: Vec<String>,
    /// Why it is no configuration.
    pub error: Option<String>,
}

/// A directory of programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Programs {
    /// Its path.
    pub path: String,
    /// Whether a program can be put there.
    pub access: Access,
    /// Names of the files in it.
    pub files: Vec<String>,
}

/// What a container runtime states.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Runtime {
    /// The file.
    pub file: String,
    /// Directory of configurations.
    pub configurations: Option<String>,
    /// Directory of programs, the first if there are several.
    pub programs: Option<String>,
}

impl Cni {
    pub(super) fn read(reader: &Reader<'_>) -> Self {
        Self {
            directories: places(reader, &CONFIGURATIONS).map(|path| directory(reader, path)).collect(),
            programs: places(reader, &PROGRAMS)
                .map(|path| Programs { path: path.into(), access: reader.access(path), files: reader.names(path) })
                .collect(),
            runtimes: RUNTIMES.into_iter().filter_map(|place| runtime(reader, place)).collect(),
        }
    }

    /// A directory of configurations by its path.
    pub fn directory(&self, path: &str) -> Option<&Directory> {
        self.directories.iter().find(|directory| directory.path == path)
    }
}

fn places<'a>(reader: &Reader<'_>, paths: &[&'a str]) -> impl Iterator<Item = &'a str> {
    let found = paths.iter().enumerate().filter(|(place, path)| *place == 0 || reader.exists(path));
    found.map(|(_, path)| *path).collect::<Vec<_>>().into_iter()
}

fn directory(reader: &Reader<'_>, path: &str) -> Directory {
    let files = reader.names(path).into_iter().filter(|name| is_loaded(name));
    let configurations = files.map(|file| configuration(reader, path, file)).collect();
    Directory { path: path.into(), access: reader.access(path), configurations }
}

fn configuration(reader: &Reader<'_>, directory: &str, file: String) -> Configuration {
    match reader.text(&format!("{directory}/{file}")) {
        Some(text) => parse(file, &text),
        None => Configuration { file, error: Some("cannot be read".into()), ..Configuration::default() },
    }
}

/// Whether runtimes load a file of this name.
pub(crate) fn is_loaded(name: &str) -> bool {
    [".conf", ".conflist", ".json"].iter().any(|suffix| name.ends_with(suffix))
}

/// What a file of this name says.
pub(crate) fn parse(file: String, text: &str) -> Configuration {
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => return Configuration { file, error: Some(error.to_string()), ..Configuration::default() },
    };
    let name = |value: &Value, key: &str| value[key].as_str().map(str::to_owned);
    let plugins = value["plugins"].as_array().into_iter().flatten();
    let types: Vec<String> =
        name(&value, "type").into_iter().chain(plugins.filter_map(|plugin| name(plugin, "type"))).collect();
    let error = types.is_empty().then(|| "names no plugin".to_owned());
    Configuration { file, network: name(&value, "name"), types, error }
}

/// Lines of a TOML file that set one of two keys; the last line with a key counts.
fn runtime(reader: &Reader<'_>, (file, configurations, programs): (&str, &str, &str)) -> Option<Runtime> {
    let text = reader.text(file)?;
    let value = |key: &str| {
        let of_line = |line: &str| {
            let value = line.trim().strip_prefix(key)?.trim_start().strip_prefix('=')?;
            value.split(['"', '\'']).nth(1).filter(|path| path.starts_with('/')).map(str::to_owned)
        };
        text.lines().filter_map(of_line).next_back()
    };
    let found = Runtime { file: file.into(), configurations: value(configurations), programs: value(programs) };
    (found.configurations.is_some() || found.programs.is_some()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tree;

    #[test]
    fn configurations_are_read_in_the_order_of_runtimes_with_their_plugins() {
        let list = r#"{"name": "cbr0", "plugins": [{"type": "flannel"}, {"type": "portmap"}]}"#;
        let cni = tree::read(
            &[
                ("/etc/cni/net.d/20-tf.conf", r#"{"name": "tf", "type": "contrail-k8s-cni"}"#),
                ("/etc/cni/net.d/10-flannel.conflist", list),
                ("/etc/cni/net.d/30-broken.conf", "{"),
                ("/etc/cni/net.d/40-empty.json", "{}"),
                ("/etc/cni/net.d/10-flannel.conflist.tf_bak", list),
                ("/opt/cni/bin/loopback", ""),
            ],
            Cni::read,
        );
        let found = &cni.directory("/etc/cni/net.d").unwrap().configurations;
        let told: Vec<_> = found.iter().map(|found| (found.file.as_str(), found.types.join(","))).collect();
        assert_eq!(
            told,
            [
                ("10-flannel.conflist", "flannel,portmap".to_owned()),
                ("20-tf.conf", "contrail-k8s-cni".to_owned()),
                ("30-broken.conf", String::new()),
                ("40-empty.json", String::new()),
            ]
        );
        let errors: Vec<_> = found.iter().map(|found| found.error.is_some()).collect();
        assert_eq!(errors, [false, false, true, true]);
        assert_eq!(
            (cni.programs[0].access, &cni.programs[0].files[..]),
            (Access::Writable, &["loopback".to_owned()][..])
        );
        assert_eq!((cni.directories.len(), cni.programs.len()), (1, 1));
    }

    #[test]
    fn a_common_directory_that_does_not_exist_is_absent() {
        let cni = tree::read(&[("/etc/kubernetes/cni/net.d/x.conf", "{}")], Cni::read);
        let places: Vec<_> = cni.directories.iter().map(|found| (found.path.as_str(), found.access)).collect();
        assert_eq!(places, [("/etc/cni/net.d", Access::Absent), ("/etc/kubernetes/cni/net.d", Access::Writable)]);
    }

    #[test]
    fn directories_that_runtimes_state_are_read() {
        let toml = "[plugins.'io.containerd.grpc.v1.cri'.cni]\n  # conf_dir = \"/no\"\n  conf_dir = \"/srv/cni\"\n  bin_dir=''\n";
        let cni = tree::read(
            &[("/etc/containerd/config.toml", toml), ("/etc/crio/crio.conf", "# network_dir = \"/x\"\n")],
            Cni::read,
        );
        let file = "/etc/containerd/config.toml".into();
        assert_eq!(cni.runtimes, [Runtime { file, configurations: Some("/srv/cni".into()), programs: None }]);
    }
}
