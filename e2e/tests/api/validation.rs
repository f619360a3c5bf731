//! The examples of good and bad resources in `crates/tf-api/testdata/validation`, judged by the API server itself.

use std::{collections::BTreeSet, fs, path::PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, stream};
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use tf_api::{KindInfo, kinds};
use tf_testing::{manifests::documents, operators};

use crate::support::{Answer, JSON, PARALLEL, collection, defined, get, namespace, send};

/// A file: documents that follow each other, and what is to become of the last one.
struct Example {
    /// `<kind>/<file>`.
    name: String,
    documents: Vec<Value>,
    /// Part of the message with which it is refused; `None` if it is accepted.
    refusal: Option<String>,
}

fn folder() -> PathBuf {
    operators::repository().join("crates/tf-api/testdata/validation")
}

fn examples() -> Result<Vec<Example>> {
    let mut examples = Vec::new();
    for kind in fs::read_dir(folder())?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()? {
        if !kind.is_dir() {
            continue;
        }
        for file in fs::read_dir(&kind)? {
            let file = file?.path();
            let part = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let name = format!("{}/{}", part(&kind), part(&file));
            examples.push(read(&name, &fs::read_to_string(&file)?).context(name)?);
        }
    }
    Ok(examples)
}

fn read(name: &str, text: &str) -> Result<Example> {
    let expected = text.lines().find_map(|line| line.strip_prefix("# expect: "));
    let refusal = match (name.contains("/accept-"), name.contains("/reject-"), expected) {
        (true, false, None) => None,
        (false, true, Some(expected)) => Some(expected.to_owned()),
        _ => bail!("neither accept-*.yaml, nor reject-*.yaml with a line `# expect: `"),
    };
    let documents = documents(text)?;
    ensure!(!documents.is_empty(), "no document");
    Ok(Example { name: name.to_owned(), documents, refusal })
}

/// Creates the first document, replaces it by each further one, and says what is wrong with the verdict on the last.
async fn judge(client: &Client, example: &Example, home: &str) -> Result<()> {
    namespace(client, home, json!({})).await?;
    let kind = example.documents[0]["kind"].as_str().and_then(KindInfo::of).context("not a kind of ours")?;
    let collection = collection(home, kind.plural);
    let mut verdict: Option<Answer> = None;
    for document in &example.documents {
        verdict = Some(match verdict {
            None => {
                send(client, Method::POST, &format!("{collection}?fieldValidation=Strict"), JSON, document.to_string())
                    .await?
            }
            Some(before) => {
                before.accepted().context("before the last document")?;
                let mut document = document.clone();
                document["metadata"]["resourceVersion"] = before.body["metadata"]["resourceVersion"].clone();
                let name = document["metadata"]["name"].as_str().context("no name")?;
                let path = format!("{collection}/{name}?fieldValidation=Strict");
                send(client, Method::PUT, &path, JSON, document.to_string()).await?
            }
        });
    }
    let verdict = verdict.context("no document")?;
    ensure!(verdict.warnings.is_empty(), "warned about: {:?}", verdict.warnings);
    let stored = get(client, &collection).await?.body["items"].as_array().map_or(0, Vec::len);
    match &example.refusal {
        None => {
            verdict.accepted()?;
            ensure!(stored == 1, "{stored} are stored");
        }
        Some(expected) => {
            ensure!(verdict.is_refused(), "was accepted");
            ensure!(verdict.message().contains(expected), "was refused with other words: {}", verdict.message());
            ensure!(stored == usize::from(example.documents.len() > 1), "{stored} are stored");
        }
    }
    Ok(())
}

#[tokio::test]
async fn each_example_is_judged_as_its_name_says() -> Result<()> {
    let lab = defined().await?;
    let client = lab.client().await?;
    let judged = async |(index, example): (usize, Example)| {
        let wrong = judge(&client, &example, &format!("example-{index}")).await.err();
        wrong.map(|error| format!("{}: {error:#}", example.name))
    };
    let examples = stream::iter(examples()?.into_iter().enumerate());
    let wrong: Vec<Option<String>> = examples.map(judged).buffer_unordered(PARALLEL).collect().await;
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn every_kind_has_examples_of_both_verdicts() {
    let examples = examples().unwrap();
    let of = |refused: bool| -> BTreeSet<String> {
        let examples = examples.iter().filter(|example| example.refusal.is_some() == refused);
        examples.filter_map(|example| Some(example.documents[0]["kind"].as_str()?.to_owned())).collect()
    };
    let all: BTreeSet<String> = kinds::ALL.iter().map(|info| info.kind.to_owned()).collect();
    assert_eq!(of(false), all, "accepted");
    assert_eq!(of(true), all, "refused");
}
