//! Links between the documents of this repository lead somewhere.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::generate::walk;

/// Relative links to files that do not exist, a line each.
pub fn broken(root: &Path) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for document in documents(root)? {
        let text = fs::read_to_string(&document).with_context(|| format!("{}", document.display()))?;
        let folder = document.parent().unwrap_or(root);
        for (line, target) in links(&text) {
            if !folder.join(target).exists() {
                broken.push(format!("{}:{line}: {target} does not exist", document.strip_prefix(root)?.display()));
            }
        }
    }
    Ok(broken)
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

/// Files that a document links to, with the line. Addresses, places in the same document and code are left out.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        let prose = line.split('`').step_by(2);
        let inline = prose.flat_map(|piece| piece.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
        let defined = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target);
        for target in inline.chain(defined) {
            // Without a title and a place in the file.
            let target = target.split_whitespace().next().unwrap_or_default().split('#').next().unwrap_or_default();
            if !target.is_empty() && !target.contains(':') {
                found.push((index + 1, target));
            }
        }
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
        assert_eq!(links(text), [(1, "a.md"), (1, "../b/c.md"), (1, "d.md"), (6, "h.md")]);
    }

    #[test]
    fn a_link_to_a_file_that_does_not_exist_is_named_with_its_place() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("README.md", "[docs](docs), [page](docs/page.md)\n[gone](docs/gone.md)\n");
        write("CHANGELOG.md", "");
        write("docs/page.md", "[readme](../README.md) [from the root](docs/page.md)\n");
        write("docs/adr/0001.md", "[page](../page.md)\n");
        write("charts/one/README.md", "[values](values.yaml)\n");
        write("charts/one/values.yaml", "# [not](a-document.md)\n");
        assert_eq!(
            broken(root.path()).unwrap(),
            ["README.md:2: docs/gone.md does not exist", "docs/page.md:1: docs/page.md does not exist"]
        );
    }
}
