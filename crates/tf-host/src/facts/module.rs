//! The vRouter's kernel module: what is loaded, and what a `modprobe vrouter` would load.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::kernel::MODULES;
use crate::root::{Access, Reader};

/// The module's name.
pub const VROUTER: &str = "vrouter";
/// What the kernel finds at the end of a signed module.
const SIGNED: &[u8] = b"~Module signature appended~\n";
/// Where installers put it below the directory of a kernel: OpenSDN's images, DKMS, vendors.
const PLACES: [&str; 5] = ["kernel/net/vrouter", "updates/dkms", "updates", "extra", "weak-updates"];
const SUFFIXES: [&str; 4] = ["", ".xz", ".zst", ".gz"];

/// The vRouter's kernel module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Module {
    /// The one that is loaded.
    pub loaded: Option<Loaded>,
    /// Files for the kernel that runs; the one that `modprobe` takes comes first.
    pub files: Vec<File>,
    /// Whether the index of modules (`modules.dep`) has it.
    pub indexed: bool,
    /// Kernels that have a file, sorted.
    pub kernels: Vec<String>,
    /// Whether files can be made where modules are.
    pub access: Option<Access>,
}

/// A loaded module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Loaded {
    /// Its version, if it says one.
    pub version: Option<String>,
    /// The checksum of its sources, if it has one.
    pub source_version: Option<String>,
    /// How many hold it: it cannot be unloaded while there are any.
    pub users: Option<u32>,
    /// Parameters with their values.
    pub parameters: BTreeMap<String, String>,
}

/// A module's file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct File {
    /// Path on the host.
    pub path: String,
    /// What it says of itself. None if it is compressed: this program has no decompressor for it.
    pub content: Option<Content>,
}

/// What a module's file says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Content {
    /// Its version.
    pub version: Option<String>,
    /// The checksum of its sources (modinfo(8), `srcversion`).
    pub source_version: Option<String>,
    /// The kernel that it was compiled for, with options: `6.1.0 SMP preempt mod_unload`.
    pub vermagic: Option<String>,
    /// Whether a signature is appended. Whose it is, the kernel finds out.
    pub signed: bool,
}

impl Module {
    /// The file that `modprobe` would load, where it is another module than the loaded one. None, too, where one of them does not say what it is.
    pub fn replacement(&self) -> Option<&File> {
        let (loaded, file) = (self.loaded.as_ref()?, self.files.first()?);
        let content = file.content.as_ref()?;
        let differ = |loaded: &Option<String>, file: &Option<String>| Some(loaded.as_ref()? != file.as_ref()?);
        let sources = differ(&loaded.source_version, &content.source_version);
        let is_other = sources.or_else(|| differ(&loaded.version, &content.version))?;
        is_other.then_some(file)
    }

    pub(super) fn read(reader: &Reader<'_>, release: &str) -> Self {
        let index = (!release.is_empty()).then(|| reader.text(&format!("{MODULES}/{release}/modules.dep"))).flatten();
        let indexed = index.as_deref().and_then(indexed_path);
        let mut paths: Vec<String> = indexed.iter().map(|path| format!("{MODULES}/{release}/{path}")).collect();
        for path in candidates(release).filter(|path| reader.exists(path)) {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        let file = |path: String| File { content: content(reader, &path), path };
        let has_file = |kernel: &String| candidates(kernel).any(|path| reader.exists(&path));
        Self {
            loaded: Loaded::read(reader),
            files: paths.into_iter().filter(|path| reader.exists(path)).map(file).collect(),
            indexed: indexed.is_some(),
            kernels: reader.names(MODULES).into_iter().filter(has_file).collect(),
            access: (!release.is_empty()).then(|| reader.access(MODULES)),
        }
    }
}

impl Loaded {
    fn read(reader: &Reader<'_>) -> Option<Self> {
        let directory = format!("/sys/module/{VROUTER}");
        if !reader.exists(&directory) {
            return None;
        }
        let parameter = |name: String| {
            let value = reader.value(&format!("{directory}/parameters/{name}"))?;
            Some((name, value))
        };
        Some(Self {
            version: reader.value(&format!("{directory}/version")),
            source_version: reader.value(&format!("{directory}/srcversion")),
            users: reader.number(&format!("{directory}/refcnt")),
            parameters: reader.names(&format!("{directory}/parameters")).into_iter().filter_map(parameter).collect(),
        })
    }
}

fn candidates(kernel: &str) -> impl Iterator<Item = String> {
    let names = SUFFIXES.map(|suffix| format!("{VROUTER}.ko{suffix}"));
    PLACES.into_iter().flat_map(move |place| names.clone().map(|name| format!("{MODULES}/{kernel}/{place}/{name}")))
}

/// The path that the index has for it: `updates/dkms/vrouter.ko: kernel/...`.
fn indexed_path(index: &str) -> Option<String> {
    let path = |line: &str| {
        let (path, _) = line.split_once(':')?;
        let name = path.rsplit('/').next()?;
        SUFFIXES.iter().any(|suffix| name == format!("{VROUTER}.ko{suffix}")).then(|| path.to_owned())
    };
    index.lines().find_map(path)
}

fn content(reader: &Reader<'_>, path: &str) -> Option<Content> {
    let is_plain = path.rsplit('.').next() == Some("ko");
    let bytes = is_plain.then(|| reader.bytes(path)).flatten()?;
    Some(Content::of(&bytes))
}

impl Content {
    /// What a file that is not compressed says.
    pub fn of(file: &[u8]) -> Self {
        let entries = information(file);
        let entry = |key: &str| {
            let value = entries.iter().find_map(|entry| entry.strip_prefix(key.as_bytes())?.strip_prefix(b"="))?;
            Some(String::from_utf8_lossy(value).trim().to_owned())
        };
        Self {
            version: entry("version"),
            source_version: entry("srcversion"),
            vermagic: entry("vermagic"),
            signed: file.ends_with(SIGNED),
        }
    }

