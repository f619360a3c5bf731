//! Each component has a page of its own, on which everybody finds the same things at the same place.

use std::{fs, path::Path};

use anyhow::{Context, Result};

/// Sections of a component's page, in their order. There may be others.
const SECTIONS: [&str; 7] =
    ["What it runs", "Create", "Add or remove a node", "Monitor", "Upgrade", "Delete", "How it works"];
/// The section that shows how the component works.
const WITH_DIAGRAM: &str = "How it works";

/// What the pages of the components lack, a line each. Components are the crates whose names end in `-op`; the page of `a-op` is `docs/a.md`.
pub fn lacking(root: &Path) -> Result<Vec<String>> {
    let mut components = Vec::new();
    for entry in fs::read_dir(root.join("crates"))? {
        let name = entry?.file_name();
        components.extend(name.to_str().and_then(|name| name.strip_suffix("-op")).map(str::to_owned));
    }
    components.sort();
    let mut lacking = Vec::new();
    for component in components {
        let page = format!("docs/{component}.md");
        let path = root.join(&page);
        if path.is_file() {
            let text = fs::read_to_string(path).with_context(|| page.clone())?;
            lacking.extend(of_page(&text).into_iter().map(|what| format!("{page}: {what}")));
        } else {
            lacking.push(format!("{page} does not exist; crates/{component}-op needs it"));
        }
    }
    Ok(lacking)
}

/// What one page lacks.
fn of_page(text: &str) -> Vec<String> {
    let sections: Vec<(&str, &str)> =
        text.split("\n## ").skip(1).map(|section| section.split_once('\n').unwrap_or((section, ""))).collect();
    let place = |title: &str| sections.iter().position(|(found, _)| *found == title);
    let mut lacking = Vec::new();
    for title in SECTIONS {
        match place(title).map(|place| sections[place].1) {
            None => lacking.push(format!("no section {title:?}")),
            Some(body) if body.trim().is_empty() => lacking.push(format!("nothing in section {title:?}")),
            Some(body) if title == WITH_DIAGRAM && !body.contains("```mermaid\n") => {
                lacking.push(format!("no mermaid diagram in section {title:?}"));
            }
            Some(_) => {}
        }
    }
    let places: Vec<usize> = SECTIONS.into_iter().filter_map(place).collect();
    if !places.is_sorted() {
        lacking.push(format!("sections are not in the order {}", SECTIONS.join(", ")));
    }
    lacking
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;

    type Sections = Vec<(&'static str, &'static str)>;
    type Spoil = fn(&mut Sections);

    fn page(sections: &[(&str, &str)]) -> String {
        let sections = sections.iter().map(|(title, body)| format!("\n## {title}\n\n{body}\n"));
        iter::once("# Component\n".to_owned()).chain(sections).collect::<Vec<_>>().concat()
    }

    fn whole() -> Sections {
        let body = |title| if title == WITH_DIAGRAM { "```mermaid\nflowchart LR\n```" } else { "Text." };
        SECTIONS.map(|title| (title, body(title))).into()
    }

    #[test]
    fn a_page_with_all_sections_lacks_nothing_whatever_else_it_has() {
        let mut sections = whole();
        sections.insert(3, ("Certificates", "Text."));
        assert!(of_page(&page(&sections)).is_empty());
    }

    #[test]
    fn what_a_page_lacks_is_told() {
        let cases: [(Spoil, &str); 4] = [
            (|it| it[4].0 = "Changes", r#"no section "Upgrade""#),
            (|it| it[3].1 = "", r#"nothing in section "Monitor""#),
            (|it| it[6].1 = "As drawn elsewhere.", r#"no mermaid diagram in section "How it works""#),
            (
                |it| it.swap(1, 5),
                "sections are not in the order What it runs, Create, Add or remove a node, Monitor, Upgrade, Delete, How it works",
            ),
        ];
        for (spoil, told) in cases {
            let mut sections = whole();
            spoil(&mut sections);
            assert_eq!(of_page(&page(&sections)), [told]);
        }
    }

    #[test]
    fn each_crate_of_an_operator_needs_a_page_and_other_crates_none() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["crates/tf-plan", "crates/kafka-op", "crates/redis-op", "docs"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        fs::write(root.path().join("docs/redis.md"), page(&whole()[1..])).unwrap();
        assert_eq!(
            lacking(root.path()).unwrap(),
            ["docs/kafka.md does not exist; crates/kafka-op needs it", "docs/redis.md: no section \"What it runs\""]
        );
    }
}
