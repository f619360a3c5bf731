//! Completes the files that every node completes for itself.
//!
//! This version does not find out what a node's interfaces and addresses are: that comes with the vRouter. A template that
//! asks for them is refused by name rather than written without its lines, which would say "use your default" to the daemon.

use std::cell::Cell;

use anyhow::{Context as _, Result, bail};
use tf_plan::node::template::{self, Local};

/// The completed text.
pub fn complete(file: &str, text: &[u8]) -> Result<Vec<u8>> {
    let text = std::str::from_utf8(text).with_context(|| format!("{file} is no UTF-8 text"))?;
    let unknown: Cell<Option<Local>> = Cell::new(None);
    let filled = template::fill(text, |local| {
        unknown.set(unknown.get().or(Some(local)));
        None
    });
    let filled = filled.with_context(|| file.to_owned())?;
    if let Some(local) = unknown.get() {
        bail!("{file} asks for {local}, which this version of tf-node does not find out");
    }
    Ok(filled.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::complete;

    #[test]
    fn braces_are_completed_and_facts_of_the_node_are_refused_by_name() {
        assert_eq!(complete("a", b"x = {{brace}}\n").unwrap(), b"x = {\n");
        let error = complete("a", b"x = {{node.cidr}}\n").unwrap_err().to_string();
        assert_eq!(error, "a asks for {{node.cidr}}, which this version of tf-node does not find out");
        assert!(complete("a", b"\xff").is_err() && complete("a", b"{").is_err());
    }
}
