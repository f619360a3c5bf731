//! Images of the programs of this repository: one static executable, what is in it, and its licences. No shell, no account, no
//! certificates: an operator trusts the authority that Kubernetes gives its pod, and no other.

use std::collections::BTreeMap;

use anyhow::Result;
use cargo_metadata::Package;
use tf_testing::operators;

use super::{
    archive::Image,
    executable::{Executable, Workspace},
    layer::{Content, Tree},
    notices, sbom,
    source::Source,
};

/// An image with one executable.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Name of the image and of its file.
    pub name: &'static str,
    /// Package of the executable, which is called like it.
    pub package: &'static str,
    /// Arguments where the pod gives none.
    arguments: &'static [&'static str],
}

/// Programs besides the operators.
const OTHERS: [Program; 2] = [
    Program { name: "tf-node", package: "tf-node", arguments: &[] },
    // What holds a pod's namespaces on the lab's nodes.
    Program { name: "pause", package: "tf-node", arguments: &["pause"] },
];

/// User and group where the pod does not say: anybody but root, who owns no file.
const NOBODY: &str = "65532:65532";

/// Every program.
pub fn all() -> Vec<Program> {
    let operators = operators::ALL.map(|name| Program { name, package: name, arguments: &[] });
    operators.into_iter().chain(OTHERS).collect()
}

impl Program {
    /// The image, and the bill of materials that is in it.
    pub fn assemble(
        &self,
        executable: Executable,
        workspace: &Workspace,
        reference: String,
        source: &Source,
    ) -> Result<(Image, Vec<u8>)> {
        let metadata = workspace.metadata();
        let package = &metadata[&executable.package];
        let materials = sbom::cyclonedx(&executable, metadata, source.time)?;
        let path = format!("/{}", self.package);
        let mut tree = Tree::default();
        tree.file("/licenses/LICENSE", 0o644, Content::File(crate::root()?.join("LICENSE")));
        let notices = notices::notices(&executable, metadata)?;
        tree.file("/licenses/THIRD-PARTY", 0o644, Content::Memory(notices.into_bytes()));
        let sbom = format!("/usr/share/sbom/{}.cdx.json", self.package);
        tree.file(&sbom, 0o644, Content::Memory(materials.clone()));
        tree.file(&path, 0o755, Content::Memory(executable.content));
        let image = Image {
            reference,
            created: source.time,
            user: NOBODY.into(),
            environment: Vec::new(),
            entrypoint: std::iter::once(path).chain(self.arguments.iter().map(|&word| word.to_owned())).collect(),
            labels: labels(self.name, package, source),
            layers: vec![(tree.layer(source.mtime())?, "cargo xtask image".into())],
        };
        Ok((image, materials))
    }
}

fn labels(title: &str, package: &Package, source: &Source) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([
        ("title", title.to_owned()),
        ("description", package.description.clone().unwrap_or_default()),
        ("version", package.version.to_string()),
        ("licenses", package.license.clone().unwrap_or_default()),
        ("created", source.time.to_string()),
    ]);
    if let Some(revision) = &source.revision {
        labels.insert("revision", revision.clone());
    }
    labels.into_iter().map(|(name, value)| (format!("org.opencontainers.image.{name}"), value)).collect()
}
