use tf_agent_api::{rabbitmq, redis, state::Health, zookeeper::Facts};

use super::*;

fn member() -> Member {
    Member::new(Key::default(), SocketAddr::from(([192, 0, 2, 1], 2183)))
}

fn says(serves: bool, zxid: u64) -> Status {
    Status {
        version: "0.1.0".into(),
        pod: "zookeeper1-zookeeper-statefulset-0".into(),
        node: "cp1".into(),
        address: "192.0.2.1".into(),
        health: Some(Health::new(serves, "")),
        zookeeper: Some(Facts { zxid, ..Facts::default() }),
        ..Status::default()
    }
}

fn heard(member: &Member) -> Option<Agent> {
    lock(&member.heard).agent.clone()
}

#[test]
fn one_answer_that_is_missing_is_no_news_and_a_second_one_is_silence() {
    let member = member();
    assert!(member.take(Ok(says(true, 1))), "the first answer is news");
    assert!(!member.take(Err(ExchangeError::Slow(PATIENCE).into())));
    assert!(matches!(heard(&member), Some(Agent::Says(_))), "one lost answer changes nothing");
    assert!(member.take(Err(ExchangeError::Slow(PATIENCE).into())), "silence is news");
    assert!(matches!(heard(&member), Some(Agent::Silent(_))));
    assert!(!member.take(Err(ExchangeError::Unreachable("gone".into()).into())), "another cause is none");
    assert!(member.take(Ok(says(true, 2))), "that it answers again is news");
    assert!(!member.take(Err(ExchangeError::Slow(PATIENCE).into())), "failures are counted anew");
}

#[test]
fn an_agent_that_never_answered_is_unheard_at_first_and_silent_then() {
    let member = member();
    assert!(!member.take(Err(ExchangeError::Slow(PATIENCE).into())));
    assert_eq!(heard(&member), None, "nothing is concluded from one failure");
    assert!(member.take(Err(ExchangeError::Slow(PATIENCE).into())));
    assert!(matches!(heard(&member), Some(Agent::Silent(_))));
}

#[test]
fn what_redis_copies_at_rest_wakes_nobody_and_a_copy_that_lacks_something_does() {
    let member = member();
    let copies = |sent: u64, has: u64| {
        let copy = "192.0.2.2".parse().map(|address| (address, has));
        let copying = redis::Copying { offset: sent, linked: true, copies: copy.into_iter().collect(), lacks: 0 };
        let facts = redis::Facts { copying: Some(copying), ..redis::Facts::default() };
        Ok(Status { redis: Some(facts), ..says(true, 0) })
    };
    member.take(copies(1_000, 990));
    assert!(!member.take(copies(2_000, 1_500)), "servers ping each other");
    assert!(member.take(copies(9_000_000, 1_500)), "it lacks much");
    assert!(!member.take(copies(9_000_000, 1_600)));
    assert!(member.take(copies(9_000_000, 9_000_000)), "it has everything again");
}

#[test]
fn counters_that_pass_by_wake_nobody_and_what_matters_does() {
    let member = member();
    member.take(Ok(says(true, 1)));
    assert!(!member.take(Ok(says(true, 2))), "transactions go on");
    let Some(Agent::Says(status)) = heard(&member) else { unreachable!("it answered") };
    assert_eq!(status.zookeeper.map(|facts| facts.zxid), Some(2), "and are known all the same");
    assert!(member.take(Ok(says(false, 2))), "it serves no more");
    let with = |change: fn(&mut Status)| {
        let mut status = says(false, 2);
        change(&mut status);
        status
    };
    assert!(member.take(Ok(with(|status| status.rabbitmq = Some(tf_agent_api::rabbitmq::Facts::default())))));
    assert!(member.take(Ok(with(|status| status.cassandra = Some(tf_agent_api::cassandra::Facts::default())))));
}

#[test]
fn what_a_store_says_is_news_whichever_it_is() {
    let member = member();
    let of = |critical: Option<&str>| Status {
        zookeeper: None,
        rabbitmq: Some(rabbitmq::Facts { critical: critical.map(str::to_owned), ..rabbitmq::Facts::default() }),
        ..says(true, 0)
    };
    member.take(Ok(of(Some("queue 'q' has one copy"))));
    assert!(member.take(Ok(of(None))), "it may be stopped now");
    assert!(!member.take(Ok(of(None))));
}
