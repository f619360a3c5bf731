//! Identity of members: what a certificate must say, who may have it, who signs it, how long it lasts, and how the authority
//! behind all of them is replaced while they run.
//!
//! Decisions are pure functions over plain facts: no Kubernetes, no clock, no environment; time is a parameter. Randomness is
//! drawn where keys, serial numbers and stores are made, and nowhere else. The node agent uses [`member`], [`accept`],
//! [`lifetime`], [`bundle`] and [`stores`]; operators use [`review`], [`authority`], [`lifetime`] and [`rotation`].

pub mod accept;
pub mod authority;
pub mod bundle;
pub mod certificate;
pub mod csr;
pub mod fingerprint;
pub mod key;
pub mod key_file;
pub mod lifetime;
pub mod member;
pub mod name;
pub mod review;
pub mod rotation;
pub mod stores;
