//! The member's files as the mounted volumes hold them at one moment.

use std::{collections::BTreeMap, fmt, fs, net::IpAddr, path::Path};

use anyhow::{Context as _, Result};
use tf_agent_api::content::{self, ContentHash, Scope, Volume, content_hash};

use crate::{paths::Paths, volume};

/// A stored file.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    /// Its content.
    pub bytes: Vec<u8>,
    /// Whether it came from the Secret.
    pub secret: bool,
    /// Whether the node has to complete it.
    pub template: bool,
}

impl AsRef<[u8]> for File {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Without the content, which may be secret.
impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, secret, template } = self;
        f.debug_struct("File").field("len", &bytes.len()).field("secret", secret).field("template", template).finish()
    }
}

/// The files of one member.
#[derive(Clone, Debug)]
pub struct Content {
    /// What names them.
    pub hash: ContentHash,
    /// The files by name.
    pub files: BTreeMap<String, File>,
}

/// Reads the files of the member with this address.
pub fn read(paths: &Paths, address: IpAddr) -> Result<Content> {
    let volumes = [paths.secret_dir(), paths.config_dir()];
    let files = volume::read(&volumes, |[secret, config]| read_once(secret.as_deref(), config.as_deref(), address))?;
    Ok(Content { hash: content_hash(&files), files })
}

fn read_once(secret: Option<&Path>, config: Option<&Path>, address: IpAddr) -> Result<BTreeMap<String, File>> {
    let (secret_keys, config_keys) = (keys(secret)?, keys(config)?);
    let mine =
        content::of_member(secret_keys.iter().map(String::as_str), config_keys.iter().map(String::as_str), address);
    let mut files = BTreeMap::new();
    for (name, stored) in mine {
        let is_secret = stored.volume == Volume::Secret;
        let Some(directory) = (if is_secret { secret } else { config }) else { continue };
        let path = directory.join(stored.key);
        let bytes = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        let file = File { bytes, secret: is_secret, template: stored.scope == Scope::Template };
        files.insert(name.to_owned(), file);
    }
    Ok(files)
}

fn keys(directory: Option<&Path>) -> Result<Vec<String>> {
    let Some(directory) = directory else { return Ok(Vec::new()) };
    let context = || format!("list {}", directory.display());
    let mut keys = Vec::new();
    for entry in fs::read_dir(directory).with_context(context)? {
        let entry = entry.with_context(context)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if !name.starts_with("..") && entry.path().is_file() {
            keys.push(name);
        }
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, sync::atomic::AtomicBool, sync::atomic::Ordering, thread};

    use super::*;
    use crate::volume::DATA;

    const ADDRESS: &str = "10.0.0.1";

    /// As the kubelet writes a volume.
    fn publish(volume: &Path, generation: u32, files: &[(&str, &str)]) {
        let data = volume.join(format!("..{generation}"));
        fs::create_dir_all(&data).unwrap();
        for (key, content) in files {
            fs::write(data.join(key), content).unwrap();
            let _ = symlink(format!("{DATA}/{key}"), volume.join(key));
        }
        symlink(format!("..{generation}"), volume.join("..data_tmp")).unwrap();
        let old = fs::read_link(volume.join(DATA)).ok();
        fs::rename(volume.join("..data_tmp"), volume.join(DATA)).unwrap();
        if let Some(old) = old {
            fs::remove_dir_all(volume.join(old)).unwrap();
        }
    }

    #[test]
    fn files_of_both_volumes_are_found_and_marked() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::below(root.path());
        publish(
            &paths.config_dir(),
            1,
            &[("a", "open"), ("b.10.0.0.1", "mine"), ("b.10.0.0.2", "his"), ("t.node", "")],
        );
        publish(&paths.secret_dir(), 1, &[("a", "secret")]);
        let content = read(&paths, ADDRESS.parse().unwrap()).unwrap();
        let file = |bytes: &str, secret, template| File { bytes: bytes.into(), secret, template };
        let expected =
            [("a", file("secret", true, false)), ("b", file("mine", false, false)), ("t", file("", false, true))];
        assert_eq!(content.files, expected.map(|(name, file)| (name.to_owned(), file)).into());
        assert!(!format!("{content:?}").contains("[115"), "content is not printed");
    }

    #[test]
    fn a_pod_without_volumes_has_no_files() {
        let root = tempfile::tempdir().unwrap();
        assert!(read(&Paths::below(root.path()), ADDRESS.parse().unwrap()).unwrap().files.is_empty());
    }

    #[test]
    fn a_swap_in_the_middle_of_reading_never_mixes_two_states() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::below(root.path());
        let names: Vec<String> = (0..20).map(|n| format!("f{n}")).collect();
        let swap = |generation: u32| {
            let text = generation.to_string();
            let files: Vec<_> = names.iter().map(|name| (name.as_str(), text.as_str())).collect();
            publish(&paths.config_dir(), generation, &files);
        };
        swap(0);
        let done = AtomicBool::new(false);
        let seen = thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut seen = 0;
                while !done.load(Ordering::Relaxed) {
                    // Giving up is allowed here; mixing is not.
                    let Ok(content) = read(&paths, ADDRESS.parse().unwrap()) else { continue };
                    let first = &content.files["f0"].bytes;
                    assert!(content.files.len() == 20 && content.files.values().all(|file| &file.bytes == first));
                    seen += 1;
                }
                seen
            });
            (1..300).for_each(swap);
            done.store(true, Ordering::Relaxed);
            reader.join().unwrap()
        });
        assert!(seen > 0);
    }
}
