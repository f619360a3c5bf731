//! When clients are asked for a password, and for which one.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use cassandra_op::{
    login,
    plan::{passwords_name, plan},
};
use serde_json::json;
use tf_api::Authentication;
use tf_plan::plan::Plan;

use crate::ring::*;

#[test]
fn clients_are_asked_for_a_password_when_every_member_knows_it_and_holds_the_users() {
    let recorded = |plan: &Plan| plan.own_status.get("authentication").cloned();
    let ready = plan(&asking(), &unasked(&|_, _| {})).unwrap();
    assert_eq!(recorded(&ready), Some(json!("Password")));
    assert!(ready.record.contains(&"authentication") && ready.notes.is_empty(), "{ready:?}");
    let cases: [(Said<'_>, &str); 4] = [
        (&|index, facts| facts.has_login = index != 1, "-1 does not know it"),
        (&|_, facts| facts.keyspaces.extend([("system_auth".to_owned(), 1)]), "each member is to hold the users"),
        (&|index, facts| facts.joined = index == 2, "each member is to hold the users"),
        (&|index, facts| facts.schema = format!("schema-{index}"), "different versions of the schema"),
    ];
    for (change, why) in cases {
        let waits = plan(&asking(), &unasked(change)).unwrap();
        assert_eq!(recorded(&waits), Some(json!("None")), "{why}");
        assert!(waits.notes.iter().any(|note| note.contains(why)), "{why}: {:?}", waits.notes);
    }
}

/// Servers take their configuration one after the other, and report the keyspace of users from then on.
#[test]
fn users_are_repaired_when_every_member_reports_their_keyspace_and_not_before() {
    let step = |reporting: std::ops::Range<usize>| {
        let observed = repaired([Some(1); 3], |index, facts| {
            facts.keyspaces.extend(reporting.contains(&index).then(|| ("system_auth".to_owned(), 1)));
        });
        plan(&resource(), &observed).unwrap().step.map(|step| step.explain())
    };
    assert!(step(0..3).is_some_and(|step| step.contains("repairs keyspace system_auth")));
    assert_eq!(step(0..1), None);
}

#[test]
fn another_password_is_taken_when_every_member_can_be_told_and_stays_in_the_secret_until_then() {
    let mut resource = asking();
    resource.status.as_mut().unwrap().own.authentication = Some(Authentication::Password);
    let edited = |password: &str, change: Said<'_>| {
        let mut observed = unasked(change);
        observed.secrets.get_mut(&passwords_name(&resource)).unwrap().insert(login::PASSWORD, password);
        let told = [("login.env".to_owned(), "USER='tf'\nPASSWORD='secret'\n".to_owned())];
        observed.secrets.insert("configdb1-cassandra-secret-files".to_owned(), told.into_iter().collect());
        plan(&resource, &observed).unwrap()
    };
    let holds = |plan: &Plan, name: &str, text: &str| {
        let object = plan.objects.iter().find(|object| object.name == name).unwrap();
        serde_json::to_string(&object.body).unwrap().contains(&BASE64_STANDARD.encode(text))
    };
    let (files, connection, own) =
        ("configdb1-cassandra-secret-files", "configdb1-cassandra-connection", "configdb1-cassandra-passwords");
    let login = |password: &str| format!("USER='tf'\nPASSWORD='{password}'\n");

    let taken = edited("another", &|_, _| {});
    assert!(taken.notes.is_empty(), "{:?}", taken.notes);
    assert!(holds(&taken, connection, "another") && holds(&taken, own, "another"));
    let cases: [(&str, Said<'_>, &str); 3] = [
        ("another", &|index, facts| facts.has_login = index != 1, "-1 does not know it"),
        ("another", &|index, facts| facts.schema = format!("schema-{index}"), "different versions of the schema"),
        ("an other", &|_, _| {}, "has to be 1 to 72 ASCII letters"),
    ];
    for (password, change, why) in cases {
        let waits = edited(password, change);
        let is_told = |note: &String| note.starts_with("clients go on with the former password") && note.contains(why);
        assert!(waits.notes.iter().any(is_told), "{why}: {:?}", waits.notes);
        assert!(holds(&waits, connection, "secret") && holds(&waits, own, password), "{why}");
        assert!(holds(&waits, files, &login("secret")), "{why}");
    }
    assert!(holds(&taken, files, &login("another")));
}

#[test]
fn who_is_no_longer_asked_goes_on_to_be_given_a_password() {
    let mut resource = asking();
    resource.status.as_mut().unwrap().own.authentication = Some(Authentication::Password);
    for (wanted, recorded) in [(None, "Password"), (Some(Authentication::None), "None")] {
        resource.spec.service_configuration.authentication = wanted;
        let plan = plan(&resource, &unasked(&|_, _| {})).unwrap();
        assert_eq!(plan.own_status.get("authentication"), Some(&json!(recorded)));
        let is_given = plan.objects.iter().any(|object| object.name == "configdb1-cassandra-connection");
        assert!(is_given, "{wanted:?}");
    }
}
