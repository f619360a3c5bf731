//! Secret values are in Secrets and in files of pods, and nowhere that somebody reads who may not read Secrets.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use tf_testing::{Entry, operators, secrets::Value};

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
    let places: BTreeSet<&str> = story.generated.values().map(String::as_str).collect();
    let of = |key: &str| places.iter().filter(|place| place.ends_with(key)).count();
    ensure!(of(" keystorePassword") == 2 && of(" truststorePassword") == 2, "of two rings: {places:?}");
    let whole = ["rabbitmq2-secret password", "rabbitmq2-secret salted_password", "rabbitmq2-secret erlang_cookie"];
    ensure!(whole.iter().all(|place| places.contains(place)), "of RabbitMQ: {places:?}");
    let events = story.pages.iter().filter(|page| page.kind == "Event").count();
    let maps = story.pages.iter().filter(|page| page.kind == "ConfigMap" && page.name.contains("former")).count();
    ensure!(events > 20 && maps > 10, "only {events} events and {maps} former ConfigMaps were read");
    let mut logs = story.pages.iter().filter(|page| page.name.starts_with("log of"));
    ensure!(logs.all(|log| log.text.contains("DEBUG")), "an operator did not log all it can");
    let mut leaks = Vec::new();
    for (value, what, stated) in values(story) {
        let value = Value::new(value);
        let spread = |page: &&Page| !stated.contains(&page.kind.as_str()) && value.is_in(&page.text);
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
    let all: Vec<_> = values(story).into_iter().map(|(value, ..)| Value::new(value)).collect();
    for operator in operators::ALL {
        let user = user(operator);
        let told = |entry: &&Entry| entry.user == user && all.iter().any(|value| value.is_in(&entry.uri));
        ensure!(story.entries.iter().find(told).is_none(), "{operator} asked for a secret by its value");
    }
    Ok(())
}
