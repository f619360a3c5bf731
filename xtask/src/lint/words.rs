//! Words that the glossary replaces: how often each file has them may only fall.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use anyhow::{Context as _, Result};

use super::tracked;

/// Words for which Kubernetes, the stores' manuals and Tungsten Fabric have others (`docs/contributing/glossary.md`): programs report, log and set
/// conditions; pods are recreated and processes restarted; a sentence names its subject.
const WORDS: [&str; 12] = [
    "told",
    "tell",
    "tells",
    "telling",
    "hear",
    "hears",
    "heard",
    "anew",
    "nobody",
    "somebody",
    "whoever",
    "estranged",
];
/// Files with words: sources and pages, without those that quote or list the words.
const FILES: [&str; 5] = ["crates/**/*.rs", "e2e/**/*.rs", "xtask/**/*.rs", "docs/**/*.md", "*.md"];
const EXEMPT: [&str; 4] =
    ["docs/history/", "docs/contributing/glossary.md", "docs/contributing/style.md", "xtask/src/lint/"];
/// How often each file may have them: a line each, number and path.
const ALLOWED: &str = "xtask/src/lint/words.txt";

type Counts = BTreeMap<String, usize>;

/// Files that have more of the words than they may, for people. Where some have fewer, what they may have is lowered in the list, and that is said.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let path = root.join(ALLOWED);
    let allowed = parse(&fs::read_to_string(&path).with_context(|| ALLOWED)?)?;
    let counts = count(root)?;
    let lowered = lower(&allowed, &counts);
    if lowered != allowed {
        fs::write(&path, text(&lowered))?;
        println!("{ALLOWED} is lower now; commit it");
    }
    Ok(more(&allowed, &counts))
}

fn more(allowed: &Counts, counts: &Counts) -> Vec<String> {
    let line = |(file, count): (&String, &usize)| {
        let most = allowed.get(file).copied().unwrap_or_default();
        let words = WORDS.join(", ");
        (*count > most).then(|| {
            format!("{file} has {count} of the words that the glossary replaces, and may have {most} ({words})")
        })
    };
    counts.iter().filter_map(line).collect()
}

/// No file may have more than it had, and none that has fewer may have more again.
fn lower(allowed: &Counts, counts: &Counts) -> Counts {
    let least = |(file, most): (&String, &usize)| {
        let count = counts.get(file).copied().unwrap_or_default().min(*most);
        (count > 0).then(|| (file.clone(), count))
    };
    allowed.iter().filter_map(least).collect()
}

fn count(root: &Path) -> Result<Counts> {
    let mut counts = Counts::new();
    for (file, text) in tracked(root, &FILES, &EXEMPT)? {
        let count = occurrences(&text);
        if count > 0 {
            counts.insert(file, count);
        }
    }
    Ok(counts)
}

/// Names in code are words, too: `was_told` has one.
fn occurrences(text: &str) -> usize {
    let words = text.split(|c: char| !c.is_ascii_alphabetic());
    words.filter(|word| WORDS.iter().any(|banned| word.eq_ignore_ascii_case(banned))).count()
}

fn parse(text: &str) -> Result<Counts> {
    let line = |line: &str| {
        let (count, file) = line.split_once(' ').with_context(|| format!("{line:?} is not a number and a path"))?;
        Ok((file.to_owned(), count.parse()?))
    };
    text.lines().map(line).collect()
}

fn text(counts: &Counts) -> String {
    counts.iter().fold(String::new(), |mut text, (file, count)| {
        let _ = writeln!(text, "{count} {file}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(all: &[(&str, usize)]) -> Counts {
        all.iter().map(|(file, count)| ((*file).to_owned(), *count)).collect()
    }

    #[test]
    fn words_count_in_prose_and_in_names() {
        assert_eq!(occurrences("// It is told anew, and Nobody hears.\nfn was_told(retold: u8) {}"), 5);
        assert_eq!(occurrences("storytelling, toldness"), 0);
    }

    #[test]
    fn a_file_that_has_more_is_named_and_one_that_has_fewer_may_not_have_more_again() {
        let allowed = counts(&[("a", 2), ("b", 3), ("gone", 1)]);
        let now = counts(&[("a", 3), ("b", 1), ("new", 1)]);
        let named: Vec<String> =
            more(&allowed, &now).iter().map(|it| it.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(named, ["a has 3", "new has 1"]);
        assert_eq!(lower(&allowed, &now), counts(&[("a", 2), ("b", 1)]));
        assert_eq!(parse(&text(&allowed)).unwrap(), allowed);
    }
}
