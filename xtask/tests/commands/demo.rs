//! `cargo xtask demo`: what it shows of a bring-up, and what it says when there is none.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Write as _},
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use tf_testing::{folder, process};

use crate::{Labs, Outcome, Running};

/// Nothing else of this program competes with a demo whose time is taken.
static DEMO: Mutex<()> = Mutex::new(());

/// From the start of the lab to a Ready Manager and the end of everything, while the other programs of the layer keep both cores busy: 120 and 128 s were seen,
/// issue 3 asks for "well under two minutes" of a demo alone.
const LIMIT: Duration = Duration::from_secs(240);

#[test]
fn the_demo_makes_a_ready_cluster_of_the_example_and_leaves_nothing() {
    let _alone = DEMO.lock().unwrap_or_else(PoisonError::into_inner);
    let labs = Labs::new();
    let begun = Instant::now();
    // As a user runs it: it builds the operators, which `cargo xtask test` has done a moment ago.
    let demo = labs.finish(labs.command(&["demo"]).env_remove("TF_OPERATORS"));
    let took = begun.elapsed();
    assert!(demo.status.success(), "{demo:#?}");

    let rows: Vec<Vec<&str>> = demo.output.lines().map(|line| line.split_whitespace().collect()).collect();
    for (kind, name) in [
        ("Manager", "sdn"),
        ("Cassandra", "configdb1"),
        ("Cassandra", "analyticsdb1"),
        ("Zookeeper", "zookeeper1"),
        ("Rabbitmq", "rabbitmq1"),
        ("Redis", "redis1"),
        ("Config", "config1"),
        ("Vrouter", "vrouter1"),
    ] {
        assert!(rows.iter().any(|row| row.starts_with(&[kind, name, "True"])), "{kind} {name}: {}", demo.output);
        let seen = format!("{kind} {name}");
        let live = |line: &&str| line.contains(" s  ") && line.contains(&seen) && line.contains("READY");
        assert!(demo.output.lines().any(|line| live(&line)), "{seen} was not shown: {}", demo.output);
    }

    let built = Duration::from_secs_f64(number(&demo.output, "built in ").unwrap());
    let ready = number(&demo.output, "Ready after ").unwrap();
    // Not `eprintln!`, which the test harness captures.
    writeln!(
        io::stderr(),
        "the demo took {:.1} s: {built:.0?} of cargo, Ready {ready} s after the apply",
        took.as_secs_f64()
    )
    .unwrap();
    assert!(took.saturating_sub(built) < LIMIT, "{took:?}, {built:?} of them for the build");
    labs.assert_gone();
}

#[test]
fn a_demo_whose_secret_is_missing_fails_and_names_resource_condition_and_secret() {
    let _alone = DEMO.lock().unwrap_or_else(PoisonError::into_inner);
    let labs = Labs::new();
    let manifest = without_its_secret(&labs);
    let demo = labs.run(&["demo", "--manifest", manifest.to_str().unwrap(), "--limit", "5"]);
    assert_eq!(demo.status.code(), Some(1), "{demo:#?}");
    assert!(demo.errors.contains("the Manager was not Ready after 5 s"), "{demo:#?}");
    let told = paragraph(&demo, "Rabbitmq rabbitmq1");
    assert!(told.contains("InputsReady=False SecretNotFound: ") && told.contains("tf/login"), "{told}");
    assert!(!paragraph(&demo, "Manager sdn").is_empty());
    labs.assert_gone();
}

#[test]
fn a_demo_whose_operator_dies_fails_at_once_names_it_and_shows_the_end_of_its_log() {
    let _alone = DEMO.lock().unwrap_or_else(PoisonError::into_inner);
    let labs = Labs::new();
    let manifest = without_its_secret(&labs);
    let arguments = ["demo", "--manifest", manifest.to_str().unwrap(), "--limit", "600"];
    let mut demo = Running(labs.command(&arguments).spawn().unwrap());

    let mut output = String::new();
    let mut lines = BufReader::new(demo.0.stdout.take().unwrap());
    while !output.contains("SecretNotFound") {
        assert!(lines.read_line(&mut output).unwrap() > 0, "it ended early:\n{output}");
    }
    let (folder, _) = folder::list(&labs.root()).unwrap().pop().unwrap();
    let records = process::records(&folder).unwrap();
    let operator = records.iter().find(|record| record.spec.name.contains("zookeeper-op")).unwrap();
    let mut operator = process::Process::adopt(&folder, &operator.spec.name).unwrap();
    let last = operator.tail(1);
    let killed = Instant::now();
    operator.kill().unwrap();

    io::Read::read_to_string(&mut lines, &mut output).unwrap();
    let status = demo.0.wait().unwrap();
    assert!(killed.elapsed() < Duration::from_secs(60), "it waited: {:?}", killed.elapsed());
    let demo = labs.outcome(status, output);
    assert_eq!(demo.status.code(), Some(1), "{demo:#?}");
    assert!(demo.errors.contains("zookeeper-op has ended; its log ends with"), "{demo:#?}");
    assert!(!last.is_empty() && demo.errors.contains(&last), "{last}\n{demo:#?}");
    assert!(paragraph(&demo, "Rabbitmq rabbitmq1").contains("tf/login"), "{demo:#?}");
    labs.assert_gone();
}

/// The example with a RabbitMQ whose password is in a Secret that nobody has made.
fn without_its_secret(labs: &Labs) -> PathBuf {
    const RABBITMQ: &str = "      metadata: {name: rabbitmq1}\n";
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/manager.yaml");
    let example = fs::read_to_string(example).unwrap();
    assert!(example.contains(RABBITMQ), "{example}");
    let spec = "      spec: {serviceConfiguration: {secret: login}}\n";
    let manifest = labs.0.path().join("manager.yaml");
    fs::write(&manifest, example.replace(RABBITMQ, &format!("{RABBITMQ}{spec}"))).unwrap();
    manifest
}

/// What the explanation says about a resource.
fn paragraph<'a>(demo: &'a Outcome, resource: &str) -> &'a str {
    let (_, explanation) = demo.output.split_once("what is not Ready, and why:").unwrap_or_else(|| panic!("{demo:#?}"));
    let mut paragraphs = explanation.split("\n\n");
    paragraphs.find(|paragraph| paragraph.starts_with(resource)).unwrap_or_else(|| panic!("{resource}: {explanation}"))
}

/// The number behind these words.
fn number(output: &str, words: &str) -> Option<f64> {
    output.split_once(words)?.1.split_whitespace().next()?.parse().ok()
}
