//! What a pod of the vRouter reports of its node, in the termination message of an init container (`tf-node host show --summary`): the
//! kubelet puts it into the pod's status, where `kubectl tf nodes` reads it with no more rights than `get` on pods.

use serde::{Deserialize, Serialize};

/// The init container.
pub const PREFLIGHT: &str = "preflight";
/// Where the kubelet reads a container's termination message (Kubernetes, `terminationMessagePath`).
pub const TERMINATION_LOG: &str = "/dev/termination-log";
/// File beside the journal with what a forwarder has taken (`tf_host::dpdk::taken`).
pub const TAKEN: &str = "dpdk.json";
/// File beside the journal in which `tf-node host forward` says why it ended.
pub const FORWARD_WORDS: &str = "forward.txt";
/// Where journals of `tf-node host` are.
pub const STATE_DIR: &str = "/var/lib/contrail/tf-node";
/// Longest summary in bytes. The kubelet divides 12 KiB among the containers of a pod and cuts what is longer (Kubernetes,
/// `MaxPodTerminationMessageLogLength`); pods of the vRouter have at most 8, and this leaves room for one of yours.
pub const SUMMARY_LIMIT: usize = 1300;

/// A node in short.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Summary {
    /// Physical interfaces that the vRouter takes. None where the findings say why there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uplinks: Vec<String>,
    /// The first address of `vhost0` with its prefix length, or `no address`. None: there is no `vhost0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vhost0: Option<String>,
    /// Release of the kernel, for example `6.1.0-18-amd64`.
    pub kernel: String,
    /// Version of the module that is loaded, or `loaded` where it has none. None: it is not loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Huge pages of each size, for example `2M: 128 of 128 free`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub huge_pages: Vec<String>,
    /// The CNI configuration that the container runtime takes, a name of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cni: Option<String>,
    /// What stands in the way of a vRouter, what blocks first.
    pub findings: Vec<Finding>,
    /// How many more findings there were no room for.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: usize,
}

/// Something about a node that keeps a vRouter from working on it, or may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What it is about, a stable name.
    pub id: String,
    /// Whether a vRouter cannot be set up; else it is worth knowing.
    pub blocks: bool,
    /// The cause, and what to do.
    pub text: String,
}

impl Summary {
    /// As JSON of at most so many bytes: findings that do not fit are counted.
    pub fn message(mut self, limit: usize) -> String {
        loop {
            let text = serde_json::to_string(&self).unwrap_or_default();
            if text.len() <= limit || self.findings.pop().is_none() {
                return text;
            }
            self.left_out += 1;
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_that_the_kubelet_would_cut_off_are_counted() {
        let finding =
            |number: usize| Finding { id: format!("id-{number}"), blocks: number == 0, text: "x".repeat(400) };
        let summary = Summary {
            uplinks: vec!["eth0".into()],
            kernel: "6.1.0".into(),
            findings: (0..5).map(finding).collect(),
            ..Summary::default()
        };
        let text = summary.clone().message(SUMMARY_LIMIT);
        assert!(text.len() <= SUMMARY_LIMIT, "{}", text.len());
        let read: Summary = serde_json::from_str(&text).unwrap();
        assert_eq!((read.findings.len(), read.left_out), (2, 3));
        assert_eq!(read.findings, summary.findings[..2]);
        assert_eq!(serde_json::from_str::<Summary>(&summary.clone().message(usize::MAX)).unwrap(), summary);
    }
}
