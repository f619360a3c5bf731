//! Who is let in at the port for administration, which each API opens on the loopback address of its node: without TLS, with basic
//! authentication, whatever else authenticates users (upstream `opserver.py`, `opserver_local.py`). Topology asks there, tools such as
//! `contrail-logs` do, and so does the API itself.
//!
//! With Keystone it is Keystone's administrator, as whom the API asks the config API. Without, it would be a name and a password that stand
//! in upstream's sources, others in those of the API than in those of topology (`opserver.py`, `tf_topology/config.py`). So a password is
//! generated, and kept in a Secret of the operator's own. Clients find it in the connection Secret.

use tf_api::{Analytics, Managed as _};
use tf_config_files::{Ini, Settings as _, Unrepresentable};
use tf_contrail::services::Login;
use tf_plan::{
    build::identity,
    credentials::{Credential, Generator, LONGEST},
    keystone::{self, Keystone},
    not_ready::NotReady,
    observed::Observed,
    secret::SecretData,
};

/// Where the port is, on each node with an API (upstream `OpServerAdminPort`).
pub const PLACE: &str = "127.0.0.1:8181";
/// Name of who is let in, where there is no Keystone.
const USER: &str = "admin";
/// Key of the password, in the Secret and in what clients connect with.
const PASSWORD: &str = "password";
/// Characters of a generated password.
const LENGTH: usize = 32;

/// Name of the Secret. With the type in it, since resources of other kinds may have the same name.
pub fn secret(cr: &Analytics) -> String {
    identity::fit(&format!("{}-analytics-login", cr.title()), 63)
}

/// What has to be in the Secret: nothing with Keystone.
pub fn credentials(cr: &Analytics) -> Vec<Credential> {
    if keystone::is_used(cr.spec.common_configuration.auth_parameters.as_ref()) {
        return Vec::new();
    }
    vec![credential(cr)]
}

fn credential(cr: &Analytics) -> Credential {
    Credential::new(secret(cr), PASSWORD, Generator::Alphanumeric { length: LENGTH })
}

/// Who is let in.
///
/// # Errors
/// When the Secret has no password, or one that clients cannot send.
pub fn of(cr: &Analytics, observed: &Observed<Analytics>, keystone: Option<&Keystone>) -> Result<Login, NotReady> {
    if let Some(keystone) = keystone {
        return Ok(of_administrator(keystone));
    }
    let password = credential(cr).unquoted(cr, observed, LONGEST, "the API takes no other ones from its clients")?;
    Ok(Login { user: USER.to_owned(), password: password.to_owned() })
}

/// Keystone's administrator.
pub fn of_administrator(keystone: &Keystone) -> Login {
    Login { user: keystone.username.clone(), password: keystone.password.expose().to_owned() }
}

/// Content of the operator's own Secret.
pub fn kept(login: &Login) -> SecretData {
    SecretData::from_iter([(PASSWORD.to_owned(), login.password.clone())])
}

/// What clients find in the connection Secret, as [`Login::of`] reads it.
pub fn published(login: &Login) -> SecretData {
    let mut data = kept(login);
    data.insert("username", &login.user);
    data
}

/// What daemons and tools read in [`keystone::FILE`] of it, and nothing of a Keystone.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn file(login: &Login) -> Result<String, Unrepresentable> {
    let mut file = Ini::python(keystone::FILE);
    file.section("KEYSTONE").set("admin_user", &login.user).set("admin_password", &login.password);
    file.render()
}

/// What a person should know of a login with which nobody gets in: the API splits at every colon, and reads as UTF-8 what clients send as
/// Latin-1 (upstream `opserver_local.py`; `requests`, `_basic_auth_str`).
pub fn note(login: &Login) -> Option<String> {
    let arrives = |text: &str| text.is_ascii() && !text.contains(':');
    (!arrives(&login.user) || !arrives(&login.password)).then(|| {
        format!(
            "name or password for {PLACE}, the API's port for administration (with Keystone those of its administrator), holds a colon or a \
             character that is not ASCII, and the API lets in nobody with those: topology learns nothing there, nor do queries about the \
             underlay"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_that_does_not_arrive_is_told_and_not_shown() {
        let note = |user: &str, password: &str| note(&Login { user: user.into(), password: password.into() });
        assert_eq!(note("admin", "a%b=;'#"), None);
        for (user, password) in [("root", "s3:cret"), ("ro:ot", "s3cret"), ("root", "s3crét")] {
            let told = note(user, password).unwrap_or_default();
            assert!(told.contains(PLACE) && !told.contains(user) && !told.contains(password), "{told}");
        }
    }
}
