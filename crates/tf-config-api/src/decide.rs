//! From what shall be in the config API and what is, to the calls that make the one of the other.
//!
//! Whatever an object says, only what bears our mark is changed in more than what a resource states of everybody's settings, and only that is
//! ever deleted. A decision is made anew after its calls: what was made has an identifier then, by which others can refer to it. When
//! nothing is left to do, a decision is empty; that holds wherever in between somebody stopped.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    call::{Call, Request},
    mark::{self, ANNOTATIONS, Bearer, Owner},
    merge::{contradiction, merge},
    record::{FqName, Ownership, Property, Record, Reference, Type, label},
};

/// Objects of one type that the resource may have something to do with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Scope {
    /// Their type.
    pub kind: Type,
    /// What they are in.
    pub within: Within,
    /// Types that they refer to.
    pub refers: Vec<Type>,
    /// Whether one that is no longer wanted may stay while others refer to it.
    pub may_stay: bool,
}

/// What the objects of a scope are in. Others of their type are neither listed nor looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Within {
    /// Whatever it is.
    Anything,
    /// This one object.
    Object(FqName),
    /// Those objects of this type, an earlier scope's, which are wanted or bear our mark.
    Ours(Type),
}

/// Everything that a resource registers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Wanted {
    /// The resource.
    pub owner: Owner,
    /// Where its objects are, in the order in which they can be made; they are deleted in the opposite one.
    pub scopes: Vec<Scope>,
    /// What shall be there.
    pub records: Vec<Record>,
    /// Objects that are no longer wanted, and whose time has not come because what they stand for still serves.
    pub kept: BTreeSet<FqName>,
}

/// An object as the API lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Its type.
    pub kind: Type,
    /// Its identifier.
    pub uuid: String,
    /// Its name.
    pub name: FqName,
    /// Properties and references.
    pub properties: Map<String, Value>,
}

/// What has to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// Calls, in the order of these lists; those of one list do not depend on each other.
    pub waves: Vec<Vec<Call>>,
    /// What keeps objects from being as they shall be, that only people can change.
    pub troubles: Vec<String>,
    /// What a person should know.
    pub notes: Vec<String>,
    /// How many of the wanted objects are not as they shall be.
    pub missing: usize,
}

impl Wanted {
    /// The same when nothing is wanted any more.
    #[must_use]
    pub fn nothing(self) -> Self {
        Self { records: Vec::new(), kept: BTreeSet::new(), ..self }
    }

    /// The question by which everything of a scope is listed, with what a decision needs to know of it; none where nothing can be in it.
    /// `seen`: what is in earlier scopes.
    pub fn listing(&self, scope: &Scope, seen: &[Seen]) -> Option<Request> {
        let records = self.records.iter().filter(|record| record.kind == scope.kind);
        let properties = records.flat_map(|record| record.properties.keys().map(|name| (*name).to_owned()));
        let references = scope.refers.iter().map(|kind| kind.references());
        let fields: BTreeSet<String> = properties.chain(references).chain([ANNOTATIONS.to_owned()]).collect();
        let fields = fields.into_iter().collect::<Vec<String>>().join(",");
        let path = format!("/{}?fields={fields}", scope.kind.collection());
        let path = match &scope.within {
            Within::Anything => path,
            Within::Object(parent) => format!("{path}&parent_fq_name_str={}", parent.join(":")),
            // So many identifiers that no path holds them (upstream `vnc_api.py`, `resource_list`).
            Within::Ours(kind) => {
                let is_ours = |parent: &&Seen| {
                    let is_known = || self.owner.bears(&parent.properties) != Bearer::Foreign;
                    parent.kind == *kind && (is_known() || self.wants(parent.kind, &parent.name))
                };
                let parents: Vec<&str> = seen.iter().filter(is_ours).map(|parent| parent.uuid.as_str()).collect();
                let body = json!({"type": scope.kind.name, "parent_id": parents.join(","), "fields": fields});
                let request = Request { method: "POST", path: "/list-bulk-collection".into(), body: Some(body) };
                return (!parents.is_empty()).then_some(request);
            }
        };
        Some(Request { method: "GET", path, body: None })
    }

