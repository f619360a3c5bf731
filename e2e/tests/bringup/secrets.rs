//! Secret values are in Secrets and in files of pods, and nowhere that somebody reads who may not read Secrets.

use anyhow::{Result, ensure};
use tf_testing::{Entry, operators};

use crate::story::{CHOSEN, Page, Story, story, user};

/// Values with what they are and the kinds whose `spec` the user wrote them into.
fn values(story: &Story) -> Vec<(&str, &str, &'static [&'static str])> {
    let chosen = CHOSEN.iter().map(|(value, kinds)| (*value, *value, *kinds));
    let none: &'static [&'static str] = &[];
    chosen.chain(story.generated.iter().map(|(value, place)| (value.as_str(), place.as_str(), none))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_value_is_anywhere_but_in_secrets() -> Result<()> {
    let story = story().await?;
    // Key stores of two rings, and what was made for RabbitMQ beside what the user gave.
    ensure!(story.generated.len() >= 3, "only {:?} was generated", story.generated.values());
    let mut leaks = Vec::new();
    for (value, what, stated) in values(story) {
        let spread = |page: &&Page| page.text.contains(value) && !stated.contains(&page.kind.as_str());
        leaks.extend(story.pages.iter().filter(spread).map(|page| format!("{what} is in {}", page.name)));
    }
    leaks.sort();
    leaks.dedup();
    ensure!(leaks.is_empty(), "{}", leaks.join("\n"));
    Ok(())
}

/// Where the user wrote it, and only in the part that the user writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_a_user_put_into_a_spec_does_not_come_back_in_the_status() -> Result<()> {
    let story = story().await?;
    let mut seen = 0;
    for (value, _, stated) in values(story).into_iter().filter(|(_, _, stated)| !stated.is_empty()) {
        for page in story.pages.iter().filter(|page| stated.contains(&page.kind.as_str()) && page.text.contains(value))
        {
            let object: serde_json::Value = serde_json::from_str(&page.text)?;
            let rest = [&object["status"], &object["metadata"]["annotations"], &object["metadata"]["labels"]];
            ensure!(rest.iter().all(|part| !part.to_string().contains(value)), "{value} is in {}", page.name);
            seen += 1;
        }
    }
    // What the scan looks for can be found: the user's own text has it.
    ensure!(seen >= 4, "the values were found only {seen} times in what the user wrote");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_value_is_in_a_request_line() -> Result<()> {
    let story = story().await?;
    for operator in operators::ALL {
        let user = user(operator);
        let told =
            |entry: &&Entry| entry.user == user && values(story).iter().any(|(value, ..)| entry.uri.contains(value));
        ensure!(story.entries.iter().find(told).is_none(), "{operator} asked for a secret by its value");
    }
    Ok(())
}
