//! Static executables, the same bytes from every checkout, target folder and home.
//!
//! They are built for a named target, so that cargo keeps what runs here (build scripts, macros) apart from what ends up in
//! the executable.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::BufReader,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use cargo_metadata::{DependencyKind, Message, Metadata, Package, PackageId};
use clap::ValueEnum;
use strum::Display;

use super::{
    checkout::{COMPILER, Turn},
    kept::Kept,
};

/// How to optimise.
#[derive(Clone, Copy, Debug, Default, Display, PartialEq, Eq, ValueEnum)]
#[strum(serialize_all = "lowercase")]
pub enum Profile {
    /// Small, slow to build: what is published
    #[default]
    Release,
    /// Quick to build: what the lab runs
    Lab,
}

/// An executable and what is in it.
#[derive(Debug)]
pub struct Executable {
    /// The file.
    pub content: Vec<u8>,
    /// Its package.
    pub package: PackageId,
    /// Packages that were linked into it, its own included.
    pub linked: BTreeSet<PackageId>,
}

/// What cargo knows of this repository.
#[derive(Debug)]
pub struct Workspace {
    metadata: Metadata,
}

impl Workspace {
    /// Of the repository that this command runs in.
    pub fn load() -> Result<Self> {
        Self::read(crate::cargo().current_dir(crate::root()?))
    }

    fn read(cargo: &mut Command) -> Result<Self> {
        cargo.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &triple()]);
        let output = cargo.stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "cargo metadata failed");
        Ok(Self { metadata: serde_json::from_slice(&output.stdout).context("reading cargo metadata")? })
    }

    /// What cargo says, of the whole workspace.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Cargo's target folder.
    pub fn target(&self) -> PathBuf {
        self.metadata.target_directory.clone().into()
    }

    /// The package of the workspace with this name.
    pub fn member(&self, name: &str) -> Result<&Package> {
        let member = self.metadata.workspace_packages().into_iter().find(|package| package.name.as_str() == name);
        member.with_context(|| format!("there is no package {name}"))
    }

    /// Builds the executables of packages that have one each, in their order. Cargo gives them the features of all of them,
    /// so these have to be the same for each, else its bytes depend on who else is asked for. Those of the lab that were built of the same sources
    /// before, by whichever checkout, are taken as they are.
    pub fn build(&self, packages: &[&Package], profile: Profile) -> Result<Vec<Executable>> {
        if profile == Profile::Release {
            return self.compile(packages, profile);
        }
        let compiler = compiler(&["--version", "--verbose"])?;
        let recipe = [&[compiler.as_str(), COMPILER, &profile.to_string(), &triple()], SMALL_AND_STATIC.as_slice()];
        let kept = Kept::of(&self.metadata, &recipe.concat())?;
        let keys: Vec<String> =
            packages.iter().map(|package| kept.key(package, &self.used_by(&package.id)?)).collect::<Result<_>>()?;
        let mut found: Vec<_> = packages.iter().zip(&keys).map(|(package, key)| kept.find(package, key)).collect();
        let absent: Vec<usize> = (0..packages.len()).filter(|at| found[*at].is_none()).collect();
        if !absent.is_empty() {
            let needed: Vec<&Package> = absent.iter().map(|at| packages[*at]).collect();
            let target = self.metadata.target_directory.join(triple()).join(profile.to_string());
            for (at, executable) in absent.into_iter().zip(self.compile(&needed, profile)?) {
                let note = target.join(format!("{}.d", packages[at].name));
                kept.covers(&self.used_by(&packages[at].id)?, note.as_std_path())?;
                kept.keep(packages[at], &keys[at], &executable)?;
                found[at] = Some(executable);
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    fn compile(&self, packages: &[&Package], profile: Profile) -> Result<Vec<Executable>> {
        let (profile, triple) = (profile.to_string(), triple());
        let selection = ["--profile", &profile, "--target", &triple];
        // Held until what was built is read: another checkout builds its own to the same place.
        let turn = Turn::take(&self.metadata, &profile, &selection)?;
        let mut command = crate::cargo();
        command.args(["build", "--locked", "--bins"]).args(selection);
        for package in packages {
            command.args(["--package", package.name.as_str()]);
        }
        command.args(["--message-format", "json-render-diagnostics", "--target-dir"]).arg(self.target());
        command.current_dir(&self.metadata.workspace_root);
        command.env("CARGO_ENCODED_RUSTFLAGS", self.flags()?.join("\x1f"));
        turn.share(&mut command);
        let mut child = command.stdout(Stdio::piped()).spawn().context("running cargo build")?;
        let (built, executables) = self.watch(BufReader::new(child.stdout.take().context("output of cargo")?))?;
        ensure!(child.wait()?.success(), "cargo build failed");
        let take = |package: &&Package| {
            let file = executables.get(&package.id).with_context(|| format!("{} has no executable", package.name))?;
            let content = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
            let linked = self.used_by(&package.id)?.intersection(&built).cloned().collect();
            Ok(Executable { content, package: package.id.clone(), linked })
        };
        packages.iter().map(take).collect()
    }

    /// What cargo reports, whether it has built something now or had it: packages for the target, and executables.
    fn watch(&self, output: impl std::io::BufRead) -> Result<(BTreeSet<PackageId>, BTreeMap<PackageId, PathBuf>)> {
        let for_target = self.metadata.target_directory.join(triple());
        let mut built = BTreeSet::new();
        let mut executables = BTreeMap::new();
        for message in Message::parse_stream(output) {
            if let Message::CompilerArtifact(artifact) = message? {
                if artifact.filenames.iter().any(|file| file.starts_with(&for_target)) {
                    built.insert(artifact.package_id.clone());
                }
                if let Some(executable) = artifact.executable {
                    executables.insert(artifact.package_id, executable.into());
                }
            }
        }
        Ok((built, executables))
    }

    /// A package and all that it may use at run time.
    fn used_by(&self, package: &PackageId) -> Result<BTreeSet<PackageId>> {
        let resolve = self.metadata.resolve.as_ref().context("cargo metadata holds no graph")?;
        let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
        let (mut used, mut next) = (BTreeSet::new(), vec![package]);
        while let Some(id) = next.pop() {
            if used.insert(id.clone()) {
                let dependencies = nodes.get(id).into_iter().flat_map(|node| &node.deps);
                let at_run_time =
                    dependencies.filter(|used| used.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal));
                next.extend(at_run_time.map(|used| &used.pkg));
            }
        }
        Ok(used)
    }

    /// [`SMALL_AND_STATIC`]; folders of this machine are named by what they hold, but for the checkout's, which is
    /// [`Turn::share`]'s. The last that fits counts.
    fn flags(&self) -> Result<Vec<String>> {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo"))).context("HOME is not set")?;
        let mut folders = vec![(home.display().to_string(), "/cargo"), (compiler(&["--print", "sysroot"])?, "/rust")];
        // The names of these tell which mirror of the registry a machine uses.
        folders.extend(self.registries().into_iter().map(|folder| (folder, "/cargo")));
        folders.push((self.metadata.target_directory.to_string(), "/target"));
        let remap = folders.into_iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}"));
        Ok(SMALL_AND_STATIC.map(str::to_owned).into_iter().chain(remap).collect())
    }

    /// Folders with sources of packages from registries.
    fn registries(&self) -> BTreeSet<String> {
        let registry = self.metadata.packages.iter().filter(|package| package.source.is_some());
        registry.filter_map(|package| Some(package.manifest_path.parent()?.parent()?.to_string())).collect()
    }
}

