//! What clients log in with, and whether servers ask for it (ADR 0034).
//!
//! Whoever is given a user and a password sends them to servers that ask, and need not be told which do. So they are given to clients first, as
//! soon as the spec says anything of it, and for good; whether servers ask is recorded, and changes when every member knows the user.

use tf_agent_api::cassandra::{self, AUTH_KEYSPACE, LOGIN_FILE};
use tf_api::{Authentication, Cassandra, Managed as _, contract::MemberStatus};
use tf_config_files::env;
use tf_plan::{
    build::{configuration, identity::Identity},
    credentials::{Credential, Generator},
    not_ready::NotReady,
    observed::Observed,
    references::References,
    reports::Reports,
    resize::Decision,
    secret::SecretData,
};

use crate::{OPERATOR, plan, procedure};

/// The one user. It is the same for every ring, so what a former resource left on a disk is overwritten.
pub const USER: &str = "tf";
/// Key of the password, in the operator's own Secret and in what clients connect with.
pub const PASSWORD: &str = "password";
/// Longest password: bcrypt looks at no more.
const LONGEST: usize = 72;

/// How clients show who they are, as it was recorded.
fn recorded(cr: &Cassandra) -> Option<Authentication> {
    cr.status.as_ref()?.own.authentication
}

/// Whether clients are given a user and a password.
fn is_given(cr: &Cassandra) -> bool {
    cr.spec.service_configuration.authentication.or(recorded(cr)).is_some()
}

/// The password that was made for clients.
pub fn stored<'a>(cr: &Cassandra, observed: &'a Observed<Cassandra>) -> Option<&'a str> {
    observed.secrets.get(&plan::passwords_name(cr))?.get(PASSWORD)
}

/// What has to be in the operator's own Secret.
pub fn credential(cr: &Cassandra) -> Option<Credential> {
    is_given(cr).then(|| password(cr))
}

fn password(cr: &Cassandra) -> Credential {
    Credential::new(plan::passwords_name(cr), PASSWORD, Generator::Alphanumeric { length: 32 })
}

/// The members' files, in which the password is that the ring goes by.
pub fn references(cr: &Cassandra) -> References {
    let files = configuration::secret_name(&Identity::of(OPERATOR, cr));
    References { secrets: is_given(cr).then_some(files).into_iter().collect(), ..References::default() }
}

/// What clients log in with. Deliberately not `Debug`: it holds a password.
pub struct Login {
    /// The password of [`USER`].
    pub password: String,
    /// The one that the operator's own Secret holds. A person put it there, and it is [`Self::password`] once members can be told.
    pub stored: String,
    /// Whether servers ask for it.
    pub authentication: Authentication,
    /// What a person should know.
    pub notes: Vec<String>,
}

impl Login {
    /// What clients of a ring log in with, if they are given anything. `unready` says what keeps members from being told anything else: a ring that asks
    /// for no password begins to when they can be, and one that was brought up goes over to another password.
    ///
    /// # Errors
    /// When there is no password yet, or one that clients cannot be given.
    pub fn of(
        cr: &Cassandra,
        observed: &Observed<Cassandra>,
        initialized: bool,
        unready: impl Fn() -> Option<String>,
    ) -> Result<Option<Self>, NotReady> {
        if !is_given(cr) {
            return Ok(None);
        }
        let place = format!("Secret {}/{}", cr.home(), plan::passwords_name(cr));
        let usable = || password(cr).unquoted(cr, observed, LONGEST, "clients put it into files as it is");
        let mut notes = Vec::new();
        let password = match told(cr, observed).filter(|_| initialized) {
            None => usable()?.to_owned(),
            Some(told) => match usable() {
                Ok(same) if same == told => told,
                Err(unfit) => {
                    notes.push(format!("clients go on with the former password: {}", unfit.message));
                    told
                }
                Ok(other) => match unready() {
                    None => other.to_owned(),
                    Some(why) => {
                        notes.push(format!("clients go on with the former password of {place} for now: {why}"));
                        told
                    }
                },
            },
        };
        let (authentication, waits) = in_force(cr, initialized, unready);
        notes.extend(waits.map(|why| format!("clients are not asked for a password yet: {why}")));
        let stored = stored(cr, observed).unwrap_or(&password).to_owned();
        Ok(Some(Self { password, stored, authentication, notes }))
    }

    /// Whether servers ask for the password.
    pub fn is_asked(&self) -> bool {
        self.authentication == Authentication::Password
    }

    /// What members' agents are told. `founders`: how many found the ring, if it was not brought up.
    pub fn launch(&self, founders: Option<usize>) -> cassandra::Login {
        let founders = founders.and_then(|founders| u32::try_from(founders).ok());
        cassandra::Login { asked: self.is_asked(), founders }
    }

    /// What clients find in the connection Secret.
    pub fn connection(&self) -> SecretData {
        let mut data = SecretData::default();
        data.insert("username", USER);
        data.insert(PASSWORD, &self.password);
        data
    }
}

/// The password that members were told.
fn told(cr: &Cassandra, observed: &Observed<Cassandra>) -> Option<String> {
    recorded(cr)?;
    let files = observed.secrets.get(&configuration::secret_name(&Identity::of(OPERATOR, cr)))?;
    env::parse(files.get(LOGIN_FILE)?).ok()?.remove(cassandra::PASSWORD)
}

/// How clients show who they are from now on, and why that is not what the spec says yet.
fn in_force(
    cr: &Cassandra,
    initialized: bool,
    unready: impl FnOnce() -> Option<String>,
) -> (Authentication, Option<String>) {
    let has = recorded(cr).unwrap_or_default();
    let wanted = cr.spec.service_configuration.authentication.unwrap_or(has);
    // Servers that ask nobody are told the user while they serve; those that ask could not be asked.
    let begins = initialized && wanted == Authentication::Password && has == Authentication::None;
    match begins.then(unready).flatten() {
        None => (wanted, None),
        waits => (has, waits),
    }
}

/// What keeps a ring from asking clients for a password: a member that does not know the user.
pub fn unready(members: &[MemberStatus], reports: &Reports<'_>, decided: Option<&Decision>) -> Option<String> {
    let ring = match procedure::whole(members, reports) {
        Ok(ring) => ring,
        Err(why) => return Some(why),
    };
    if let Some((_, pod, _)) = ring.iter().find(|(_, _, facts)| !facts.has_login) {
        return Some(format!("the server of pod {} does not know it", pod.name));
    }
    let is_everywhere = |facts: &cassandra::Facts| {
        facts.keyspaces.get(AUTH_KEYSPACE).is_none_or(|factor| *factor as usize == members.len())
    };
    let is_idle = decided.is_some_and(|decision| decision.step.is_none() && decision.waits.is_none());
    if !is_idle || !ring.iter().all(|(_, _, facts)| is_everywhere(facts)) {
        return Some("each member is to hold the users first".to_owned());
    }
    None
}
