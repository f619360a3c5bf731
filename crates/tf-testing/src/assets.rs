//! The programs a lab runs: found, or built once and kept.
//!
//! Order: the folder `$TF_LAB_ASSETS` (files named as [`Tool::name`] says), the cache (`$TF_LAB_CACHE`, else
//! `$XDG_CACHE_HOME/tf-lab`, else `~/.cache/tf-lab`), a build with the Go toolchain on `PATH`. All are built at once, since
//! they share most of what is compiled. Their folder in the cache is named after what they were built from, so a changed version
//! is built anew and an old one is never mistaken for it. Any number of programs may ask at once: one builds, the others wait, and
//! nobody sees half a file.

use std::env;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

/// The Kubernetes version clients see; of the modules named in `e2e/lab/go.mod`.
pub const KUBERNETES: &str = "v1.34.4";

/// Go that builds them, as in `e2e/lab/go.mod`.
const GO: (u32, u32) = (1, 26);
const NEEDS_GO: &str = "the lab needs Kubernetes: install Go 1.26 or newer so that it can be built, or point TF_LAB_ASSETS at a folder that holds its programs";

/// Pause between two lines about a build that goes on.
const PROGRESS: Duration = Duration::from_secs(10);

/// A program of the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// etcd, the Kubernetes components and kubectl in one binary, from `e2e/lab/controlplane`.
    ControlPlane,
    /// The simulator of nodes.
    Kwok,
    /// Helm.
    Helm,
    /// The DNS server of clusters with real nodes, with the plugins of its Corefile, from `e2e/lab/coredns`.
    CoreDns,
    /// What a pod's own container runs on real nodes, from `e2e/lab/pause`.
    Pause,
    /// What asks the API server in pods of tests, from `e2e/lab/client`.
    Client,
    /// cert-manager's controllers for issuers of the kinds CA and SelfSigned, from `e2e/lab/certmanager`.
    CertManager,
}

/// The definitions of cert-manager's kinds, beside [`Tool::CertManager`].
pub const CERT_MANAGER_DEFINITIONS: &str = "cert-manager.yaml";
const CERT_MANAGER_MODULE: &str = "github.com/cert-manager/cert-manager";

impl Tool {
    /// Name of the executable.
    pub fn name(self) -> &'static str {
        match self {
            Self::ControlPlane => "controlplane",
            Self::Kwok => "kwok",
            Self::Helm => "helm",
            Self::CoreDns => "coredns",
            Self::Pause => "pause",
            Self::Client => "client",
            Self::CertManager => "certmanager",
        }
    }
}

/// What the module `e2e/lab` makes.
const PACKAGES: [&str; 6] =
    ["./controlplane", "./coredns", "./pause", "./client", "./certmanager", "helm.sh/helm/v3/cmd/helm"];

/// Of a Kubernetes release of its own, with which nothing else can be compiled.
const KWOK: &str = "sigs.k8s.io/kwok/cmd/kwok@v0.8.0";

/// Prometheus 3.16, with [`promtool`].
const PROMETHEUS: &str = "v0.316.0";

/// go-containerregistry, with [`crane`].
const CRANE: &str = "v0.22.1";

/// Flags for programs that need not know their version.
const SMALL: [&str; 3] = ["-trimpath", "-gcflags=all=-dwarf=false", "-ldflags=-s -w"];

/// Flags for [`promtool`]: rules are judged without the clouds' libraries, which are half of what would be compiled.
const JUDGE: [&str; 4] = [SMALL[0], SMALL[1], SMALL[2], "-tags=remove_all_sd"];

/// The executable of a tool. Blocks, for minutes when it has to be built.
pub fn find(tool: Tool) -> Result<PathBuf> {
    let path = all()?.join(tool.name());
    ensure!(path.is_file(), "{} does not exist", path.display());
    Ok(path)
}

/// The folder with the executables of all tools. Blocks, for minutes when they have to be built.
pub fn all() -> Result<PathBuf> {
    if let Some(folder) = env::var_os("TF_LAB_ASSETS").filter(|value| !value.is_empty()) {
        return Ok(folder.into());
    }
    in_cache(&cache()?, &key()?, build)
}

/// Whether the programs are there, or a Go toolchain that builds them. Builds nothing.
///
/// # Errors
/// What has to be installed.
pub fn obtainable() -> Result<()> {
    if env::var_os("TF_LAB_ASSETS").is_some_and(|value| !value.is_empty()) || cache()?.join(key()?).exists() {
        return Ok(());
    }
    let go = find_go().context(NEEDS_GO)?;
    // In the module, whose version a newer toolchain downloads where it is older itself.
    let output = Command::new(&go).arg("version").current_dir(module()).output().context("running go version")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{NEEDS_GO}: {}", why.trim());
    ensure!(is_new_enough(&said), "{NEEDS_GO}; {} is {}", go.display(), said.trim());
    Ok(())
}

