//! The audit log as evidence: who asked the API server for what, and how often.
//!
//! The log is read from a [`Mark`] on, so that a test counts the requests of a window. Requests are counted once: a
//! watch when it begins, everything else when it was answered. Renewals of node leases are not in the log at all
//! (see [`AUDIT_POLICY`](crate::components::AUDIT_POLICY)).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use http::Request;
use jiff::Timestamp;
use serde::Deserialize;

use crate::{request::Verb, wait::eventually};

/// A position in the audit log, always behind a complete line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

/// When in the life of a request its entry was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Stage {
    /// A watch has begun: headers are sent, events follow.
    ResponseStarted,
    /// All has been sent.
    ResponseComplete,
    /// The handler failed.
    Panic,
    /// The lab's policy leaves this stage out; here because the format has it.
    RequestReceived,
}

/// One line of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Id of the request: the two entries of a watch share it.
    pub id: String,
    /// Beginning or end.
    pub stage: Stage,
    /// When the stage was reached.
    pub at: Timestamp,
    /// `system:serviceaccount:<namespace>:<name>` for ServiceAccounts.
    pub user: String,
    /// The program, as it names itself.
    pub user_agent: String,
    /// What was asked.
    pub verb: Verb,
    /// API group; empty for the core group and for paths that are not about resources.
    pub group: String,
    /// Plural name of the kind; empty for paths that are not about resources.
    pub resource: String,
    /// Such as `status`.
    pub subresource: String,
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// Empty for collections. For a create, the name the object was given.
    pub name: String,
    /// Path and query.
    pub uri: String,
    /// HTTP status; 0 when the request ended without one.
    pub code: u16,
}

impl Entry {
    /// True for the verbs that change something, whether or not the API server let them.
    pub fn is_mutating(&self) -> bool {
        self.verb.is_mutating()
    }

    /// True for requests about leases: leader election, usually counted apart.
    pub fn is_lease(&self) -> bool {
        self.resource == "leases" && self.group == "coordination.k8s.io"
    }

    /// True where something is merely told: a status or an event.
    pub fn is_told(&self) -> bool {
        self.subresource == "status" || self.resource == "events"
    }

    /// True for the one entry by which the request counts: a watch that was let in counts when it begins, since its
    /// end may lie in a later window.
    pub fn counts(&self) -> bool {
        match self.stage {
            Stage::ResponseStarted => self.verb == Verb::Watch,
            Stage::ResponseComplete | Stage::Panic => self.verb != Verb::Watch || self.code >= 400,
            Stage::RequestReceived => false,
        }
    }
}

/// Requests of one user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// All of them.
    pub total: u64,
    /// Those that would change something, refused ones and leases included.
    pub mutating: u64,
    /// The mutating ones about leases.
    pub lease_writes: u64,
    /// Those answered with 400 or more.
    pub failed: u64,
}

impl Count {
    /// Mutating requests other than of leases: what "silent in steady state" means to be zero.
    pub fn writes(&self) -> u64 {
        self.mutating - self.lease_writes
    }
}

/// The requests among `entries`, per user.
pub fn count_by_user<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> BTreeMap<String, Count> {
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    for entry in entries.into_iter().filter(|entry| entry.counts()) {
        let count = counts.entry(entry.user.clone()).or_default();
        count.total += 1;
        count.mutating += u64::from(entry.is_mutating());
        count.lease_writes += u64::from(entry.is_mutating() && entry.is_lease());
        count.failed += u64::from(entry.code >= 400);
    }
    counts
}

/// The user name of a ServiceAccount.
pub fn service_account(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// Reader of an audit log.
#[derive(Clone, Debug)]
pub struct Audit {
    path: PathBuf,
}

impl Audit {
    /// The log in this file. It need not exist yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The current end. Answers given a moment ago may still be written behind it, see
    /// [`mark_after_barrier`](Self::mark_after_barrier).
    pub fn mark(&self) -> Result<Mark> {
        // Far more than the longest line; the whole log may be large.
        const WINDOW: u64 = 1024 * 1024;
        let length = std::fs::metadata(&self.path).map_or(0, |metadata| metadata.len());
        let begin = length.saturating_sub(WINDOW);
        Ok(self.read_bytes(Mark(begin))?.1)
    }

    /// Makes a request of its own and returns the position behind its entry. The API server writes an entry when it
    /// has answered, so everything answered well before this call lies in front of the mark.
    pub async fn mark_after_barrier(&self, client: &kube::Client) -> Result<Mark> {
        let begin = self.mark()?;
        let token = format!("/version?tf-lab-barrier={:016x}", rand::random::<u64>());
        client.request_text(Request::get(&token).body(Vec::new())?).await.context("audit barrier")?;
        eventually("the audit barrier to be logged", Duration::from_secs(10), async || {
            let (entries, end) = self.entries_since(begin)?;
            Ok(entries.iter().any(|entry| entry.uri == token).then_some(end))
        })
        .await
    }

    /// The entries behind `mark` and the position behind the last of them. A line that is still being written is left
    /// for the next call.
    pub fn entries_since(&self, mark: Mark) -> Result<(Vec<Entry>, Mark)> {
        let (text, end) = self.read(mark)?;
        let entries = text.lines().map(parse).collect::<Result<Vec<Entry>>>()?;
        Ok((entries, end))
    }

    /// The entries between two marks.
    pub fn window(&self, begin: Mark, end: Mark) -> Result<Vec<Entry>> {
        let (text, _) = self.read(begin)?;
        let length = usize::try_from(end.0.saturating_sub(begin.0))?.min(text.len());
        text.get(..length).context("a mark inside of a character")?.lines().map(parse).collect()
    }

    fn read(&self, mark: Mark) -> Result<(String, Mark)> {
        let (bytes, end) = self.read_bytes(mark)?;
        Ok((String::from_utf8(bytes).context("audit log")?, end))
    }

    fn read_bytes(&self, mark: Mark) -> Result<(Vec<u8>, Mark)> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok((Vec::new(), mark)),
            file => file.with_context(|| format!("{}", self.path.display()))?,
        };
        file.seek(SeekFrom::Start(mark.0))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1));
        let end = Mark(mark.0 + bytes.len() as u64);
        Ok((bytes, end))
    }
}

