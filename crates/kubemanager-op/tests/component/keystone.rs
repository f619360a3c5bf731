//! kube-manager logs in at Keystone with the files of a plan. `tf-sim` reads the files and plays both.

use crate::support::{World, kubemanager};
use anyhow::{Context as _, Result, ensure};
use kubemanager_op::Component;
use serde_json::json;
use tf_sim::{kubernetes::options::Options, library::Library};
use tf_testing::logins::{KINDS, Logins, PASSWORD};

#[test]
fn the_daemon_logs_in_with_a_strange_password_and_not_with_another_one() -> Result<()> {
    for (version, is_tls) in KINDS {
        let logins = Logins::start(is_tls)?;
        let token = |password: &str| {
            let cr = kubemanager(json!({}));
            let planned = logins.plan::<Component>(&cr, World::default().observed(), version, password)?;
            let options = Options::read(&logins.file(&planned, "contrail-kubernetes.conf.10.0.0.2")?)?;
            let library = Library::of(&logins.file(&planned, "vnc_api_lib.ini")?)?;
            let login = library.login(&options.login)?.context("the API is said to be open")?;
            Ok::<_, anyhow::Error>(logins.token(&login))
        };
        token(PASSWORD)?.with_context(|| format!("{version}, TLS {is_tls}"))?;
        let told = format!("{:#}", token("hunter2")?.err().context("let in")?);
        ensure!(told.contains("401") && !told.contains("hunter2"), "{told}");
    }
    Ok(())
}

#[test]
fn a_password_that_some_images_cannot_send_is_told() -> Result<()> {
    let logins = Logins::start(false)?;
    let notes = |password: &str| {
        let planned = logins.plan::<Component>(&kubemanager(json!({})), World::default().observed(), "v3", password)?;
        Ok::<_, anyhow::Error>(planned.0.notes)
    };
    ensure!(notes(PASSWORD)?.is_empty() && notes("pässword")?.iter().any(|note| note.contains("ASCII")));
    Ok(())
}

#[test]
fn a_login_that_keystone_refuses_is_not_handed_out() -> Result<()> {
    Logins::start(false)?.are_withheld::<Component>(&kubemanager(json!({})), World::default().observed())
}