    /// Whether nothing is left to do for this where everything is as the other one wants it: nothing is wanted that was not, and what is
    /// no longer wanted stays for the time being.
    pub fn is_covered_by(&self, other: &Self) -> bool {
        let wanted: BTreeMap<_, _> = self.records.iter().map(|record| ((record.kind, &record.name), record)).collect();
        let stays = |record: &Record| match wanted.get(&(record.kind, &record.name)) {
            Some(now) => *now == record,
            None => self.kept.contains(&record.name),
        };
        let before: BTreeSet<_> = other.records.iter().map(|record| (record.kind, &record.name)).collect();
        (&self.owner, &self.scopes) == (&other.owner, &other.scopes)
            && wanted.keys().all(|record| before.contains(record))
            && other.records.iter().all(stays)
            && other.kept.iter().all(|name| self.kept.contains(name))
    }

    fn wants(&self, kind: Type, name: &[String]) -> bool {
        self.records.iter().any(|record| record.kind == kind && record.name == name)
    }
}

impl Scope {
    /// The objects of the scope in the API's answer; none if it is no list of them.
    pub fn read(&self, mut answer: Value) -> Option<Vec<Seen>> {
        let Value::Array(list) = answer.get_mut(self.kind.collection())?.take() else { return None };
        let seen = |object: Value| {
            let Value::Object(mut properties) = object else { return None };
            let Value::String(uuid) = properties.remove("uuid")? else { return None };
            let name = serde_json::from_value(properties.remove("fq_name")?).ok()?;
            Some(Seen { kind: self.kind, uuid, name, properties })
        };
        list.into_iter().map(seen).collect()
    }
}

impl Seen {
    /// Names of the objects of a type that it refers to.
    fn references(&self, kind: Type) -> impl Iterator<Item = FqName> {
        let references = self.properties.get(&kind.references()).and_then(Value::as_array);
        references.into_iter().flatten().filter_map(|it| serde_json::from_value(it.get("to")?.clone()).ok())
    }

    fn refers(&self, kind: Type, to: &[String]) -> bool {
        self.references(kind).any(|name| name == to)
    }
}

/// Decides what has to be done.
pub fn decide(wanted: &Wanted, seen: &[Seen]) -> Decision {
    let mut deciding =
        Deciding { wanted, seen, calls: Calls::default(), decision: Decision::default(), barred: Vec::new() };
    for record in &wanted.records {
        deciding.record(record);
    }
    deciding.leavers();
    let Deciding { calls, mut decision, .. } = deciding;
    decision.waves = calls.waves(&wanted.scopes);
    decision
}

/// Calls by what they do.
#[derive(Default)]
struct Calls {
    creates: BTreeMap<Type, Vec<Call>>,
    updates: Vec<Call>,
    refers: Vec<Call>,
    relaxes: Vec<Call>,
    deletes: BTreeMap<Type, Vec<Call>>,
}

impl Calls {
    fn waves(mut self, scopes: &[Scope]) -> Vec<Vec<Call>> {
        let creates: Vec<_> = scopes.iter().filter_map(|scope| self.creates.remove(&scope.kind)).collect();
        let deletes: Vec<_> = scopes.iter().rev().filter_map(|scope| self.deletes.remove(&scope.kind)).collect();
        let changes = [self.updates, self.refers, self.relaxes];
        creates.into_iter().chain(changes).chain(deletes).filter(|wave| !wave.is_empty()).collect()
    }
}

struct Deciding<'a> {
    wanted: &'a Wanted,
    seen: &'a [Seen],
    calls: Calls,
    decision: Decision,
    /// Somebody else's objects in which nothing is made.
    barred: Vec<&'a FqName>,
}

