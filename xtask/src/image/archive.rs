//! One image as one tar that is both an OCI layout and what `docker save` writes, so that `ctr images import`, `podman load`,
//! `skopeo copy oci-archive:` and `docker load` take it as it is.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::{BufWriter, Read},
    path::Path,
};

use anyhow::{Context, Result};
use jiff::Timestamp;
use oci_spec::image::{
    Arch, Config, ConfigBuilder, Descriptor, HistoryBuilder, ImageConfigurationBuilder, ImageIndexBuilder,
    ImageManifestBuilder, MediaType, OciLayoutBuilder, Os, RootFsBuilder, Sha256Digest,
};
use serde::Serialize;
use serde_json::json;
use tar::{EntryType, Header};

use super::layer::{self, Content, Digest, Layer};

/// Annotation by which containerd names an image it imports.
const CONTAINERD_NAME: &str = "io.containerd.image.name";

/// What a reference whose first part is no host stands for.
const DEFAULT_HOST: &str = "docker.io";

/// An image before it is written.
#[derive(Debug)]
pub struct Image {
    /// Repository and tag, as charts and specs name it.
    pub reference: String,
    /// When it was created.
    pub created: Timestamp,
    /// Numbers of user and group that it runs as where the pod does not say.
    pub user: String,
    /// Variables.
    pub environment: Vec<String>,
    /// What runs where the pod does not say.
    pub entrypoint: Vec<String>,
    /// Labels of the configuration and annotations of the manifest.
    pub labels: BTreeMap<String, String>,
    /// From the lowest to the topmost, each with what made it.
    pub layers: Vec<(Layer, String)>,
}

/// Writes an image; the digest of its manifest is what a registry would know it by.
pub fn write(image: &Image, path: &Path) -> Result<Digest> {
    let mut files = BTreeMap::new();
    let mut layers = Vec::new();
    for (layer, _) in &image.layers {
        layers.push(descriptor(MediaType::ImageLayerGzip, &layer.digest, layer.content.size()?)?);
        files.insert(blob(&layer.digest), layer.content.clone());
    }
    let config = json(&configuration(image)?)?;
    let config_digest = layer::digest(&config);
    let manifest = ImageManifestBuilder::default()
        .schema_version(2_u32)
        .media_type(MediaType::ImageManifest)
        .config(descriptor(MediaType::ImageConfig, &config_digest, config.len() as u64)?)
        .layers(layers)
        .annotations(image.labels.clone().into_iter().collect::<HashMap<_, _>>())
        .build()?;
    let manifest = json(&manifest)?;
    let digest = layer::digest(&manifest);
    let mut listed = descriptor(MediaType::ImageManifest, &digest, manifest.len() as u64)?;
    listed.set_annotations(Some(HashMap::from([
        (CONTAINERD_NAME.to_owned(), canonical(&image.reference)),
        (oci_spec::image::ANNOTATION_REF_NAME.to_owned(), image.reference.clone()),
    ])));
    let index = ImageIndexBuilder::default()
        .schema_version(2_u32)
        .media_type(MediaType::ImageIndex)
        .manifests(vec![listed])
        .build()?;
    let docker = json!([{
        "Config": blob(&config_digest),
        "RepoTags": [image.reference],
        "Layers": image.layers.iter().map(|(layer, _)| blob(&layer.digest)).collect::<Vec<_>>(),
    }]);
    files.insert(blob(&config_digest), Content::Memory(config));
    files.insert(blob(&digest), Content::Memory(manifest));
    files.insert("index.json".into(), Content::Memory(json(&index)?));
    files.insert("manifest.json".into(), Content::Memory(json(&docker)?));
    let layout = OciLayoutBuilder::default().image_layout_version("1.0.0").build()?;
    files.insert("oci-layout".into(), Content::Memory(json(&layout)?));
    save(&files, path).with_context(|| format!("writing {}", path.display()))?;
    Ok(digest)
}

fn configuration(image: &Image) -> Result<oci_spec::image::ImageConfiguration> {
    let created = image.created.to_string();
    let history: Result<Vec<_>, _> = image
        .layers
        .iter()
        .map(|(_, by)| HistoryBuilder::default().created(created.clone()).created_by(by.clone()).build())
        .collect();
    let diff_ids: Vec<_> = image.layers.iter().map(|(layer, _)| layer.diff_id.clone()).collect();
    Ok(ImageConfigurationBuilder::default()
        .created(created.clone())
        .architecture(architecture())
        .os(Os::Linux)
        .config(execution(image)?)
        .rootfs(RootFsBuilder::default().typ("layers").diff_ids(diff_ids).build()?)
        .history(history?)
        .build()?)
}

fn execution(image: &Image) -> Result<Config> {
    let mut config = ConfigBuilder::default()
        .user(image.user.clone())
        .working_dir("/")
        .labels(image.labels.clone().into_iter().collect::<HashMap<_, _>>());
    if !image.environment.is_empty() {
        config = config.env(image.environment.clone());
    }
    if !image.entrypoint.is_empty() {
        config = config.entrypoint(image.entrypoint.clone());
    }
    Ok(config.build()?)
}

/// That of this machine, which is what is built for.
fn architecture() -> Arch {
    match std::env::consts::ARCH {
        "x86_64" => Arch::Amd64,
        "aarch64" => Arch::ARM64,
        other => Arch::Other(other.to_owned()),
    }
}

/// The reference in full, as the container runtime interface looks images up.
pub fn canonical(reference: &str) -> String {
    match reference.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => reference.to_owned(),
        Some(_) => format!("{DEFAULT_HOST}/{reference}"),
        None => format!("{DEFAULT_HOST}/library/{reference}"),
    }
}

/// Where the tar has a blob.
pub fn blob(digest: &str) -> String {
    format!("blobs/{}", digest.replace(':', "/"))
}

fn descriptor(media_type: MediaType, digest: &Digest, size: u64) -> Result<Descriptor> {
    let digest: Sha256Digest = digest.trim_start_matches("sha256:").parse()?;
    Ok(Descriptor::new(media_type, size, digest))
}

/// Keys in order: the types hold maps that have none.
fn json(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut value = serde_json::to_value(value)?;
    value.sort_all_objects();
    Ok(serde_json::to_vec(&value)?)
}

/// Writes the tar beside `path` and renames it: whoever reads it meets a whole one.
fn save(files: &BTreeMap<String, Content>, path: &Path) -> Result<()> {
    let unfinished = path.with_extension("unfinished");
    let mut builder = tar::Builder::new(BufWriter::new(File::create(&unfinished)?));
    for (name, content) in files {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_size(content.size()?);
        builder.append_data(&mut header, name, content.open()?.by_ref())?;
    }
    builder.into_inner()?.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    Ok(fs::rename(&unfinished, path)?)
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn short_references_are_completed_as_runtimes_do_it() {
        assert_eq!(canonical("tungstenfabric/tf-node:1"), "docker.io/tungstenfabric/tf-node:1");
        assert_eq!(canonical("tf-node:1"), "docker.io/library/tf-node:1");
        for whole in ["mirror.example/tf/tf-node:1", "localhost/tf-node:1", "localhost:5000/tf-node:1"] {
            assert_eq!(canonical(whole), whole);
        }
    }
}
