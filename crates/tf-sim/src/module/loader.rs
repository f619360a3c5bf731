//! Loading the module, as far as files say: a loaded one is the directory `/sys/module/vrouter` with what its file says of itself. A file whose `srcversion`
//! begins with `REFUSED` is not loaded, and with one that begins with `SILENT` nothing is passed.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use tf_host::facts::module::Content;

/// The programs that are played.
pub const NAMES: [&str; 2] = ["modprobe", "insmod"];
const LOADED: &str = "sys/module/vrouter";
/// Where pods have the files of their node.
const HOST: &str = "/host";

/// Does what the arguments of a program say.
///
/// # Errors
/// What the kernel answers, or arguments that are not played.
pub fn run(program: &str, arguments: &[String]) -> io::Result<()> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match (program, &arguments[..]) {
        ("modprobe", ["-v", "-d", root, "vrouter", ..]) => load_indexed(Path::new(root)),
        ("modprobe", ["-r", "-d", root, "vrouter"]) => unload(Path::new(root)),
        ("insmod", [file, ..]) => load(Path::new(HOST), Path::new(file)),
        _ => Err(io::Error::other(format!("tf-sim does not play {program} {}", arguments.join(" ")))),
    }
}

/// Loads the file that `modprobe` finds.
pub(super) fn load_indexed(root: &Path) -> io::Result<()> {
    let release = fs::read_to_string(root.join("proc/sys/kernel/osrelease"))?;
    let file: PathBuf = root.join("lib/modules").join(release.trim()).join("kernel/net/vrouter/vrouter.ko");
    load(root, &file)
}

pub(super) fn load(root: &Path, file: &Path) -> io::Result<()> {
    let content = Content::of(&fs::read(file)?);
    if sources(&content).starts_with("REFUSED") {
        return Err(io::Error::other("could not insert 'vrouter': Exec format error"));
    }
    let loaded = root.join(LOADED);
    fs::create_dir_all(&loaded)?;
    fs::write(loaded.join("version"), content.version.clone().unwrap_or_default())?;
    fs::write(loaded.join("srcversion"), sources(&content))
}

/// One that was not loaded from a file stays.
pub(super) fn unload(root: &Path) -> io::Result<()> {
    let loaded = root.join(LOADED);
    if !loaded.join("srcversion").exists() {
        return Err(io::Error::other("Module vrouter is builtin"));
    }
    fs::remove_dir_all(loaded)
}

pub(super) fn is_loaded(root: &Path) -> bool {
    root.join(LOADED).exists()
}

/// Whether the loaded one passes nothing.
pub(super) fn is_silent(root: &Path) -> bool {
    fs::read_to_string(root.join(LOADED).join("srcversion")).is_ok_and(|sources| sources.starts_with("SILENT"))
}

fn sources(content: &Content) -> &str {
    content.source_version.as_deref().unwrap_or_default()
}
