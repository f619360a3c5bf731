//! The vRouter's CNI configuration and program on a node: the configuration is put where the container runtime reads it, and both are
//! taken away.
//!
//! Runtimes load the first of the sorted names, and notice a change by inotify. containerd ignores that a file is made and acts when one is
//! written, renamed or removed, so what took a place by a rename is written once more in place (containerd,
//! `internal/cri/server/cni_conf_syncer.go`).

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use crate::{
    Root, Wanted,
    atomic::{self, of},
    facts::cni::{is_loaded, parse},
};

/// The vRouter's plugin: the type that configurations name, and the name of its program.
pub const PLUGIN: &str = "contrail-k8s-cni";
/// The configuration that Multus waits for on OpenShift, in its own directory.
pub const MULTUS_FILE: &str = "80-openshift-network.conf";
/// What the name of a configuration ends in that was set aside. Nothing loads such a file.
pub const SET_ASIDE: &str = ".tf_bak";
/// Where the agent and the plugin keep a file for each port of a pod.
pub const PORTS: &str = "/var/lib/contrail/ports/vm";
/// Where Nova's plugin keeps those of virtual machines (`vrouter-port-control`), a file each.
const MACHINES: &str = "/var/lib/contrail/ports";
/// Directories besides the runtime's in which the vRouter may have put its configuration: OpenShift's.
const OTHERS: [&str; 2] = ["/etc/kubernetes/cni/net.d", "/run/multus/cni/net.d"];
const MODE: u32 = 0o644;

/// What was done for a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// Whether it was written: it was not there, or another one was.
    pub is_written: bool,
    /// Names of configurations of earlier installations that were set aside.
    pub set_aside: Vec<String>,
}

/// Whether the plugin reads its own settings from a file of this name: it takes the first one in its directory, whatever configuration the
/// runtime gives it.
pub fn is_read_by_plugin(name: &str) -> bool {
    name.ends_with("contrail.conf") || name.ends_with("tf-cni.conf")
}

/// Puts the configuration at a path, if another one or none is there. Configurations of the same plugin that come before it, which an earlier
/// installation left, are set aside then; those of other plugins stay.
///
/// # Errors
/// When a file cannot be read or written; the message has its path.
pub fn place(path: &Path, content: &[u8]) -> io::Result<Placed> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let is_written = fs::read(path).ok().as_deref() != Some(content);
    if is_written {
        fs::create_dir_all(directory).map_err(|error| of(directory, &error))?;
        atomic::write(path, content, MODE)?;
        let again = OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(content));
        again.map_err(|error| of(path, &error))?;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut set_aside = Vec::new();
    for earlier in earlier(directory, &name)? {
        let from = directory.join(&earlier);
        fs::rename(&from, directory.join(format!("{earlier}{SET_ASIDE}"))).map_err(|error| of(&from, &error))?;
        set_aside.push(earlier);
    }
    Ok(Placed { is_written, set_aside })
}

/// Configurations of the vRouter's plugin that come before the one of this name.
fn earlier(directory: &Path, name: &str) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(|error| of(directory, &error))? {
        let other = entry?.file_name().to_string_lossy().into_owned();
        if other.as_str() < name && is_loaded(&other) && (is_read_by_plugin(&other) || is_ours(directory, &other)) {
            found.push(other);
        }
    }
    found.sort();
    Ok(found)
}

/// Whether the vRouter's plugin is the only one that a configuration names.
fn is_ours(directory: &Path, name: &str) -> bool {
    let text = fs::read_to_string(directory.join(name)).unwrap_or_default();
    let types = parse(name.to_owned(), &text).types;
    !types.is_empty() && types.iter().all(|kind| kind == PLUGIN)
}