impl<'a> Deciding<'a> {
    fn find(&self, kind: Type, name: &[String]) -> Option<&'a Seen> {
        self.seen.iter().find(|seen| seen.kind == kind && seen.name == name)
    }

    fn record(&mut self, record: &'a Record) {
        let Some(seen) = self.find(record.kind, &record.name) else {
            self.decision.missing += 1;
            if self.barred.iter().any(|parent| record.name.starts_with(parent)) {
                return;
            }
            let call = Call::Create { kind: record.kind, name: record.name.clone(), body: self.body(record) };
            self.calls.creates.entry(record.kind).or_default().push(call);
            return;
        };
        let bearer = match record.ownership {
            Ownership::Ours => self.wanted.owner.bears(&seen.properties),
            Ownership::Shared => Bearer::Own,
        };
        if bearer == Bearer::Foreign {
            self.foreign(record, seen);
            return;
        }
        let mut is_due = self.update(record, seen, bearer);
        for reference in &record.references {
            is_due |= self.refer(record, seen, reference);
        }
        is_due |= self.forgotten(record, seen);
        self.decision.missing += usize::from(is_due);
    }

    /// Somebody else's object of the name: it will do, or a person has to see to it.
    fn foreign(&mut self, record: &'a Record, seen: &Seen) {
        let null = Value::Null;
        let differs = record
            .properties
            .iter()
            .find_map(|(name, property)| contradiction(name, property, seen.properties.get(*name).unwrap_or(&null)));
        let Some(what) = differs else { return };
        self.barred.push(&record.name);
        let whose = match mark::owner_of(&seen.properties) {
            Some(owner) => format!("belongs to {owner}"),
            None => "was not made by this operator".into(),
        };
        self.decision.missing += 1;
        self.decision.troubles.push(format!(
            "{} {whose}, and its {what}; it is left alone: correct or delete it in the config API",
            record.label()
        ));
    }

    /// A new object. What refers to others that are made now is told to do so later.
    fn body(&self, record: &Record) -> Map<String, Value> {
        let mut body = Map::from_iter([("fq_name".to_owned(), json!(record.name))]);
        body.extend(record.kind.parent.map(|parent| ("parent_type".to_owned(), json!(parent))));
        let mut last = Map::new();
        for (name, property) in &record.properties {
            if let Property::Initial { value, absent } = property {
                body.extend((value != absent).then(|| ((*name).to_owned(), value.clone())));
                continue;
            }
            let merged = merge(property, &Value::Null, &Value::Null);
            body.extend(merged.write.map(|value| ((*name).to_owned(), value)));
            remember(&mut last, name, merged.last);
        }
        for reference in record.references.iter().filter(|it| !self.wanted.wants(it.kind, &it.to)) {
            let references = body.entry(reference.kind.references()).or_insert_with(|| json!([]));
            if let Some(references) = references.as_array_mut() {
                references.push(json!({"to": reference.to, "attr": null}));
            }
        }
        remember_references(&mut last, record);
        let owner = (record.ownership == Ownership::Ours).then_some(&self.wanted.owner);
        if owner.is_some() || !last.is_empty() {
            body.insert(ANNOTATIONS.to_owned(), mark::annotations(&Map::new(), owner, &last));
        }
        body
    }

    /// Properties that have to change, and the mark with them. True if there are any.
    fn update(&mut self, record: &Record, seen: &Seen, bearer: Bearer) -> bool {
        let before = mark::last_applied(&seen.properties);
        let (mut body, mut last) = (Map::new(), Map::new());
        for (name, property) in &record.properties {
            let null = Value::Null;
            let live = seen.properties.get(*name).unwrap_or(&null);
            if let (Property::Initial { .. }, Some(what)) = (property, contradiction(name, property, live)) {
                self.decision.troubles.push(format!(
                    "{}: its {what}, and that is taken only when it is made; delete it in the config API, and the operator creates it again",
                    record.label()
                ));
            }
            let merged = merge(property, live, before.get(*name).unwrap_or(&null));
            body.extend(merged.write.map(|value| ((*name).to_owned(), value)));
            remember(&mut last, name, merged.last);
        }
        remember_references(&mut last, record);
        let owner = (record.ownership == Ownership::Ours).then_some(&self.wanted.owner);
        // Whoever states nothing of what is everybody's leaves no mark on it.
        let marks = owner.is_some() || !record.properties.is_empty();
        if marks && (!body.is_empty() || last != before || bearer == Bearer::Former) {
            body.insert(ANNOTATIONS.to_owned(), mark::annotations(&seen.properties, owner, &last));
        }
        if body.is_empty() {
            return false;
        }
        let (name, uuid) = (record.name.clone(), seen.uuid.clone());
        self.calls.updates.push(Call::Update { kind: record.kind, name, uuid, body });
        true
    }

    /// A reference that is not there yet. True if it has to be made.
    fn refer(&mut self, record: &Record, seen: &Seen, reference: &Reference) -> bool {
        let Reference { kind, to, relaxed } = reference;
        if seen.refers(*kind, to) {
            return false;
        }
        let target = self.find(*kind, to);
        if self.wanted.wants(*kind, to) {
            // It is made now, or somebody else made it, who may refer to it.
            let Some(target) = target else { return true };
            if self.wanted.owner.bears(&target.properties) == Bearer::Foreign {
                return false;
            }
        }
        self.calls.refers.push(Call::Refer {
            kind: record.kind,
            name: record.name.clone(),
            uuid: seen.uuid.clone(),
            to_kind: *kind,
            to: to.clone(),
            adds: true,
        });
        if let Some(target) = target.filter(|_| *relaxed) {
            self.calls.relaxes.push(relax(seen, target));
        }
        true
    }

    /// References that were made for the resource and are no longer wanted. True if there are any.
    fn forgotten(&mut self, record: &Record, seen: &Seen) -> bool {
        if record.ownership == Ownership::Shared {
            return false;
        }
        let before = mark::last_applied(&seen.properties);
        let scope = self.wanted.scopes.iter().find(|scope| scope.kind == record.kind);
        let mut is_due = false;
        for kind in scope.map(|scope| scope.refers.as_slice()).unwrap_or_default() {
            let made: Vec<FqName> = before
                .get(&kind.references())
                .and_then(|names| serde_json::from_value(names.clone()).ok())
                .unwrap_or_default();
            let is_wanted = |name: &FqName| record.references.iter().any(|it| it.kind == *kind && it.to == *name);
            for to in made.into_iter().filter(|name| !is_wanted(name) && seen.refers(*kind, name)) {
                let (name, uuid) = (record.name.clone(), seen.uuid.clone());
                self.calls.refers.push(Call::Refer { kind: record.kind, name, uuid, to_kind: *kind, to, adds: false });
                is_due = true;
            }
        }
        is_due
    }

    /// Objects of the resource that are no longer wanted.
    fn leavers(&mut self) {
        let (wanted, seen) = (self.wanted, self.seen);
        let unwanted = |object: &&Seen| !wanted.wants(object.kind, &object.name);
        for object in seen.iter().filter(unwanted) {
            match wanted.owner.bears(&object.properties) {
                Bearer::Foreign => {}
                Bearer::Former => {
                    let what = label(object.kind.name, &object.name);
                    self.decision.notes.push(format!("{what} is of a former resource of this name and stays"));
                }
                Bearer::Own if wanted.kept.contains(&object.name) => {}
                Bearer::Own => {
                    let holders = seen.iter().filter(|holder| holder.refers(object.kind, &object.name));
                    self.calls.relaxes.extend(holders.map(|holder| relax(holder, object)));
                    let scope = wanted.scopes.iter().find(|scope| scope.kind == object.kind);
                    let call = Call::Delete {
                        kind: object.kind,
                        name: object.name.clone(),
                        uuid: object.uuid.clone(),
                        may_stay: scope.is_some_and(|scope| scope.may_stay),
                    };
                    self.calls.deletes.entry(object.kind).or_default().push(call);
                }
            }
        }
    }
}

fn relax(holder: &Seen, target: &Seen) -> Call {
    let what = label(target.kind.name, &target.name);
    Call::Relax { holder: holder.uuid.clone(), uuid: target.uuid.clone(), what }
}

fn remember(last: &mut Map<String, Value>, name: &str, value: Value) {
    if !value.is_null() {
        last.insert(name.to_owned(), value);
    }
}

fn remember_references(last: &mut Map<String, Value>, record: &Record) {
    if record.ownership == Ownership::Shared {
        return;
    }
    for reference in &record.references {
        let names = last.entry(reference.kind.references()).or_insert_with(|| json!([]));
        if let Some(names) = names.as_array_mut() {
            names.push(json!(reference.to));
        }
    }
}
