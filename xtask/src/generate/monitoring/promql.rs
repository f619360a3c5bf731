//! As much of PromQL as it takes to say which series and labels an expression uses. `promtool` judges the syntax.

use anyhow::{Result, ensure};

/// What an expression uses.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Names of series, with the labels they are selected by.
    pub selectors: Vec<(String, Vec<String>)>,
    /// Labels that results are grouped or matched by.
    pub grouping: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Name(String),
    Text,
    Sign(char),
}

/// Words of the language that are followed by a list of labels.
const GROUPING: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
/// Its other words.
const WORDS: [&str; 6] = ["and", "or", "unless", "bool", "offset", "inf"];

/// Reads an expression.
///
/// # Errors
/// When a string, a bracket or a list does not end.
pub fn read(text: &str) -> Result<Used> {
    let tokens = tokens(text)?;
    let mut used = Used::default();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        let Token::Name(name) = token else { continue };
        let next = tokens.get(at);
        if GROUPING.contains(&name.as_str()) {
            let (labels, end) = list(&tokens, at, '(', ')')?;
            used.grouping.extend(labels);
            at = end;
        } else if WORDS.contains(&name.as_str()) || next == Some(&Token::Sign('(')) || is_duration(name) {
            // A word, a function or a number.
        } else if next == Some(&Token::Sign('{')) {
            let (labels, end) = list(&tokens, at, '{', '}')?;
            used.selectors.push((name.clone(), labels));
            at = end;
        } else if !is_aggregation(&tokens, at) {
            used.selectors.push((name.clone(), Vec::new()));
        }
    }
    Ok(used)
}

/// Whether what stands before this place is an operator like `sum by (...)`.
fn is_aggregation(tokens: &[Token], at: usize) -> bool {
    matches!(tokens.get(at), Some(Token::Name(word)) if word == "by" || word == "without")
}

fn is_duration(name: &str) -> bool {
    name.starts_with(|letter: char| letter.is_ascii_digit())
}

/// Labels of a list that begins here, and where it ends.
fn list(tokens: &[Token], from: usize, open: char, close: char) -> Result<(Vec<String>, usize)> {
    ensure!(tokens.get(from) == Some(&Token::Sign(open)), "no {open}");
    let length = tokens[from..].iter().position(|token| *token == Token::Sign(close));
    let Some(length) = length else { anyhow::bail!("no {close}") };
    let names = tokens[from..from + length].iter().filter_map(|token| match token {
        Token::Name(name) => Some(name.clone()),
        Token::Text | Token::Sign(_) => None,
    });
    Ok((names.collect(), from + length + 1))
}

fn tokens(text: &str) -> Result<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        if letter == '"' {
            ensure!(rest.by_ref().any(|letter| letter == '"'), "a string does not end");
            tokens.push(Token::Text);
        } else if letter.is_ascii_alphanumeric() || letter == '_' {
            let mut name = String::from(letter);
            while let Some(letter) = rest.next_if(|letter| letter.is_ascii_alphanumeric() || "_:.".contains(*letter)) {
                name.push(letter);
            }
            tokens.push(Token::Name(name));
        } else if !letter.is_whitespace() {
            tokens.push(Token::Sign(letter));
        }
    }
    let count = |sign| tokens.iter().filter(|token| **token == Token::Sign(sign)).count();
    for (open, close) in [('(', ')'), ('{', '}'), ('[', ']')] {
        ensure!(count(open) == count(close), "{open} and {close} do not match");
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_labels_and_groups_are_told_from_words_functions_numbers_and_strings() {
        let text = "sum by (a, b) (rate(first_total{c=\"d e{\",f=~\"g\"}[5m])) / on (a) group_left 2.5 * second unless time() > third{} \
                    or max without (h) (fourth offset 1h)";
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let error = read(text).unwrap_err();
        assert_eq!(error.to_string(), "no (", "group_left has its list here");
        let used = read(&text.replace("group_left", "")).unwrap();
        let selectors =
            [("first_total", owned(&["c", "f"])), ("second", vec![]), ("third", vec![]), ("fourth", vec![])];
        assert_eq!(used.selectors, selectors.map(|(name, labels)| (name.to_owned(), labels)));
        assert_eq!(used.grouping, owned(&["a", "b", "a", "h"]));
    }

    #[test]
    fn what_does_not_end_is_refused() {
        for text in ["sum(a", "a{b=\"c}", "sum by a"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