    /// The release of the kernel that it was compiled for.
    pub fn kernel(&self) -> Option<&str> {
        self.vermagic.as_deref()?.split_whitespace().next()
    }
}

/// The section `.modinfo`, a list of `key=value` with zero bytes after each: the one that has `vermagic`, and the entries
/// before and after it.
fn information(file: &[u8]) -> Vec<&[u8]> {
    let entries: Vec<&[u8]> = file.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()).collect();
    let Some(vermagic) = entries.iter().position(|entry| entry.starts_with(b"vermagic=")) else { return Vec::new() };
    let is_entry = |entry: &&&[u8]| entry.contains(&b'=');
    let before = entries[..vermagic].iter().rev().take_while(is_entry);
    let after = entries[vermagic..].iter().take_while(is_entry);
    before.chain(after).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tree;

    const KO: &str =
        "\u{7f}ELF\0version=%d\0text\0license=GPL\0version=24.1\0\0srcversion=A\0vermagic=6.1.0 SMP mod_unload \0rest";

    #[test]
    fn the_file_that_the_index_names_comes_first() {
        let signed = format!("{KO}~Module signature appended~\n");
        let module = tree::read(
            &[
                ("/lib/modules/6.1.0/modules.dep", "kernel/net/x.ko:\nupdates/dkms/vrouter.ko: kernel/net/x.ko\n"),
                ("/lib/modules/6.1.0/updates/dkms/vrouter.ko", &signed),
                ("/lib/modules/6.1.0/kernel/net/vrouter/vrouter.ko.xz", "compressed"),
                ("/lib/modules/6.2.0/extra/vrouter.ko", KO),
                ("/lib/modules/6.3.0/modules.dep", ""),
            ],
            |reader| Module::read(reader, "6.1.0"),
        );
        let content = Content {
            version: Some("24.1".into()),
            source_version: Some("A".into()),
            vermagic: Some("6.1.0 SMP mod_unload".into()),
            signed: true,
        };
        let files = [
            File { path: "/lib/modules/6.1.0/updates/dkms/vrouter.ko".into(), content: Some(content) },
            File { path: "/lib/modules/6.1.0/kernel/net/vrouter/vrouter.ko.xz".into(), content: None },
        ];
        let kernels = ["6.1.0", "6.2.0"].map(str::to_owned).into();
        let access = Some(Access::Writable);
        assert_eq!(module, Module { loaded: None, files: files.into(), indexed: true, kernels, access });
    }

    #[test]
    fn a_loaded_module_is_read_with_its_parameters() {
        let module = tree::read(
            &[
                ("/sys/module/vrouter/version", "21.4\n"),
                ("/sys/module/vrouter/refcnt", "3\n"),
                ("/sys/module/vrouter/parameters/vr_interfaces", "4355\n"),
                ("/lib/modules/6.1.0/extra/vrouter.ko", "no module"),
            ],
            |reader| Module::read(reader, "6.1.0"),
        );
        let parameters = [("vr_interfaces".to_owned(), "4355".to_owned())].into();
        let loaded = Loaded { version: Some("21.4".into()), source_version: None, users: Some(3), parameters };
        assert_eq!(module.loaded, Some(loaded));
        assert_eq!(module.replacement(), None, "the file does not say what it is");
        assert!(!module.indexed);
        assert_eq!(module.files[0].content, Some(Content::default()));
        assert_eq!(tree::read(&[], |reader| Module::read(reader, "")), Module::default());
    }

    #[test]
    fn another_file_than_the_loaded_one_is_known_by_its_sources_and_else_by_its_version() {
        let loaded = |version: &str, sources: Option<&str>| {
            Some(Loaded { version: Some(version.into()), source_version: sources.map(Into::into), ..Loaded::default() })
        };
        let file = |content| File { path: "/lib/modules/6.1.0/extra/vrouter.ko".into(), content };
        let plain = Some(Content::of(KO.as_bytes()));
        for (loaded, content, is_other) in [
            (loaded("24.1", Some("A")), plain.clone(), false),
            (loaded("24.1", Some("B")), plain.clone(), true),
            (loaded("21.4", Some("A")), plain.clone(), false),
            (loaded("24.1", None), plain.clone(), false),
            (loaded("21.4", None), plain.clone(), true),
            (loaded("21.4", None), None, false),
            (None, plain, false),
        ] {
            let module = Module { loaded, files: vec![file(content)], ..Module::default() };
            assert_eq!(module.replacement().is_some(), is_other, "{module:?}");
        }
    }
}
