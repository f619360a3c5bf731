//! What a node is for the vRouter, and whether the vRouter can be set up on it.
//!
//! [`observe()`] reads the kernel (netlink, `/proc`, `/sys`) and files of the host into [`HostFacts`]. [`preflight()`] compares
//! them with what is [`Wanted`] and returns [`Finding`]s. [`show()`] prints both. Observation changes nothing on the node, starts no
//! program and needs no Kubernetes.
//!
//! [`setup::Setup`] gives `vhost0` the place of an interface, and the interface its own place back: by a [`plan`], which is pure, a
//! [`journal`], and [`act`], which alone changes a node's network, with a [`data_path`]. [`cni`] puts the vRouter's CNI configuration on the
//! node and takes it away; [`managers`] keeps programs that set addresses from the interface and from `vhost0`;
//! [`virtual_functions`] makes those of SR-IOV; [`sysctls`] sets kernel settings; [`dpdk`] gives the interface to a program and back.
//!
//! What a fact cannot be read from is listed in [`HostFacts::unread`]: a file that may not be opened is never taken for one
//! that is absent.

pub mod act;
pub mod atomic;
pub mod cni;
pub mod cpu_list;
pub mod data_path;
pub mod dpdk;
pub mod drift;
pub mod facts;
pub mod journal;
pub mod managers;
mod netlink;
pub mod plan;
pub mod preflight;
pub mod program;
pub mod queues;
mod record;
pub mod reload;
pub mod root;
pub mod setup;
pub mod show;
pub mod sysctls;
pub mod uplink;
pub mod virtual_functions;
pub mod wanted;

pub use cpu_list::CpuList;
pub use facts::{HostFacts, observe};
pub use preflight::{Finding, preflight};
pub use root::Root;
pub use show::show;
pub use wanted::{Mode, Wanted};
