//! Which image each container runs.
//!
//! First the spec's own container list, then what the person who installed the operator set, then the release table.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tf_api::{common::Container, contract::Reason};

use crate::not_ready::NotReady;

/// A release of the workload images. Every image of one release carries one tag; mixing tags inside a cluster is not
/// supported (docs/upstream/images.md#names-and-tags).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// What `spec.version` says.
    pub name: String,
    /// Organisation and prefix of image names.
    pub prefix: &'static str,
    /// Tag.
    pub tag: String,
}

/// An organisation of Docker Hub that publishes images of Tungsten Fabric.
struct Publisher {
    name: &'static str,
    prefix: &'static str,
}

/// Publishers, today's first (docs/upstream/images.md#names-and-tags). The oldest release known here of which OpenSDN publishes the images is 24.1.
const OPENSDN: Publisher = Publisher { name: "opensdn", prefix: "opensdn/opensdn-" };
const TUNGSTENFABRIC: Publisher = Publisher { name: "tungstenfabric", prefix: "tungstenfabric/contrail-" };
/// Year of the first release of OpenSDN.
const RENAMED: u32 = 24;
/// Year of the first release that the operators run: R2011.
const FIRST: u32 = 20;
/// Version where nothing is stated.
const DEFAULT: &str = "latest";

/// Images chosen when the operator was installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageOverrides {
    /// Registry of every image that is not named by what follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    /// Replaces registry, organisation and prefix of every image name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Replaces the tag of every image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Whole references by image name, for example `external-zookeeper`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub references: BTreeMap<String, String>,
    /// Image with the node agent `tf-node`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tf_node: Option<String>,
}

impl ImageOverrides {
    /// The name of an image, or the beginning of one, in the registry.
    fn in_registry(&self, name: &str) -> String {
        match &self.registry {
            Some(registry) => format!("{}/{name}", registry.trim_end_matches('/')),
            None => name.to_owned(),
        }
    }
}

/// The release a spec asks for: a tag, which its publisher may precede (`tungstenfabric-nightly`). A tag of a release before 24 is of Tungsten Fabric, any
/// other one of OpenSDN.
///
/// # Errors
/// `InvalidSpec` for what is no tag, and for a release before R2011.
pub fn release(version: Option<&str>) -> Result<Release, NotReady> {
    let name = version.unwrap_or(DEFAULT);
    let stated = [OPENSDN, TUNGSTENFABRIC].into_iter().find_map(|publisher| {
        let tag = name.strip_prefix(publisher.name)?.strip_prefix('-')?;
        Some((publisher, tag))
    });
    let year = year(name);
    let publisher = if year.is_some_and(|year| year < RENAMED) { TUNGSTENFABRIC } else { OPENSDN };
    let (publisher, tag) = stated.unwrap_or((publisher, name));
    let why = match year {
        _ if !is_tag(tag) => "is no tag of images",
        Some(year) if year < FIRST => "is a release before R2011, which these operators do not run",
        _ => return Ok(Release { name: name.to_owned(), prefix: publisher.prefix, tag: tag.to_owned() }),
    };
    Err(NotReady::invalid(
        Reason::InvalidSpec,
        format!("spec.version {name:?} {why}; state a tag as the registry lists it, for example R21.4, 24.1 or latest"),
    ))
}

/// The year of a release: 24 of `24.1`, 21 of `R21.4`, 20 of `R2011-2021-09-13`, which came out in November 2020. Releases before 2019 had numbers
/// of their own (`5.1`). None for what does not begin with a number (`latest`).
fn year(tag: &str) -> Option<u32> {
    let digits: String = tag.trim_start_matches(['R', 'r', 'v']).chars().take_while(char::is_ascii_digit).collect();
    let number: u32 = digits.parse().ok()?;
    Some(match number {
        0..100 => number,
        // Year and month, else a whole year.
        _ if digits.len() == 4 && (1..=12).contains(&(number % 100)) => number / 100,
        _ => number % 100,
    })
}

