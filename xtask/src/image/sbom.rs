//! Bill of materials of an executable, in CycloneDX 1.5: the packages that cargo says it has linked, not those the lock file
//! would allow.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata, Package, PackageId};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::executable::Executable;

/// The document. The same executable and time give the same bytes.
pub fn cyclonedx(executable: &Executable, metadata: &Metadata, created: Timestamp) -> Result<Vec<u8>> {
    let itself = &metadata[&executable.package];
    let others: BTreeSet<_> = executable.linked.iter().filter(|id| **id != executable.package).collect();
    let mut components: Vec<_> = others.iter().map(|id| component(&metadata[*id], "library")).collect();
    let mut dependencies = edges(&executable.linked, metadata)?;
    for (name, version) in platform()? {
        components.push(json!({"type": "library", "bom-ref": name, "name": name, "version": version}));
        dependencies.push(json!({"ref": name, "dependsOn": []}));
    }
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": created.to_string(),
            "component": component(itself, "application"),
            "tools": {"components": [{"type": "application", "name": "cargo xtask image"}]},
        },
        "components": components,
        "dependencies": dependencies,
    });
    Ok(serde_json::to_vec_pretty(&document)?)
}

fn component(package: &Package, kind: &str) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": reference(package),
        "name": package.name.as_str(),
        "version": package.version.to_string(),
    });
    if package.source.is_some() {
        component["purl"] = json!(format!("pkg:cargo/{}@{}", package.name, package.version));
    }
    if let Some(license) = &package.license {
        // Older packages write the alternative as a slash.
        component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
    }
    component
}

/// Unlike cargo's own identifiers without a folder of this machine.
fn reference(package: &Package) -> String {
    format!("{}@{}", package.name, package.version)
}

/// Who uses whom at run time.
fn edges(linked: &BTreeSet<PackageId>, metadata: &Metadata) -> Result<Vec<Value>> {
    let resolve = metadata.resolve.as_ref().context("cargo metadata holds no graph")?;
    let nodes = resolve.nodes.iter().filter(|node| linked.contains(&node.id));
    let edges = nodes.map(|node| {
        let normal = node.deps.iter().filter(|dependency| {
            let kinds = &dependency.dep_kinds;
            linked.contains(&dependency.pkg) && kinds.iter().any(|kind| kind.kind == DependencyKind::Normal)
        });
        let uses: BTreeSet<_> = normal.map(|dependency| reference(&metadata[&dependency.pkg])).collect();
        json!({"ref": reference(&metadata[&node.id]), "dependsOn": uses})
    });
    Ok(edges.collect())
}

/// What every static executable holds besides packages.
fn platform() -> Result<[(&'static str, String); 2]> {
    let version = |program: &str, argument: &str| -> Result<String> {
        let output = std::process::Command::new(program).arg(argument).current_dir(crate::root()?).output();
        let output = String::from_utf8(output.with_context(|| format!("running {program}"))?.stdout)?;
        Ok(output.split_whitespace().nth(1).unwrap_or_default().to_owned())
    };
    Ok([("glibc", version("getconf", "GNU_LIBC_VERSION")?), ("rust-std", version("rustc", "--version")?)])
}