/// The fields of audit.k8s.io/v1 Event used here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: Stage,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: Verb,
    user: User,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
    stage_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    resource: String,
    namespace: String,
    name: String,
    api_group: String,
    subresource: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

fn parse(line: &str) -> Result<Entry> {
    let event: Event = serde_json::from_str(line).with_context(|| format!("audit event {line}"))?;
    Ok(Entry {
        id: event.audit_id,
        stage: event.stage,
        at: event.stage_timestamp,
        user: event.user.username,
        user_agent: event.user_agent,
        verb: event.verb,
        group: event.object_ref.api_group,
        resource: event.object_ref.resource,
        subresource: event.object_ref.subresource,
        namespace: event.object_ref.namespace,
        name: event.object_ref.name,
        uri: event.request_uri,
        code: event.response_status.code,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use serde_json::json;

    use super::*;

    /// An answered request in namespace `tf`. The path is group, resource, subresource and name.
    pub fn entry(at: i64, user: &str, verb: Verb, path: [&str; 4], code: u16) -> Entry {
        let [group, resource, subresource, name] = path.map(str::to_owned);
        Entry {
            id: String::new(),
            stage: Stage::ResponseComplete,
            at: Timestamp::from_second(at).unwrap(),
            user: user.into(),
            user_agent: String::new(),
            verb,
            group,
            resource,
            subresource,
            namespace: "tf".into(),
            name,
            uri: String::new(),
            code,
        }
    }

    fn line(id: u32, stage: &str, verb: &str, resource: &str, code: u16) -> String {
        let group = if resource == "leases" { "coordination.k8s.io" } else { "" };
        let event = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": id.to_string(),
            "stage": stage, "requestURI": "/x", "verb": verb,
            "user": { "username": "system:serviceaccount:tf:op", "groups": ["system:authenticated"] },
            "sourceIPs": ["127.0.0.1"], "userAgent": "op/0.1",
            "objectRef": { "resource": resource, "namespace": "tf", "name": "a", "apiVersion": "v1", "apiGroup": group },
            "responseStatus": { "metadata": {}, "code": code },
            "requestReceivedTimestamp": "2026-11-21T10:00:00.000000Z",
            "stageTimestamp": "2026-11-21T10:00:00.012345Z",
        });
        format!("{event}\n")
    }

    #[test]
    fn a_line_that_is_still_being_written_is_left_for_the_next_read() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let audit = Audit::new(file.path().to_owned());
        let first = line(1, "ResponseComplete", "get", "pods", 200);
        let second = line(2, "ResponseComplete", "create", "pods", 201);
        file.write_all(first.as_bytes()).unwrap();
        file.write_all(&second.as_bytes()[..40]).unwrap();

        let (entries, mark) = audit.entries_since(Mark::default()).unwrap();
        assert_eq!(entries.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ["1"]);
        assert_eq!(audit.entries_since(mark).unwrap(), (Vec::new(), mark));
        assert_eq!(audit.mark().unwrap(), mark);

        file.write_all(&second.as_bytes()[40..]).unwrap();
        let (entries, end) = audit.entries_since(mark).unwrap();
        assert_eq!(entries.len(), 1);
        assert_eq!((entries[0].verb, entries[0].code), (Verb::Create, 201));
        assert_eq!(audit.window(Mark::default(), mark).unwrap().len(), 1);
        assert_eq!(audit.window(Mark::default(), end).unwrap().len(), 2);
    }

    #[test]
    fn a_request_counts_once_and_lease_renewals_are_told_apart() {
        let log = [
            line(1, "ResponseStarted", "watch", "pods", 200),
            line(1, "ResponseComplete", "watch", "pods", 200),
            line(2, "ResponseComplete", "watch", "secrets", 403),
            line(3, "ResponseComplete", "update", "leases", 200),
            line(4, "ResponseComplete", "patch", "pods", 409),
            line(5, "ResponseComplete", "get", "leases", 200),
            line(6, "ResponseComplete", "post", "", 200),
        ];
        let entries: Vec<Entry> = log.iter().map(|line| parse(line).unwrap()).collect();
        let counts = count_by_user(&entries);
        let count = counts[&service_account("tf", "op")];
        assert_eq!(count, Count { total: 6, mutating: 2, lease_writes: 1, failed: 2 });
        assert_eq!(count.writes(), 1);
    }

    #[test]
    fn a_log_that_does_not_exist_yet_is_empty() {
        let audit = Audit::new("/nonexistent/audit.log".into());
        assert_eq!(audit.entries_since(Mark::default()).unwrap(), (Vec::new(), Mark::default()));
    }
}
