//! Sets a node up for the vRouter, and takes it out: observe, check, plan, journal, act, verify, and undo what was not verified.

use std::{
    fs::File,
    io,
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use crate::{
    Finding, HostFacts, Root, Wanted,
    act::{self, Actor},
    atomic, cni,
    data_path::DataPath,
    facts::network::VHOST0,
    journal::{self, Journal, Recovery, State},
    managers::{HostPrograms, Managers},
    observe,
    plan::{NoPlan, Plan, Step, restore, switch},
    preflight,
    preflight::Id,
    reload::{OtherModule, Reloaded},
};

/// How long a node may take until it is as it should be.
const VERIFIED: Duration = Duration::from_secs(10);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(100);
/// For a peer to answer.
const ANSWER: Duration = Duration::from_secs(2);
/// Why something was undone that another process began.
const ENDED: &str = "the process that began it ended before it was done";

/// A node, and what it is set up with.
pub struct Setup<'a, D> {
    /// Where the node's files are.
    pub root: &'a Root,
    /// What the vRouter needs.
    pub wanted: &'a Wanted,
    /// The journal, a file on the host.
    pub journal: &'a Path,
    /// Who is reached over TCP before and has to be afterwards: the API server, control nodes.
    pub peers: &'a [SocketAddr],
    /// What moves packets.
    pub data_path: &'a mut D,
    /// Programs of the host, for those that set addresses.
    pub programs: &'a dyn HostPrograms,
    /// What is done about another kernel module than the loaded one.
    pub other_module: OtherModule,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// The interface whose place `vhost0` has or had. None if there is no `vhost0`.
    pub uplink: Option<String>,
    /// How many steps it took.
    pub steps: usize,
    /// Files of CNI that were removed.
    pub files: Vec<String>,
    /// Whether what an earlier process began was undone first.
    pub recovered: bool,
    /// What became of another kernel module than the loaded one.
    pub module: Reloaded,
}

