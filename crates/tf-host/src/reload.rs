//! Another kernel module in the place of the loaded one, and the way back.
//!
//! Only where nothing uses the vRouter of the node: the interface gets everything back, the module is taken out of the kernel, the one that `modprobe` finds
//! is loaded, and `vhost0` takes the place of the interface again. Each of these can be the last one that a killed process did: the next `apply` goes on.
//!
//! An installer has replaced the file of the loaded module by then. So a copy of each module that worked is kept beside the journal. Where another one
//! cannot be loaded, or the node is not as it should be with it, the copy is loaded, and the other one is not tried again before the node boots.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    Finding, HostFacts, Root, act, atomic,
    data_path::DataPath,
    facts::{
        boot_id,
        module::{Content, Module},
        network::VHOST0,
    },
    observe,
    preflight::kernel,
    record,
    setup::{Done, Error, Setup, pods},
};

/// File beside the journal: what is to be done about the module.
pub const RECORD: &str = "module.json";
/// File beside the journal: the module that worked last.
const KEPT: &str = "vrouter.ko";

/// What is done about another kernel module than the loaded one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OtherModule {
    /// It is noted.
    #[default]
    Noted,
    /// It takes the place of the loaded one where nothing uses the vRouter.
    Loaded,
    /// Nothing: an agent may be at work.
    Ignored,
}

/// What became of the kernel module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reloaded {
    /// It is the one that was loaded before.
    #[default]
    No,
    /// Another one has taken its place.
    Yes,
    /// Another one does not work, with the cause.
    Failed(String),
    /// It was taken out of the kernel.
    Unloaded,
    /// It stays in the kernel, with the cause.
    Stays(String),
}

/// What is to be done about the module. The agent's `tf-node` reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// Why the loaded one is not as it should be. None: it is.
    pub cause: Option<String>,
    /// Why another one does not work that was tried for this cause.
    pub failed: Option<String>,
    /// Whether another one takes its place at the next `apply`, if nothing uses the vRouter then.
    pub reload: bool,
}

impl Record {
    /// The one of this boot: another one loads the module that `modprobe` finds. One that cannot be read says nothing, since nothing is lost by it.
    pub fn read(path: &Path, root: &Root) -> Self {
        record::read(path, &boot_id(root)).unwrap_or_default()
    }
}

/// Why the loaded module is not as it should be.
fn cause(facts: &HostFacts, findings: &[Finding]) -> Option<String> {
    let causes: Vec<&str> = findings.iter().map(|finding| finding.cause.as_str()).collect();
    (facts.module.loaded.is_some() && !causes.is_empty()).then(|| causes.join(", "))
}