/// Whether `go version` names one that builds the module.
fn is_new_enough(version: &str) -> bool {
    let numbers = version.split_whitespace().nth(2).and_then(|word| word.strip_prefix("go"));
    let mut numbers = numbers.unwrap_or_default().split('.').map(|number| number.parse::<u32>().ok());
    let (major, minor) = (numbers.next().flatten(), numbers.next().flatten());
    (major, minor) >= (Some(GO.0), Some(GO.1))
}

/// What judges rules for Prometheus: of no use to a lab, hence by itself. Blocks, for minutes when it has to be built.
///
/// # Errors
/// When it is not there and cannot be built.
pub fn promtool() -> Result<PathBuf> {
    alone("promtool", "github.com/prometheus/prometheus/cmd/promtool", PROMETHEUS, &JUDGE)
}

/// A registry of images, and what pushes archives to it: one test alone needs them. Blocks, for a minute when it has to be built.
///
/// # Errors
/// When it is not there and cannot be built.
pub fn crane() -> Result<PathBuf> {
    alone("crane", "github.com/google/go-containerregistry/cmd/crane", CRANE, &SMALL)
}

/// A program of a Go module that labs do without.
fn alone(name: &str, package: &str, version: &str, flags: &[&str]) -> Result<PathBuf> {
    if let Some(folder) = env::var_os("TF_LAB_ASSETS").filter(|value| !value.is_empty()) {
        let file = PathBuf::from(folder).join(name);
        ensure!(file.is_file(), "{} does not exist", file.display());
        return Ok(file);
    }
    let key = format!("{name}@{version}-{:016x}", short(Sha256::new().chain_update(flags.join("\0"))));
    let folder = in_cache(&cache()?, &key, |folder| {
        let go = find_go().with_context(|| format!("{name} is built with Go {}.{} or newer", GO.0, GO.1))?;
        fs::create_dir_all(folder)?;
        let mut command = Command::new(&go);
        let package = format!("{package}@{version}");
        command.args(["install", "-v"]).args(flags).arg(package).env("GOBIN", folder).current_dir(env::temp_dir());
        run(command.env("CGO_ENABLED", "0").env("GOGC", "400"), name)
    })?;
    Ok(folder.join(name))
}

/// kubectl, which is part of [`Tool::ControlPlane`]: none has to be on the machine. Blocks as [`find`] does.
pub fn kubectl() -> Result<Command> {
    let mut command = Command::new(find(Tool::ControlPlane)?);
    command.arg("kubectl");
    Ok(command)
}

/// The file or folder `key` of the cache, made by `make` if it is not there. `make` writes to the path it is given, which
/// nobody else sees until it is complete.
pub fn in_cache(cache: &Path, key: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let file = cache.join(key);
    if file.exists() {
        return Ok(file);
    }
    fs::create_dir_all(cache).with_context(|| format!("making {}", cache.display()))?;
    let lock = File::create(cache.join(format!(".{key}.lock")))?;
    if lock.try_lock().is_err() {
        say(&format!("waiting for another program that builds {key}"));
        lock.lock().with_context(|| format!("locking {key}"))?;
    }
    // The other one may have finished while this one waited.
    if !file.exists() {
        let unfinished = cache.join(format!(".{key}.unfinished"));
        make(&unfinished)?;
        fs::rename(&unfinished, &file).with_context(|| format!("keeping {}", file.display()))?;
    }
    Ok(file)
}

/// Folder of what is built once and kept.
pub fn cache() -> Result<PathBuf> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("TF_LAB_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|home| home.join("tf-lab")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/tf-lab")))
        .context("no place for a cache: set HOME or TF_LAB_CACHE")
}

/// Name of their folder in the cache: says what they were built from.
fn key() -> Result<String> {
    let module = module();
    let sources = PACKAGES.iter().filter(|package| package.starts_with("./"));
    let files = sources.map(|folder| format!("{folder}/main.go")).chain(["go.mod".into(), "go.sum".into()]);
    let mut hash = Sha256::new();
    for file in files {
        let path = module.join(file);
        let content = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        hash.update((content.len() as u64).to_le_bytes());
        hash.update(content);
    }
    hash.update(flags().join("\0"));
    hash.update(KWOK);
    Ok(format!("programs@{KUBERNETES}-{:016x}", short(hash)))
}

/// The first bytes of a hash, which are enough for a name.
fn short(hash: Sha256) -> u64 {
    let digest = hash.finalize();
    u64::from_be_bytes(std::array::from_fn(|index| digest[index]))
}

/// The Go module, in the source tree this program was built from.
fn module() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/lab")
}

fn flags() -> [String; 4] {
    let (major, minor) = KUBERNETES.trim_start_matches('v').split_once('.').unwrap_or(("1", "0"));
    let minor = minor.split('.').next().unwrap_or_default();
    // Without these the API server reports v0.0.0.
    let version = "-X k8s.io/component-base/version";
    let linker =
        format!("-s -w {version}.gitVersion={KUBERNETES} {version}.gitMajor={major} {version}.gitMinor={minor}");
    // What the linker strips need not be compiled: an eighth of the time.
    ["-trimpath".into(), "-gcflags=all=-dwarf=false".into(), "-ldflags".into(), linker]
}

