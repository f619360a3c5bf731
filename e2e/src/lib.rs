//! What the end-to-end tests in `tests/` share besides `tf_testing`: an operator of their own.

pub mod probe;
