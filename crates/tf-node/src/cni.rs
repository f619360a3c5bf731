//! The node's CNI configuration: it is put where the container runtime reads it when the daemon serves and answers the plugin, and again when
//! another program took it away. What is done to files is in [`tf_host::cni`].

use std::{fs, net::Ipv4Addr, path::Path, time::Duration};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tf_agent_api::{launch, state::Health};
use tf_host::{
    cni::{self, Placed},
    wanted::pod_mtu,
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    health::View,
    keeping::Keeping,
    log,
    paths::Paths,
    probe::{Target, http::Connection},
};

/// Between two looks at a configuration that is there.
const LOOK: Duration = Duration::from_secs(10);
/// Between two attempts to put it there.
const RETRY: Duration = Duration::from_secs(2);
/// For the daemon to answer.
const ANSWER: Duration = Duration::from_secs(2);
/// MTU of `vhost0`, which is that of the interface below it.
const VHOST0_MTU: &str = "/sys/class/net/vhost0/mtu";
/// Section of the configuration that the plugin reads.
const SECTION: &str = "contrail";
/// What is waited for at first.
const WAITS: &str = "the CNI configuration waits for the daemon to serve";

/// Keeps the configuration that a launch file asks for.
pub struct Cni {
    paths: Paths,
    view: View,
    keeping: Keeping<launch::Cni>,
    trouble: watch::Sender<Option<String>>,
}

/// Why the configuration is not in place, if one is asked for.
#[derive(Clone, Debug)]
pub struct Trouble(watch::Receiver<Option<String>>);

impl Trouble {
    /// What this means for a daemon that serves by itself.
    pub fn applied_to(&self, health: Health) -> Health {
        match &*self.0.borrow() {
            Some(why) if health.serves => Health::new(false, why.clone()),
            _ => health,
        }
    }
}

impl Cni {
    /// Keeps none yet. `view`: what is seen of the daemon.
    pub fn new(paths: Paths, view: View) -> Self {
        Self { paths, view, keeping: Keeping::default(), trouble: watch::Sender::default() }
    }

    /// Keeps this one from now on. One that is asked for no more stays where it is.
    pub fn follow(&mut self, wanted: Option<&launch::Cni>) {
        if !self.keeping.end_other(wanted) {
            return;
        }
        self.trouble.send_replace(wanted.map(|_| WAITS.to_owned()));
        if let Some(wanted) = wanted {
            let keep = keep(wanted.clone(), self.paths.clone(), self.view.clone(), self.trouble.clone());
            self.keeping.start(wanted.clone(), keep);
        }
    }

    /// Why the configuration is not in place, now and later.
    pub fn trouble(&self) -> Trouble {
        Trouble(self.trouble.subscribe())
    }
}

async fn keep(wanted: launch::Cni, paths: Paths, view: View, trouble: watch::Sender<Option<String>>) {
    let mut reports = view.reports();
    loop {
        let is_serving = reports.borrow_and_update().serving.is_some();
        let why = if is_serving {
            place(&wanted, &paths).await.err().map(|error| format!("the CNI configuration: {error:#}"))
        } else {
            Some(WAITS.to_owned())
        };
        let wait = if why.is_none() { LOOK } else { RETRY };
        let before = trouble.send_replace(why.clone());
        if let Some(why) = why.filter(|why| why != WAITS && before.as_ref() != Some(why)) {
            log::warn("pods get no network", &json!({"error": why}));
        }
        tokio::select! {
            () = sleep(wait) => {}
            changed = reports.changed() => if changed.is_err() { return },
        }
    }
}

/// Puts the configuration at each target, if the daemon answers the plugin.
async fn place(wanted: &launch::Cni, paths: &Paths) -> Result<()> {
    let target = Target { host: Ipv4Addr::LOCALHOST.into(), port: wanted.port.get(), tls: false };
    let asked = async { Connection::open(&target, paths).await?.get("/", None).await };
    match timeout(ANSWER, asked).await {
        // Whatever it says of this path.
        Ok(answer) => answer.context("the daemon does not answer the plugin").map(drop)?,
        Err(_) => bail!("the daemon does not answer the plugin at 127.0.0.1:{}", wanted.port),
    }
    let source = paths.at(&wanted.source);
    let content = fs::read(&source).with_context(|| format!("read {}", source.display()))?;
    let mtu = fs::read_to_string(paths.at(VHOST0_MTU)).ok().and_then(|mtu| mtu.trim().parse().ok());
    let content = with_mtu(content, mtu).with_context(|| format!("read {}", source.display()))?;
    for target in &wanted.targets {
        put(&paths.at(target), &content)?;
    }
    Ok(())
}

