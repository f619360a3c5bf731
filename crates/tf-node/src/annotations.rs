//! The downward API's file of annotations: which content and which certificate the operator wants this pod to run with.

use std::{fs, path::Path};

use tf_agent_api::{content::ContentHash, node::ANNOTATIONS_FILE};
use tf_api::names::{ANNOTATION_ACTIVE_CERTIFICATE, ANNOTATION_ACTIVE_CONFIG};

/// What an annotation says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// There is none.
    Unset,
    /// Exactly this content.
    Content(ContentHash),
    /// It could not be found out, for this reason.
    Unknown(String),
}

/// The annotations of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotations {
    /// Which configuration its daemons shall have.
    pub config: Wanted,
    /// With which certificate and authorities daemons shall start anew that read them then.
    pub certificate: Wanted,
}

impl Annotations {
    /// Reads them.
    pub fn read(pod_info_dir: &Path) -> Self {
        let path = pod_info_dir.join(ANNOTATIONS_FILE);
        match fs::read(&path) {
            Ok(text) => {
                let text = String::from_utf8_lossy(&text);
                let [config, certificate] =
                    [ANNOTATION_ACTIVE_CONFIG, ANNOTATION_ACTIVE_CERTIFICATE].map(|key| wanted(&text, key));
                Self { config, certificate }
            }
            Err(error) => {
                let why = format!("the pod's annotations cannot be read: {}: {error}", path.display());
                Self { config: Wanted::Unknown(why.clone()), certificate: Wanted::Unknown(why) }
            }
        }
    }
}

/// What an annotation in a file of them wants. Lines are `<key>=<value>`, the value in Go's syntax of a quoted string
/// (`fieldpath.FormatMap` of the kubelet), so no value can look like a line of its own.
pub fn wanted(file: &str, annotation: &str) -> Wanted {
    let value = file.lines().find_map(|line| line.strip_prefix(annotation)?.strip_prefix('='));
    let Some(quoted) = value else { return Wanted::Unset };
    // A hash has no character that Go would escape.
    let hash = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).map(str::parse);
    match hash {
        Some(Ok(hash)) => Wanted::Content(hash),
        Some(Err(why)) => Wanted::Unknown(format!("annotation {annotation} {why}")),
        None => Wanted::Unknown(format!("annotation {annotation} is not readable")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn config(file: &str) -> Wanted {
        wanted(file, ANNOTATION_ACTIVE_CONFIG)
    }

    const HASH: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn the_annotation_is_found_among_others() {
        let file = format!("a=\"1\\ntf.tungsten.io/active-config=x\"\ntf.tungsten.io/active-config=\"{HASH}\"\nz=\"\"");
        assert_eq!(config(&file), Wanted::Content(HASH.parse().unwrap()));
    }

    #[test]
    fn without_it_nothing_is_wanted() {
        for file in ["", "\n", "a=\"1\"\n", "tf.tungsten.io/active-config-x=\"1\"\n"] {
            assert_eq!(config(file), Wanted::Unset, "{file}");
        }
    }

    #[test]
    fn what_is_no_hash_is_neither_followed_nor_taken_for_absent() {
        for value in ["", "\"\"", "\"", "\"zz\"", HASH, "\"0123456789abcdef", &format!("\"{HASH}\\n\"")] {
            assert!(matches!(config(&format!("{ANNOTATION_ACTIVE_CONFIG}={value}\n")), Wanted::Unknown(_)), "{value}");
        }
    }

    proptest! {
        #[test]
        fn garbage_wants_nothing(text: String) {
            prop_assert!(!matches!(config(&text), Wanted::Content(_)));
        }
    }
}
