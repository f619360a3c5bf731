//! Golden tests of planners: `testdata/<situation>/{cr.yaml, observed.yaml}` in, everything the operator would do out.
//!
//! The golden `plan.snap` of one situation of a folder ([`BASES`]) holds the conditions, the rest of the status and every object, Secrets decoded. The goldens of
//! the others hold conditions, status and how their objects differ from that one's. Besides the comparison, the [`invariants`] of every component are checked in
//! every situation.

#![expect(clippy::expect_used, clippy::panic, reason = "a failing golden is a panicking test")]

use std::{fmt::Write as _, fs, net::IpAddr, path::Path};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};
use tf_api::{
    Managed,
    contract::{self, Contract},
};
use tf_config_api::decide::decide;
use tf_plan::{
    assess::{Applied, Inputs, Outcome, assess},
    component::Component,
    not_ready::NotReady,
    object::{CONFIG_MAP, SECRET},
    observed::Observed,
    plan::Plan,
    procedure::AgentReport,
    registration::{self, Progress, Registration},
    step::Step,
};

use crate::invariants::{self, security};

/// The situations that others are compared with: of each folder the first that it has.
const BASES: [&str; 4] = [
    "three-nodes",
    "three-nodes-without-analytics",
    "three-nodes-with-a-database-and-alarms",
    "manifest-of-the-go-tf-operator",
];
/// Lines that are shown around one that differs.
const AROUND: usize = 1;

/// Runs every situation below `testdata` of a crate. `root` is the crate's folder.
///
/// # Panics
/// When a situation cannot be read, differs from its golden, or breaks a law.
pub fn check<C: Component>(root: &str) {
    security::no_exception_is_unused(C::declaration().operator, &plans::<C>(&Path::new(root).join("testdata")));
}

/// Runs every situation in a folder, for a crate with several kinds. What was planned.
///
/// # Panics
/// As [`check`].
pub fn plans<C: Component>(folder: &Path) -> Vec<Plan> {
    let mut cases: Vec<_> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.join("cr.yaml").exists())
        .collect();
    cases.sort();
    assert!(!cases.is_empty(), "no situation in {}", folder.display());
    let base = BASES.map(|name| folder.join(name)).into_iter().find(|base| base.exists());
    let planned: Vec<_> = cases.iter().map(|case| planned::<C>(case)).collect();
    let base = cases.iter().position(|case| base.as_ref() == Some(case));
    for (at, (case, (_, rendered))) in cases.iter().zip(&planned).enumerate() {
        let base = base.filter(|base| *base != at).map(|base| &planned[base].1.objects);
        check_case(case, rendered, base);
    }
    planned.into_iter().filter_map(|(result, _)| result.ok()).collect()
}

/// The resource and the snapshot of one situation. `root` is the crate's folder.
///
/// # Panics
/// When the situation cannot be read.
pub fn situation<C: Component>(root: &str, name: &str) -> (C::Cr, Observed<C::Cr>) {
    read(&Path::new(root).join("testdata").join(name))
}

fn read<Cr: Managed>(case: &Path) -> (Cr, Observed<Cr>) {
    let file = case.join("observed.yaml");
    let observed = if file.exists() { parse(&file) } else { Observed::default() };
    (parse(&case.join("cr.yaml")), observed)
}

/// What an operator would do in a situation.
fn planned<C: Component>(case: &Path) -> (Result<Plan, NotReady>, Rendered) {
    let (cr, observed) = read::<C::Cr>(case);
    let result = C::plan(&cr, &observed);
    let name = case.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    invariants::check::<C>(&name, &cr, &observed, &result);
    let result = result.map(unregistered);
    let rendered = render(&cr, &observed, C::AVAILABILITY, C::agent_report(&cr, &observed), &result);
    (result, rendered)
}

fn check_case(case: &Path, rendered: &Rendered, base: Option<&Sections>) {
    let Rendered { head, objects } = rendered;
    let objects = match base {
        Some(base) => differences(base, objects),
        None => objects.all.iter().fold(String::new(), |mut all, (title, text)| {
            write!(all, "\n--- {title}\n{text}\n").expect("memory");
            all
        }),
    };
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path(case);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("plan", format!("{head}{objects}")));
}

