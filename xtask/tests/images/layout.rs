//! The form: what runtimes and registries read.

use std::collections::{BTreeMap, BTreeSet};

use oci_spec::image::{MediaType, Os};
use serde_json::Value;

use super::{Program, archive, path_of, programs};

/// What users are promised of a program's image.
const LIMIT: u64 = 15_000_000;

#[test]
fn every_image_is_a_valid_oci_layout() {
    for Program { image, .. } in programs() {
        let layout: Value = serde_json::from_slice(&image.entries["oci-layout"].content).unwrap();
        assert_eq!(layout["imageLayoutVersion"], "1.0.0");
        assert_eq!(image.index.schema_version(), 2);
        assert_eq!(image.index.manifests()[0].media_type(), &MediaType::ImageManifest);
        assert_eq!(image.manifest.config().media_type(), &MediaType::ImageConfig);
        assert!(image.manifest.layers().iter().all(|layer| layer.media_type() == &MediaType::ImageLayerGzip));
        assert_eq!(image.configuration.rootfs().diff_ids(), &image.diff_ids);
        assert_eq!(image.configuration.history().as_ref().unwrap().len(), image.diff_ids.len());
        assert_eq!(image.configuration.os(), &Os::Linux);
        let architecture = image.configuration.architecture().to_string();
        let expected = BTreeMap::from([("x86_64", "amd64"), ("aarch64", "arm64")]);
        assert_eq!(architecture, expected[std::env::consts::ARCH]);
    }
}

#[test]
fn the_same_file_is_what_docker_saves_and_nothing_in_it_is_without_use() {
    for Program { name, image, .. } in programs() {
        let docker: Value = serde_json::from_slice(&image.entries["manifest.json"].content).unwrap();
        let config = path_of(image.manifest.config().digest().as_ref());
        let layers: Vec<_> = image.manifest.layers().iter().map(|layer| path_of(layer.digest().as_ref())).collect();
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(docker[0]["RepoTags"], serde_json::json!([format!("tungstenfabric/{name}:{version}")]));
        assert_eq!(docker[0]["Config"], config);
        assert_eq!(docker[0]["Layers"], serde_json::json!(layers));
        let manifest = path_of(image.index.manifests()[0].digest().as_ref());
        let mut used: BTreeSet<_> = layers.into_iter().chain([config, manifest]).collect();
        used.extend(["index.json", "manifest.json", "oci-layout"].map(str::to_owned));
        assert_eq!(image.entries.keys().cloned().collect::<BTreeSet<_>>(), used);
    }
}

#[test]
fn containerd_finds_the_name_that_the_kubelet_looks_up() {
    for Program { name, image, .. } in programs() {
        let annotations = image.index.manifests()[0].annotations().clone().unwrap();
        // The kubelet completes a reference without a host before it asks.
        let name = format!("docker.io/tungstenfabric/{name}:{}", env!("CARGO_PKG_VERSION"));
        assert_eq!(annotations["io.containerd.image.name"], name);
    }
}

#[test]
fn it_runs_its_executable_and_not_as_root() {
    for Program { name, executable, image } in programs() {
        let config = image.configuration.config().clone().unwrap();
        let (user, group) = config.user().as_deref().unwrap().split_once(':').unwrap();
        // Numbers: with a name the kubelet cannot tell that it is not root's, and refuses runAsNonRoot.
        assert!(user.parse::<u32>().unwrap() > 0 && group.parse::<u32>().unwrap() > 0);
        let entrypoint = config.entrypoint().clone().unwrap();
        assert_eq!(entrypoint[0], format!("/{executable}"));
        let arguments: &[&str] = if *name == "pause" { &["pause"] } else { &[] };
        assert_eq!(entrypoint[1..], *arguments);
        assert_eq!(image.files[*executable].header.mode().unwrap(), 0o755);
    }
}

#[test]
fn labels_say_what_it_is_and_where_it_comes_from() {
    for Program { name, image, .. } in programs() {
        let labels = image.configuration.config().clone().unwrap().labels().clone().unwrap();
        let label = |key: &str| labels[&format!("org.opencontainers.image.{key}")].clone();
        assert_eq!(label("title"), *name);
        assert_eq!(label("version"), env!("CARGO_PKG_VERSION"));
        assert_eq!(label("licenses"), "Apache-2.0");
        assert!(!label("description").is_empty());
        assert_eq!(Some(&label("created")), image.configuration.created().as_ref());
        assert_eq!(image.manifest.annotations().clone().unwrap(), labels);
    }
}

#[test]
fn it_is_small() {
    for Program { name, .. } in programs() {
        let size = archive(name).metadata().unwrap().len();
        assert!(size < LIMIT, "{name} has {size} bytes");
    }
}
