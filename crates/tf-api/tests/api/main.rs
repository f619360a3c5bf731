//! What the API promises: a superset of the Go tf-operator's, schemas that an API server takes and tools understand, and
//! Rust types that agree with them. `testdata/` holds the outside inputs.

#[cfg(test)]
mod invariants;
#[cfg(test)]
mod real_objects;
#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod structure;
#[cfg(test)]
mod superset;
#[cfg(test)]
mod support;
#[cfg(test)]
mod validation;