/// A plan, for people.
struct Rendered {
    /// Conditions, the rest of the status, and what is done besides applying objects.
    head: String,
    objects: Sections,
}

/// The objects of a resource by their parts.
struct Sections {
    /// Namespace and name of the resource, with which those of its objects begin.
    resource: String,
    /// Titles and texts, in their order: each file of a ConfigMap or Secret, and of other objects the whole.
    all: Vec<(String, String)>,
}

impl Sections {
    fn find(&self, title: &str) -> Option<&str> {
        self.all.iter().find(|(other, _)| other == title).map(|(_, text)| text.as_str())
    }

    /// What a section of another resource is to be compared with, by its title: the same of this one, or the file of another member.
    fn like(&self, resource: &str, title: &str) -> Option<&str> {
        let title = title.replacen(resource, &self.resource, 1);
        let of_another = || {
            let (file, _) = title.split_once(": ").and_then(|(_, file)| member(file))?;
            let is_same =
                |other: &str| other.split_once(": ").and_then(|(_, file)| member(file)).map(|it| it.0) == Some(file);
            self.all.iter().find(|(other, _)| is_same(other)).map(|(_, text)| text.as_str())
        };
        self.find(&title).or_else(of_another)
    }
}

/// A file and the address of its member, by its key.
fn member(key: &str) -> Option<(&str, IpAddr)> {
    key.match_indices('.').find_map(|(at, _)| Some((&key[..at], key[at + 1..].parse().ok()?)))
}

/// How sections differ from those of the base.
fn differences(base: &Sections, sections: &Sections) -> String {
    let mut differences = String::new();
    for (title, text) in &sections.all {
        let (title, text) = match base.like(&sections.resource, title) {
            Some(other) if other == *text && base.find(title).is_some() => continue,
            Some(other) if other == *text => (format!("{title} is the same"), String::new()),
            Some(other) => (format!("{title} differs"), lines_that_differ(other, text)),
            None => (title.clone(), text.clone()),
        };
        write!(differences, "\n--- {title}\n{}\n", text.trim_end()).expect("memory");
    }
    let is_absent = |title: &&str| sections.find(&title.replacen(&base.resource, &sections.resource, 1)).is_none();
    let absent: Vec<&str> = base.all.iter().map(|(title, _)| title.as_str()).filter(is_absent).collect();
    if !sections.all.is_empty() && !absent.is_empty() {
        write!(differences, "\n--- absent\n{}\n", absent.join("\n")).expect("memory");
    }
    differences
}

fn lines_that_differ(base: &str, text: &str) -> String {
    let diff = TextDiff::from_lines(base, text);
    let mut lines = String::new();
    for group in diff.grouped_ops(AROUND) {
        lines.push_str("@@\n");
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let mark = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            writeln!(lines, "{mark}{}", change.value().trim_end_matches('\n')).expect("memory");
        }
    }
    lines
}

/// A plan as it is before anybody has told the config API.
fn unregistered(mut plan: Plan) -> Plan {
    if plan.registration.is_some() {
        plan.drafts.extend(registration::draft(&Progress::Pending(
            "the objects for the config API are about to be written to it".into(),
        )));
    }
    plan
}

