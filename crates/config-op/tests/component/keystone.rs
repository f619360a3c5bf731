//! Daemons log in at Keystone with the files of a plan, and the API lets in whom Keystone knows. `tf-sim` reads the files and plays both.

use crate::support::{World, config};
use anyhow::{Context as _, Result, ensure};
use config_op::Component;
use serde_json::json;
use tf_sim::{
    keystone::Login,
    library::{Brought, Library},
    options::{Daemon, Options},
};
use tf_testing::{
    logins::{KINDS, Logins, PASSWORD},
    situation::Planned,
};

/// Further files and names of the daemons that are clients of the API.
const CLIENTS: [(&str, Daemon); 3] = [
    ("contrail-schema.conf.10.0.0.2", Daemon::Schema),
    ("contrail-svc-monitor.conf.10.0.0.2", Daemon::SvcMonitor),
    ("contrail-device-manager.conf.10.0.0.2", Daemon::DeviceManager),
];

fn read(logins: &Logins, planned: &Planned, daemon: Daemon, file: &str) -> Result<Options> {
    let texts = [logins.file(planned, file)?, logins.file(planned, "contrail-keystone-auth.conf")?];
    Ok(Options::read(daemon, &texts)?)
}

fn planned(logins: &Logins, version: &str, password: &str) -> Result<Planned> {
    logins.plan::<Component>(&config(json!({})), World::default().observed(), version, password)
}

/// How everybody logs in who does: those three, and what brings no login of its own, such as the script that stores leases.
fn clients(logins: &Logins, planned: &Planned) -> Result<Vec<Login>> {
    let library = Library::of(&logins.file(planned, "vnc_api_lib.ini")?)?;
    let mut brought = vec![Brought::default()];
    for (file, daemon) in CLIENTS {
        brought.push(read(logins, planned, daemon, file)?.login);
    }
    brought.iter().map(|brought| library.login(brought)?.context("the API is said to be open")).collect()
}

#[test]
fn daemons_log_in_with_a_strange_password_and_the_api_lets_them_in() -> Result<()> {
    for (version, is_tls) in KINDS {
        let logins = Logins::start(is_tls)?;
        let planned = planned(&logins, version, PASSWORD)?;
        let api = read(&logins, &planned, Daemon::Api, "contrail-api-0.conf.10.0.0.2")?;
        let guard = api.guard.context("the API asks for no token")?;
        for client in clients(&logins, &planned)? {
            let token = logins.token(&client).with_context(|| format!("{version}, TLS {is_tls}"))?;
            ensure!(logins.refusal(&guard, &token).is_none(), "{version}, TLS {is_tls}");
        }
        ensure!(logins.refusal(&guard, "made-up") == Some(401), "{version}, TLS {is_tls}");
        // What the API itself does for its projects.
        logins.token(guard.login())?;
    }
    Ok(())
}

#[test]
fn with_another_password_nobody_is_let_in_and_it_is_not_quoted() -> Result<()> {
    for (version, is_tls) in KINDS {
        let logins = Logins::start(is_tls)?;
        let right = planned(&logins, version, PASSWORD)?;
        let wrong = planned(&logins, version, "hunter2")?;
        for client in clients(&logins, &wrong)? {
            let told = format!("{:#}", logins.token(&client).err().context("let in")?);
            ensure!(told.contains("401") && !told.contains("hunter2"), "{told}");
        }
        let guard = read(&logins, &wrong, Daemon::Api, "contrail-api-0.conf.10.0.0.2")?.guard.context("no guard")?;
        let token = logins.token(clients(&logins, &right)?.first().context("no client")?)?;
        ensure!(logins.refusal(&guard, &token) == Some(503), "an API that is not let in judges nobody");
    }
    Ok(())
}

/// Keystone's certificate is checked where the Secret brings an authority.
#[test]
fn a_keystone_of_another_authority_is_no_keystone() -> Result<()> {
    let (logins, other) = (Logins::start(true)?, Logins::start(true)?);
    let planned = planned(&logins, "v3", PASSWORD)?;
    let client = clients(&logins, &planned)?.remove(0);
    // The same server, and the other's authority.
    std::fs::write(logins.folder().join("keystone-ca.crt"), other.authority())?;
    let told = format!("{:#}", logins.token(&client).err().context("let in")?);
    ensure!(told.contains("certificate"), "{told}");
    Ok(())
}

#[test]
fn a_login_that_some_images_cannot_send_is_told() -> Result<()> {
    let logins = Logins::start(false)?;
    let told = |password: &str| {
        let planned = planned(&logins, "v3", password)?;
        let is_told = |note: &String| note.contains("ASCII") && !note.contains(password);
        Ok::<_, anyhow::Error>(planned.0.notes.iter().any(is_told))
    };
    ensure!(!told(PASSWORD)? && told("pässword")? && told("€")?);
    Ok(())
}

#[test]
fn a_login_that_keystone_refuses_is_not_handed_out() -> Result<()> {
    Logins::start(false)?.are_withheld::<Component>(&config(json!({})), World::default().observed())
}
