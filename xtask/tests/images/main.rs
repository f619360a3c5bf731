//! `cargo xtask image`, run as a user runs it, and what it wrote, read back without any of its own code.

// Says to clippy that the helpers below are tests, too, and may unwrap.
#![cfg(test)]

mod content;
mod elsewhere;
mod layout;
mod scratch;
mod stores;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use flate2::read::GzDecoder;
use oci_spec::image::{Descriptor, ImageConfiguration, ImageIndex, ImageManifest};
use sha2::{Digest as _, Sha256};
use tf_testing::operators;

/// An image with one executable.
struct Program {
    name: &'static str,
    executable: &'static str,
    image: Image,
}

/// All of them, as the lab runs them. Read once for all tests.
fn programs() -> &'static [Program] {
    static PROGRAMS: OnceLock<Vec<Program>> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let others = [("tf-node", "tf-node"), ("pause", "tf-node")];
        let names = operators::ALL.into_iter().map(|name| (name, name)).chain(others);
        let read = |(name, executable)| Program { name, executable, image: Image::read(&archive(name)) };
        names.map(read).collect()
    })
}

fn program(name: &str) -> &'static Program {
    programs().iter().find(|program| program.name == name).unwrap()
}

/// Folder with images as the lab runs them: that of `$TF_IMAGES`, else one that is made once for all tests.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        std::env::var_os("TF_IMAGES").map_or_else(
            || {
                let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("images");
                let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
                image(command.args(["image", "programs", "stores", "--profile", "lab", "--output"]).arg(&folder));
                folder
            },
            PathBuf::from,
        )
    })
}

/// The file of an image.
fn archive(name: &str) -> PathBuf {
    folder().join(format!("{name}.tar"))
}

/// Runs the command to its end. What it says about its progress is shown with a failed test.
fn image(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Files of a tar, by their paths.
fn files(tar: impl Read) -> BTreeMap<String, Entry> {
    let mut archive = tar::Archive::new(tar);
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        (entry.path().unwrap().display().to_string(), Entry { header: entry.header().clone(), content })
    });
    entries.collect()
}

struct Entry {
    header: tar::Header,
    content: Vec<u8>,
}

/// An image that was written, with every digest and size checked on the way.
struct Image {
    index: ImageIndex,
    manifest: ImageManifest,
    configuration: ImageConfiguration,
    /// Digests of the layers' tars.
    diff_ids: Vec<String>,
    /// Files of all layers.
    files: BTreeMap<String, Entry>,
    /// Everything in the tar.
    entries: BTreeMap<String, Entry>,
}

impl Image {
    /// What a runtime loads it as.
    fn reference(&self) -> String {
        let docker: serde_json::Value = serde_json::from_slice(&self.entries["manifest.json"].content).unwrap();
        docker[0]["RepoTags"][0].as_str().unwrap().to_owned()
    }

    fn read(path: &Path) -> Self {
        let entries = files(File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
        let index: ImageIndex = serde_json::from_slice(&entries["index.json"].content).unwrap();
        let [listed] = index.manifests().as_slice() else { panic!("one image is in a file") };
        let manifest: ImageManifest = serde_json::from_slice(blob(&entries, listed)).unwrap();
        let configuration = serde_json::from_slice(blob(&entries, manifest.config())).unwrap();
        let mut diff_ids = Vec::new();
        let mut inside = BTreeMap::new();
        for layer in manifest.layers() {
            let mut plain = Vec::new();
            GzDecoder::new(blob(&entries, layer)).read_to_end(&mut plain).unwrap();
            diff_ids.push(digest(&plain));
            inside.extend(files(plain.as_slice()));
        }
        Self { index, manifest, configuration, diff_ids, files: inside, entries }
    }
}

fn blob<'a>(entries: &'a BTreeMap<String, Entry>, descriptor: &Descriptor) -> &'a [u8] {
    let content = &entries[&path_of(descriptor.digest().as_ref())].content;
    assert_eq!(digest(content), descriptor.digest().to_string());
    assert_eq!(content.len() as u64, descriptor.size());
    content
}

fn path_of(digest: &str) -> String {
    format!("blobs/{}", digest.replace(':', "/"))
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold("sha256:".to_owned(), |name, byte| format!("{name}{byte:02x}"))
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata("/proc/self").unwrap().uid() == 0
}