/// Why a node is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Findings that block. The node was not touched.
    #[error("{}", preflight::lines(.0))]
    Blocked(Vec<Finding>),
    /// There is no plan for this mode. The node was not touched.
    #[error("{0}")]
    NotPlanned(NoPlan),
    /// Someone uses the data plane. The node was not touched.
    #[error("the vRouter still has {}: stop its agent and drain the node first, or use --force", .0.join(", "))]
    InUse(Vec<String>),
    /// The module or its programs cannot be used. The network of the node was not touched.
    #[error("the vRouter's kernel module cannot be used: {0}")]
    DataPath(#[source] io::Error),
    /// The journal cannot be used. The node was not touched.
    #[error("the journal {} cannot be used: {error}; if addresses and routes of the node are as they should be, delete the file", .path.display())]
    Journal {
        /// The file.
        path: PathBuf,
        /// Why.
        error: journal::Error,
    },
    /// A step failed, or the node was not verified.
    #[error(transparent)]
    Act(#[from] act::Error),
    /// What an earlier process began cannot be undone.
    #[error("what an earlier process began on this node cannot be undone: {}", .0.join(", "))]
    NotRecovered(Vec<String>),
    /// What is known of the module cannot be kept. The vRouter has its place on the node.
    #[error("{} cannot be written: {error}; run this again when that is corrected", .path.display())]
    Module {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Another process changes the node. It was not touched.
    #[error("another tf-node host apply or remove is at work on this node; run this again when that one has ended")]
    Busy,
    /// The kernel gives no socket. The node was not touched.
    #[error("no netlink socket: {0}")]
    Netlink(#[source] io::Error),
    /// A CNI configuration or program of the vRouter cannot be removed. The network of the node was not touched.
    #[error("the vRouter's CNI configuration cannot be removed: {0}; run this again when that is corrected")]
    Cni(#[source] io::Error),
    /// A program of the host that sets addresses does not leave `vhost0` alone. The network of the node was not touched.
    #[error("a program that sets addresses cannot be kept from vhost0: {0}")]
    NotKept(#[source] io::Error),
    /// A program sets addresses of the uplink, or does not know that it may again. The rest is done.
    #[error("{done}, but a program that sets addresses of {uplink} does not know: {error}; run this again")]
    NotAsked {
        /// What is done.
        done: &'static str,
        /// The interface.
        uplink: String,
        /// Why.
        error: io::Error,
    },
    /// The node is as it was before the vRouter but for an interface that nothing uses.
    #[error("addresses and routes are back, and vhost0 cannot be removed: {0}; run this again")]
    NotRemoved(#[source] io::Error),
}

impl From<NoPlan> for Error {
    fn from(why: NoPlan) -> Self {
        match why {
            NoPlan::Blocked(finding) => Self::Blocked(vec![finding]),
            why @ NoPlan::NotKernelMode => Self::NotPlanned(why),
        }
    }
}

impl<D: DataPath> Setup<'_, D> {
    /// Gives `vhost0` the place of the uplink. Nothing is done where it has it, and all is undone where that cannot be verified.
    ///
    /// # Errors
    /// Why `vhost0` does not have it.
    pub fn apply(&mut self) -> Result<Done, Error> {
        let _lock = self.lock()?;
        let (facts, recovered) = self.found()?;
        let done = self.with_present_module(facts)?;
        Ok(Done { recovered, ..done })
    }

    /// The same, whatever the module is.
    pub(crate) fn set_up(&mut self, facts: &HostFacts) -> Result<Done, Error> {
        if let Some(uplink) = self.is_done(facts)? {
            self.release(facts, &uplink)?;
            return Ok(Done { uplink: Some(uplink), ..Done::default() });
        }
        let mut blocking: Vec<Finding> = preflight(facts, self.wanted).into_iter().filter(Finding::blocks).collect();
        // One that the module has is the vRouter's, whatever kind the kernel says it is.
        if facts.module.loaded.is_some()
            && facts.network.link(VHOST0).is_some()
            && self.data_path.has(VHOST0).map_err(Error::DataPath)?
        {
            blocking.retain(|finding| finding.id != Id::Vhost0OfOtherKind);
        }
        if !blocking.is_empty() {
            return Err(Error::Blocked(blocking));
        }
        self.data_path.prepare().map_err(Error::DataPath)?;
        let facts = observe(self.root);
        let plan = switch(&facts, self.wanted)?;
        let is_attached = self.is_attached(&plan.uplink)?;
        let plan = plan.connecting(is_attached);
        self.managers().keep_from_vhost0(&facts).map_err(Error::NotKept)?;
        self.carry_out(&facts, &plan, |facts, wanted| Ok(switch(facts, wanted)?.steps), true)?;
        self.release(&facts, &plan.uplink)?;
        Ok(Done { uplink: Some(plan.uplink), steps: plan.steps.len(), ..Done::default() })
    }

    /// Removes the CNI configuration, gives the uplink back all that `vhost0` has, and removes `vhost0`. `forced`: also where pods or the agent
    /// use it.
    ///
    /// # Errors
    /// Why `vhost0` is still there.
    pub fn remove(&mut self, forced: bool) -> Result<Done, Error> {
        let _lock = self.lock()?;
        let (facts, recovered) = self.found()?;
        if facts.network.link(VHOST0).is_none() {
            let files = remove_cni(self.root, self.wanted, forced)?;
            self.give_back(&facts, None)?;
            let module = if facts.module.loaded.is_some() { self.leave_module() } else { Reloaded::No };
            self.forget()?;
            return Ok(Done { files, recovered, module, ..Done::default() });
        }
        self.data_path.prepare().map_err(Error::DataPath)?;
        let mut users = self.data_path.users().map_err(Error::DataPath)?;
        users.extend(pods(self.root));
        if !forced && !users.is_empty() {
            return Err(Error::InUse(users));
        }
        let plan = self.way_back(&facts)?;
        // First: no pod is connected any more that would be cut off at once.
        let files = cni::remove(self.root, self.wanted).map_err(Error::Cni)?;
        self.take_back(&facts, &plan)?;
        let given = (!self.wanted.multihomed).then_some(plan.uplink.as_str());
        self.give_back(&facts, given)?;
        let module = self.leave_module();
        self.forget()?;
        Ok(Done { uplink: Some(plan.uplink), steps: plan.steps.len(), recovered, files, module })
    }

    /// How the uplink gets everything back.
    pub(crate) fn way_back(&mut self, facts: &HostFacts) -> Result<Plan, Error> {
        let plan = restore(facts, self.wanted)?;
        let is_attached = self.is_attached(&plan.uplink)?;
        Ok(plan.disconnecting(is_attached))
    }

    /// Gives the uplink everything back, and removes `vhost0`.
    pub(crate) fn take_back(&mut self, facts: &HostFacts, plan: &Plan) -> Result<(), Error> {
        let left = |facts: &HostFacts, wanted: &Wanted| Ok(restore(facts, wanted)?.disconnecting(false).steps);
        self.carry_out(facts, plan, left, false)?;
        // Nothing of the node's network depends on it any more.
        self.data_path.remove().map_err(Error::NotRemoved)
    }

    /// Undoes what a process began in this boot that ended before it was done. Whether there was something.
    ///
    /// # Errors
    /// When it cannot be undone.
    pub fn recover(&mut self) -> Result<bool, Error> {
        let _lock = self.lock()?;
        self.found().map(|(_, recovered)| recovered)
    }

    /// The node, after what another process began in this boot was undone, and whether there was something.
    fn found(&mut self) -> Result<(HostFacts, bool), Error> {
        let facts = observe(self.root);
        let recovered = self.undo_unfinished(&facts.kernel.boot_id)?;
        Ok((if recovered { observe(self.root) } else { facts }, recovered))
    }

    fn undo_unfinished(&mut self, boot_id: &str) -> Result<bool, Error> {
        let Some(mut journal) = Journal::read(self.journal).map_err(|error| self.unusable(error))? else {
            return Ok(false);
        };
        if journal.recovery(boot_id) == Recovery::Nothing {
            return Ok(false);
        }
        self.data_path.prepare().map_err(Error::DataPath)?;
        let left = Actor::new(self.root, self.data_path).map_err(Error::Netlink)?.undo(&journal.plan);
        if !left.is_empty() {
            return Err(Error::NotRecovered(left));
        }
        journal.state = State::RolledBack { reason: ENDED.into() };
        journal.write(self.journal).map_err(|error| self.unusable(error))?;
        Ok(true)
    }

    fn carry_out(
        &mut self,
        facts: &HostFacts,
        plan: &Plan,
        left: impl Fn(&HostFacts, &Wanted) -> Result<Vec<Step>, NoPlan>,
        attached: bool,
    ) -> Result<(), Error> {
        if plan.steps.is_empty() {
            return Ok(());
        }
        let (root, wanted, uplink) = (self.root, self.wanted, plan.uplink.as_str());
        // Peers that do not answer now prove nothing later.
        let peers: Vec<SocketAddr> = self.peers.iter().copied().filter(answers).collect();
        let look = |data_path: &mut D| -> Result<(), String> {
            let steps = left(&observe(root), wanted).map_err(|error| error.to_string())?;
            let (settings, steps): (Vec<_>, Vec<_>) =
                steps.into_iter().partition(|step| matches!(step, Step::SetSysctl { .. }));
            // udev applies what sysctl.d has for new interfaces when it gets to it.
            act::settings(root, &settings);
            if let Some(step) = steps.first() {
                return Err(format!("{} more steps are needed, first: {}", steps.len(), act::described(step)));
            }
            if data_path.is_attached(uplink).map_err(|error| error.to_string())? != attached {
                let is = if attached { "is not" } else { "is still" };
                return Err(format!("vhost0 {is} connected with {uplink}"));
            }
            let silent = peers.iter().find(|peer| !answers(peer));
            silent.map_or(Ok(()), |peer| Err(format!("{peer}, which answered before, does not answer any more")))
        };
        let verify = |data_path: &mut D| {
            let begun = Instant::now();
            loop {
                let seen = look(data_path);
                if seen.is_ok() || begun.elapsed() >= VERIFIED {
                    return seen;
                }
                thread::sleep(LOOK);
            }
        };
        let boot = &facts.kernel.boot_id;
        Ok(Actor::new(root, self.data_path).map_err(Error::Netlink)?.carry_out(plan, self.journal, boot, verify)?)
    }

    /// The uplink, where `vhost0` has its place already: findings keep no node from what it is.
    fn is_done(&mut self, facts: &HostFacts) -> Result<Option<String>, Error> {
        if facts.module.loaded.is_none() || facts.network.link(VHOST0).is_none() {
            return Ok(None);
        }
        let Ok(plan) = switch(facts, self.wanted) else { return Ok(None) };
        Ok((plan.steps.is_empty() && self.is_attached(&plan.uplink)?).then_some(plan.uplink))
    }

    fn managers(&self) -> Managers<'_> {
        Managers::new(self.root, self.programs)
    }

    /// Has programs that set addresses leave the uplink alone, whose addresses are on `vhost0` now.
    fn release(&self, facts: &HostFacts, uplink: &str) -> Result<(), Error> {
        // Several keep their addresses, and who sets them.
        if self.wanted.multihomed {
            return Ok(());
        }
        let not_asked =
            |error| Error::NotAsked { done: "vhost0 has the place of the interface", uplink: uplink.into(), error };
        self.managers().release(facts, uplink).map(drop).map_err(not_asked)
    }

    /// Lets programs set up the uplink again, which has its addresses back.
    fn give_back(&self, facts: &HostFacts, uplink: Option<&str>) -> Result<(), Error> {
        let name = || uplink.unwrap_or("the interface").to_owned();
        let not_asked = |error| Error::NotAsked { done: "the interface has its place back", uplink: name(), error };
        self.managers().give_back(facts, uplink).map_err(not_asked)
    }

    fn is_attached(&mut self, uplink: &str) -> Result<bool, Error> {
        self.data_path.is_attached(uplink).map_err(Error::DataPath)
    }

    fn unusable(&self, error: journal::Error) -> Error {
        Error::Journal { path: self.journal.to_owned(), error }
    }

    fn forget(&self) -> Result<(), Error> {
        self.forget_module()?;
        atomic::remove(self.journal).map_err(|error| self.unusable(error.into()))
    }

    fn lock(&self) -> Result<File, Error> {
        match journal::lock(self.journal) {
            Ok(Some(lock)) => Ok(lock),
            Ok(None) => Err(Error::Busy),
            Err(error) => Err(self.unusable(error.into())),
        }
    }
}

/// Takes the CNI configuration and program away. `forced`: also where pods use them. Out: paths that are gone.
///
/// # Errors
/// When pods use them, and when a file cannot be removed.
pub fn remove_cni(root: &Root, wanted: &Wanted, forced: bool) -> Result<Vec<String>, Error> {
    let users: Vec<String> = pods(root).collect();
    if !forced && !users.is_empty() {
        return Err(Error::InUse(users));
    }
    cni::remove(root, wanted).map_err(Error::Cni)
}

/// Pods of the vRouter's network, for people.
pub(crate) fn pods(root: &Root) -> impl Iterator<Item = String> {
    let pods = cni::pods(root);
    let named = pods.first().map(|first| {
        let more = if pods.len() > 1 { format!(" and {} more", pods.len() - 1) } else { String::new() };
        format!("ports of pod {first}{more} ({})", cni::PORTS)
    });
    named.into_iter()
}

/// Whether it takes a TCP connection.
pub(crate) fn answers(peer: &SocketAddr) -> bool {
    TcpStream::connect_timeout(peer, ANSWER).is_ok()
}