/// Pods of the vRouter's network on the node, by the files that the plugin keeps of them. Without its configuration it could not disconnect them.
pub fn pods(root: &Root) -> Vec<String> {
    let entries = fs::read_dir(root.at(PORTS)).into_iter().flatten().flatten();
    let has_port = |entry: &fs::DirEntry| fs::read_dir(entry.path()).is_ok_and(|mut ports| ports.next().is_some());
    let mut names: Vec<String> =
        entries.filter(has_port).map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Whether pods of the vRouter's network are on the node, or virtual machines.
pub fn has_ports(root: &Root) -> bool {
    let is_port = |entry: fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    !pods(root).is_empty() || fs::read_dir(root.at(MACHINES)).into_iter().flatten().flatten().any(is_port)
}

/// Takes the configuration away wherever the vRouter puts it, and the program unless [`pods`] are left or another configuration names
/// it. What was set aside stays so. Out: paths that are gone.
///
/// # Errors
/// When a file cannot be removed; the message has its path.
pub fn remove(root: &Root, wanted: &Wanted) -> io::Result<Vec<String>> {
    let mut gone = Vec::new();
    let directories = [wanted.cni_directory.as_str()].into_iter().chain(OTHERS);
    for directory in directories.clone() {
        for name in [wanted.cni_file.as_str(), MULTUS_FILE] {
            if is_ours(&root.at(directory), name) {
                let path = format!("{directory}/{name}");
                fs::remove_file(root.at(&path)).map_err(|error| of(Path::new(&path), &error))?;
                gone.push(path);
            }
        }
    }
    let names = |path: &str| -> Vec<String> {
        let entries = fs::read_dir(root.at(path)).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let names_it = |directory: &str, name: &String| {
        let text = fs::read_to_string(root.at(directory).join(name)).unwrap_or_default();
        is_loaded(name) && text.contains(PLUGIN)
    };
    let is_named = |directory: &str| names(directory).iter().any(|name| names_it(directory, name));
    let program = format!("{}/{PLUGIN}", wanted.cni_programs);
    if pods(root).is_empty() && !directories.clone().any(is_named) && root.at(&program).exists() {
        fs::remove_file(root.at(&program)).map_err(|error| of(Path::new(&program), &error))?;
        gone.push(program);
    }
    Ok(gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &[u8] = br#"{"name": "contrail-k8s-cni", "type": "contrail-k8s-cni"}"#;

    /// A node with these files below `/etc/cni/net.d`.
    fn node(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::below(directory.path());
        for (name, text) in files {
            let path = root.at("/etc/cni/net.d").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (directory, root)
    }

    fn names(root: &Root) -> Vec<String> {
        let entries = fs::read_dir(root.at("/etc/cni/net.d")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_configuration_is_written_once_and_again_where_another_program_changed_it() {
        let (_directory, root) = node(&[]);
        let path = root.at("/etc/cni/net.d/10-tf-cni.conf");
        let placed = |is_written| Placed { is_written, set_aside: Vec::new() };
        assert_eq!(place(&path, OURS).unwrap(), placed(true));
        assert_eq!(place(&path, OURS).unwrap(), placed(false));
        assert_eq!(names(&root), ["10-tf-cni.conf"]);
        fs::write(&path, "{}").unwrap();
        assert_eq!(place(&path, OURS).unwrap(), placed(true));
        fs::remove_file(&path).unwrap();
        assert_eq!(place(&path, OURS).unwrap(), placed(true));
        assert_eq!(fs::read(&path).unwrap(), OURS);
    }

    #[test]
    fn what_an_earlier_installation_left_is_set_aside_and_other_plugins_stay() {
        let ours = std::str::from_utf8(OURS).unwrap();
        let list = r#"{"plugins": [{"type": "contrail-k8s-cni"}, {"type": "portmap"}]}"#;
        let (_directory, root) = node(&[
            ("10-contrail.conf", ours),
            ("05-other.conf", ours),
            ("00-multus.conf", r#"{"type": "multus"}"#),
            ("01-list.conflist", list),
            ("02-broken.conf", "{"),
            ("99-contrail.conf", ours),
        ]);
        let placed = place(&root.at("/etc/cni/net.d/10-tf-cni.conf"), OURS).unwrap();
        assert_eq!(placed.set_aside, ["05-other.conf", "10-contrail.conf"]);
        let expected = [
            "00-multus.conf",
            "01-list.conflist",
            "02-broken.conf",
            "05-other.conf.tf_bak",
            "10-contrail.conf.tf_bak",
            "10-tf-cni.conf",
            "99-contrail.conf",
        ];
        assert_eq!(names(&root), expected);
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_named() {
        let (_directory, root) = node(&[]);
        fs::create_dir_all(root.at("/etc/cni")).unwrap();
        fs::write(root.at("/etc/cni/net.d"), "").unwrap();
        let error = place(&root.at("/etc/cni/net.d/10-tf-cni.conf"), OURS).unwrap_err().to_string();
        assert!(error.contains("/etc/cni/net.d"), "{error}");
    }

    #[test]
    fn all_that_was_placed_is_removed_and_the_program_stays_as_long_as_it_is_needed() {
        let (_directory, root) = node(&[("05-bridge.conf", r#"{"type": "bridge"}"#)]);
        let wanted = Wanted::default();
        let program = root.at("/opt/cni/bin").join(PLUGIN);
        let write = |path: &Path| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        };
        let place_all = || {
            write(&program);
            place(&root.at("/etc/cni/net.d/10-tf-cni.conf"), OURS).unwrap();
            place(&root.at("/run/multus/cni/net.d").join(MULTUS_FILE), OURS).unwrap();
        };
        let configurations =
            ["/etc/cni/net.d/10-tf-cni.conf".to_owned(), format!("/run/multus/cni/net.d/{MULTUS_FILE}")];
        place_all();
        let port = root.at(PORTS).join("k8s__a__b/uid");
        write(&port);
        assert_eq!(pods(&root), ["k8s__a__b"]);
        assert_eq!(remove(&root, &wanted).unwrap(), configurations);
        assert!(program.exists(), "a pod that is being deleted needs it");
        fs::remove_file(port).unwrap();
        assert_eq!(pods(&root), Vec::<String>::new());
        assert_eq!(remove(&root, &wanted).unwrap(), [format!("/opt/cni/bin/{PLUGIN}")]);
        assert_eq!(remove(&root, &wanted).unwrap(), Vec::<String>::new());
        assert_eq!(names(&root), ["05-bridge.conf"]);
        // A meta plugin calls it.
        place_all();
        let list = root.at("/etc/cni/net.d/01-list.conflist");
        fs::write(&list, r#"{"plugins": [{"type": "contrail-k8s-cni"}, {"type": "portmap"}]}"#).unwrap();
        assert_eq!(remove(&root, &wanted).unwrap(), configurations);
        assert!(program.exists() && list.exists());
    }

    #[test]
    fn a_file_of_that_name_with_another_plugin_is_not_removed() {
        let (_directory, root) = node(&[("10-tf-cni.conf", r#"{"type": "bridge"}"#)]);
        assert_eq!(remove(&root, &Wanted::default()).unwrap(), Vec::<String>::new());
        assert_eq!(names(&root), ["10-tf-cni.conf"]);
    }
}
