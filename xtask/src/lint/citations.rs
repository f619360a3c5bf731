//! What comments cite: a page of this repository, at a heading that it has.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::Result;

use super::tracked;
use crate::test::links::anchors;

/// Papers that are not in this repository, and that its comments cited once.
const PAPERS: [&str; 6] = [
    "tf-components",
    "stateful-services",
    "config-daemons-observed",
    "real-daemons-observed",
    "vrouter-node",
    "cassandra-lab",
];
/// Files with comments.
const FILES: [&str; 3] = ["crates/**/*.rs", "e2e/**/*.rs", "xtask/**/*.rs"];
/// The lists of this check.
const EXEMPT: &str = "xtask/src/lint/";
/// Where cited pages begin.
const PAGES: &str = "docs/";

/// Citations of what is not there, for people.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let (mut lines, mut pages) = (Vec::new(), BTreeMap::new());
    for (file, text) in tracked(root, &FILES, &[EXEMPT])? {
        let papers = PAPERS.iter().filter(|paper| names(&text, paper));
        lines.extend(
            papers.map(|paper| format!("{file}: {paper} is not in this repository; cite a page of docs/upstream")),
        );
        for (page, heading) in cited(&text) {
            let headings: &BTreeSet<String> = pages
                .entry(page.to_owned())
                .or_insert_with(|| fs::read_to_string(root.join(page)).map(|page| anchors(&page)).unwrap_or_default());
            if !headings.contains(heading) {
                lines.push(format!("{file}: {page} has no heading {heading}"));
            }
        }
    }
    Ok(lines)
}

/// Whether a text has a name, and not as the beginning of a longer word.
fn names(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| !text[at + name.len()..].starts_with(char::is_alphanumeric))
}

/// Pages and headings that the comments of a file cite: `docs/PAGE.md#heading`.
fn cited(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let comments = text.lines().filter_map(|line| line.find("//").map(|at| &line[at..]));
    comments.flat_map(|comment| comment.match_indices(PAGES).map(|(at, _)| &comment[at..])).filter_map(|citation| {
        let (page, rest) = citation.split_once('#').filter(|(page, _)| !page.contains(' '))?;
        page.strip_suffix(".md")?;
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && !['-', '_'].contains(&letter));
        Some((page, &rest[..end.unwrap_or(rest.len())]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_are_pages_with_headings_in_comments() {
        let text = "//! A (docs/upstream/cni.md#how-it-is-called, docs/testing.md#long-runs).\nlet a = \"docs/a.md#b\"; // docs/c.md#d_e";
        let found: Vec<_> = cited(text).collect();
        let expected =
            [("docs/upstream/cni.md", "how-it-is-called"), ("docs/testing.md", "long-runs"), ("docs/c.md", "d_e")];
        assert_eq!(found, expected);
        assert_eq!(cited("// docs/adr/0005 and docs/a.md").count(), 0);
        assert!(names("(vrouter-node 1.9)", "vrouter-node") && !names("contrail-vrouter-nodemgr", "vrouter-node"));
    }
}
