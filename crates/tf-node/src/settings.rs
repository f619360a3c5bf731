//! Kernel settings of the node: set when a launch file names them, and set again where another program changed them. What is done to files is in
//! [`tf_host::sysctls`].

use std::{fs, sync::Arc, time::Duration};

use tf_agent_api::launch;
use tf_host::{Root, sysctls};
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};

use crate::{
    keeping::{Counted, Keeping, report},
    paths::Paths,
};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(300);

/// Keeps the settings that a launch file asks for.
pub struct Settings {
    paths: Paths,
    keeping: Keeping<launch::Settings>,
    files_changed: Arc<Notify>,
    problem: watch::Sender<Option<String>>,
}

impl Settings {
    /// Keeps none yet.
    pub fn new(paths: Paths) -> Self {
        Self { paths, keeping: Keeping::default(), files_changed: Arc::default(), problem: watch::Sender::default() }
    }

    /// Keeps these from now on. Those that are asked for no more stay as they are.
    pub fn follow(&mut self, wanted: Option<&launch::Settings>) {
        if !self.keeping.end_other(wanted) {
            return;
        }
        self.problem.send_replace(None);
        if let Some(wanted) = wanted {
            let keep = keep(wanted.clone(), self.paths.clone(), Arc::clone(&self.files_changed), self.problem.clone());
            self.keeping.start(wanted.clone(), keep);
        }
    }

    /// The file may be another one now.
    pub fn files_changed(&self) {
        self.files_changed.notify_one();
    }

    /// Which settings are not as they should be and why, now and later.
    pub fn problem(&self) -> watch::Receiver<Option<String>> {
        self.problem.subscribe()
    }
}

async fn keep(
    wanted: launch::Settings,
    paths: Paths,
    files_changed: Arc<Notify>,
    problem: watch::Sender<Option<String>>,
) {
    let root = Root::below(paths.at("/"));
    let mut keeper = sysctls::Keeper::default();
    let (mut before, mut counted) = (None, Counted::begin());
    loop {
        let file = fs::read_to_string(paths.run_dir().join(&wanted.file)).map_err(|error| error.to_string());
        // Other settings are another attempt.
        if before.as_ref() != Some(&file) || counted.is_over() {
            keeper = sysctls::Keeper::default();
            before = Some(file.clone());
        }
        let look = match file.and_then(|text| sysctls::parse(&text)) {
            Ok(settings) => keeper.look(&root, &settings, wanted.stated),
            Err(why) => sysctls::Look { problems: vec![format!("{}: {why}", wanted.file)], ..sysctls::Look::default() },
        };
        report("kernel settings", look, &problem);
        tokio::select! {
            () = sleep(LOOK) => {}
            () = files_changed.notified() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn settings_are_set_and_set_again_when_the_file_is_another_one() {
        let directory = tempfile::tempdir().unwrap();
        let paths = Paths::below(directory.path());
        let (run, setting) = (paths.run_dir(), directory.path().join("proc/sys/kernel/a"));
        fs::create_dir_all(&run).unwrap();
        fs::create_dir_all(setting.parent().unwrap()).unwrap();
        fs::write(&setting, "0\n").unwrap();
        fs::write(run.join("sysctl.conf"), "kernel.a = 1\n").unwrap();
        let mut settings = Settings::new(paths);
        let mut problem = settings.problem();
        settings.follow(Some(&launch::Settings { file: "sysctl.conf".into(), stated: true }));
        let is = async |value: &str| {
            while fs::read_to_string(&setting).unwrap() != value {
                sleep(Duration::from_millis(10)).await;
            }
        };
        is("1").await;
        fs::write(run.join("sysctl.conf"), "kernel.a = 2\nkernel.b = 1\n").unwrap();
        settings.files_changed();
        is("2").await;
        let named = problem.wait_for(Option::is_some).await.unwrap().clone();
        assert_eq!(named.as_deref(), Some("the kernel has no setting kernel.b"));
        settings.follow(None);
        assert_eq!(*problem.borrow(), None);
    }
}
