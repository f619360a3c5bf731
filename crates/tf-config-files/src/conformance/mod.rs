//! The writers and readers against the parsers they are made for, where those are installed: Python's `configparser`, PyYAML,
//! `java.util.Properties`, Node.js and the shell. Each test starts one process for all its cases. A test whose parser is not installed
//! says so in a line that begins with `SKIP` on standard error and in the file `TF_TEST_SKIPS`, from which
//! `cargo xtask test` counts it as skipped.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::process::{Command, Stdio};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use super::{EnvFile, Ini, Js, Properties, Settings as _, env, hostile, read, yaml};

/// The same examples on every run.
fn examples<S: Strategy>(count: usize, strategy: S) -> Vec<S::Value> {
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

/// The examples that can be written, with what was written. A test on too few of them would show nothing.
fn written<T, E>(examples: Vec<T>, write: impl Fn(&T) -> Result<String, E>) -> (Vec<T>, Vec<String>) {
    let total = examples.len();
    let written: (Vec<T>, Vec<String>) =
        examples.into_iter().filter_map(|example| write(&example).ok().map(|text| (example, text))).unzip();
    assert!(written.0.len() * 4 > total, "only {} of {total} examples could be written", written.0.len());
    written
}

/// What the program prints for the input; none, and a visible line, when it is not installed (status 77 says so too).
fn ask(command: &mut Command, input: String) -> Option<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let skip = |what: &str| {
        let line = format!("{}: {what} is not installed\n", std::thread::current().name().unwrap_or_default());
        // Not `eprint!`, which the test harness captures.
        write!(std::io::stderr(), "SKIP {line}").unwrap();
        if let Some(file) = std::env::var_os("TF_TEST_SKIPS") {
            File::options().append(true).open(file).unwrap().write_all(line.as_bytes()).unwrap();
        }
        None
    };
    let mut child = match command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() {
        Err(error) if error.kind() == ErrorKind::NotFound => return skip(&program),
        child => child.unwrap(),
    };
    let mut stdin = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    // A program that found something missing ends before it has read everything.
    let fed = feeder.join().unwrap();
    if output.status.code() == Some(77) {
        return skip(&format!("a module of {program}"));
    }
    assert!(output.status.success(), "{program}: {}", output.status);
    fed.unwrap();
    Some(String::from_utf8(output.stdout).unwrap())
}

fn python<T: serde::de::DeserializeOwned>(script: &str, texts: &[String]) -> Option<Vec<T>> {
    let input = serde_json::to_string(texts).unwrap();
    let output = ask(Command::new("python3").args(["-c", script]).env("PYTHONIOENCODING", "utf-8"), input)?;
    Some(serde_json::from_str(&output).unwrap())
}

type Sections = BTreeMap<String, BTreeMap<String, String>>;

const CONFIGPARSER: &str = include_str!("configparser.py");

#[test]
fn configparser_reads_back_what_the_writer_wrote() {
    let (contents, texts) = written(examples(1000, hostile::sections()), |content| {
        let mut file = Ini::python("f");
        for (section, keys) in content {
            for (key, value) in keys {
                file.section(section).set(key, value);
            }
        }
        file.render()
    });
    let Some(parsed) = python::<Option<Sections>>(CONFIGPARSER, &texts) else { return };
    for ((content, text), parsed) in contents.into_iter().zip(texts).zip(parsed) {
        assert_eq!(parsed, Some(content), "{text:?}");
    }
}

#[test]
fn configparser_and_our_reader_agree_on_any_text() {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "[S]\n",
            "[T]\n",
            "[DEFAULT]\n",
            "[",
            "]",
            "a = 1\n",
            "b: 2\n",
            "A = x\n",
            "a",
            "B",
            "=",
            ":",
            " ",
            "\t",
            "  c\n",
            "%(a)s",
            "%(B)s",
            "%%",
            "%",
            "%()s",
            "#",
            ";",
            "\n",
            "\n\n",
            "\r",
            "\r\n",
            "\u{1c}",
            "\u{a0}",
            "\u{2028}",
            "é",
            "Σ",
        ])
        .prop_map(str::to_owned),
        "[a-c]{1,2} ?[=:] ?[a-c%()]{0,4}\n",
    ];
    let soup = (prop::bool::weighted(0.8), vec(piece, 0..10))
        .prop_map(|(section, pieces)| if section { "[S]\n" } else { "" }.to_owned() + &pieces.concat());
    let texts = examples(4000, soup);
    let ours: Vec<_> = texts.iter().map(|text| read::python(text).ok()).collect();
    let accepted = ours.iter().filter(|parsed| parsed.as_ref().is_some_and(|sections| !sections.is_empty())).count();
    assert!(accepted > 500, "only {accepted} texts are accepted");
    let Some(parsed) = python::<Option<Sections>>(CONFIGPARSER, &texts) else { return };
    for ((text, ours), parsed) in texts.into_iter().zip(ours).zip(parsed) {
        assert_eq!(ours, parsed, "{text:?}");
    }
}

#[test]
fn pyyaml_reads_back_what_the_writer_wrote() {
    let mut documents = examples(500, hostile::document());
    // Every trap once as a value and once as a key, whatever the examples hold.
    documents.push(hostile::YAML_TRAPS.iter().map(|&text| (text.to_owned(), text)).collect());
    let (documents, texts) = written(documents, |document| yaml::render("f", document));
    let Some(parsed) = python::<serde_json::Value>(include_str!("pyyaml.py"), &texts) else { return };
    for ((document, text), parsed) in documents.into_iter().zip(texts).zip(parsed) {
        assert_eq!(parsed, document, "{text:?}");
    }
}

