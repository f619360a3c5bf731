//! Replacing the authority while members run: a pure state machine over what is observed.
//!
//! Three steps, each taken when the facts allow it: [`Step::TrustBoth`] makes every member trust the next authority too,
//! [`Step::IssueFromNew`] lets it sign, [`Step::DropOld`] ends the trust in the one before. Throughout, **every member trusts
//! the issuer of every certificate that another one holds**. Daemons of Tungsten Fabric read certificates at their start
//! only (docs/upstream/daemons.md#certificates), so each step is followed by a rolling restart; what counts is what daemons have loaded.
//!
//! The facts may be late but must not flatter:
//! - every holder of a certificate that has not expired is listed, members of all components and operators alike;
//! - `loaded` may lag behind what a member has loaded, and never leads; it never falls while the member lives;
//! - `leaves` names the issuers of everything the member holds or may still pick up; too many is safe, too few is not.
//!
//! And who signs reads the [`State`] from the API server right before, asks [`State::issuer_for`], and lists the certificate
//! in the facts from then on.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{fingerprint::Fingerprint, lifetime::Validity};

/// What is kept with the authorities' keys, in the same object so that both change in one write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// Number of the published bundle; rises by one whenever the bundle changes.
    pub revision: u64,
    /// The authority that signs.
    pub current: Introduced,
    /// What is under way.
    pub stage: Stage,
    /// The user's request that was carried out last, see [`Wish::request`].
    pub handled: Option<String>,
}

/// An authority and the first bundle that had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Introduced {
    /// Which authority.
    pub authority: Fingerprint,
    /// Revision of the bundle; it is in all bundles from this one until it is dropped.
    pub since: u64,
}

/// What is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stage {
    /// Nothing: one authority is trusted, and signs.
    Settled,
    /// Members learn to trust the next authority; the current one signs.
    TrustBoth {
        /// The next authority.
        next: Introduced,
    },
    /// Members get certificates of the new authority; the previous one is still trusted.
    IssueFromNew {
        /// The previous authority.
        previous: Fingerprint,
    },
}

/// Somebody who holds certificates or waits for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participant {
    /// Name, for messages.
    pub name: String,
    /// Whether it runs. One that does not counts until its certificates have expired; one that does counts always, for the clock
    /// by which they have expired may be wrong.
    pub running: bool,
    /// Revision of the bundle that all its daemons have loaded; 0 for none.
    pub loaded: u64,
    /// Issuers of the certificates it holds or may still pick up, with the end of the latest of each.
    pub leaves: BTreeMap<Fingerprint, Timestamp>,
}

impl Participant {
    /// Whether others may meet it with a certificate.
    fn counts(&self, now: Timestamp) -> bool {
        !self.leaves.is_empty() && (self.running || self.leaves.values().any(|end| *end >= now))
    }
}

/// What the user and the clock want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Where authorities come from.
    pub source: Source,
    /// A text by which the user asks for a rotation; a new text is a new request.
    pub request: Option<String>,
}

/// Where authorities come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// They are generated; the current one is good for so long.
    Generated(Validity),
    /// The user supplies this one, and another when it ends.
    Supplied(Fingerprint),
}

/// Why a rotation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The user asked for it.
    Requested,
    /// The user supplies another authority.
    Supplied,
    /// Two thirds of the authority's life are over.
    Age,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing; look again after this time, by a monotonic clock.
    Rest(Duration),
    /// Generate an authority, or take the supplied one, and store it with [`State::trust_both`].
    TrustBoth(Cause),
    /// The next authority is not wanted any more and nothing was signed by it: [`State::abandon`].
    Abandon,
    /// Let the next authority sign: [`State::issue_from_new`].
    IssueFromNew,
    /// End the trust in the previous authority: [`State::drop_old`].
    DropOld,
    /// These have to do something first.
    Wait(Waiting),
}

/// What a rotation waits for; names in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Until these have loaded the bundle with both authorities.
    ToTrust(Vec<String>),
    /// Until these use a certificate of the new authority.
    ToRenew(Vec<String>),
}

/// Nobody signs for a participant that does not yet trust the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bundle {loaded} is loaded; bundle {needed} is needed to trust the others")]
pub struct Behind {
    /// What is loaded.
    pub loaded: u64,
    /// What is needed.
    pub needed: u64,
}

impl State {
    /// The beginning: one authority and no member.
    pub fn founded(authority: Fingerprint, request: Option<String>) -> Self {
        let current = Introduced { authority, since: 1 };
        Self { revision: 1, current, stage: Stage::Settled, handled: request }
    }

