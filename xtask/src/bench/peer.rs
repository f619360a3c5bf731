//! The Go tf-operator's figures, for comparison. Not measured by this program: taken from a run of its unmodified source on
//! a Kubernetes 1.34 control plane of the same kind (etcd without fsync, simulated nodes whose pods are Ready when
//! scheduled), with all its 14 resources, the removed `policy/v1beta1` emulated and exec answered by a stand-in.

/// One cluster. `None` was not measured.
pub struct Peer {
    /// Simulated workers beside three control-plane nodes.
    pub workers: u32,
    /// Seconds to Ready.
    pub ready: f64,
    /// Requests until Ready.
    pub requests: u64,
    /// Mutating ones, those of its leader lock included.
    pub mutating: u64,
    /// Those of the lock.
    pub lock: Option<u64>,
    /// CPU seconds until Ready.
    pub cpu: f64,
    /// Most resident memory, in MiB.
    pub peak: f64,
    /// Requests a minute after Ready.
    pub idle_requests: f64,
    /// Mutating requests a minute after Ready.
    pub idle_mutating: f64,
    /// Pods replaced by a fourth control-plane node.
    pub replaced: Option<u64>,
}

/// What was measured. With 200 workers it never deployed anything, so there is nothing to put beside 500.
pub const MEASURED: [Peer; 2] = [
    Peer {
        workers: 3,
        ready: 284.8,
        requests: 2826,
        mutating: 1094,
        lock: Some(142),
        cpu: 75.4,
        peak: 121.4,
        idle_requests: 162.0,
        idle_mutating: 64.0,
        replaced: Some(49),
    },
    Peer {
        workers: 50,
        ready: 806.8,
        requests: 8169,
        mutating: 1999,
        lock: None,
        cpu: 166.0,
        peak: 497.0,
        idle_requests: 422.0,
        idle_mutating: 85.0,
        replaced: None,
    },
];

/// What has to stand under a table that shows them.
pub const NOTE: &str = "\
Go tf-operator: its own 14 resources (all 13 kinds of services), one process; measured elsewhere on a control plane of the
same kind. On stock Kubernetes 1.34 it is never Ready; these figures need policy/v1beta1 emulated. With 200 workers it
never deployed anything.";