/// Everything is linked in. Relocations are packed, and nothing is said of unwinding, which nobody does (`panic = "abort"`):
/// both are in memory from the start on, and were a ninth of the executable.
const SMALL_AND_STATIC: [&str; 3] =
    ["-Ctarget-feature=+crt-static", "-Clink-arg=-Wl,-z,pack-relative-relocs", "-Cforce-unwind-tables=no"];

/// Target that is built for: the architecture of this machine with the GNU C library, which is linked in. (One with musl
/// would save a megabyte and is not on every machine.)
fn triple() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

/// What the compiler says of itself.
fn compiler(question: &[&str]) -> Result<String> {
    let output = Command::new("rustc").args(question).current_dir(crate::root()?).output()?;
    ensure!(output.status.success(), "rustc: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{File, Permissions},
        os::unix::fs::PermissionsExt as _,
        path::Path,
        time::{Duration, SystemTime},
    };

    use super::*;

    /// A workspace of its own, wherever it lies.
    const MANIFEST: &str = r#"
[workspace]
[package]
name = "herald"
edition = "2024"
[profile.lab]
inherits = "dev"
"#;

    const LOCK: &str = r#"
version = 4
[[package]]
name = "herald"
version = "0.0.0"
"#;

    /// A checkout of a program that says something. All its files are as old as those of any other.
    fn checkout(folder: &Path, says: &str, target: &Path) -> Workspace {
        let main = format!("fn main() {{ println!(\"{says}\") }}\n");
        fs::create_dir_all(folder.join("src")).unwrap();
        for (name, content) in [("Cargo.toml", MANIFEST), ("Cargo.lock", LOCK), ("src/main.rs", &main)] {
            fs::write(folder.join(name), content).unwrap();
            let file = File::options().write(true).open(folder.join(name)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_mins(1)).unwrap();
        }
        Workspace::read(crate::cargo().current_dir(folder).env("CARGO_TARGET_DIR", target)).unwrap()
    }

    #[test]
    fn checkouts_that_share_a_target_folder_are_each_given_their_own_executable() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        let [one, other] = ["one", "other"].map(|name| checkout(&folder.path().join(name), name, &target));
        for (name, workspace) in [("one", &one), ("other", &other), ("one", &one)] {
            let built = workspace.compile(&[workspace.member("herald").unwrap()], Profile::Lab).unwrap();
            let file = folder.path().join("taken");
            fs::write(&file, &built[0].content).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
            assert_eq!(Command::new(&file).output().unwrap().stdout, format!("{name}\n").into_bytes());
        }
    }

    #[test]
    fn a_checkout_with_the_same_sources_is_given_what_another_one_has_built() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        let build = |name: &str, says: &str| {
            let workspace = checkout(&folder.path().join(name), says, &target);
            let mut built = workspace.build(&[workspace.member("herald").unwrap()], Profile::Lab).unwrap();
            built.remove(0).content
        };
        let (one, other) = (build("one", "one"), build("other", "other"));
        assert_ne!(one, other);
        // Cargo would put an executable there.
        fs::remove_dir_all(target.join(triple())).unwrap();
        assert_eq!(build("again", "one"), one);
        assert!(!target.join(triple()).exists(), "it was built again");
        let kept = fs::read_dir(target.join(".images/executables")).unwrap().count();
        assert_eq!(kept, 4, "two executables, and what was linked into each");
    }
}
