//! What the operators would do: every object of every resource, from their pure halves, before anything is applied. In: objects of
//! the API, as files and a cluster have them ([`Given`]). Out: a [`Preview`] of each resource, for people as [`text`].
//!
//! A resource that needs others is previewed as if those served: what theirs would publish is supposed to be published. What is
//! done to members later, one after the other, is decided by what their servers say then; no preview can know it.

mod change;
mod given;
mod manifest;
mod planner;
mod supposed;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::core::DynamicObject;
use serde_json::json;
use tf_api::{KindInfo, fields};
use tf_plan::{
    not_ready::NotReady,
    object::{Kind, Object},
    plan::Plan,
};

pub use change::{Change, Changed, masked};
pub use given::{Given, controller, foreign, kind_of, usual_nodes};
pub use manifest::{ManifestError, read};
pub use planner::Operator;
pub use text::{remarks, text, yaml};

/// More rounds than there are kinds that need each other.
const ROUNDS: usize = 8;

/// What would become of a resource.
#[derive(Debug)]
pub struct Preview {
    /// Kind.
    pub kind: KindInfo,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid; made up where the API server has not seen it.
    pub uid: String,
    /// Kinds of the objects that its operator makes.
    pub owned: Vec<Kind>,
    /// What its operator would do.
    pub outcome: Outcome,
}

/// What an operator would do about a resource.
#[derive(Debug)]
pub enum Outcome {
    /// These objects are wanted.
    Planned(Box<Plan>),
    /// Nothing can be done, or not yet.
    NotReady(NotReady),
    /// It is none of its kind, in the parser's words.
    Undecodable(String),
    /// No operator of this release looks at its kind.
    NoOperator,
}

impl Preview {
    /// The objects that are wanted, in the order in which they are applied.
    pub fn objects(&self) -> &[Object] {
        match &self.outcome {
            Outcome::Planned(plan) => &plan.objects,
            Outcome::NotReady(not_ready) => &not_ready.prepared,
            Outcome::Undecodable(_) | Outcome::NoOperator => &[],
        }
    }

    /// Whether everything that the resource says can be carried out.
    pub fn is_whole(&self) -> bool {
        matches!(&self.outcome, Outcome::Planned(plan) if plan.held.is_none())
    }
}

/// What becomes of a resource and of its objects.
#[derive(Debug)]
pub struct Report {
    /// What its operator would do.
    pub preview: Preview,
    /// Its objects, those included that are removed: kind and name, and what becomes of them.
    pub objects: Vec<(String, Change)>,
}

impl Report {
    /// Where nothing is there yet.
    pub fn anew(preview: Preview) -> Self {
        let objects = preview.objects().iter().map(|object| (object.describe(), Change::Created)).collect();
        Self { preview, objects }
    }

    /// Whether nothing would be done, and nothing is waited for.
    pub fn is_done(&self) -> bool {
        self.preview.is_whole() && !self.objects.iter().any(|(_, change)| change.is_one())
    }
}

/// Previews of all resources that are given, each as if those served that it needs.
pub fn previews(given: &mut Given, now: Timestamp) -> Vec<Preview> {
    let mut last = Vec::new();
    for _ in 0..ROUNDS {
        last = given.resources().filter(|resource| !resource.is_deleting()).map(|it| it.preview(given, now)).collect();
        let before = given.supposed_statuses().clone();
        let statuses: BTreeMap<_, _> = last
            .iter()
            .filter_map(|preview| {
                let Outcome::Planned(plan) = &preview.outcome else { return None };
                let live = given.resource(preview.kind, &preview.namespace, &preview.name)?;
                Some((live.key(), supposed::status(plan, live.generation(), now)))
            })
            .collect();
        last.iter().flat_map(Preview::objects).for_each(|object| given.suppose(object));
        if statuses == before {
            break;
        }
        given.suppose_statuses(statuses);
    }
    last
}

/// Previews of all resources that are given and of those that they would make: what a Manager lists. `made` is how the API server
/// would have such a resource, of which the fields that its maker states are given.
///
/// # Errors
/// What `made` fails with.
pub async fn all<E>(
    given: &mut Given,
    now: Timestamp,
    made: impl AsyncFn(&Preview, &Object) -> Result<DynamicObject, E>,
) -> Result<Vec<Preview>, E> {
    let mut previews = previews(given, now);
    let mut taken = BTreeSet::new();
    loop {
        let mut resources = Vec::new();
        for preview in &previews {
            for object in preview.objects().iter().filter(|object| object.kind.group == tf_api::GROUP) {
                if taken.insert((object.kind, object.namespace.clone(), object.name.clone())) {
                    resources.push(made(preview, object).await?);
                }
            }
        }
        if resources.is_empty() {
            return Ok(previews);
        }
        for resource in resources {
            given.take_resource(resource);
        }
        previews = self::previews(given, now);
    }
}

/// A resource as the API server would have it, without asking one.
///
/// # Errors
/// When it is no object of Kubernetes.
pub fn made(object: &Object) -> Result<DynamicObject, serde_json::Error> {
    serde_json::from_value(object.body.clone()).map(seen)
}

/// Fields of a resource of ours that its kind does not have: the API server would refuse or drop them.
pub fn unknown_fields(object: &DynamicObject) -> Vec<String> {
    let Some(kind) = kind_of(object) else { return Vec::new() };
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let found = fields::unknown_fields(kind, &object.data["spec"]);
    found.into_iter().map(|field| format!("{} {name}: {field}; it has no effect", kind.kind)).collect()
}

/// An object with what the API server gives a new one; one of ours without a spec gets an empty one, by the default of its definition.
pub fn seen(mut object: DynamicObject) -> DynamicObject {
    if kind_of(&object).is_some()
        && let Some(fields) = object.data.as_object_mut()
    {
        fields.entry("spec").or_insert_with(|| json!({}));
    }
    object.metadata.uid.get_or_insert_with(|| "given-by-the-api-server".into());
    object.metadata.generation.get_or_insert(1);
    object
}
