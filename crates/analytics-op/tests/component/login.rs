//! Who is let in at the API's port for administration, and as whom topology asks there: read out of both daemons' files.

#![expect(clippy::unwrap_used, reason = "a situation that cannot be planned is a failing test")]

use crate::support::{files, hand_over, options, plan, situation, started_anew, with_keystone};
use analytics_op::{Analytics, AnalyticsSnmp};
use tf_plan::{component::Component as _, object::SECRET, observed::Observed, plan::Plan};
use tf_sim::analytics::options::{Administration, Daemon};
use tf_testing::situation::data;

const THREE: &str = "analytics/three-nodes-with-a-database-and-alarms";
const SNMP: &str = "analyticssnmp/three-nodes";
const SECRET_NAME: &str = "analytics1-analytics-login";
const GENERATED: &str = "Admin-Pass-0123456789";

fn of(plan: &Plan, container: &str, daemon: Daemon) -> Administration {
    options(&files(plan), container, daemon, "10.0.0.1").unwrap().administration.unwrap()
}

fn let_in(plan: &Plan) -> Administration {
    of(plan, "analyticsapi", Daemon::Api)
}

fn asked(plan: &Plan) -> Administration {
    of(plan, "analytics-snmp-topology", Daemon::Topology)
}

fn analytics(changes: impl Fn(&mut tf_api::Analytics, &mut Observed<tf_api::Analytics>)) -> Plan {
    let (mut cr, mut observed) = situation::<Analytics>(THREE);
    changes(&mut cr, &mut observed);
    Analytics::plan(&cr, &observed).unwrap()
}

/// Beside this Analytics.
fn snmp(beside: &Plan, changes: impl Fn(&mut tf_api::AnalyticsSnmp)) -> Plan {
    let (mut cr, mut observed) = situation::<AnalyticsSnmp>(SNMP);
    changes(&mut cr);
    hand_over(beside, &mut observed);
    AnalyticsSnmp::plan(&cr, &observed).unwrap()
}

fn another_password(_: &mut tf_api::Analytics, observed: &mut Observed<tf_api::Analytics>) {
    observed.secrets.get_mut(SECRET_NAME).unwrap().insert("password", "Another-Pass-0123456789");
}

#[test]
fn topology_asks_as_who_the_api_lets_in() {
    let analytics = plan::<Analytics>(THREE);
    let snmp = snmp(&analytics, |_| {});
    assert_eq!(let_in(&analytics), asked(&snmp));
    assert_eq!((let_in(&analytics).user.as_str(), let_in(&analytics).password.as_str()), ("admin", GENERATED));
    assert_eq!(data(&analytics, SECRET, "-login")["password"], GENERATED);
    assert_eq!((analytics.notes, snmp.notes), (Vec::new(), Vec::new()));
}

#[test]
fn with_keystone_that_is_its_administrator_who_is_published_nowhere() {
    let analytics = plan::<Analytics>("analytics/node-manager-and-keystone-and-other-ports");
    let keystone = plan::<AnalyticsSnmp>("analyticssnmp/keystone-node-manager-and-every-setting");
    assert_eq!(let_in(&analytics), asked(&keystone));
    assert_eq!(let_in(&analytics).password, "Keystone-Pass-0123456789");
    assert_eq!(analytics.connection, None);
    let (cr, _) = situation::<Analytics>("analytics/node-manager-and-keystone-and-other-ports");
    assert!(Analytics::credentials(&cr).is_empty());

    let without = snmp(&analytics, |_| {});
    assert!(without.notes.iter().any(|note| note.contains("published no login")), "{:?}", without.notes);
    assert_ne!(let_in(&analytics), asked(&without));
}

#[test]
fn what_analytics_publishes_counts_whatever_keystone_there_is() {
    let analytics = plan::<Analytics>(THREE);
    let snmp = snmp(&analytics, |cr| *cr = with_keystone(cr, "Keystone-Pass-0123456789"));
    assert_eq!(let_in(&analytics), asked(&snmp));
}

#[test]
fn another_password_starts_those_anew_who_go_by_it_and_no_others() {
    let (before, after) = (plan::<Analytics>(THREE), analytics(another_password));
    assert_eq!(let_in(&after).password, "Another-Pass-0123456789");
    assert_eq!(started_anew(&before, &after, "10.0.0.2"), ["analyticsapi"]);
    assert_ne!(before.connection, after.connection, "those who go by it hear of it");
    let (before, after) = (snmp(&before, |_| {}), snmp(&after, |_| {}));
    assert_eq!(asked(&after).password, "Another-Pass-0123456789");
    assert_eq!(started_anew(&before, &after, "10.0.0.2"), ["analytics-snmp-topology"]);
}

#[test]
fn a_password_that_clients_cannot_send_is_refused_or_told() {
    for unfit in ["", "a:b", "s3crét", "with blanks"] {
        let (cr, mut observed) = situation::<Analytics>(THREE);
        observed.secrets.get_mut(SECRET_NAME).unwrap().insert("password", unfit);
        let not_ready = Analytics::plan(&cr, &observed).unwrap_err();
        assert!(not_ready.message.contains("tf/analytics1-analytics-login"), "{}", not_ready.message);
    }
    // Everything else takes it.
    let is_told = |plan: &Plan| plan.notes.iter().any(|note| note.contains("holds a colon") && !note.contains("Key:"));
    let keystone = "Key:stone-Pass-0123456789";
    let analytics = analytics(|cr, _| *cr = with_keystone(cr, keystone));
    let snmp = snmp(&analytics, |cr| *cr = with_keystone(cr, keystone));
    assert_eq!((is_told(&analytics), is_told(&snmp)), (true, true));
    assert_eq!(asked(&snmp).password, keystone);
}

#[test]
fn topology_on_a_node_without_an_api_is_told() {
    let notes = plan::<AnalyticsSnmp>("analyticssnmp/twelve-control-nodes").notes;
    assert!(notes.iter().any(|note| note.contains("no Analytics on 10.0.0.4, 10.0.0.5,")), "{notes:?}");
}

#[test]
fn an_api_elsewhere_without_tls_is_not_shown_the_password_of_keystone() {
    let (cr, observed) = situation::<AnalyticsSnmp>("analyticssnmp/analytics-without-tls");
    let plan = AnalyticsSnmp::plan(&with_keystone(&cr, "Keystone-Pass-0123456789"), &observed).unwrap();
    let asked = asked(&plan);
    assert_eq!(asked.servers, ["10.0.0.1:8081", "10.0.0.2:8081", "10.0.0.3:8081"]);
    assert_ne!(asked.password, "Keystone-Pass-0123456789");
    assert_eq!(plan.notes, Vec::<String>::new());
}
