//! Images for real nodes: those of this repository, and small ones, of a few files in one layer, as archives that
//! `docker load` and containerd take.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::{
    assets::{self, Tool},
    folder::write_atomically,
    operators::repository,
    real::packages,
    skip,
};

/// Archive with the lab's image of ZooKeeper servers.
pub const ZOOKEEPER_ARCHIVE: &str = "zookeeper-3.9.4";
/// Image of the ZooKeeper servers that the lab builds, as a chart's value.
pub const ZOOKEEPER: &str = "operands.images.external-zookeeper=tungstenfabric/lab-zookeeper:3.9.4";

/// Archive with the lab's image of RabbitMQ servers.
pub const RABBITMQ_ARCHIVE: &str = "rabbitmq-3.10.8";
/// The image itself, as a chart's value.
pub const RABBITMQ: &str = "operands.images.external-rabbitmq=tungstenfabric/lab-rabbitmq:3.10.8";

/// Archive with the lab's image of Cassandra servers.
pub const CASSANDRA_ARCHIVE: &str = "cassandra-5.0.9";
/// The image itself, as a chart's value.
pub const CASSANDRA: &str = "operands.images.external-cassandra=tungstenfabric/lab-cassandra:5.0.9";

/// Archive with the lab's image of Kafka's brokers.
pub const KAFKA_ARCHIVE: &str = "kafka-3.9.1";
/// The image itself, as a chart's value.
pub const KAFKA: &str = "operands.images.external-kafka=tungstenfabric/lab-kafka:3.9.1";

/// Archive with the lab's image of Redis servers.
pub const REDIS_ARCHIVE: &str = "redis-7.0.15";
/// The image itself, as a chart's value.
pub const REDIS: &str = "operands.images.external-redis=tungstenfabric/lab-redis:7.0.15";

/// Variable with the archives of other releases of stores, separated by spaces, that take the place of the usual ones.
pub const RELEASES: &str = "TF_RELEASES";

/// The archives and values of a chart with the releases in them that the variable [`RELEASES`] names.
pub fn of_releases(archives: &[&str], values: &[&str]) -> (Vec<String>, Vec<String>) {
    replaced(&env::var(RELEASES).unwrap_or_default(), archives, values)
}

fn replaced(wanted: &str, archives: &[&str], values: &[&str]) -> (Vec<String>, Vec<String>) {
    let mut archives: Vec<String> = archives.iter().map(|&archive| archive.to_owned()).collect();
    let mut values: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
    for release in wanted.split_whitespace() {
        let Some((software, version)) = release.split_once('-') else { continue };
        for archive in &mut archives {
            // And not the operator, which is called cassandra-op.
            let of_the_same = archive.rsplit_once('-').filter(|(name, _)| *name == software);
            if of_the_same.is_some_and(|(_, version)| version.starts_with(|it: char| it.is_ascii_digit())) {
                release.clone_into(archive);
            }
        }
        for value in &mut values {
            if let Some((image, _)) = value.rsplit_once(&format!("lab-{software}:")) {
                *value = format!("{image}lab-{software}:{version}");
            }
        }
    }
    (archives, values)
}

/// The image of a pod's own container, as `e2e/lab/node/containerd.toml` names it.
pub const PAUSE: &str = "localhost/pause:lab";

/// The archives of images that `cargo xtask image` writes: in `$TF_IMAGES`, which `cargo xtask test` sets, else where they
/// are unless it is told another place. `None` when this machine cannot make one of them: the test that asks, on its own
/// thread, is counted as skipped and has nothing more to do.
pub fn archives<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Option<Vec<PathBuf>>> {
    let given = env::var_os("TF_IMAGES").map(PathBuf::from);
    let target = || env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    let folder = given.clone().unwrap_or_else(|| target().join("images"));
    let mut archives = Vec::new();
    for name in names {
        let archive = folder.join(format!("{name}.tar"));
        if !archive.exists() {
            if given.is_none() {
                bail!("{} does not exist; make it with: cargo xtask image --profile lab {name}", archive.display());
            }
            skip::this_test(&format!(
                "no image {name}: nobody asked for it, or this machine lacks what it is made with"
            ))?;
            return Ok(None);
        }
        archives.push(archive);
    }
    Ok(Some(archives))
}

/// The same in this folder.
///
/// # Errors
/// When one of them is not there.
pub fn archives_in(folder: &Path, names: &[&str]) -> Result<Vec<PathBuf>> {
    let archives: Vec<PathBuf> = names.iter().map(|name| folder.join(format!("{name}.tar"))).collect();
    match archives.iter().find(|archive| !archive.exists()) {
        Some(missing) => bail!("{} was not made: mmdebstrap or Maven is missing", missing.display()),
        None => Ok(archives),
    }
}

/// What is in an image.
#[derive(Clone, Debug, Default)]
pub struct Image {
    layer: Vec<(PathBuf, File)>,
}

#[derive(Clone, Debug)]
enum File {
    Program(Vec<u8>),
    Link(PathBuf),
}

impl Image {
    /// Adds an executable. Its path is absolute.
    #[must_use]
    pub fn program(mut self, path: &str, content: Vec<u8>) -> Self {
        self.layer.push((relative(path), File::Program(content)));
        self
    }

