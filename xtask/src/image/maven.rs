//! Jars of a published Java program: Maven finds and brings them, a list of checksums in this repository says which they
//! must be.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use super::layer::sha256_of;

/// The plugin that copies a project's dependencies, with its version, so that none is chosen by the day.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";

/// What of a program's jars is in this repository, in one folder for all its versions.
#[derive(Clone, Copy, Debug)]
pub struct Jars<'a> {
    /// Folder with `pom.xml`, which takes the version from the property `wanted`, and `VERSION.sha256` for each version,
    /// as `sha256sum` writes it.
    pub folder: &'a Path,
    /// Version of the program.
    pub version: &'a str,
}

impl Jars<'_> {
    /// File with the checksums.
    pub fn checksums(&self) -> PathBuf {
        self.folder.join(format!("{}.sha256", self.version))
    }

    /// Brings the jars into an empty folder and checks them. Their names.
    pub fn fetch(&self, to: &Path) -> Result<Vec<String>> {
        let path = self.checksums();
        let wanted = parse(&fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?);
        let found = self.copy(to)?;
        compare(&wanted, &found).with_context(|| {
            format!("the jars are not those of {}; if they are meant to change: --relock", path.display())
        })?;
        Ok(found.into_keys().collect())
    }

    /// Brings the jars and writes down which they are.
    pub fn relock(&self) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let found = self.copy(folder.path())?;
        let lines: Vec<_> = found.iter().map(|(name, checksum)| format!("{checksum}  {name}\n")).collect();
        let path = self.checksums();
        fs::write(&path, lines.concat()).with_context(|| format!("writing {}", path.display()))
    }

    /// Checksum of each jar by its name.
    fn copy(&self, to: &Path) -> Result<BTreeMap<String, String>> {
        eprintln!("fetching the jars of {} {}", self.folder.file_name().unwrap_or_default().display(), self.version);
        let output = Command::new("mvn")
            .args(["--batch-mode", "--quiet", COPY, "-DincludeScope=runtime"])
            .arg(format!("-Dwanted={}", self.version))
            .arg(format!("-DoutputDirectory={}", to.display()))
            .arg("--file")
            .arg(self.folder.join("pom.xml"))
            .output()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    anyhow::anyhow!("images of Java programs need Maven: install the package maven")
                }
                _ => anyhow::Error::new(error).context("running mvn"),
            })?;
        ensure!(output.status.success(), "mvn failed:\n{}", String::from_utf8_lossy(&output.stdout));
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(to)? {
            let entry = entry?;
            found.insert(entry.file_name().to_string_lossy().into_owned(), sha256_of(&entry.path())?);
        }
        ensure!(!found.is_empty(), "mvn brought nothing");
        Ok(found)
    }
}

fn parse(checksums: &str) -> BTreeMap<String, String> {
    let lines = checksums.lines().filter_map(|line| line.split_once("  "));
    lines.map(|(checksum, name)| (name.to_owned(), checksum.to_owned())).collect()
}

fn compare(wanted: &BTreeMap<String, String>, found: &BTreeMap<String, String>) -> Result<()> {
    let missing = wanted.keys().filter(|name| !found.contains_key(*name)).map(|name| format!("{name} is missing"));
    let others = found.iter().filter_map(|(name, checksum)| match wanted.get(name) {
        None => Some(format!("{name} is not listed")),
        Some(wanted) if wanted != checksum => Some(format!("{name} is another file: {checksum} instead of {wanted}")),
        Some(_) => None,
    });
    let differences: Vec<_> = missing.chain(others).collect();
    if !differences.is_empty() {
        bail!("{}", differences.join("\n"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_from_the_listed_jars_is_named() {
        let wanted = parse("aa  one.jar\nbb  two.jar\ncc  three.jar\n");
        assert!(compare(&wanted, &wanted).is_ok());
        let found = parse("aa  one.jar\nb0  two.jar\ndd  four.jar\n");
        assert_eq!(
            compare(&wanted, &found).unwrap_err().to_string(),
            "three.jar is missing\nfour.jar is not listed\ntwo.jar is another file: b0 instead of bb"
        );
    }
}
