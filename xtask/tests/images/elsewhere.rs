//! The same bytes whoever builds: another checkout, another target folder, another cargo home.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use super::{Image, archive, digest, image};

/// The image that is built twice: the one with the fewest packages.
const NAME: &str = "tf-node";

#[test]
fn a_build_in_another_folder_with_another_home_gives_the_same_bytes() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().canonicalize().unwrap();
    // Kept, so that the next run builds no foreign package a second time.
    let elsewhere = Path::new(env!("CARGO_TARGET_TMPDIR")).join("elsewhere");
    let copy = elsewhere.join("a checkout with another name");
    mirror(&repository, &copy);
    let home = elsewhere.join("home");
    fs::create_dir_all(&home).unwrap();
    for shared in ["registry", "config.toml"] {
        let _ = fs::remove_file(home.join(shared));
        if cargo_home().join(shared).exists() {
            symlink(cargo_home().join(shared), home.join(shared)).unwrap();
        }
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["image", NAME, "--profile", "lab", "--output"]).arg(elsewhere.join("images"));
    // By this xtask finds the repository.
    command.env("CARGO_MANIFEST_DIR", copy.join("xtask"));
    command.env("CARGO_TARGET_DIR", elsewhere.join("target")).env("CARGO_HOME", &home);
    // The copy is of the same commit.
    command.env("GIT_DIR", git(&repository, &["rev-parse", "--absolute-git-dir"]).trim()).env("GIT_WORK_TREE", &copy);
    image(&mut command);

    let (here, there) = (archive(NAME), elsewhere.join("images").join(format!("{NAME}.tar")));
    let [one, other] = [&here, &there].map(|path| Image::read(path));
    assert_eq!(one.configuration.config(), other.configuration.config());
    let content =
        |image: &Image| image.files.iter().map(|(name, entry)| (name.clone(), digest(&entry.content))).collect();
    let [one, other]: [BTreeMap<_, _>; 2] = [content(&one), content(&other)];
    assert_eq!(one, other, "names and digests of files");
    assert!(fs::read(&here).unwrap() == fs::read(&there).unwrap(), "{} and {}", here.display(), there.display());
}

fn cargo_home() -> PathBuf {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    home.unwrap_or_else(|| std::env::home_dir().unwrap().join(".cargo"))
}

fn git(repository: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(repository).args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Makes `to` hold the files of the repository `from`, committed or not, and touches none that has not changed.
fn mirror(from: &Path, to: &Path) {
    let listed = git(from, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    // Those that are deleted and not committed are listed, too.
    let listed: BTreeSet<_> = listed.split_terminator('\0').filter(|name| from.join(name).is_file()).collect();
    assert!(listed.contains("Cargo.lock"));
    for name in &listed {
        let (from, to) = (from.join(name), to.join(name));
        let content = fs::read(&from).unwrap();
        if fs::read(&to).ok() != Some(content) {
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(&from, &to).unwrap();
        }
    }
    for file in walk(to).unwrap() {
        let name = file.strip_prefix(to).unwrap().to_str().unwrap();
        if !listed.contains(name) {
            fs::remove_file(&file).unwrap();
        }
    }
}

fn walk(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(walk(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}
