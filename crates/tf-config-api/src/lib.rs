//! Objects of Tungsten Fabric's config API, as decisions.
//!
//! What shall be there is a list of [records](record). From that and from what the API lists comes a [decision](decide) with [calls](call). What
//! people changed stays ([`merge`]), and what another owner has is known by what it lacks ([`mark`]). [`types`] has the types of objects that operators
//! register.

pub mod call;
pub mod decide;
pub mod mark;
pub mod merge;
pub mod record;
#[cfg(test)]
mod tests;
pub mod types;
