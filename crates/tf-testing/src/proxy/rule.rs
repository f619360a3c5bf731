//! Which requests go wrong, and how. Pure: a [`Rules`] decides from the sequence of requests alone, and with the same
//! seeds it decides the same again.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use http::StatusCode;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use regex::Regex;
use serde_json::{Value, json};

use crate::request::{RequestInfo, Verb};

/// A condition on requests.
#[derive(Clone)]
pub struct Match(Arc<dyn Fn(&RequestInfo) -> bool + Send + Sync>);

impl Match {
    /// Any condition.
    pub fn when(condition: impl Fn(&RequestInfo) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(condition))
    }

    /// Every request.
    pub fn all() -> Self {
        Self::when(|_| true)
    }

    /// Requests that would change something, leases left out: what crash points are counted by.
    pub fn writes() -> Self {
        Self::when(|request| request.verb.is_mutating() && !request.is_lease())
    }

    /// [Writes](Self::writes) of what is not merely told: neither a status nor an event.
    pub fn deeds() -> Self {
        Self::writes().and(Self::when(|request| !request.is_told()))
    }

    /// Requests with this verb.
    pub fn verb(verb: Verb) -> Self {
        Self::when(move |request| request.verb == verb)
    }

    /// Requests about this kind (plural, lower case), subresources included.
    pub fn resource(resource: &str) -> Self {
        let resource = resource.to_owned();
        Self::when(move |request| request.resource == resource)
    }

    /// Requests whose path contains a match of this regular expression.
    pub fn path(pattern: &str) -> Result<Self> {
        let pattern = Regex::new(pattern)?;
        Ok(Self::when(move |request| pattern.is_match(&request.path)))
    }

    /// Requests that meet both conditions.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::when(move |request| self.matches(request) && other.matches(request))
    }

    /// Whether a request meets the condition.
    pub fn matches(&self, request: &RequestInfo) -> bool {
        (self.0)(request)
    }
}

/// Which of the requests that match are hit. Counting begins with 1 when the rule is added.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Which {
    /// All of them.
    Every,
    /// The first so many.
    First(u64),
    /// Only this one.
    Nth(u64),
    /// Each with this probability (0 to 1), by a generator with this seed.
    Random {
        /// Between 0 and 1.
        probability: f64,
        /// The same seed gives the same sequence.
        seed: u64,
    },
}

/// What happens to a request that is hit.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// This answer instead of the API server's, which does not see the request.
    Answer(Answer),
    /// The request is passed on after this time.
    Delay(Duration),
    /// Nothing is ever answered and the API server does not see the request.
    Hang,
    /// The connection is reset.
    Reset(ResetAt),
    /// A watch begins and its first event is an ERROR with code 410, as when the resource version is too old. Requests
    /// other than watches pass.
    WatchExpired,
}

/// Where in the life of a request the connection is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetAt {
    /// The API server does not see the request.
    Request,
    /// The API server has acted, but its answer is lost.
    Answer,
    /// So many bytes of the answer's body arrive. A body that has no more than that arrives whole.
    Body(u64),
}

/// An error as the API server answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub code: StatusCode,
    /// Reason of the Status object, such as `Conflict`.
    pub reason: &'static str,
    /// Message of the Status object.
    pub message: String,
    /// The header Retry-After, whole seconds.
    pub retry_after: Option<Duration>,
}

impl Answer {
    fn new(code: StatusCode, reason: &'static str, message: &str) -> Self {
        Self { code, reason, message: message.into(), retry_after: None }
    }

    /// 409: the object was changed in between.
    pub fn conflict() -> Self {
        let message = "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version";
        Self::new(StatusCode::CONFLICT, "Conflict", message)
    }

    /// 403: no permission.
    pub fn forbidden() -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", "forbidden by the lab's proxy")
    }

    /// 410: the resource version or continue token is too old.
    pub fn expired() -> Self {
        Self::new(StatusCode::GONE, "Expired", "too old resource version")
    }

    /// 429 with Retry-After, as priority and fairness answers under load.
    pub fn too_many_requests(retry_after: Duration) -> Self {
        let answer =
            Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", "too many requests, please try again later");
        Self { retry_after: Some(retry_after), ..answer }
    }

    /// 500.
    pub fn internal_error() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "internal error injected by the lab's proxy")
    }

    /// 503, as a webhook or an aggregated API that is down answers.
    pub fn unavailable() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        )
    }

    /// The `metav1.Status` that says the same in the body.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code.as_u16(),
        });
        if let Some(delay) = self.retry_after {
            status["details"] = json!({ "retryAfterSeconds": delay.as_secs() });
        }
        status
    }
}

/// Names a rule for its removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(u64);

/// The rules of a proxy, in the order they were added.
#[derive(Default)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
    next: u64,
}

struct Rule {
    id: RuleId,
    when: Match,
    counter: Counter,
    fault: Fault,
}

