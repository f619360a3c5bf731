//! Links between the documents of this repository lead somewhere.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::generate::walk;

/// Relative links to files, and to places in documents, that do not exist, a line each.
pub fn broken(root: &Path) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for document in documents(root)? {
        let text = read(&document)?;
        let folder = document.parent().unwrap_or(root);
        for (line, target) in links(&text) {
            let (path, place) = target.split_once('#').unwrap_or((target, ""));
            let file = if path.is_empty() { document.clone() } else { folder.join(path) };
            let is_there = file.exists() && (place.is_empty() || anchors(&read(&file)?).contains(place));
            if !is_there {
                broken.push(format!("{}:{line}: {target} does not exist", document.strip_prefix(root)?.display()));
            }
        }
    }
    Ok(broken)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("{}", path.display()))
}

/// Lines of a document outside of blocks of code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        (!in_code && !is_fence).then_some((number, line))
    })
}

/// By what a heading is linked to, as GitHub makes it: lower case, without punctuation, `-` for each space. Of two headings that are the same the
/// first one counts.
pub fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text)
        .filter_map(|(_, line)| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    let anchor = |heading: &str| {
        let letters =
            heading.trim().chars().filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter));
        letters.collect::<String>().to_lowercase().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![root.join("README.md"), root.join("CHANGELOG.md")];
    for folder in ["docs", "charts"] {
        found.extend(walk(&root.join(folder))?);
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    found.sort();
    Ok(found)
}

/// Files of this repository and places in them that a document links to, with the line. Addresses and code are left out.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let pieces = line.split('`').step_by(2);
        let inline = pieces.flat_map(|piece| piece.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
        let defined = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target);
        // Without a title.
        let targets = inline.chain(defined).filter_map(|target| target.split_whitespace().next());
        found.extend(targets.filter(|target| !target.contains(':')).map(|target| (number, target)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_files_are_found_and_nothing_else_is_taken_for_one() {
        let text = "[one](a.md) and [two](../b/c.md#place \"title\"), [`code`](d.md)\n\
                    [web](https://example.org/e.md) [mail](mailto:x@example.org) [here](#place) `[no](f.md)`\n\
                    ```\n[no](g.md)\n```\n\
                    [reference]: h.md\n";
        assert_eq!(links(text), [(1, "a.md"), (1, "../b/c.md#place"), (1, "d.md"), (2, "#place"), (6, "h.md")]);
    }

    #[test]
    fn a_link_to_a_file_or_a_heading_that_does_not_exist_is_named_with_its_place() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("README.md", "[docs](docs), [page](docs/page.md)\n[gone](docs/gone.md)\n");
        write("CHANGELOG.md", "");
        write(
            "docs/page.md",
            "# A `page`: its name\n[readme](../README.md) [from the root](docs/page.md)\n[here](#a-page-its-name) [no](#name)\n",
        );
        write("docs/adr/0001.md", "[page](../page.md#a-page-its-name) [no](../page.md#code)\n```\n# code\n```\n");
        write("charts/one/README.md", "[values](values.yaml)\n");
        write("charts/one/values.yaml", "# [not](a-document.md)\n");
        assert_eq!(
            broken(root.path()).unwrap(),
            [
                "README.md:2: docs/gone.md does not exist",
                "docs/adr/0001.md:1: ../page.md#code does not exist",
                "docs/page.md:2: docs/page.md does not exist",
                "docs/page.md:3: #name does not exist",
            ]
        );
    }
}
