//! What the libraries of operators and `kubectl tf` compile: nothing that reconciles. The executables of the operators do, by their feature `operator`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, PackageId};

/// What none of them compiles.
const NEVER: &str = "tf-runtime";

/// The packages that compile [`NEVER`] without the feature.
pub fn check() -> Result<Vec<String>> {
    let mut command = MetadataCommand::new();
    command.current_dir(crate::root()?).other_options(["--offline".to_owned(), "--no-default-features".to_owned()]);
    found(&command.exec().context("cargo metadata")?)
}

fn found(metadata: &Metadata) -> Result<Vec<String>> {
    let resolve = metadata.resolve.as_ref().context("cargo metadata holds no graph")?;
    let at_run_time = |kinds: &[cargo_metadata::DepKindInfo]| kinds.iter().any(|it| it.kind == DependencyKind::Normal);
    let uses: BTreeMap<&PackageId, Vec<&PackageId>> = resolve
        .nodes
        .iter()
        .map(|node| (&node.id, node.deps.iter().filter(|it| at_run_time(&it.dep_kinds)).map(|it| &it.pkg).collect()))
        .collect();
    let is_pure = |name: &str| name.ends_with("-op") || name == "tf-cli";
    let mut broken = Vec::new();
    for package in metadata.workspace_packages().into_iter().filter(|package| is_pure(&package.name)) {
        let (mut seen, mut next) = (BTreeSet::new(), vec![&package.id]);
        while let Some(id) = next.pop() {
            if seen.insert(id) {
                next.extend(uses.get(id).into_iter().flatten());
            }
        }
        if seen.iter().any(|id| metadata[id].name.as_str() == NEVER) {
            broken.push(format!("{} compiles {NEVER} without the feature `operator`", package.name));
        }
    }
    Ok(broken)
}