/// Whether it can be a tag (OCI distribution, "Pulling manifests").
fn is_tag(text: &str) -> bool {
    let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_';
    text.len() <= 128 && text.starts_with(is_word) && text.chars().all(|it| is_word(it) || matches!(it, '.' | '-'))
}

/// One container that a component can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// Name of the container, the key in the spec's list.
    pub name: &'static str,
    /// Image name without registry, prefix and tag.
    pub image: &'static str,
    /// Whether it runs when the spec has no list.
    pub default: bool,
}

/// A container that runs, with image and, if the spec replaces it, command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Name of the container.
    pub name: &'static str,
    /// Image reference.
    pub image: String,
    /// Command instead of the built-in one; empty for the built-in one.
    pub command: Vec<String>,
}

/// Decides which of the built-in containers run and with which images. A list in the spec filters and fills, as in the
/// Go tf-operator. Names in the list that the component does not run are returned beside.
pub fn choose(
    list: &[Container],
    builtins: &[Builtin],
    release: &Release,
    overrides: &ImageOverrides,
) -> (Vec<Chosen>, Vec<String>) {
    let listed = |name: &str| list.iter().find(|container| container.name.as_deref() == Some(name));
    let chosen = builtins
        .iter()
        .filter(|builtin| if list.is_empty() { builtin.default } else { listed(builtin.name).is_some() })
        .map(|builtin| {
            let listed = listed(builtin.name);
            Chosen {
                name: builtin.name,
                image: listed
                    .and_then(|container| container.image.clone())
                    .unwrap_or_else(|| reference(builtin.image, release, overrides)),
                command: listed.map(|container| container.command.clone()).unwrap_or_default(),
            }
        })
        .collect();
    let unknown = list
        .iter()
        .filter_map(|container| container.name.clone())
        .filter(|name| !name.is_empty() && builtins.iter().all(|builtin| builtin.name != name))
        .collect();
    (chosen, unknown)
}

/// Reference of an image of the release.
pub fn reference(image: &str, release: &Release, overrides: &ImageOverrides) -> String {
    overrides.references.get(image).cloned().unwrap_or_else(|| {
        let prefix = overrides.prefix.clone().unwrap_or_else(|| overrides.in_registry(release.prefix));
        let tag = overrides.tag.as_deref().unwrap_or(&release.tag);
        format!("{prefix}{image}:{tag}")
    })
}

/// What of a reference tells the version: its tag, else the beginning of its digest.
pub fn tag(reference: &str) -> &str {
    if let Some((_, digest)) = reference.split_once('@') {
        return digest.get(..19).unwrap_or(digest);
    }
    let name = reference.rsplit_once('/').map_or(reference, |(_, name)| name);
    name.split_once(':').map_or("latest", |(_, tag)| tag)
}