impl Rules {
    pub(crate) fn add(&mut self, when: Match, which: Which, fault: Fault) -> RuleId {
        let id = RuleId(self.next);
        self.next += 1;
        self.rules.push(Rule { id, when, counter: Counter::new(which), fault });
        id
    }

    pub(crate) fn remove(&mut self, id: RuleId) {
        self.rules.retain(|rule| rule.id != id);
    }

    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    /// The fault of the first rule that hits. Every rule counts every request that it matches, hit by an earlier one
    /// or not, so that rules do not depend on each other.
    pub(crate) fn decide(&mut self, request: &RequestInfo) -> Option<Fault> {
        let mut hit = None;
        for rule in &mut self.rules {
            if rule.when.matches(request) && rule.counter.next() {
                hit = hit.or_else(|| Some(rule.fault.clone()));
            }
        }
        hit
    }
}

/// Tells which members of a sequence are hit.
struct Counter {
    which: Which,
    seen: u64,
    random: SmallRng,
}

impl Counter {
    fn new(which: Which) -> Self {
        let seed = if let Which::Random { seed, .. } = which { seed } else { 0 };
        Self { which, seen: 0, random: SmallRng::seed_from_u64(seed) }
    }

    fn next(&mut self) -> bool {
        self.seen += 1;
        match self.which {
            Which::Every => true,
            Which::First(count) => self.seen <= count,
            Which::Nth(number) => self.seen == number,
            Which::Random { probability, .. } => self.random.random_bool(probability.clamp(0.0, 1.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use proptest::prelude::*;

    use super::*;

    fn request(method: &Method, path: &str) -> RequestInfo {
        RequestInfo::parse(method, path, None)
    }

    fn hits(rules: &mut Rules, count: usize) -> Vec<bool> {
        let patch = request(&Method::PATCH, "/api/v1/namespaces/tf/configmaps/a");
        (0..count).map(|_| rules.decide(&patch).is_some()).collect()
    }

    #[test]
    fn a_rule_hits_the_requests_it_names_and_no_other() {
        let hit = |which| {
            let mut rules = Rules::default();
            rules.add(Match::all(), which, Fault::Hang);
            hits(&mut rules, 4)
        };
        assert_eq!(hit(Which::Every), [true; 4]);
        assert_eq!(hit(Which::First(2)), [true, true, false, false]);
        assert_eq!(hit(Which::Nth(3)), [false, false, true, false]);
    }

    #[test]
    fn the_first_rule_wins_and_the_others_count_all_the_same() {
        let mut rules = Rules::default();
        let first = rules.add(Match::all(), Which::First(1), Fault::Hang);
        rules.add(Match::writes(), Which::Nth(2), Fault::Delay(Duration::from_secs(1)));
        let patch = request(&Method::PATCH, "/api/v1/nodes/a");
        assert_eq!(rules.decide(&patch), Some(Fault::Hang));
        assert_eq!(rules.decide(&patch), Some(Fault::Delay(Duration::from_secs(1))));
        assert_eq!(rules.decide(&patch), None);
        rules.remove(first);
        rules.clear();
        assert_eq!(rules.decide(&patch), None);
    }

    #[test]
    fn conditions_look_at_what_the_request_is_about() {
        let lease = request(&Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/tf/leases/op");
        let status = request(&Method::PATCH, "/apis/apps/v1/namespaces/tf/statefulsets/z/status");
        let get = request(&Method::GET, "/api/v1/namespaces/tf/pods/z");
        assert!(!Match::writes().matches(&lease) && Match::writes().matches(&status) && !Match::writes().matches(&get));
        assert!(Match::resource("statefulsets").and(Match::verb(Verb::Patch)).matches(&status));
        assert!(Match::path("/pods/z$").unwrap().matches(&get) && !Match::path("/pods$").unwrap().matches(&get));
        assert!(Match::path("(").is_err());
    }

    #[test]
    fn an_answer_has_the_shape_of_a_status_object() {
        let status = Answer::too_many_requests(Duration::from_secs(7)).status();
        assert_eq!(status["code"], 429);
        assert_eq!(status["reason"], "TooManyRequests");
        assert_eq!(status["details"]["retryAfterSeconds"], 7);
        assert_eq!(status["kind"], "Status");
    }

    proptest! {
        #[test]
        fn the_same_seed_hits_the_same_requests(seed: u64, probability in 0.0..=1.0) {
            let run = || {
                let mut rules = Rules::default();
                rules.add(Match::all(), Which::Random { probability, seed }, Fault::Hang);
                hits(&mut rules, 64)
            };
            prop_assert_eq!(run(), run());
        }

        #[test]
        fn certain_and_impossible_are_exact(seed: u64) {
            for (probability, expected) in [(0.0, false), (1.0, true)] {
                let mut rules = Rules::default();
                rules.add(Match::all(), Which::Random { probability, seed }, Fault::Hang);
                prop_assert_eq!(hits(&mut rules, 16), vec![expected; 16]);
            }
        }
    }
}
