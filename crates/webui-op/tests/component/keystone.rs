//! Jobs of the web UI log in at Keystone with the files of a plan. `tf-sim` reads the files and plays both.

use crate::support::{World, webui};
use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tf_sim::webui::options::Options;
use tf_testing::logins::{KINDS, Logins, PASSWORD};
use webui_op::Component;

#[test]
fn jobs_log_in_with_a_strange_password_and_not_with_another_one() -> Result<()> {
    for (version, is_tls) in KINDS {
        let logins = Logins::start(is_tls)?;
        let token = |password: &str| {
            let planned =
                logins.plan::<Component>(&webui(json!({})), World::default().observed(), version, password)?;
            let file = |key: &str| logins.file(&planned, key);
            let options = Options::read(&file("config.global.js.10.0.0.1")?, &file("contrail-webui-userauth.js")?)?;
            Ok::<_, anyhow::Error>(logins.token(&options.keystone.context("no Keystone")?.login()))
        };
        token(PASSWORD)?.with_context(|| format!("{version}, TLS {is_tls}"))?;
        let told = format!("{:#}", token("hunter2")?.err().context("let in")?);
        ensure!(told.contains("401") && !told.contains("hunter2"), "{told}");
    }
    Ok(())
}

#[test]
fn a_login_that_keystone_refuses_is_not_handed_out() -> Result<()> {
    Logins::start(false)?.are_withheld::<Component>(&webui(json!({})), World::default().observed())
}
