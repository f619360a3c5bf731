//! Which image each container runs.
//!
//! First the spec's own container list, then what the person who installed the operator set, then the release table.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tf_api::{common::Container, contract::Reason};

use crate::plan::NotReady;

/// A release of the workload images. Every image of one release carries one tag; mixing tags inside a cluster is not
/// supported (tf-components 1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// What `spec.version` says.
    pub name: &'static str,
    /// Registry, organisation and prefix of image names.
    pub prefix: &'static str,
    /// Tag.
    pub tag: &'static str,
}

/// Known releases, the default first. Tags other than `latest` are named per container or at installation, because no
/// other tag of either registry could be verified.
pub const RELEASES: [Release; 2] = [
    Release { name: "latest", prefix: "opensdn/opensdn-", tag: "latest" },
    Release { name: "tungstenfabric-latest", prefix: "tungstenfabric/contrail-", tag: "latest" },
];

/// Images chosen when the operator was installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageOverrides {
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

/// The release a spec asks for.
///
/// # Errors
/// `InvalidSpec` for a release that is not in the table.
pub fn release(version: Option<&str>) -> Result<&'static Release, NotReady> {
    let [default, ..] = &RELEASES;
    let Some(version) = version else { return Ok(default) };
    RELEASES.iter().find(|release| release.name == version).ok_or_else(|| {
        let known: Vec<_> = RELEASES.iter().map(|release| release.name).collect();
        NotReady::invalid(
            Reason::InvalidSpec,
            format!(
                "spec.version {version:?} is not known to this operator; use one of {}, or name the images in \
                 serviceConfiguration.containers",
                known.join(", ")
            ),
        )
    })
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
        let prefix = overrides.prefix.as_deref().unwrap_or(release.prefix);
        let tag = overrides.tag.as_deref().unwrap_or(release.tag);
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
    overrides.tf_node.clone().unwrap_or_else(|| format!("tungstenfabric/tf-node:{operator_version}"))
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
        let (chosen, unknown) = choose(&[], &BUILTINS, &RELEASES[0], &ImageOverrides::default());
        assert_eq!(chosen.len(), 1);
        assert_eq!(chosen[0].image, "opensdn/opensdn-external-zookeeper:latest");
        assert!(unknown.is_empty());
    }

    #[test]
    fn a_list_filters_and_fills_and_names_it_does_not_know_are_told() {
        let list = [container("nodemanager", Some("my/nodemgr:1")), container("provisioner", None)];
        let (chosen, unknown) = choose(&list, &BUILTINS, &RELEASES[0], &ImageOverrides::default());
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
        assert_eq!(reference("nodemgr", &RELEASES[0], &overrides), "mirror.example/tf/nodemgr:R1");
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
    fn an_unknown_release_says_which_are_known() {
        assert!(release(Some("9.9")).is_err_and(|why| why.message.contains("latest")));
        assert_eq!(release(None).map(|release| release.name), Ok("latest"));
    }
}
