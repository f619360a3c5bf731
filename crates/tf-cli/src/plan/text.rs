//! Previews as people read them.

use std::fmt::{self, Write as _};

use tf_api::kinds::VROUTER_PROFILE;
use tf_plan::{
    not_ready::{NotReady, Obstacle},
    plan::Plan,
    step::Step,
};

use super::{Change, Outcome, Preview, Report, change};

/// What becomes of every resource and of its objects.
pub fn text(reports: &[Report], notes: &[String]) -> String {
    let mut text = String::new();
    // Memory is never full for a formatter.
    let _ = write(&mut text, reports, notes);
    text
}

fn write(out: &mut String, reports: &[Report], notes: &[String]) -> fmt::Result {
    for report in reports {
        resource(out, &report.preview)?;
        for (object, change) in &report.objects {
            one(out, object, change)?;
        }
    }
    let count = |is: fn(&Change) -> bool| reports.iter().flat_map(|it| &it.objects).filter(|(_, it)| is(it)).count();
    writeln!(
        out,
        "{} objects are made, {} changed, {} removed, {} stay as they are",
        count(|change| *change == Change::Created),
        count(|change| matches!(change, Change::Changed(_))),
        count(|change| *change == Change::Deleted),
        count(|change| *change == Change::Same),
    )?;
    noted(out, notes)
}

/// What objects alone do not tell: which resources are not carried out, or not to the end, and why, and the notes.
pub fn remarks<'a>(previews: impl IntoIterator<Item = &'a Preview>, notes: &[String]) -> String {
    let mut text = String::new();
    let mut open = previews.into_iter().filter(|preview| !preview.is_whole());
    // Memory is never full for a formatter.
    let _ = open.try_for_each(|preview| resource(&mut text, preview)).and_then(|()| noted(&mut text, notes));
    text
}

fn noted(out: &mut String, notes: &[String]) -> fmt::Result {
    notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))
}

fn resource(out: &mut String, preview: &Preview) -> fmt::Result {
    let Preview { kind, namespace, name, outcome, .. } = preview;
    write!(out, "{} {namespace}/{name}", kind.kind)?;
    match outcome {
        Outcome::Planned(plan) => planned(out, plan),
        Outcome::NotReady(not_ready) => refused(out, not_ready),
        Outcome::Undecodable(error) => writeln!(out, " is not valid: {error}"),
        Outcome::NoOperator if *kind == VROUTER_PROFILE => writeln!(out, ": Vrouters whose groups name it read it"),
        Outcome::NoOperator => writeln!(out, ": no operator of this release looks at it"),
    }
}

fn planned(out: &mut String, plan: &Plan) -> fmt::Result {
    if !plan.members.is_empty() {
        let nodes: Vec<_> = plan.members.iter().map(|member| member.node.as_str()).collect();
        write!(out, ": members on {}", nodes.join(", "))?;
    }
    writeln!(out)?;
    if let Some((reason, why)) = &plan.held {
        writeln!(out, "  held, {}: {why}", reason.as_ref())?;
    }
    told(out, &plan.ignored, &plan.notes)?;
    if let Some(under_way) = &plan.under_way {
        writeln!(out, "  under way: {under_way}")?;
    }
    plan.step.as_ref().map_or(Ok(()), |step| writeln!(out, "  step: {}", Step::explain(step)))
}

fn refused(out: &mut String, not_ready: &NotReady) -> fmt::Result {
    let verb = match not_ready.obstacle {
        Obstacle::Waiting => "waits",
        Obstacle::Invalid => "is refused",
    };
    writeln!(out, " {verb}, {}: {}", not_ready.reason.as_ref(), not_ready.message)?;
    told(out, &not_ready.ignored, &[])
}

fn told(out: &mut String, ignored: &[String], notes: &[String]) -> fmt::Result {
    ignored.iter().try_for_each(|field| writeln!(out, "  no effect: {field}"))?;
    notes.iter().try_for_each(|note| writeln!(out, "  note: {note}"))
}

fn one(out: &mut String, object: &str, change: &Change) -> fmt::Result {
    match change {
        Change::Same => Ok(()),
        Change::Created => writeln!(out, "  + {object}"),
        Change::Deleted => writeln!(out, "  - {object}"),
        Change::Unknown(why) => writeln!(out, "  ? {object}: {why}"),
        Change::Changed(changed) => {
            let note = if changed.replaces_pods { ", its pods are recreated one at a time" } else { "" };
            writeln!(out, "  ~ {object}{note}")?;
            changed.lines.lines().try_for_each(|line| writeln!(out, "      {line}"))
        }
    }
}

/// Every object as YAML, in the order in which they are applied.
pub fn yaml<'a>(previews: impl IntoIterator<Item = &'a Preview>) -> String {
    let objects = previews.into_iter().flat_map(Preview::objects);
    let documents: Vec<_> =
        objects.map(|object| change::yaml(&change::masked(object.kind, &object.body, None))).collect();
    documents.iter().flat_map(|document| ["---\n", document]).collect()
}
