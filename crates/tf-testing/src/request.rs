//! What a request to the API server is about, told from its method and path or read from an audit event.

use http::Method;
use serde::Deserialize;

/// The verbs that RBAC and the audit log know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// One object.
    Get,
    /// A collection.
    List,
    /// A stream of changes.
    Watch,
    /// A new object, or a subresource such as `token` or `eviction`.
    Create,
    /// A whole object replaced.
    Update,
    /// Part of an object changed; server-side apply too.
    Patch,
    /// One object deleted.
    Delete,
    /// A collection deleted.
    DeleteCollection,
    /// What paths outside the resource API are asked (`post` on `/`, say).
    #[serde(other)]
    Other,
}

impl Verb {
    /// True for the verbs that change something.
    pub fn is_mutating(self) -> bool {
        matches!(self, Self::Create | Self::Update | Self::Patch | Self::Delete | Self::DeleteCollection)
    }
}

/// A request to the API server. The strings of what does not apply are empty, as in RBAC the core group is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// What is done.
    pub verb: Verb,
    /// API group, empty for the core group and for paths that are not about resources.
    pub group: String,
    /// Plural name of the kind, such as `statefulsets`; empty for paths that are not about resources.
    pub resource: String,
    /// Such as `status` or `scale`.
    pub subresource: String,
    /// Empty for cluster-scoped kinds and requests across namespaces.
    pub namespace: String,
    /// Empty for collections; for a create the name is in the body and so empty, too.
    pub name: String,
    /// The path without the query.
    pub path: String,
}

impl RequestInfo {
    /// Reads a request as the API server's own RequestInfoFactory does (k8s.io/apiserver/pkg/endpoints/request).
    pub fn parse(method: &Method, path: &str, query: Option<&str>) -> Self {
        let mut info = Self {
            verb: if method == Method::GET { Verb::Get } else { Verb::Other },
            group: String::new(),
            resource: String::new(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            path: path.to_owned(),
        };
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let mut rest = match segments.as_slice() {
            ["api", _version, rest @ ..] => rest,
            ["apis", group, _version, rest @ ..] => {
                (*group).clone_into(&mut info.group);
                rest
            }
            _ => return info,
        };
        if rest.is_empty() {
            return info;
        }
        // A namespace itself is `namespaces/<name>` with at most its own subresources behind.
        if let ["namespaces", namespace, resource, ..] = rest {
            (*namespace).clone_into(&mut info.namespace);
            if !matches!(*resource, "status" | "finalize") {
                rest = &rest[2..];
            }
        } else if let ["namespaces", namespace] = rest {
            (*namespace).clone_into(&mut info.namespace);
        }
        let mut segment = rest.iter().map(|segment| (*segment).to_owned());
        info.resource = segment.next().unwrap_or_default();
        info.name = segment.next().unwrap_or_default();
        info.subresource = segment.next().unwrap_or_default();
        let watches = query.unwrap_or_default().split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"));
        info.verb = match *method {
            Method::GET | Method::HEAD if watches => Verb::Watch,
            Method::GET | Method::HEAD if info.name.is_empty() => Verb::List,
            Method::GET | Method::HEAD => Verb::Get,
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE if info.name.is_empty() => Verb::DeleteCollection,
            Method::DELETE => Verb::Delete,
            _ => Verb::Other,
        };
        info
    }

    /// True for leases, whose renewals are usually counted apart.
    pub fn is_lease(&self) -> bool {
        self.resource == "leases" && self.group == "coordination.k8s.io"
    }

    /// True where something is merely told: a status or an event.
    pub fn is_told(&self) -> bool {
        self.subresource == "status" || self.resource == "events"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_the_api_server_reads_them() {
        type Row = (&'static str, &'static str, Verb, [&'static str; 5]);
        let rows: [Row; 14] = [
            ("GET", "/api/v1/pods", Verb::List, ["", "pods", "", "", ""]),
            ("GET", "/api/v1/pods?watch=true&resourceVersion=7", Verb::Watch, ["", "pods", "", "", ""]),
            ("GET", "/api/v1/namespaces/tf/pods/a", Verb::Get, ["", "pods", "", "tf", "a"]),
            ("PATCH", "/api/v1/namespaces/tf/pods/a/status", Verb::Patch, ["", "pods", "status", "tf", "a"]),
            ("POST", "/apis/apps/v1/namespaces/tf/statefulsets", Verb::Create, ["apps", "statefulsets", "", "tf", ""]),
            (
                "PUT",
                "/apis/apps/v1/namespaces/tf/statefulsets/z/scale",
                Verb::Update,
                ["apps", "statefulsets", "scale", "tf", "z"],
            ),
            ("DELETE", "/api/v1/namespaces/tf/pods", Verb::DeleteCollection, ["", "pods", "", "tf", ""]),
            ("DELETE", "/api/v1/nodes/worker-1", Verb::Delete, ["", "nodes", "", "", "worker-1"]),
            ("GET", "/api/v1/namespaces", Verb::List, ["", "namespaces", "", "", ""]),
            ("GET", "/api/v1/namespaces/tf", Verb::Get, ["", "namespaces", "", "tf", "tf"]),
            ("PUT", "/api/v1/namespaces/tf/finalize", Verb::Update, ["", "namespaces", "finalize", "tf", "tf"]),
            (
                "POST",
                "/api/v1/namespaces/tf/serviceaccounts/op/token",
                Verb::Create,
                ["", "serviceaccounts", "token", "tf", "op"],
            ),
            ("GET", "/readyz", Verb::Get, ["", "", "", "", ""]),
            ("GET", "/apis/apps/v1", Verb::Get, ["apps", "", "", "", ""]),
        ];
        for (method, uri, verb, [group, resource, subresource, namespace, name]) in rows {
            let (path, query) = uri.split_once('?').map_or((uri, None), |(path, query)| (path, Some(query)));
            let expected = RequestInfo {
                verb,
                group: group.into(),
                resource: resource.into(),
                subresource: subresource.into(),
                namespace: namespace.into(),
                name: name.into(),
                path: path.into(),
            };
            assert_eq!(RequestInfo::parse(&method.parse().unwrap(), path, query), expected, "{method} {uri}");
        }
    }

    #[test]
    fn mutating_is_what_changes_objects() {
        let verbs = [Verb::Get, Verb::List, Verb::Watch, Verb::Other];
        assert!(verbs.iter().all(|verb| !verb.is_mutating()));
        let verbs = [Verb::Create, Verb::Update, Verb::Patch, Verb::Delete, Verb::DeleteCollection];
        assert!(verbs.iter().all(|verb| verb.is_mutating()));
    }
}
