//! `cargo xtask gen`: every file that is derived from code, and the check that none has drifted.

mod baseline;
mod charts;
mod crds;
mod docs;
mod monitoring;
mod operators;
mod values;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, ensure};
use clap::Args;

pub use operators::{OPERATORS, Operator};

/// Options of `cargo xtask gen`.
#[derive(Args)]
pub struct Options {
    /// Change nothing; fail if a file differs or a schema was tightened
    #[arg(long)]
    check: bool,
    /// Take today's schemas as those of the last release
    #[arg(long, conflicts_with = "check")]
    accept_baseline: bool,
}

/// Generated files by path below the repository.
pub type Files = BTreeMap<PathBuf, String>;

/// Folders that hold nothing but generated files.
const OWNED: [&str; 2] = ["crds", "charts"];

/// Runs the command.
pub fn run(options: &Options) -> Result<ExitCode> {
    let root = crate::root()?;
    if options.accept_baseline {
        write(&root.join(baseline::FILE), &baseline::current())?;
    }
    let files = generate()?;
    if options.check {
        check(&root, &files)?;
        println!("{} generated files are up to date", files.len());
        return Ok(ExitCode::SUCCESS);
    }
    let differing = differences(&root, &files)?;
    for path in &differing {
        let target = root.join(path);
        if let Some(content) = files.get(path) {
            write(&target, content)?;
            println!("wrote {}", path.display());
        } else {
            fs::remove_file(&target)?;
            println!("removed {}", path.display());
        }
    }
    println!("{} generated files, {} changed", files.len(), differing.len());
    Ok(ExitCode::SUCCESS)
}

fn generate() -> Result<Files> {
    let mut files = Files::new();
    crds::generate(&mut files)?;
    charts::generate(&mut files)?;
    docs::generate(&mut files);
    monitoring::generate(&mut files)?;
    Ok(files)
}

fn check(root: &Path, files: &Files) -> Result<()> {
    let complaints = complaints(root, files)?;
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    ensure!(complaints.is_empty(), "{} generated files or schemas are not as they should be", complaints.len());
    Ok(())
}

/// What is wrong with the files below `root` and the schemas, a line each.
fn complaints(root: &Path, files: &Files) -> Result<Vec<String>> {
    let mut complaints: Vec<String> = Vec::new();
    for path in differences(root, files)? {
        let what = match (files.contains_key(&path), root.join(&path).exists()) {
            (true, true) => "differs from what cargo xtask gen writes",
            (true, false) => "is missing; cargo xtask gen writes it",
            (false, _) => "is not generated any more; cargo xtask gen removes it",
        };
        complaints.push(format!("{} {what}", path.display()));
    }
    let baseline = fs::read_to_string(root.join(baseline::FILE)).context(baseline::FILE);
    match baseline.and_then(|baseline| baseline::tightened(&baseline)) {
        Ok(changes) => complaints.extend(changes),
        Err(error) => complaints.push(format!("{error:#}")),
    }
    Ok(complaints)
}

/// Paths that are missing, differ, or should not exist.
fn differences(root: &Path, files: &Files) -> Result<Vec<PathBuf>> {
    let mut differing: Vec<PathBuf> = files
        .iter()
        .filter(|(path, content)| fs::read_to_string(root.join(path)).ok().as_ref() != Some(content))
        .map(|(path, _)| path.clone())
        .collect();
    for folder in OWNED {
        for path in walk(&root.join(folder))? {
            let relative = path.strip_prefix(root)?.to_path_buf();
            if !files.contains_key(&relative) && relative != Path::new(baseline::FILE) {
                differing.push(relative);
            }
        }
    }
    differing.sort();
    Ok(differing)
}

fn write(path: &Path, content: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content).with_context(|| format!("{}", path.display()))
}

/// Every file in a folder and the folders in it; none if there is no such folder.
pub fn walk(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    if !folder.exists() {
        return Ok(found);
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(walk(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generating_twice_gives_the_same_files() {
        assert_eq!(generate().unwrap(), generate().unwrap());
    }

    #[test]
    fn every_generated_file_that_was_edited_lost_or_added_by_hand_is_named_and_the_check_fails() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let paths = ["charts/a/README.md", "charts/a/values.yaml", "crds/a.yaml", "docs/reference/a.md"];
        let files: Files = paths.map(|path| (path.into(), format!("content of {path}\n"))).into();
        for (path, content) in &files {
            write(&root.join(path), content).unwrap();
        }
        write(&root.join(baseline::FILE), &baseline::current()).unwrap();
        write(&root.join("docs/by-hand.md"), "in a folder that also holds other files").unwrap();
        check(root, &files).unwrap();

        write(&root.join("charts/a/values.yaml"), "content of charts/a/values.yaml\n\n").unwrap();
        fs::remove_file(root.join("docs/reference/a.md")).unwrap();
        write(&root.join("charts/a/templates/extra.yaml"), "{}").unwrap();
        write(&root.join("crds/relics.yaml"), "{}").unwrap();
        assert_eq!(
            complaints(root, &files).unwrap(),
            [
                "charts/a/templates/extra.yaml is not generated any more; cargo xtask gen removes it",
                "charts/a/values.yaml differs from what cargo xtask gen writes",
                "crds/relics.yaml is not generated any more; cargo xtask gen removes it",
                "docs/reference/a.md is missing; cargo xtask gen writes it",
            ]
        );
        assert!(check(root, &files).is_err());
    }

    #[test]
    fn a_schema_that_demands_more_than_the_baseline_is_named_and_so_is_a_lost_baseline() {
        let root = tempfile::tempdir().unwrap();
        let lenient = baseline::current().replacen("\"maxLength\":253", "\"maxLength\":254", 1);
        write(&root.path().join(baseline::FILE), &lenient).unwrap();
        let complaints = complaints(root.path(), &Files::new()).unwrap();
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].ends_with(": maxLength was 254 and is 253"), "{complaints:?}");

        fs::remove_file(root.path().join(baseline::FILE)).unwrap();
        let complaints = super::complaints(root.path(), &Files::new()).unwrap();
        assert!(complaints.len() == 1 && complaints[0].starts_with(baseline::FILE), "{complaints:?}");
    }
}