fn build(folder: &Path) -> Result<()> {
    let go = find_go().context(NEEDS_GO)?;
    fs::create_dir_all(folder)?;
    let command = || {
        let mut command = Command::new(&go);
        // Static, as some are alone in their image. The compiler need not collect its garbage as often as it does.
        command.env("CGO_ENABLED", "0").env("GOGC", "400");
        command
    };
    let mut ours = command();
    ours.arg("build").arg("-v").args(flags()).arg("-o").arg(folder).args(PACKAGES).current_dir(module());
    run(&mut ours, "Kubernetes, CoreDNS, helm and cert-manager")?;
    let mut find = command();
    find.args(["list", "-m", "-f", "{{.Dir}}", CERT_MANAGER_MODULE]).current_dir(module());
    let found = find.output().context("starting go")?;
    ensure!(found.status.success(), "finding {CERT_MANAGER_MODULE}: {}", String::from_utf8_lossy(&found.stderr));
    let sources = PathBuf::from(String::from_utf8(found.stdout)?.trim());
    fs::write(folder.join(CERT_MANAGER_DEFINITIONS), definitions(&sources.join("deploy/crds"))?)?;
    let mut kwok = command();
    // Outside of any module, so that none of ours has a say.
    kwok.args(["install", "-v"]).args(flags()).arg(KWOK).env("GOBIN", folder).current_dir(env::temp_dir());
    run(&mut kwok, "kwok")
}

/// All definitions of a folder in one document after the other.
fn definitions(folder: &Path) -> Result<String> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let texts = files.iter().map(fs::read_to_string).collect::<io::Result<Vec<_>>>()?;
    Ok(texts.join("\n---\n"))
}

fn find_go() -> Result<PathBuf> {
    let path = env::var_os("PATH").context("PATH is not set")?;
    env::split_paths(&path)
        .map(|folder| folder.join("go"))
        .find(|file| file.is_file())
        .context("there is no Go toolchain on PATH")
}

/// Runs a build and says every [`PROGRESS`] how far it is: `go -v` names each package it compiles.
fn run(command: &mut Command, what: &str) -> Result<()> {
    let begun = Instant::now();
    say(&format!("building {what}: a few minutes, once"));
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().context("starting go")?;
    let output = child.stderr.take().context("stderr of go")?;
    let (send, lines) = mpsc::channel();
    let reader = thread::spawn(move || {
        // Ends with the output, or when nobody listens any more.
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    let mut packages = 0_u32;
    let mut recent: Vec<String> = Vec::new();
    let mut next = begun + PROGRESS;
    loop {
        match lines.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                packages += 1;
                recent.push(line);
                if recent.len() > 20 {
                    recent.remove(0);
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                // Nothing is named while modules are loaded, and at the end while the program is linked.
                let now = recent.last().map_or("loading", String::as_str);
                say(&format!("building {what}: {} s, {packages} packages, now {now}", begun.elapsed().as_secs()));
                next = Instant::now() + PROGRESS;
            }
        }
    }
    let status = child.wait()?;
    // The reader has nothing left to read.
    let _ = reader.join();
    if !status.success() {
        bail!("building {what} failed ({status}):\n{}", recent.join("\n"));
    }
    say(&format!("built {what} in {} s", begun.elapsed().as_secs()));
    Ok(())
}

/// To standard error itself, so that the test harness does not keep it to itself while someone waits.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "lab: {line}");
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn of_many_who_ask_at_once_one_builds_and_all_get_the_whole_file() {
        let cache = tempfile::tempdir().unwrap();
        let built = AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let path = in_cache(cache.path(), "tool@v1", |target| {
                        built.fetch_add(1, Ordering::SeqCst);
                        fs::write(target, "half")?;
                        thread::sleep(Duration::from_millis(100));
                        Ok(fs::write(target, "whole")?)
                    });
                    assert_eq!(fs::read_to_string(path.unwrap()).unwrap(), "whole");
                });
            }
        });
        assert_eq!(built.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_failed_build_leaves_nothing_that_looks_finished() {
        let cache = tempfile::tempdir().unwrap();
        let failed = in_cache(cache.path(), "tool@v1", |target| {
            fs::write(target, "half")?;
            bail!("out of disk")
        });
        assert!(failed.is_err());
        in_cache(cache.path(), "tool@v1", |target| Ok(fs::write(target, "whole")?)).unwrap();
        assert_eq!(fs::read_to_string(cache.path().join("tool@v1")).unwrap(), "whole");
    }

    #[test]
    fn a_build_that_fails_reports_what_the_compiler_said() {
        let error = run(Command::new("/bin/sh").args(["-c", "echo undefined: x >&2; exit 1"]), "thing").unwrap_err();
        assert!(format!("{error:#}").contains("undefined: x"));
    }

    #[test]
    fn the_key_names_the_version_and_the_source() {
        let key = key().unwrap();
        assert!(key.starts_with("programs@v1.34.4-") && key.len() == "programs@v1.34.4-".len() + 16, "{key}");
    }
}
