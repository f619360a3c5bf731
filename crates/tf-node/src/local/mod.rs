//! Completes the files that every node completes for itself.
//!
//! What a node is, the kernel tells ([`host`]); what of that a file asks for is decided in [`facts`]. What cannot be found out is an error
//! that names file and placeholder: without its line a daemon would take a default.

pub mod facts;
pub mod host;

use std::cell::RefCell;

use anyhow::{Context as _, Result, bail};
use tf_agent_api::template;

use self::facts::Facts;

/// The completed text.
///
/// # Errors
/// When the file is not a template, or asks for what the node cannot tell.
pub fn complete(file: &str, text: &[u8], facts: &Facts) -> Result<Vec<u8>> {
    let text = std::str::from_utf8(text).with_context(|| format!("{file} is no UTF-8 text"))?;
    let unknown: RefCell<Option<String>> = RefCell::default();
    let filled = template::fill(text, |local| match facts.value(local) {
        Ok(value) => value,
        Err(why) => {
            unknown.borrow_mut().get_or_insert_with(|| format!("{file} asks for {local}: {why}"));
            None
        }
    });
    let filled = filled.with_context(|| file.to_owned())?;
    if let Some(why) = unknown.take() {
        bail!(why);
    }
    Ok(filled.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::{complete, facts::Facts};

    #[test]
    fn braces_are_completed_and_what_the_node_cannot_tell_is_refused_by_name() {
        let facts = Facts::default();
        assert_eq!(complete("a", b"x = {{brace}}\n", &facts).unwrap(), b"x = {\n");
        let error = complete("a", b"x = {{node.cidr}}\n", &facts).unwrap_err().to_string();
        assert!(error.starts_with("a asks for {{node.cidr}}: no default route"), "{error}");
        assert!(complete("a", b"\xff", &facts).is_err() && complete("a", b"{", &facts).is_err());
    }
}
