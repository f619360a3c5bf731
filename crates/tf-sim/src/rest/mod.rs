//! The REST interface of contrail-api as far as registration needs it (docs/upstream/config-api.md#requests): objects of some types are made, read,
//! listed, changed and deleted, and refer to each other, with the refusals that the real one was read or seen to give.
//!
//! Values are hardly looked at, and nothing follows from them. Writes of one member of the API come one after the other; those of different
//! members may cross, as in the database that they share. What was accepted is in a journal.

mod schema;
mod store;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    fs::File,
    io::Read as _,
    sync::{Arc, Mutex as Lock, PoisonError},
};

use anyhow::{Context as _, Result};
use hyper::StatusCode;
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Mutex,
};

pub use self::store::{Memory, Store};
use crate::http::{self, Answer, Question};
use schema::{DEFAULTS, Kind, kind};

const JSON: &str = "application/json; charset=UTF-8";
/// Field of a stored object with those of its references that do not keep the other end from being deleted. It is never shown.
const RELAXED: &str = "relaxed";
/// So much of the journal is kept.
const LONGEST: usize = 10_000;

/// Refuses something.
struct Refusal(StatusCode, String);

impl Refusal {
    fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Self(status, why.into())
    }
}

/// Why there is no answer that says yes.
enum Failure {
    Refused(Refusal),
    Broken(anyhow::Error),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Broken(error)
    }
}

type Outcome<T> = std::result::Result<T, Failure>;

/// A member of the API over a store.
#[derive(Debug)]
pub struct Rest<S> {
    store: S,
    /// Changes read before they write.
    writing: Mutex<()>,
    journal: Lock<Vec<String>>,
    /// What everybody is answered who asks over a connection, if nobody is let in.
    refusal: Lock<Option<StatusCode>>,
}

impl<S: Store> Rest<S> {
    /// One over this store.
    pub fn new(store: S) -> Self {
        Self { store, writing: Mutex::default(), journal: Lock::default(), refusal: Lock::default() }
    }