    /// Adds a symbolic link at `path`.
    #[must_use]
    pub fn link(mut self, path: &str, target: &str) -> Self {
        self.layer.push((relative(path), File::Link(target.into())));
        self
    }

    /// The archive of an image called `tag` that runs `entrypoint`. The same content makes the same archive.
    pub fn archive(&self, tag: &str, entrypoint: &[&str]) -> Result<Vec<u8>> {
        let mut layer = tar::Builder::new(Vec::new());
        for (path, file) in &self.layer {
            match file {
                File::Program(content) => add(&mut layer, path, content, 0o755)?,
                File::Link(target) => {
                    let mut header = header(0, 0o777);
                    header.set_entry_type(tar::EntryType::Symlink);
                    layer.append_link(&mut header, path, target)?;
                }
            }
        }
        let layer = layer.into_inner()?;
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {"Entrypoint": entrypoint, "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", hex(&layer))]},
        });
        let manifest = json!([{"Config": "config.json", "RepoTags": [tag], "Layers": ["layer.tar"]}]);
        let mut archive = tar::Builder::new(Vec::new());
        add(&mut archive, Path::new("layer.tar"), &layer, 0o644)?;
        add(&mut archive, Path::new("config.json"), &serde_json::to_vec(&config)?, 0o644)?;
        add(&mut archive, Path::new("manifest.json"), &serde_json::to_vec(&manifest)?, 0o644)?;
        Ok(archive.into_inner()?)
    }
}

/// Writes the archive of [`PAUSE`] into a folder.
pub fn pause(folder: &Path) -> Result<PathBuf> {
    let program = assets::find(Tool::Pause)?;
    let content = fs::read(&program).with_context(|| format!("reading {}", program.display()))?;
    let archive = Image::default().program("/pause", content).archive(PAUSE, &["/pause"])?;
    let path = folder.join("pause.tar");
    write_atomically(&path, &archive)?;
    Ok(path)
}

/// Writes the archive of an image called `tag` for pods of tests: the usual small programs (busybox), and `client`, which
/// asks the API server. busybox's own wget finds no name without the libraries it was built with.
pub fn tools(folder: &Path, tag: &str) -> Result<PathBuf> {
    let packaged = packages::find()?.map(|tree| tree.join("bin/busybox"));
    let program = packaged.unwrap_or_else(|| "/bin/busybox".into());
    let content = fs::read(&program).with_context(|| format!("reading {}", program.display()))?;
    let client = assets::find(Tool::Client)?;
    let client = fs::read(&client).with_context(|| format!("reading {}", client.display()))?;
    let mut image = Image::default().program("/bin/busybox", content).program("/bin/client", client);
    for name in [
        "cat",
        "echo",
        "hostname",
        "id",
        "ip",
        "kill",
        "ls",
        "nc",
        "nslookup",
        "sh",
        "sleep",
        "ssl_client",
        "touch",
        "wget",
    ] {
        image = image.link(&format!("/bin/{name}"), "busybox");
    }
    let path = folder.join("tools.tar");
    write_atomically(&path, &image.archive(tag, &["/bin/sh"])?)?;
    Ok(path)
}

fn add(archive: &mut tar::Builder<Vec<u8>>, path: &Path, content: &[u8], mode: u32) -> Result<()> {
    Ok(archive.append_data(&mut header(content.len() as u64, mode), path, content)?)
}

/// Of root's, from the beginning of time.
fn header(size: u64, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn relative(path: &str) -> PathBuf {
    path.trim_start_matches('/').into()
}

/// As image configurations name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn hex(content: &[u8]) -> String {
    let digest = Sha256::digest(content);
    let half = |from: usize| u128::from_be_bytes(std::array::from_fn(|index| digest[from + index]));
    format!("{:032x}{:032x}", half(0), half(16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_release_takes_the_place_of_the_same_store_alone() {
        let archives = ["cassandra-op", "tf-node", CASSANDRA_ARCHIVE, RABBITMQ_ARCHIVE];
        let (archives, values) = replaced("cassandra-3.11.19", &archives, &[CASSANDRA, RABBITMQ]);
        assert_eq!(archives, ["cassandra-op", "tf-node", "cassandra-3.11.19", RABBITMQ_ARCHIVE]);
        let cassandra = "operands.images.external-cassandra=tungstenfabric/lab-cassandra:3.11.19";
        assert_eq!(values, [cassandra, RABBITMQ]);
    }

    #[test]
    fn the_configuration_names_the_layer_by_its_digest_and_nothing_depends_on_the_time() {
        let image = Image::default().program("/bin/tool", b"content".to_vec()).link("/bin/alias", "tool");
        let archive = image.archive("localhost/tool:1", &["/bin/tool"]).unwrap();
        assert_eq!(archive, image.archive("localhost/tool:1", &["/bin/tool"]).unwrap());

        let mut found = std::collections::BTreeMap::new();
        let mut reader = tar::Archive::new(archive.as_slice());
        for entry in reader.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
            found.insert(entry.path().unwrap().display().to_string(), content);
        }
        let config: serde_json::Value = serde_json::from_slice(&found["config.json"]).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", hex(&found["layer.tar"])));
        let mut layer = tar::Archive::new(found["layer.tar"].as_slice());
        let modes: Vec<_> = layer.entries().unwrap().map(|entry| entry.unwrap().header().mode().unwrap()).collect();
        assert_eq!(modes, [0o755, 0o777]);
    }
}
