//! Where everything is. The root is `/` except in tests.

use std::path::{Path, PathBuf};

use tf_agent_api::node;

/// The paths of [`node`] below a root.
#[derive(Clone, Debug)]
pub struct Paths {
    root: PathBuf,
}

impl Default for Paths {
    fn default() -> Self {
        Self::below("/")
    }
}

impl Paths {
    /// Paths below a directory.
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// An absolute path of the container.
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The mounted Secret.
    pub fn secret_dir(&self) -> PathBuf {
        self.at(node::SECRET_DIR)
    }

    /// The mounted ConfigMap.
    pub fn config_dir(&self) -> PathBuf {
        self.at(node::CONFIG_DIR)
    }

    /// The mounted fields of the pod.
    pub fn pod_info_dir(&self) -> PathBuf {
        self.at(node::POD_INFO_DIR)
    }

    /// What the daemon reads.
    pub fn run_dir(&self) -> PathBuf {
        self.at(node::RUN_DIR)
    }

    /// The states of the pod's daemons.
    pub fn state_dir(&self) -> PathBuf {
        self.at(node::STATE_DIR)
    }
}