/// What `java.util.Properties` makes of texts in Latin-1.
fn java(texts: &[String]) -> Option<Vec<Option<BTreeMap<String, String>>>> {
    // A runtime environment alone cannot start a source file.
    ask(Command::new("javac").arg("-version"), String::new())?;
    let mut input = String::new();
    for text in texts {
        let latin1: Vec<u8> = text.chars().map(|c| u8::try_from(c).unwrap()).collect();
        writeln!(input, "{}", BASE64_STANDARD.encode(latin1)).unwrap();
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/conformance/PropertiesReader.java");
    let output = ask(Command::new("java").args(["-XX:TieredStopAtLevel=1", source]), input)?;
    let decode = |word: &str| String::from_utf8(BASE64_STANDARD.decode(&word[1..]).unwrap()).unwrap();
    let settings = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        (line != "error").then(|| words.chunks(2).map(|pair| (decode(pair[0]), decode(pair[1]))).collect())
    };
    Some(output.lines().map(settings).collect())
}

#[test]
fn java_reads_back_what_the_writer_wrote_and_agrees_with_our_reader_on_any_text() {
    let (contents, mut texts) = written(examples(1000, btree_map(hostile::text(), hostile::text(), 0..4)), |content| {
        let mut file = Properties::java("f");
        for (key, value) in content {
            file.set(key, value);
        }
        file.render()
    });
    let piece = prop::sample::select(vec![
        "a", "b", "=", ":", " ", "\t", "\u{c}", "#", "!", "\\", "\\\\", "\n", "\\\n", "\r", "\r\n", "\\n", "\\u0041",
        "\\u00e9", "\\u4", "é", "\u{85}", "\u{a0}", "a=1\n", "b 2\n",
    ]);
    // The last line is there because Java treats a continuation that the end of the file cuts off differently for different
    // line ends.
    texts.extend(examples(4000, vec(piece, 0..10).prop_map(|pieces| pieces.concat() + "\nz=1\n")));

    let Some(parsed) = java(&texts) else { return };
    assert_eq!(parsed.len(), texts.len());
    for (content, parsed) in contents.into_iter().zip(&parsed) {
        assert_eq!(parsed, &Some(content));
    }
    for (text, parsed) in texts.iter().zip(parsed) {
        assert_eq!(read::properties(text).ok(), parsed, "{text:?}");
    }
}

#[test]
fn a_shell_reads_back_what_the_writer_wrote_and_agrees_with_our_reader() {
    let (_, mut texts) = written(examples(500, btree_map("TF_[A-C]", hostile::text(), 0..4)), |content| {
        let mut file = EnvFile::new("f");
        for (name, value) in content {
            file.set(name, value);
        }
        file.render()
    });
    let piece = prop_oneof![
        4 => r#"TF_[A-C]=('[a$ "`\\\nс#]{0,3}'|\\'){1,3}\n"#,
        1 => "# [a'$]{0,3}\n|\n",
        1 => prop::sample::select(vec!["TF_A=", "TF_A=a\n", "'", "\\'", "\\", "\n", " ", "#", "\""]).prop_map(str::to_owned),
    ];
    texts.extend(examples(2000, vec(piece, 0..5).prop_map(|pieces| pieces.concat())));
    let parsed: Vec<(String, BTreeMap<String, String>)> =
        texts.into_iter().filter_map(|text| env::parse(&text).ok().map(|variables| (text, variables))).collect();
    let several = parsed.iter().filter(|(_, variables)| variables.len() > 1).count();
    assert!(several > 300, "only {several} files with several variables");

    let mut script = String::new();
    let mut expected = String::new();
    for (text, variables) in &parsed {
        script += "unset TF_A TF_B TF_C\n";
        script += text;
        script += "\nprintf '%s\\0' \"${TF_A-unset}\" \"${TF_B-unset}\" \"${TF_C-unset}\"\n";
        for name in ["TF_A", "TF_B", "TF_C"] {
            expected += variables.get(name).map_or("unset", String::as_str);
            expected.push('\0');
        }
    }
    let Some(output) = ask(&mut Command::new("sh"), script) else { return };
    let output: Vec<_> = output.split('\0').collect();
    let expected: Vec<_> = expected.split('\0').collect();
    assert_eq!(output.len(), expected.len());
    for (index, (output, expected)) in output.iter().zip(expected).enumerate() {
        assert_eq!(*output, expected, "{:?}", parsed.get(index / 3));
    }
}

/// Reads texts as a JSON list, answers with what Node.js has each export.
const NODE: &str = "const texts = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const read = text => { const module = {}; new Function('module', text)(module); return module.exports; };
process.stdout.write(JSON.stringify(texts.map(read)));";

#[test]
fn node_reads_back_what_the_writer_wrote() {
    let values = vec("[\\s\\S]{0,20}|['\"\\\\`$\u{2028}\u{2029}\n<>/!-]{1,20}", 1..4);
    let (examples, texts) = written(examples(200, values), |values| {
        let mut file = Js::new("config.global.js", "config");
        file.set("a.b.list", values.clone()).set("text", values[0].as_str()).set("a.c", true).set("port", 8143).render()
    });
    let input = serde_json::to_string(&texts).unwrap();
    let Some(output) = ask(Command::new("node").args(["-e", NODE]), input) else { return };
    let exported: Vec<serde_json::Value> = serde_json::from_str(&output).unwrap();
    assert_eq!(exported.len(), examples.len());
    for (values, exported) in examples.iter().zip(exported) {
        let wanted = serde_json::json!({"a": {"b": {"list": values}, "c": true}, "text": values[0], "port": 8143});
        assert_eq!(exported, wanted);
    }
}
