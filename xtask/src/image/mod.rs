//! `cargo xtask image`: container images without a container engine. `docs/images.md` tells what is in them.

mod archive;
mod cache;
mod checkout;
mod debian;
pub mod executable;
mod kept;
mod layer;
mod maven;
mod notices;
mod program;
mod push;
mod sbom;
mod source;
mod store;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use anyhow::{Context, Result};
use clap::{Args, builder::PossibleValuesParser};

use self::{
    executable::{Executable, Profile, Workspace},
    program::Program,
    source::Source,
    store::{RELEASES, STORES, Store},
};
use crate::tools::{self, Need};

/// Every program of this repository.
pub const PROGRAMS: &str = "programs";
/// Every store of the lab.
pub const ALL_STORES: &str = "stores";
/// Other releases of stores.
pub const ALL_RELEASES: &str = "releases";

/// What the references of charts begin with.
const PREFIX: &str = "tungstenfabric/";

/// Build container images, without a container engine, as tars that `docker load`, `podman load` and `ctr images import` take
///
/// Images of programs hold one static executable, its bill of materials (CycloneDX) and licences, and are the same byte for
/// byte wherever a commit is built with the same toolchain and C library. Each is written as NAME.tar, with its bill of
/// materials beside it. Images of stores are for the lab; they are put together from packages of Debian and Maven, which needs
/// mmdebstrap and mvn, and are kept in the lab's cache.
#[derive(Args, Clone, Debug)]
pub struct Images {
    /// Which ones
    #[arg(value_parser = PossibleValuesParser::new(names()), default_value = PROGRAMS)]
    pub names: Vec<String>,
    /// Folder they are written to; `images` in cargo's target folder if none is given
    #[arg(long)]
    pub output: Option<PathBuf>,
    /// How the executables are optimised
    #[arg(long, value_enum, default_value_t)]
    pub profile: Profile,
    /// What references begin with
    #[arg(long, default_value = PREFIX)]
    pub prefix: String,
    /// Tag of programs' images; their version if none is given. Stores are tagged with theirs
    #[arg(long)]
    pub tag: Option<String>,
    /// Push them to this registry, for example registry.example:5000, with the login of `docker login` or `podman login`; charts take them from there with
    /// `--set registry=REGISTRY`
    #[arg(long, value_name = "REGISTRY")]
    pub push: Option<String>,
    /// The registry speaks HTTP without TLS
    #[arg(long, requires = "push")]
    pub plain_http: bool,
    /// Instead of building anything, write down the checksums of the stores' jars
    #[arg(long)]
    pub relock: bool,
}

/// An image that was written.
#[derive(Clone, Debug)]
pub struct Built {
    /// Its name.
    pub name: String,
    /// How pods name it.
    pub reference: String,
    /// How a registry would know it.
    pub digest: String,
    /// The tar.
    pub path: PathBuf,
    /// Size of the tar, in bytes.
    pub size: u64,
}

/// Runs the command.
pub fn run(images: &Images) -> Result<ExitCode> {
    if images.stores().next().is_some() {
        tools::ensure(&[Need::Stores])?;
    }
    if images.relock {
        for store in images.stores() {
            store.relock()?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let begun = Instant::now();
    let built = build(images)?;
    for image in &built {
        println!("{:<16} {:>9}  {}  {}", image.name, megabytes(image.size), image.reference, image.digest);
    }
    if let Some(folder) = built.first().and_then(|image| image.path.parent()) {
        println!("{} images in {} after {:.0} s", built.len(), folder.display(), begun.elapsed().as_secs_f64());
    }
    if let Some(registry) = &images.push {
        push::push(&built, registry.trim_end_matches('/'), images.plain_http)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes images. Quick when nothing has changed: cargo keeps executables, and the lab's cache the layers of stores.
pub fn build(images: &Images) -> Result<Vec<Built>> {
    let workspace = Workspace::load()?;
    let source = Source::of(&crate::root()?)?;
    let output = images.output.clone().unwrap_or_else(|| workspace.target().join("images"));
    fs::create_dir_all(&output).with_context(|| format!("making {}", output.display()))?;
    let mut built = Vec::new();
    // First those that wait for the network most of the time: somebody else may be compiling.
    for store in images.stores() {
        let image = store.assemble(format!("{}lab-{}:{}", images.prefix, store.software, store.version))?;
        built.push(write(store.name, &image, &output)?);
    }
    let asked = program::all().into_iter().filter(|program| images.asks_for(program.name, PROGRAMS));
    for group in program::groups(asked.collect()) {
        let packages: Vec<_> = group.iter().map(|program| workspace.member(program.package)).collect::<Result<_>>()?;
        for (program, executable) in group.iter().zip(workspace.build(&packages, images.profile)?) {
            built.push(images.program(program, executable, &workspace, &source, &output)?);
        }
    }
    Ok(built)
}

impl Images {
    /// These as the lab runs them, in a folder.
    pub fn lab(names: Vec<String>, output: PathBuf) -> Self {
        let output = Some(output);
        let prefix = PREFIX.to_owned();
        Self { names, output, profile: Profile::Lab, prefix, tag: None, push: None, plain_http: false, relock: false }
    }

    fn stores(&self) -> impl Iterator<Item = &'static Store> {
        let groups = [(ALL_STORES, STORES.as_slice()), (ALL_RELEASES, &RELEASES)];
        let of_groups = groups.into_iter().flat_map(|(group, stores)| stores.iter().map(move |store| (group, store)));
        of_groups.filter(|(group, store)| self.asks_for(store.name, group)).map(|(_, store)| store)
    }

    fn asks_for(&self, name: &str, group: &str) -> bool {
        self.names.iter().any(|asked| asked == name || asked == group)
    }

    fn program(
        &self,
        program: &Program,
        executable: Executable,
        workspace: &Workspace,
        source: &Source,
        output: &Path,
    ) -> Result<Built> {
        let package = workspace.member(program.package)?;
        let tag = self.tag.clone().unwrap_or_else(|| package.version.to_string());
        let reference = format!("{}{}:{tag}", self.prefix, program.name);
        let (image, materials) = program.assemble(executable, workspace, reference, source)?;
        fs::write(output.join(format!("{}.cdx.json", program.name)), materials)?;
        write(program.name, &image, output)
    }
}

fn write(name: &str, image: &archive::Image, output: &Path) -> Result<Built> {
    let path = output.join(format!("{name}.tar"));
    let digest = archive::write(image, &path)?;
    let size = path.metadata()?.len();
    Ok(Built { name: name.to_owned(), reference: image.reference.clone(), digest, path, size })
}

/// Names of the other releases.
pub fn releases() -> impl Iterator<Item = &'static str> {
    RELEASES.iter().map(|store| store.name)
}

/// What can be asked for.
fn names() -> Vec<&'static str> {
    let programs = program::all().into_iter().map(|program| program.name);
    let stores = STORES.iter().map(|store| store.name);
    [PROGRAMS, ALL_STORES, ALL_RELEASES].into_iter().chain(programs).chain(stores).chain(releases()).collect()
}

/// In millions, as registries count.
fn megabytes(bytes: u64) -> String {
    format!("{}.{:02} MB", bytes / 1_000_000, bytes % 1_000_000 / 10_000)
}