/// A file in YAML.
///
/// # Panics
/// When it is not there, or not that.
pub fn parse<T: serde::de::DeserializeOwned>(file: &Path) -> T {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn render<Cr: Managed>(
    cr: &Cr,
    observed: &Observed<Cr>,
    availability: tf_plan::plan::Availability,
    report: Option<AgentReport>,
    result: &Result<Plan, NotReady>,
) -> Rendered {
    let applied = Applied::default();
    let outcome = match result {
        Ok(plan) => Outcome::Planned(plan, &applied),
        Err(not_ready) => Outcome::NotReady(not_ready),
    };
    let generation = cr.meta().generation.unwrap_or_default();
    let empty = Vec::new();
    let assessment = assess(&Inputs {
        generation,
        paused: cr.paused(),
        previous: cr.contract(),
        availability,
        workloads: &observed.workloads,
        pods: observed.pods.known().unwrap_or(&empty),
        told: report,
        operator: &observed.operator.version,
        now: observed.now,
        outcome,
    });
    contract::invariants::check(&assessment.contract, generation).unwrap_or_else(|violation| panic!("{violation}"));
    let mut text = String::new();
    conditions(&mut text, &assessment.contract);
    let status = Contract { conditions: Vec::new(), ..assessment.contract };
    let mut status = serde_json::to_value(status).expect("plain data");
    if let (Some(fields), Some(own)) = (status.as_object_mut(), assessment.own) {
        fields.extend(own);
    }
    section(&mut text, "status", &status);
    if let Ok(plan) = result {
        if let Some(step) = &plan.step {
            let target = step.target();
            let what = match step {
                Step::Restart(_) => json!({"restart": target.pod, "why": target.why}),
                Step::Activate(_, hash) => json!({"activate": target.pod, "hash": hash}),
                Step::Renew(_, hash) => json!({"renew": target.pod, "hash": hash}),
                Step::Ask(_, request) => json!({"ask": target.pod, "for": format!("{request:?}"), "why": target.why}),
            };
            section(&mut text, "step", &what);
        }
        if let Some(Registration { wanted, api, .. }) = &plan.registration {
            let calls = decide(wanted, &[]).waves.concat().into_iter().map(|call| call.request());
            let calls: Vec<String> =
                calls.map(|call| format!("{} {} {}", call.method, call.path, unmarked(call.body))).collect();
            let mut at =
                json!({"hosts": api.hosts, "port": api.port, "tls": api.tls, "kept": wanted.kept, "calls": calls});
            if let Some(ca) = &api.ca {
                at["ca"] = json!(ca);
            }
            section(&mut text, "config API, if nothing is in it yet", &at);
        }
    }
    let objects = match result {
        Ok(plan) => &plan.objects,
        Err(not_ready) => &not_ready.prepared,
    };
    let resource = format!("{}/{}", cr.home(), cr.title());
    Rendered { head: text, objects: Sections { resource, all: objects.iter().flat_map(sections).collect() } }
}

/// An object by its parts.
fn sections(object: &tf_plan::object::Object) -> Vec<(String, String)> {
    let mut body = readable(object);
    let title = object.describe();
    let files = body.as_object_mut().filter(|_| object.kind == SECRET || object.kind == CONFIG_MAP);
    let files = files.and_then(|body| body.remove("data")).unwrap_or_default();
    let whole = (title.clone(), yaml(&body));
    let file = |(name, value): (&String, &Value)| {
        let text = value.as_str().map_or_else(|| yaml(value), str::to_owned);
        (format!("{title}: {name}"), text)
    };
    [whole].into_iter().chain(files.as_object().into_iter().flatten().map(file)).collect()
}

/// The body of a call without our mark, which repeats the rest.
fn unmarked(body: Option<Value>) -> Value {
    let mut body = body.unwrap_or_default();
    for object in body.as_object_mut().into_iter().flat_map(|body| body.values_mut()) {
        object.as_object_mut().map(|object| object.remove("annotations"));
    }
    body
}

fn conditions(text: &mut String, contract: &Contract) {
    for condition in &contract.conditions {
        let (kind, status) = (&condition.type_, &condition.status);
        writeln!(text, "{kind:<20} {status:<8} {}: {}", condition.reason, condition.message).expect("memory");
    }
}

fn section(text: &mut String, title: &str, value: &Value) {
    write!(text, "\n--- {title}\n{}\n", yaml(value)).expect("memory");
}

fn yaml(value: &Value) -> String {
    serde_saphyr::to_string(value).expect("plain data").trim_end().to_owned()
}

/// The object without what every object of the resource has; Secrets decoded.
fn readable(object: &tf_plan::object::Object) -> Value {
    let mut body = object.body.clone();
    let Some(fields) = body.as_object_mut() else { return body };
    fields.remove("apiVersion");
    fields.remove("kind");
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        for common in ["labels", "ownerReferences", "name", "namespace"] {
            metadata.remove(common);
        }
    }
    if object.kind == SECRET {
        for value in
            fields.get_mut("data").and_then(Value::as_object_mut).into_iter().flat_map(|data| data.values_mut())
        {
            let decoded = value.as_str().and_then(|text| BASE64_STANDARD.decode(text).ok());
            if let Some(text) = decoded.and_then(|bytes| String::from_utf8(bytes).ok()) {
                *value = Value::String(text);
            }
        }
    } else if object.kind == CONFIG_MAP {
        return body;
    }
    body
}
