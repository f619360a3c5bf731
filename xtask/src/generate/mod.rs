//! `cargo xtask gen`: every file that is derived from code, and the check that none has drifted.

mod baseline;
mod charts;
mod crds;
mod docs;
mod operators;
mod values;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
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
    let differing = differences(&root, &files)?;
    if options.check {
        for path in &differing {
            eprintln!("{}: differs from what cargo xtask gen writes", path.display());
        }
        let tightened = baseline::tightened(&fs::read_to_string(root.join(baseline::FILE)).context(baseline::FILE)?)?;
        for change in &tightened {
            eprintln!("{change}");
        }
        if !differing.is_empty() || !tightened.is_empty() {
            bail!("{} files differ, {} schema changes refuse what was accepted", differing.len(), tightened.len());
        }
        println!("{} generated files are up to date", files.len());
        return Ok(ExitCode::SUCCESS);
    }
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
    Ok(files)
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

fn walk(folder: &Path) -> Result<Vec<PathBuf>> {
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
    #[test]
    fn generating_twice_gives_the_same_files() {
        assert_eq!(super::generate().unwrap(), super::generate().unwrap());
    }
}
