//! Labs with real nodes come and go, side by side, and leave nothing behind.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use tf_testing::wait::eventually;
use tf_testing::{Lab, Options, folder};

use crate::{SOON, load_tools, run};

/// What a lab has on the machine, by which its remains would be found.
struct Traces {
    /// Its folder, named by mounts, loop devices and control groups.
    folder: PathBuf,
    /// Its device in the machine's own namespace.
    device: String,
    /// Namespaces of its machines' networks.
    namespaces: BTreeSet<u64>,
}

impl Traces {
    fn of(lab: &Lab) -> Result<Self> {
        let nodes = lab.real_nodes()?;
        let machines =
            nodes.all()?.iter().map(|node| node.machine().clone()).chain([nodes.router()]).collect::<Vec<_>>();
        let namespace = |pid: i32| Ok(fs::metadata(format!("/proc/{pid}/ns/net"))?.ino());
        let namespaces = machines.iter().map(|machine| namespace(machine.pid()?)).collect::<Result<_>>()?;
        Ok(Self { folder: lab.folder().path().to_owned(), device: nodes.network().device(), namespaces })
    }

    /// What there is of it now, in words.
    fn found(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        let path = self.folder.to_str().context("UTF-8")?;
        let group = format!("/tf-lab/{}-", self.folder.file_name().context("name")?.to_string_lossy());
        for process in entries("/proc")? {
            if fs::metadata(process.join("ns/net")).is_ok_and(|file| self.namespaces.contains(&file.ino())) {
                found.push(format!("{} is in a namespace", process.display()));
            }
            if text(&process.join("cgroup")).contains(&group) || text(&process.join("cmdline")).contains(path) {
                found.push(format!("{} runs", process.display()));
            }
        }
        found
            .extend(text(Path::new("/proc/self/mountinfo")).lines().filter(|line| line.contains(path)).map(Into::into));
        for device in entries("/sys/block")? {
            if text(&device.join("loop/backing_file")).starts_with(path) {
                found.push(format!("{} is attached", device.display()));
            }
        }
        let network = ["/proc/net/dev", "/proc/net/route"].map(|file| text(Path::new(file))).concat();
        found.extend(network.lines().filter(|line| line.contains(&self.device)).map(Into::into));
        for hierarchy in entries("/sys/fs/cgroup")?.into_iter().chain(["/sys/fs/cgroup".into()]) {
            let groups = entries(hierarchy.join("tf-lab")).unwrap_or_default();
            let own = groups.iter().filter(|path| path.to_string_lossy().contains(&group));
            found.extend(own.map(|path| path.display().to_string()));
        }
        if self.folder.exists() {
            found.push(path.to_owned());
        }
        Ok(found)
    }

    async fn gone(&self) -> Result<()> {
        let mut last = Vec::new();
        // The kernel takes namespaces down, and what is in them, some time after their last process.
        eventually("the traces to vanish", Duration::from_secs(20), async || {
            last = self.found()?;
            Ok(last.is_empty().then_some(()))
        })
        .await
        .with_context(|| format!("{last:#?}"))
    }
}

fn entries(folder: impl AsRef<Path>) -> Result<Vec<PathBuf>> {
    Ok(fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?)
}

#[tokio::test]
async fn two_labs_are_two_networks_and_nothing_is_left_of_one_that_was_dropped() -> Result<()> {
    let (one, two) = tokio::try_join!(Lab::start(Options::real(1)), Lab::start(Options::real(1)))?;
    let (networks, nodes) = {
        let both = [&one, &two].map(Lab::real_nodes);
        let [one, two] = both;
        let (one, two) = (one?, two?);
        ([one.network(), two.network()], [one.node("node-1")?, two.node("node-1")?])
    };
    assert_ne!(networks[0].range(), networks[1].range());
    assert_ne!(nodes[0].address(), nodes[1].address());
    load_tools(&one).await?;
    run(&one, "tenant", "node-1", "sleep 600", "").await?;

    let traces = Traces::of(&one)?;
    let found = traces.found()?.join("\n");
    for trace in ["is in a namespace", "runs", "is attached", &traces.device, "/sys/fs/cgroup"] {
        assert!(found.contains(trace), "a lab that runs has {trace}, else this test finds nothing:\n{found}");
    }
    drop(one);
    traces.gone().await?;
    assert!(nodes[1].is_running()? && nodes[1].check().is_ok());
    let traces = Traces::of(&two)?;
    drop(two);
    traces.gone().await
}

#[tokio::test]
#[ignore = "the other program of nothing_is_left_of_a_lab_whose_owner_was_killed: it waits to be killed"]
async fn a_program_that_is_killed_with_nodes() -> Result<()> {
    let lab = Lab::start(Options::real(1).named(std::env::var("LAB_TO_LEAVE_BEHIND")?)).await?;
    load_tools(&lab).await?;
    run(&lab, "tenant", "node-1", "sleep 600", "").await?;
    std::future::pending().await
}

#[tokio::test]
async fn nothing_is_left_of_a_lab_whose_owner_was_killed() -> Result<()> {
    let name = format!("left-real-{:08x}", std::process::id());
    let mut owner = Command::new(std::env::current_exe()?)
        .args(["--ignored", "--exact", "lifecycle::a_program_that_is_killed_with_nodes"])
        .env("LAB_TO_LEAVE_BEHIND", &name)
        .spawn()?;
    let lab = eventually("the other program's pod", Duration::from_mins(2), async || {
        let Ok(lab) = Lab::attach(&name) else { return Ok(None) };
        let Ok(nodes) = lab.real_nodes() else { return Ok(None) };
        let started = nodes.all()?.iter().any(|node| node.check().is_ok() && lab.kubeconfig().exists());
        if !started {
            return Ok(None);
        }
        Ok(crate::ready(&lab, "tenant", Duration::ZERO).await.is_ok().then_some(lab))
    })
    .await?;
    let traces = Traces::of(&lab)?;
    owner.kill()?;
    owner.wait()?;
    assert!(traces.found()?.join("\n").contains("is in a namespace"), "SIGKILL gave the owner no chance to clean up");
    // Another test that starts a lab at this moment may be quicker.
    folder::sweep(&folder::root()?)?;
    traces.gone().await?;
    eventually("its name to be free", SOON, async || Ok(Lab::attach(&name).is_err().then_some(()))).await
}