    /// The authorities to publish, the one that signs first.
    pub fn trusted(&self) -> Vec<Fingerprint> {
        let other = match self.stage {
            Stage::Settled => None,
            Stage::TrustBoth { next } => Some(next.authority),
            Stage::IssueFromNew { previous } => Some(previous),
        };
        [self.current.authority].into_iter().chain(other).collect()
    }

    /// The authority that signs for a participant which has loaded a bundle: only one that trusts whatever others hold.
    pub fn issuer_for(&self, loaded: u64) -> Result<Fingerprint, Behind> {
        if loaded < self.current.since {
            return Err(Behind { loaded, needed: self.current.since });
        }
        Ok(self.current.authority)
    }

    /// After [`Step::TrustBoth`]: `next` is trusted too. A supplied authority that signs already, or is about to, changes nothing
    /// but the request that is taken as carried out.
    #[must_use]
    pub fn trust_both(&self, next: Fingerprint, request: Option<String>) -> Self {
        let mut state = Self { handled: request, ..self.clone() };
        if self.stage == Stage::Settled && next != self.current.authority {
            state.revision += 1;
            state.stage = Stage::TrustBoth { next: Introduced { authority: next, since: state.revision } };
        }
        state
    }

    /// After [`Step::Abandon`].
    #[must_use]
    pub fn abandon(&self) -> Self {
        match self.stage {
            Stage::TrustBoth { .. } => Self { revision: self.revision + 1, stage: Stage::Settled, ..self.clone() },
            _ => self.clone(),
        }
    }

    /// After [`Step::IssueFromNew`]. The bundle has the same authorities in another order and keeps its number.
    #[must_use]
    pub fn issue_from_new(&self) -> Self {
        match self.stage {
            Stage::TrustBoth { next } => {
                let stage = Stage::IssueFromNew { previous: self.current.authority };
                Self { current: next, stage, ..self.clone() }
            }
            _ => self.clone(),
        }
    }

    /// After [`Step::DropOld`].
    #[must_use]
    pub fn drop_old(&self) -> Self {
        match self.stage {
            Stage::IssueFromNew { .. } => Self { revision: self.revision + 1, stage: Stage::Settled, ..self.clone() },
            _ => self.clone(),
        }
    }

    /// What to do next.
    pub fn next(&self, participants: &[Participant], wish: &Wish, now: Timestamp) -> Step {
        let names = |hinders: &dyn Fn(&&Participant) -> bool| {
            let counting = participants.iter().filter(|participant| participant.counts(now));
            let mut names: Vec<String> = counting.filter(hinders).map(|participant| participant.name.clone()).collect();
            names.sort();
            names
        };
        match self.stage {
            Stage::Settled => self.begin(wish, now),
            Stage::TrustBoth { next } if !wish.source.allows(next.authority) => Step::Abandon,
            Stage::TrustBoth { next } => {
                let untrusting = names(&|participant| participant.loaded < next.since);
                if untrusting.is_empty() { Step::IssueFromNew } else { Step::Wait(Waiting::ToTrust(untrusting)) }
            }
            Stage::IssueFromNew { .. } => {
                let current = self.current.authority;
                let old = names(&|participant| participant.leaves.keys().any(|issuer| *issuer != current));
                if old.is_empty() { Step::DropOld } else { Step::Wait(Waiting::ToRenew(old)) }
            }
        }
    }

    fn begin(&self, wish: &Wish, now: Timestamp) -> Step {
        match wish.source {
            Source::Supplied(authority) if authority != self.current.authority => Step::TrustBoth(Cause::Supplied),
            Source::Generated(_) if wish.request.is_some() && wish.request != self.handled => {
                Step::TrustBoth(Cause::Requested)
            }
            // An authority that begins later says that a clock is or was wrong: another would not help.
            Source::Generated(validity) if now >= validity.not_before && now >= due(validity) => {
                Step::TrustBoth(Cause::Age)
            }
            Source::Generated(_) | Source::Supplied(_) => Step::Rest(crate::lifetime::LONGEST_WAIT),
        }
    }
}

impl Source {
    /// Whether an authority that is being introduced is still the wanted one.
    fn allows(self, next: Fingerprint) -> bool {
        match self {
            Self::Generated(_) => true,
            Self::Supplied(wanted) => next == wanted,
        }
    }
}

/// When a generated authority is replaced: the last third of its life is for the rotation and for the certificates it signed.
fn due(validity: Validity) -> Timestamp {
    let length: SignedDuration = validity.length();
    validity.not_before + length * 2 / 3
}