impl<D: DataPath> Setup<'_, D> {
    fn record(&self) -> PathBuf {
        self.journal.with_file_name(RECORD)
    }

    fn reloads(&self) -> bool {
        self.other_module == OtherModule::Loaded
    }

    fn kept(&self) -> PathBuf {
        self.journal.with_file_name(KEPT)
    }

    /// Sets the node up with the module that it should have, where that can be, and else with the one that it had.
    ///
    /// # Errors
    /// Why the node is not set up.
    pub(crate) fn with_present_module(&mut self, facts: HostFacts) -> Result<Done, Error> {
        if self.other_module == OtherModule::Ignored {
            return self.set_up(&facts);
        }
        let taken_out = self.take_module_out(&facts)?;
        let facts = if taken_out.is_some() { observe(self.root) } else { facts };
        let was_loaded = facts.module.loaded.is_some();
        let mut module = match taken_out {
            Some(Ok(())) => Reloaded::Yes,
            Some(Err(why)) => Reloaded::Failed(why),
            None => Reloaded::No,
        };
        let mut done = self.set_up(&facts);
        let is_of_module =
            |error: &&Error| matches!(error, Error::DataPath(_) | Error::Act(act::Error::RolledBack { .. }));
        if let Some(why) = done.as_ref().err().filter(is_of_module).map(ToString::to_string)
            && !was_loaded
            && self.load_kept()
        {
            module = Reloaded::Failed(why);
            done = self.set_up(&observe(self.root));
        }
        let done = done?;
        let is_changed = done.steps > 0 || module != Reloaded::No;
        self.remember(&module, if is_changed { observe(self.root) } else { facts })?;
        Ok(Done { module, ..done })
    }

    /// Takes the loaded module out of the kernel, where another one is to have its place and nothing uses it. None: it stays. The error is why it stays
    /// although nothing uses it.
    fn take_module_out(&mut self, facts: &HostFacts) -> Result<Option<Result<(), String>>, Error> {
        let due = cause(facts, &kernel::loaded(facts, self.wanted)).filter(|_| self.reloads());
        let Some(due) = due else { return Ok(None) };
        let before = Record::read(&self.record(), self.root);
        let was_tried = before.failed.is_some() && before.cause.as_ref() == Some(&due);
        if was_tried || pods(self.root).next().is_some() {
            return Ok(None);
        }
        let users = self.data_path.users().map_err(Error::DataPath)?;
        if !users.is_empty() {
            return Ok(Some(Err(format!("the vRouter still has {}", users.join(", ")))));
        }
        // What keeps it from being loaded, if it is known before.
        let without = HostFacts { module: Module { loaded: None, ..facts.module.clone() }, ..facts.clone() };
        if let Some(finding) = kernel::check(&without, self.wanted).into_iter().find(Finding::blocks) {
            return Ok(Some(Err(finding.to_string())));
        }
        if facts.network.link(VHOST0).is_some() {
            let plan = self.way_back(facts)?;
            match self.take_back(facts, &plan) {
                Err(error @ Error::Act(act::Error::RolledBack { .. })) => return Ok(Some(Err(error.to_string()))),
                result => result?,
            }
        }
        Ok(Some(self.data_path.unload().map_err(|error| error.to_string())))
    }

    /// Has the module that worked last in the place of the one that does not. Whether that was done.
    fn load_kept(&mut self) -> bool {
        let (facts, kept) = (observe(self.root), self.kept());
        let Ok(content) = fs::read(&kept).map(|file| Content::of(&file)) else { return false };
        let present = facts.module.files.first().and_then(|file| file.content.as_ref());
        let suits = content.kernel() == Some(facts.kernel.release.as_str()) && present != Some(&content);
        suits && self.data_path.unload().is_ok() && self.data_path.load(&kept).is_ok()
    }

    /// Notes what is to be done about the module, and keeps a copy of one that works.
    fn remember(&self, module: &Reloaded, facts: HostFacts) -> Result<(), Error> {
        let path = self.record();
        let before = Record::read(&path, self.root);
        let cause = cause(&facts, &kernel::loaded(&facts, self.wanted));
        let failed = match module {
            Reloaded::Failed(why) => Some(why.clone()),
            _ => before.failed.clone().filter(|_| before.cause == cause),
        };
        if cause.is_none() {
            self.keep(&facts)?;
        }
        let record = Record { failed: failed.filter(|_| cause.is_some()), cause, reload: self.reloads() };
        if record == before {
            return Ok(());
        }
        record::write(&path, &facts.kernel.boot_id, &record).map_err(|error| Error::Module { path, error })
    }

    fn keep(&self, facts: &HostFacts) -> Result<(), Error> {
        let Some(file) = facts.module.files.first().filter(|_| facts.module.loaded.is_some()) else { return Ok(()) };
        let Some(content) = file.content.as_ref().filter(|content| content.vermagic.is_some()) else { return Ok(()) };
        let kept = self.kept();
        let has = fs::read(&kept).is_ok_and(|kept| Content::of(&kept) == *content);
        let copied = if has {
            Ok(())
        } else {
            fs::read(self.root.at(&file.path)).and_then(|module| atomic::write(&kept, &module, 0o600))
        };
        copied.map_err(|error| Error::Module { path: kept, error })
    }

    /// Removes what is known of the module.
    pub(crate) fn forget_module(&self) -> Result<(), Error> {
        let remove = |path: PathBuf| atomic::remove(&path).map_err(|error| Error::Module { path, error });
        remove(self.record())?;
        remove(self.kept())
    }

    /// Takes the module out of the kernel after the vRouter has left the node.
    pub(crate) fn leave_module(&mut self) -> Reloaded {
        match self.data_path.unload() {
            Ok(()) => Reloaded::Unloaded,
            Err(error) => Reloaded::Stays(error.to_string()),
        }
    }
}