/// The configuration with the MTU of pods that fits this node, where it has none and there is a `vhost0`.
fn with_mtu(content: Vec<u8>, vhost0: Option<u32>) -> Result<Vec<u8>> {
    let Some(vhost0) = vhost0 else { return Ok(content) };
    let mut configuration: Value = serde_json::from_slice(&content)?;
    match configuration.get_mut(SECTION) {
        Some(Value::Object(section)) if !section.contains_key("mtu") => {
            section.insert("mtu".to_owned(), pod_mtu(vhost0).into());
            Ok(serde_json::to_vec_pretty(&configuration)?)
        }
        _ => Ok(content),
    }
}

fn put(path: &Path, content: &[u8]) -> Result<()> {
    let Placed { is_written, set_aside } = cni::place(path, content)?;
    if is_written {
        log::info("the CNI configuration is in place", &json!({"file": path}));
    }
    if !set_aside.is_empty() {
        let fields = json!({"files": set_aside, "suffix": cni::SET_ASIDE});
        log::warn("CNI configurations of an earlier installation are set aside", &fields);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        time::Instant,
    };

    use super::*;
    use crate::health::Report;

    const SOON: Duration = Duration::from_secs(10);

    /// An agent that answers every request that there is no such thing.
    async fn agent() -> NonZeroU16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = NonZeroU16::new(listener.local_addr().unwrap().port()).unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 1024];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await;
            }
        });
        port
    }

    /// Waits until a daemon that serves by itself counts as serving or not, and gives back why.
    async fn judged(trouble: &Trouble, serves: bool) -> String {
        let begun = Instant::now();
        loop {
            let health = trouble.applied_to(Health::new(true, "Functional"));
            if health.serves == serves || begun.elapsed() > SOON {
                assert_eq!(health.serves, serves, "{health:?}");
                return health.message;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    #[test]
    fn pods_have_the_mtu_of_vhost0_less_the_overlay_unless_another_one_is_stated() {
        let with = |content: &str, vhost0| String::from_utf8(with_mtu(content.into(), vhost0).unwrap()).unwrap();
        let mtu = |content: &str, vhost0| {
            serde_json::from_str::<Value>(&with(content, vhost0)).unwrap()["contrail"]["mtu"].clone()
        };
        let plain = "{\"contrail\": {\"cluster-name\": \"k8s\"}}";
        for (vhost0, expected) in [(1500, 1436), (9000, 8936), (1300, 1280), (0, 1280)] {
            assert_eq!(mtu(plain, Some(vhost0)), expected);
        }
        let stated = "{\"contrail\": {\"mtu\": 1400}}";
        for unchanged in [(stated, Some(9000)), (plain, None), ("{}", Some(1500))] {
            assert_eq!(with(unchanged.0, unchanged.1), unchanged.0);
        }
        assert!(with_mtu(b"none".to_vec(), Some(1500)).is_err());
    }

    #[tokio::test]
    async fn a_configuration_is_there_when_the_daemon_serves_and_answers_the_plugin_and_not_before() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::below(root.path());
        fs::create_dir_all(root.path().join("etc/tf/cni")).unwrap();
        fs::write(root.path().join("etc/tf/cni/a.conf"), "{}").unwrap();
        let target = root.path().join("host/net.d/a.conf");
        let wanted = |port| launch::Cni {
            source: "/etc/tf/cni/a.conf".into(),
            targets: vec!["/host/net.d/a.conf".into()],
            port,
        };
        let (report, reports) = watch::channel(Report::default());
        let mut cni = Cni::new(paths, View::new(reports, watch::channel(None).1));
        let trouble = cni.trouble();
        judged(&trouble, true).await;

        cni.follow(Some(&wanted(NonZeroU16::MIN)));
        assert_eq!(judged(&trouble, false).await, WAITS);
        report.send_replace(Report { serving: Some(7), ..Report::default() });
        while judged(&trouble, false).await == WAITS {
            sleep(Duration::from_millis(20)).await;
        }
        let why = judged(&trouble, false).await;
        assert!(why.starts_with("the CNI configuration: the daemon does not answer the plugin"), "{why}");
        assert!(!target.exists());

        cni.follow(Some(&wanted(agent().await)));
        judged(&trouble, true).await;
        assert_eq!(fs::read_to_string(&target).unwrap(), "{}");

        // It stays when the daemon does not serve for a while, and when it is asked for no more.
        report.send_replace(Report::default());
        judged(&trouble, false).await;
        cni.follow(None);
        judged(&trouble, true).await;
        assert!(target.exists());
    }

    #[tokio::test]
    async fn a_target_that_cannot_be_written_is_named() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::below(root.path());
        fs::write(root.path().join("source"), "{}").unwrap();
        fs::write(root.path().join("host"), "no directory").unwrap();
        let port = agent().await;
        let wanted = launch::Cni { source: "/source".into(), targets: vec!["/host/net.d/a.conf".into()], port };
        let error = format!("{:#}", place(&wanted, &paths).await.unwrap_err());
        assert!(error.contains("/host/net.d"), "{error}");
        let unread = launch::Cni { source: "/none".into(), ..wanted };
        let error = format!("{:#}", place(&unread, &paths).await.unwrap_err());
        assert!(error.contains("/none"), "{error}");
    }
}
