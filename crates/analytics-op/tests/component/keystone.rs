//! The API of Analytics logs in at Keystone with the files of a plan. `tf-sim` reads the files and plays both.

use crate::support::situation;
use analytics_op::{Analytics, AnalyticsAlarm, AnalyticsSnmp};
use anyhow::{Context as _, Result, ensure};
use tf_sim::{
    analytics::options::{Daemon, Options},
    library::Library,
};
use tf_testing::logins::{KINDS, Logins, PASSWORD};

#[test]
fn the_api_logs_in_with_a_strange_password_and_not_with_another_one() -> Result<()> {
    for (version, is_tls) in KINDS {
        let logins = Logins::start(is_tls)?;
        let token = |password: &str| {
            let (cr, observed) = situation::<Analytics>("analytics/node-manager-and-keystone-and-other-ports");
            let planned = logins.plan::<Analytics>(&cr, observed, version, password)?;
            let files = ["contrail-analytics-api.conf.10.0.0.1", "contrail-keystone-auth.conf"];
            let texts: Result<Vec<String>> = files.into_iter().map(|file| logins.file(&planned, file)).collect();
            let (_, brought) = Options::read(Daemon::Api, &texts?)?.api.context("no config API")?;
            let library = Library::of(&logins.file(&planned, "vnc_api_lib.ini")?)?;
            let login = library.login(&brought)?.context("the config API is said to be open")?;
            Ok::<_, anyhow::Error>(logins.token(&login))
        };
        token(PASSWORD)?.with_context(|| format!("{version}, TLS {is_tls}"))?;
        let told = format!("{:#}", token("hunter2")?.err().context("let in")?);
        ensure!(told.contains("401") && !told.contains("hunter2"), "{told}");
    }
    Ok(())
}

#[test]
fn a_login_that_keystone_refuses_is_not_handed_out() -> Result<()> {
    let logins = Logins::start(false)?;
    let (cr, observed) = situation::<Analytics>("analytics/node-manager-and-keystone-and-other-ports");
    logins.are_withheld::<Analytics>(&cr, observed)?;
    let (cr, observed) = situation::<AnalyticsAlarm>("analyticsalarm/three-nodes");
    logins.are_withheld::<AnalyticsAlarm>(&cr, observed)?;
    let (cr, observed) = situation::<AnalyticsSnmp>("analyticssnmp/three-nodes");
    logins.are_withheld::<AnalyticsSnmp>(&cr, observed)
}
