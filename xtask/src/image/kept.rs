//! Executables of the lab, kept in the target folder by what they were built of: a checkout with the same sources is given them without a compiler.
//!
//! The key covers the sources of every package of the workspace that is linked in, the lock file, the profiles, the compiler and its flags. What is
//! published is never taken from here.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Metadata, Package, PackageId};
use serde::{Deserialize, Serialize};
use tf_plan::hash;

use super::executable::Executable;

/// How many builds of an executable are kept.
const GENERATIONS: usize = 3;

/// Folders of a package that nothing is linked of.
const TESTS: [&str; 3] = ["tests", "benches", "proptest-regressions"];

/// Name and version of each package that was linked in.
#[derive(Serialize, Deserialize)]
struct Linked(BTreeSet<(String, String)>);

/// What is kept for one compiler, with one set of flags.
pub struct Kept<'a> {
    folder: PathBuf,
    metadata: &'a Metadata,
    recipe: String,
}

impl<'a> Kept<'a> {
    /// `recipe`: whatever else than sources decides what an executable is, such as the compiler and its flags.
    ///
    /// # Errors
    /// When the workspace's manifest or lock file cannot be read.
    pub fn of(metadata: &'a Metadata, recipe: &[&str]) -> Result<Self> {
        let root = Path::new(metadata.workspace_root.as_str());
        let read = |name: &str| fs::read(root.join(name)).with_context(|| format!("reading {name}"));
        let (manifest, lock) = (read("Cargo.toml")?, read("Cargo.lock")?);
        let recipe = recipe.join("\n");
        let parts = [("Cargo.toml", manifest.as_slice()), ("Cargo.lock", &lock), ("recipe", recipe.as_bytes())];
        let folder = metadata.target_directory.join(".images/executables").into();
        Ok(Self { folder, metadata, recipe: hash::of_contents(parts) })
    }

    /// Names what the executable of a package is built of. `used`: the package and all that is linked into it.
    ///
    /// # Errors
    /// When a source cannot be read.
    pub fn key(&self, package: &Package, used: &BTreeSet<PackageId>) -> Result<String> {
        let mut sources = vec![("recipe".to_owned(), self.recipe.clone().into_bytes())];
        for (member, folder) in self.members(used) {
            for file in files(folder)? {
                let name = format!("{}/{}", member.name, file.strip_prefix(folder)?.display());
                sources.push((name, fs::read(&file).with_context(|| format!("reading {}", file.display()))?));
            }
        }
        let sources = sources.iter().map(|(name, content)| (name.as_str(), content.as_slice()));
        Ok(format!("{}-{}", package.name, hash::of_contents(sources)))
    }

    /// Fails if the executable of a package was built of a file that its key does not cover. `note`: what cargo wrote of its sources (`NAME.d`).
    ///
    /// # Errors
    /// Then, and when the note cannot be read.
    pub fn covers(&self, used: &BTreeSet<PackageId>, note: &Path) -> Result<()> {
        let text = fs::read_to_string(note).with_context(|| format!("reading {}", note.display()))?;
        let (_, sources) = text.split_once(": ").with_context(|| format!("{} names no sources", note.display()))?;
        let folders: Vec<&Path> = self.members(used).map(|(_, folder)| folder).collect();
        // Blanks within a name are behind a backslash.
        for source in sources.replace("\\ ", "\u{0}").split_whitespace() {
            let source = source.replace('\u{0}', " ");
            let inside = folders.iter().find_map(|folder| Path::new(&source).strip_prefix(folder).ok());
            let is_covered = inside.is_some_and(|path| TESTS.iter().all(|tests| !path.starts_with(tests)));
            ensure!(
                is_covered,
                "{source} is no source of a package that is linked in; move it there, since the cache of executables goes by these"
            );
        }
        Ok(())
    }

    /// Those of these packages that belong to the workspace, with their folders.
    fn members(&self, used: &BTreeSet<PackageId>) -> impl Iterator<Item = (&'a Package, &'a Path)> {
        let members = self.metadata.workspace_packages().into_iter().filter(|member| used.contains(&member.id));
        members.filter_map(|member| Some((member, member.manifest_path.parent()?.as_std_path())))
    }

    /// The executable of this key, if it is kept.
    pub fn find(&self, package: &Package, key: &str) -> Option<Executable> {
        let Linked(linked) = serde_json::from_slice(&fs::read(self.note(key)).ok()?).ok()?;
        let file = self.folder.join(key);
        let content = fs::read(&file).ok()?;
        // The newest are kept.
        let _ = fs::File::open(&file).and_then(|file| file.set_modified(SystemTime::now()));
        let is_linked = |other: &&Package| linked.contains(&named(other));
        let linked = self.metadata.packages.iter().filter(is_linked).map(|package| package.id.clone()).collect();
        Some(Executable { content, package: package.id.clone(), linked })
    }

    /// Keeps an executable, and so many of the same package's.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&self, package: &Package, key: &str, executable: &Executable) -> Result<()> {
        fs::create_dir_all(&self.folder).with_context(|| format!("making {}", self.folder.display()))?;
        fs::write(self.folder.join(key), &executable.content)?;
        let linked = self.metadata.packages.iter().filter(|other| executable.linked.contains(&other.id)).map(named);
        // Written last: where it is, the executable is whole.
        let unfinished = self.folder.join(format!(".{key}.json"));
        fs::write(&unfinished, serde_json::to_vec(&Linked(linked.collect()))?)?;
        fs::rename(unfinished, self.note(key))?;
        self.forget(package)
    }

    /// Removes all but the newest ones of a package.
    fn forget(&self, package: &Package) -> Result<()> {
        let prefix = format!("{}-", package.name);
        let is_its = |name: &str| name.strip_prefix(&prefix).is_some_and(|rest| rest.len() == 16);
        let mut kept = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if let Some(name) = entry.file_name().to_str().filter(|name| is_its(name)) {
                kept.push((entry.metadata()?.modified()?, name.to_owned()));
            }
        }
        kept.sort_unstable();
        for (_, key) in kept.iter().rev().skip(GENERATIONS) {
            let _ = fs::remove_file(self.note(key));
            let _ = fs::remove_file(self.folder.join(key));
        }
        Ok(())
    }

    fn note(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.json"))
    }
}

fn named(package: &Package) -> (String, String) {
    (package.name.to_string(), package.version.to_string())
}

/// Files below a package's folder that an executable may be built of.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        let is_for_tests = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| TESTS.contains(&name));
        if path.is_dir() && !is_for_tests {
            found.extend(files(&path)?);
        } else if path.is_file() {
            found.push(path);
        }
    }
    Ok(found)
}