/// Reference of the image with the node agent: set at installation, else the operator's own version.
pub fn tf_node(overrides: &ImageOverrides, operator_version: &str) -> String {
    let usual = || overrides.in_registry(&format!("tungstenfabric/tf-node:{operator_version}"));
    overrides.tf_node.clone().unwrap_or_else(usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILTINS: [Builtin; 2] = [
        Builtin { name: "zookeeper", image: "external-zookeeper", default: true },
        Builtin { name: "nodemanager", image: "nodemgr", default: false },
    ];

    fn container(name: &str, image: Option<&str>) -> Container {
        Container { name: Some(name.into()), image: image.map(Into::into), command: Vec::new() }
    }

    #[test]
    fn without_a_list_the_default_containers_run_with_the_images_of_the_release() {
        let (chosen, unknown) = choose(&[], &BUILTINS, &release(None).unwrap(), &ImageOverrides::default());
        assert_eq!(chosen.len(), 1);
        assert_eq!(chosen[0].image, "opensdn/opensdn-external-zookeeper:latest");
        assert!(unknown.is_empty());
    }

    #[test]
    fn a_list_filters_and_fills_and_names_it_does_not_know_are_told() {
        let list = [container("nodemanager", Some("my/nodemgr:1")), container("provisioner", None)];
        let (chosen, unknown) = choose(&list, &BUILTINS, &release(None).unwrap(), &ImageOverrides::default());
        assert_eq!(
            chosen.iter().map(|c| (c.name, c.image.as_str())).collect::<Vec<_>>(),
            [("nodemanager", "my/nodemgr:1")]
        );
        assert_eq!(unknown, ["provisioner"]);
    }

    #[test]
    fn a_mirror_named_at_installation_replaces_registry_and_tag() {
        let overrides = ImageOverrides {
            prefix: Some("mirror.example/tf/".into()),
            tag: Some("R1".into()),
            ..ImageOverrides::default()
        };
        assert_eq!(reference("nodemgr", &release(None).unwrap(), &overrides), "mirror.example/tf/nodemgr:R1");
    }

    #[test]
    fn a_registry_named_at_installation_has_every_image_that_is_not_named_otherwise() {
        let overrides = ImageOverrides { registry: Some("registry.example:5000/".into()), ..ImageOverrides::default() };
        let of_workload = reference("nodemgr", &release(None).unwrap(), &overrides);
        assert_eq!(of_workload, "registry.example:5000/opensdn/opensdn-nodemgr:latest");
        assert_eq!(tf_node(&overrides, "1.2.3"), "registry.example:5000/tungstenfabric/tf-node:1.2.3");
        let named = ImageOverrides { prefix: Some("mirror/x-".into()), tf_node: Some("node:1".into()), ..overrides };
        assert_eq!(reference("nodemgr", &release(None).unwrap(), &named), "mirror/x-nodemgr:latest");
        assert_eq!(tf_node(&named, "1.2.3"), "node:1");
    }

    #[test]
    fn a_reference_tells_its_version_by_tag_or_digest() {
        let digest = format!("a/b@sha256:{}", "0f".repeat(32));
        for (reference, version) in [
            ("opensdn/opensdn-controller:R24.1", "R24.1"),
            ("registry:5000/a", "latest"),
            ("registry:5000/a:2", "2"),
            (digest.as_str(), "sha256:0f0f0f0f0f0f"),
        ] {
            assert_eq!(tag(reference), version);
        }
    }

    #[test]
    fn a_version_is_a_tag_of_its_publisher() {
        let reference = |version| reference("nodemgr", &release(version).unwrap(), &ImageOverrides::default());
        for (version, expected) in [
            (None, "opensdn/opensdn-nodemgr:latest"),
            (Some("latest"), "opensdn/opensdn-nodemgr:latest"),
            (Some("tungstenfabric-latest"), "tungstenfabric/contrail-nodemgr:latest"),
            (Some("R2011-2021-09-13"), "tungstenfabric/contrail-nodemgr:R2011-2021-09-13"),
            (Some("R21.4"), "tungstenfabric/contrail-nodemgr:R21.4"),
            (Some("21.4"), "tungstenfabric/contrail-nodemgr:21.4"),
            (Some("R24.1"), "opensdn/opensdn-nodemgr:R24.1"),
            (Some("24.1"), "opensdn/opensdn-nodemgr:24.1"),
            (Some("2025.2"), "opensdn/opensdn-nodemgr:2025.2"),
            (Some("nightly"), "opensdn/opensdn-nodemgr:nightly"),
            (Some("opensdn-R21.4"), "opensdn/opensdn-nodemgr:R21.4"),
        ] {
            assert_eq!(reference(version), expected, "{version:?}");
        }
    }

    #[test]
    fn what_is_no_tag_and_releases_before_r2011_are_refused() {
        for version in
            ["", "24.1 ", "a/b", "a:b", "-a", "opensdn-", "ä", &"a".repeat(129), "4.1", "5.1.0", "R1912", "9.9"]
        {
            let refused = release(Some(version)).unwrap_err();
            assert!(refused.message.contains("for example R21.4, 24.1 or latest"), "{version:?}: {}", refused.message);
        }
    }
}