    /// Answers everybody with this from now on, as where the user that a client logs in as has lost its role; with nothing lets them in.
    pub fn refuse(&self, status: Option<StatusCode>) {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    /// Makes what is there from the beginning, unless it is.
    ///
    /// # Errors
    /// When the store does not keep it.
    pub async fn begin(&self) -> Result<()> {
        let _writing = self.writing.lock().await;
        for (name, fq_name) in DEFAULTS {
            let kind = kind(name).context("a type of the schema")?;
            let body = json!({"fq_name": fq_name});
            match self.make(kind, body.as_object().cloned().unwrap_or_default()).await {
                Ok(_) | Err(Failure::Refused(Refusal(StatusCode::CONFLICT, _))) => {}
                Err(Failure::Refused(Refusal(status, why))) => anyhow::bail!("{name}: {status}: {why}"),
                Err(Failure::Broken(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes that were accepted, in their order: method, path, and the name of the object.
    pub fn journal(&self) -> Vec<String> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Answers a request.
    pub async fn answer(&self, method: &str, path: &str, body: &[u8]) -> (StatusCode, String) {
        match self.act(method, path, body).await {
            Ok(answer) => (StatusCode::OK, answer.to_string()),
            Err(Failure::Refused(Refusal(status, why))) => (status, why),
            Err(Failure::Broken(error)) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")),
        }
    }

    async fn act(&self, method: &str, path: &str, body: &[u8]) -> Outcome<Value> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let unknown = || Refusal::new(StatusCode::NOT_FOUND, "Unknown object");
        let changes = method != "GET" && !matches!(parts.as_slice(), ["fqname-to-id" | "list-bulk-collection"]);
        let _writing = if changes { Some(self.writing.lock().await) } else { None };
        let (answer, name) = match (method, parts.as_slice()) {
            ("GET", [""]) => (json!({"href": "/", "links": []}), String::new()),
            ("POST", ["list-bulk-collection"]) => (self.list_bulk(&object(body)?).await?, String::new()),
            ("POST", ["fqname-to-id"]) => (self.identify(&object(body)?).await?, String::new()),
            ("POST", ["ref-update"]) => self.refer(&object(body)?).await?,
            ("POST", ["ref-relax-for-delete"]) => self.relax(&object(body)?).await?,
            ("POST", [collection]) => {
                let kind = collection.strip_suffix('s').and_then(kind).ok_or_else(unknown)?;
                let made = self.make(kind, inner(kind, body)?).await?;
                let name = label(&made);
                (json!({kind.name: shown(made)}), name)
            }
            ("GET", [collection]) => {
                let kind = collection.strip_suffix('s').and_then(kind).ok_or_else(unknown)?;
                (self.list(kind, query).await?, String::new())
            }
            ("GET", [name, uuid]) => {
                let kind = kind(name).ok_or_else(unknown)?;
                (json!({kind.name: shown(self.find(kind, uuid).await?)}), String::new())
            }
            ("PUT", [name, uuid]) => {
                let kind = kind(name).ok_or_else(unknown)?;
                self.change(kind, uuid, inner(kind, body)?).await?
            }
            ("DELETE", [name, uuid]) => {
                let kind = kind(name).ok_or_else(unknown)?;
                (Value::Null, self.delete(kind, uuid).await?)
            }
            _ => return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "").into()),
        };
        if changes {
            let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
            if journal.len() < LONGEST {
                journal.push(format!("{method} {path} {name}"));
            }
        }
        Ok(answer)
    }

    async fn make(&self, kind: Kind, mut object: Map<String, Value>) -> Outcome<Map<String, Value>> {
        let bad = |why: String| Refusal::new(StatusCode::BAD_REQUEST, why);
        let name: Vec<String> = serde_json::from_value(object.get("fq_name").cloned().unwrap_or_default())
            .map_err(|_| bad("Bad fq_name".into()))?;
        let Some((_, parent)) = name.split_last() else { return Err(bad("Bad fq_name".into()).into()) };
        if name.iter().any(|part| part.is_empty() || part.contains(['/', ':', '\''])) {
            return Err(bad(format!("Invalid characters in {name:?}")).into());
        }
        let parent_type = object.get("parent_type").and_then(Value::as_str).or(kind.parents.first().copied());
        if parent_type.is_some_and(|parent| !kind.parents.contains(&parent)) {
            return Err(bad(format!("Invalid parent type: {parent_type:?}")).into());
        }
        if let Some(parent_type) = parent_type {
            if self.identified(&key(parent_type, parent)).await?.is_none() {
                return Err(bad(format!("Parent {parent_type} {} not found", parent.join(":"))).into());
            }
            let parent_type = parent_type.to_owned();
            object.insert("parent_type".into(), json!(parent_type));
        } else if !parent.is_empty() {
            return Err(bad(format!("{} has no parent", kind.name)).into());
        }
        self.resolve(&mut object).await?;
        schema::check(kind, &object).map_err(bad)?;
        let (uuid, own) = (identifier()?, key(kind.name, &name));
        // Only who is about to make something of a name has it without being found by it (upstream `vnc_db.py`, `set_uuid`).
        if self.identified(&own).await?.is_some() || !self.store.claim(&own, &uuid).await? {
            let why = format!("{} {} already exists", kind.name, name.join(":"));
            return Err(Refusal::new(StatusCode::CONFLICT, why).into());
        }
        object.insert("uuid".into(), json!(uuid));
        object.insert("href".into(), json!(format!("/{}/{uuid}", kind.name)));
        let stored = async {
            self.put(kind, &object).await?;
            self.store.put(&named(&own), &uuid).await
        };
        if let Err(error) = stored.await {
            self.store.release(&own).await?;
            return Err(error.into());
        }
        Ok(object)
    }

    /// Who is found by a name.
    async fn identified(&self, name: &str) -> Result<Option<String>> {
        self.store.get(&named(name)).await
    }

    /// Completes references with the identifiers of what they refer to, which has to exist.
    async fn resolve(&self, object: &mut Map<String, Value>) -> Outcome<()> {
        for (property, references) in object.iter_mut() {
            let Some(target) = property.strip_suffix("_refs") else { continue };
            let kind = kind(&target.replace('_', "-"))
                .ok_or_else(|| Refusal::new(StatusCode::BAD_REQUEST, format!("Unknown reference {property}")))?;
            for reference in references.as_array_mut().into_iter().flatten() {
                let to: Vec<String> = serde_json::from_value(reference["to"].clone()).unwrap_or_default();
                let uuid = self.identified(&key(kind.name, &to)).await?;
                let uuid = uuid.ok_or_else(|| {
                    Refusal::new(StatusCode::NOT_FOUND, format!("{} {} not found", kind.name, to.join(":")))
                })?;
                reference["uuid"] = json!(uuid);
            }
        }
        Ok(())
    }

    async fn list(&self, kind: Kind, query: &str) -> Outcome<Value> {
        let given = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let parent: Option<Vec<&str>> = given("parent_fq_name_str").map(|text| text.split(':').collect());
        let parents: Option<Vec<&str>> = given("parent_id").map(|text| text.split(',').collect());
        let fields: Vec<&str> = given("fields").map(|text| text.split(',').collect()).unwrap_or_default();
        let mut found = Vec::new();
        for object in self.all(kind).await? {
            let name = name(&object);
            let above = &name[..name.len().saturating_sub(1)];
            if parent.as_ref().is_some_and(|parent| parent != above) {
                continue;
            }
            if let Some(parents) = &parents {
                let parent_type = object["parent_type"].as_str().unwrap_or_default();
                let uuid = self.identified(&key(parent_type, above)).await?.unwrap_or_default();
                if !parents.contains(&uuid.as_str()) {
                    continue;
                }
            }
            let object = shown(object);
            found.push(if given("detail") == Some("true") {
                json!({kind.name: object})
            } else {
                let always = ["uuid", "fq_name", "href"];
                let is_asked = |field: &String| always.contains(&field.as_str()) || fields.contains(&field.as_str());
                Value::Object(object.into_iter().filter(|(field, _)| is_asked(field)).collect())
            });
        }
        Ok(json!({(format!("{}s", kind.name)): found}))
    }

    /// The same with what does not fit into a path (upstream `list_bulk_collection_http_post`).
    async fn list_bulk(&self, body: &Map<String, Value>) -> Outcome<Value> {
        let text = |field: &str| body.get(field).and_then(Value::as_str);
        let kind = text("type").and_then(kind);
        let kind =
            kind.ok_or_else(|| Refusal::new(StatusCode::BAD_REQUEST, "Bad Request, Unknown type in POST body"))?;
        let given = ["parent_id", "fields"].into_iter().filter_map(|field| Some(format!("{field}={}", text(field)?)));
        self.list(kind, &given.collect::<Vec<_>>().join("&")).await
    }

    async fn change(&self, kind: Kind, uuid: &str, body: Map<String, Value>) -> Outcome<(Value, String)> {
        let mut object = self.find(kind, uuid).await?;
        let fixed = |field: &&str| body.contains_key(*field) && body.get(*field) != object.get(*field);
        if let Some(field) = ["uuid", "fq_name", "parent_type"].into_iter().find(fixed) {
            return Err(Refusal::new(StatusCode::BAD_REQUEST, format!("{field} cannot be changed")).into());
        }
        let mut body = body;
        self.resolve(&mut body).await?;
        object.extend(body);
        schema::check(kind, &object).map_err(|why| Refusal::new(StatusCode::BAD_REQUEST, why))?;
        self.put(kind, &object).await?;
        Ok((json!({kind.name: {"uuid": uuid, "href": object["href"]}}), label(&object)))
    }

    async fn delete(&self, kind: Kind, uuid: &str) -> Outcome<String> {
        let object = self.find(kind, uuid).await?;
        let own = name(&object);
        let conflict = |why: String| Refusal::new(StatusCode::CONFLICT, why);
        // A drained node has none (docs/upstream/config-api.md#virtual-router).
        if kind.name == "virtual-router" && !list_of(&object, "virtual_machine_refs").is_empty() {
            return Err(conflict(format!("Virtual machines of {} still exist", own.join(":"))).into());
        }
        let mut holders = Vec::new();
        for other in schema::ALL {
            for held in self.all(other).await? {
                let is_child = held.get("parent_type").and_then(Value::as_str) == Some(kind.name)
                    && name(&held).split_last().is_some_and(|(_, above)| above == own);
                if is_child {
                    return Err(conflict(format!("Children {} still exist", label(&held))).into());
                }
                let is_reference = |it: &Value| it["uuid"] == uuid;
                if !list_of(&held, &references(kind)).iter().any(is_reference) {
                    continue;
                }
                if !list_of(&held, RELAXED).iter().any(|relaxed| relaxed == uuid) {
                    return Err(conflict(format!("Back-References from {} still exist", label(&held))).into());
                }
                holders.push((other, held));
            }
        }
        for (other, mut holder) in holders {
            for (field, is_it) in [
                (references(kind), (|it: &Value, uuid: &str| it["uuid"] == uuid) as fn(&Value, &str) -> bool),
                (RELAXED.to_owned(), |it: &Value, uuid: &str| it == uuid),
            ] {
                if let Some(list) = holder.get_mut(&field).and_then(Value::as_array_mut) {
                    list.retain(|it| !is_it(it, uuid));
                }
            }
            self.put(other, &holder).await?;
        }
        self.store.remove(&named(&key(kind.name, &own))).await?;
        self.store.remove(&place(kind, uuid)).await?;
        self.store.release(&key(kind.name, &own)).await?;
        Ok(label(&object))
    }

    async fn identify(&self, body: &Map<String, Value>) -> Outcome<Value> {
        let name: Vec<String> =
            serde_json::from_value(body.get("fq_name").cloned().unwrap_or_default()).unwrap_or_default();
        let kind = body.get("type").and_then(Value::as_str).unwrap_or_default();
        match self.identified(&key(kind, &name)).await? {
            Some(uuid) => Ok(json!({"uuid": uuid})),
            None => Err(Refusal::new(StatusCode::NOT_FOUND, format!("Name {name:?} not found")).into()),
        }
    }

    async fn refer(&self, body: &Map<String, Value>) -> Outcome<(Value, String)> {
        let text = |field: &str| body.get(field).and_then(Value::as_str).unwrap_or_default();
        let bad = |why: &str| Refusal::new(StatusCode::BAD_REQUEST, why);
        let holder = kind(text("type")).ok_or_else(|| bad("Unknown type"))?;
        let target = kind(text("ref-type")).ok_or_else(|| bad("Unknown ref-type"))?;
        let uuid = text("uuid");
        let mut object = self.find(holder, uuid).await?;
        let to: Vec<String> =
            serde_json::from_value(body.get("ref-fq-name").cloned().unwrap_or_default()).unwrap_or_default();
        let other = match text("ref-uuid") {
            "" => self.identified(&key(target.name, &to)).await?.unwrap_or_default(),
            uuid => uuid.to_owned(),
        };
        let other = self.find(target, &other).await?;
        let list = object.entry(references(target)).or_insert_with(|| json!([]));
        let list = list.as_array_mut().context("references are a list")?;
        list.retain(|it| it["uuid"] != other["uuid"]);
        match text("operation") {
            "ADD" => {
                let attr = body.get("attr").cloned().unwrap_or_default();
                list.push(json!({"to": other["fq_name"], "uuid": other["uuid"], "attr": attr}));
            }
            "DELETE" => {}
            _ => return Err(bad("Bad operation").into()),
        }
        self.put(holder, &object).await?;
        Ok((json!({"uuid": uuid}), format!("{} -> {} {}", label(&object), text("operation"), label(&other))))
    }

    async fn relax(&self, body: &Map<String, Value>) -> Outcome<(Value, String)> {
        let text = |field: &str| body.get(field).and_then(Value::as_str).unwrap_or_default();
        let (uuid, other) = (text("uuid"), text("ref-uuid"));
        for kind in schema::ALL {
            let Some(mut object) = self.get(kind, uuid).await? else { continue };
            let list = object.entry(RELAXED).or_insert_with(|| json!([]));
            let list = list.as_array_mut().context("a list")?;
            if !list.iter().any(|it| it == other) {
                list.push(json!(other));
            }
            self.put(kind, &object).await?;
            return Ok((json!({"uuid": uuid}), label(&object)));
        }
        Err(Refusal::new(StatusCode::NOT_FOUND, format!("No object {uuid}")).into())
    }

    async fn find(&self, kind: Kind, uuid: &str) -> Outcome<Map<String, Value>> {
        let found = self.get(kind, uuid).await?;
        let missing = || Refusal::new(StatusCode::NOT_FOUND, format!("No {} object found for id {uuid}", kind.name));
        Ok(found.ok_or_else(missing)?)
    }

    async fn get(&self, kind: Kind, uuid: &str) -> Result<Option<Map<String, Value>>> {
        let is_one = !uuid.is_empty() && uuid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        if !is_one {
            return Ok(None);
        }
        let text = self.store.get(&place(kind, uuid)).await?;
        text.map(|text| serde_json::from_str(&text).context("a stored object")).transpose()
    }

    /// Those that have their names: what is made has it last.
    async fn all(&self, kind: Kind) -> Result<Vec<Map<String, Value>>> {
        let found: BTreeSet<String> = self.store.all(&named(&key(kind.name, &[]))).await?.into_iter().collect();
        let texts = self.store.all(&place(kind, "")).await?;
        let objects = texts.iter().map(|text| serde_json::from_str(text).context("a stored object"));
        let objects = objects.collect::<Result<Vec<Map<String, Value>>>>()?;
        let is_found = |object: &Map<String, Value>| object["uuid"].as_str().is_some_and(|uuid| found.contains(uuid));
        Ok(objects.into_iter().filter(is_found).collect())
    }

    async fn put(&self, kind: Kind, object: &Map<String, Value>) -> Result<()> {
        let uuid = object.get("uuid").and_then(Value::as_str).unwrap_or_default();
        self.store.put(&place(kind, uuid), &Value::Object(object.clone()).to_string()).await
    }
}

/// Answers whoever is at the other end of a connection, which somebody else has secured.
pub async fn converse<S: Store>(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, rest: Arc<Rest<S>>) {
    http::converse(stream, move |question: Question| {
        let rest = Arc::clone(&rest);
        async move { answer(&rest, &question).await }
    })
    .await;
}

/// Answers a question.
pub(crate) async fn answer<S: Store>(rest: &Rest<S>, question: &Question) -> Answer {
    let refusal = *rest.refusal.lock().unwrap_or_else(PoisonError::into_inner);
    let (status, text) = match refusal {
        Some(status) => (status, "{}".to_owned()),
        None => rest.answer(&question.method, &question.path, &question.body).await,
    };
    (status, if status == StatusCode::OK { JSON } else { "text/plain" }, text)
}

fn object(body: &[u8]) -> std::result::Result<Map<String, Value>, Refusal> {
    serde_json::from_slice(body).map_err(|_| Refusal::new(StatusCode::BAD_REQUEST, "no JSON object"))
}

/// What stands in a body below the name of the type.
fn inner(kind: Kind, body: &[u8]) -> std::result::Result<Map<String, Value>, Refusal> {
    match object(body)?.remove(kind.name) {
        Some(Value::Object(object)) => Ok(object),
        _ => Err(Refusal::new(StatusCode::BAD_REQUEST, format!("no {} in the body", kind.name))),
    }
}

fn shown(mut object: Map<String, Value>) -> Map<String, Value> {
    object.remove(RELAXED);
    object
}

fn name(object: &Map<String, Value>) -> Vec<String> {
    object.get("fq_name").and_then(|name| serde_json::from_value(name.clone()).ok()).unwrap_or_default()
}

fn label(object: &Map<String, Value>) -> String {
    name(object).join(":")
}

fn list_of<'a>(object: &'a Map<String, Value>, field: &str) -> &'a [Value] {
    object.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn references(kind: Kind) -> String {
    format!("{}_refs", kind.name.replace('-', "_"))
}

/// Where an object is stored.
fn place(kind: Kind, uuid: &str) -> String {
    format!("object:{}:{uuid}", kind.name)
}

/// Where it is stored who is found by a name.
fn named(name: &str) -> String {
    format!("name:{name}")
}

/// By what a name is claimed.
fn key(kind: &str, name: &[String]) -> String {
    format!("{kind}:{}", name.join(":"))
}

/// A new one, of random digits.
///
/// # Errors
/// When there are none.
pub(crate) fn identifier() -> Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).context("/dev/urandom")?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
