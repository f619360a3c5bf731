//! What the end-to-end tests in `tests/` share. Empty on purpose: everything they need so far is in `tf_testing`.
