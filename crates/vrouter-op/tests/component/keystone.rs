//! Clients of the config API on the vRouter's nodes log in at Keystone with the files of a plan. `tf-sim` reads the files and plays both.

use crate::world::{files, observed, vrouter};
use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tf_sim::library::{Brought, Library};
use tf_testing::logins::{KINDS, Logins, PASSWORD};
use vrouter_op::Component;

#[test]
fn clients_log_in_with_a_strange_password_and_not_with_another_one() -> Result<()> {
    for (version, is_tls) in KINDS {
        let logins = Logins::start(is_tls)?;
        let token = |password: &str| {
            let planned = logins.plan::<Component>(&vrouter(json!({})), observed(), version, password)?;
            let library = Library::of(&logins.among(&files(&planned.0), "vnc_api_lib.ini")?)?;
            let login = library.login(&Brought::default())?.context("the API is said to be open")?;
            Ok::<_, anyhow::Error>(logins.token(&login))
        };
        token(PASSWORD)?.with_context(|| format!("{version}, TLS {is_tls}"))?;
        let told = format!("{:#}", token("hunter2")?.err().context("let in")?);
        ensure!(told.contains("401") && !told.contains("hunter2"), "{told}");
    }
    Ok(())
}
