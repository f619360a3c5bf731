//! Licence texts of what an executable holds: most licences let their work be passed on in binary form with their text only.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use anyhow::{Context, Result};
use cargo_metadata::{Metadata, Package};

use super::executable::Executable;

/// How files with a licence or a notice are called.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// One text after the other, each once, with the packages that bring it.
pub fn notices(executable: &Executable, metadata: &Metadata) -> Result<String> {
    let mut packages_of: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let foreign = executable.linked.iter().map(|id| &metadata[id]).filter(|package| package.source.is_some());
    for package in foreign {
        let name = format!("{} {}", package.name, package.version);
        let mut texts = texts(package)?;
        if texts.is_empty() {
            // Some are published without the file. Their authors are all that is left to name.
            let license = package.license.as_deref().unwrap_or("licence unknown");
            texts.push(format!("{license}\n{}\n", package.authors.join("\n")));
        }
        for text in texts {
            packages_of.entry(text).or_default().insert(name.clone());
        }
    }
    let mut ordered: Vec<_> = packages_of.into_iter().map(|(text, packages)| (packages, text)).collect();
    ordered.sort();
    let section = |(packages, text): (BTreeSet<String>, String)| {
        format!("{}\n\n{}\n\n", packages.into_iter().collect::<Vec<_>>().join(", "), text.trim())
    };
    Ok(ordered.into_iter().map(section).collect::<Vec<_>>().join(&format!("{}\n\n", "-".repeat(80))))
}

fn texts(package: &Package) -> Result<Vec<String>> {
    let folder = package.manifest_path.parent().context("a manifest is in a folder")?;
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("reading {folder}"))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if NAMES.iter().any(|known| name.starts_with(known)) && entry.file_type()?.is_file() {
            // Some are not UTF-8; names are all that suffers.
            texts.push(String::from_utf8_lossy(&fs::read(entry.path())?).replace("\r\n", "\n"));
        }
    }
    Ok(texts)
}
