//! Whether a member asks for a certificate: a pure decision over what it has, what it trusts and what its launch file says.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tf_pki::{
    accept::{Unfit, accept},
    bundle::Bundle,
    certificate::Certificate,
    lifetime::Age,
    member::Identity,
};

/// By how much a certificate may be good for longer than was asked for: it begins some minutes before it is issued.
const SLACK: SignedDuration = SignedDuration::from_mins(10);

/// A key and certificates in PEM, the member's own first.
#[derive(Clone, Copy)]
pub struct Pair<'a> {
    /// Private key, PKCS #8.
    pub key: &'a str,
    /// The certificate, and those between it and the root.
    pub certificates: &'a str,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Use what is there, and look again after this time.
    Keep(Duration),
    /// Use what is there, which will be good later: a clock is wrong and no new certificate helps. Look again after this time.
    KeepEarly(Duration),
    /// Use what is there, if anything is, and ask for another one for this reason.
    Ask(String),
}

/// The decision for a time.
pub fn decide(present: Option<Pair<'_>>, identity: &Identity, bundle: &Bundle, now: Timestamp) -> Step {
    let Some(pair) = present else { return Step::Ask(Unfit::Missing.to_string()) };
    let own = match accept(pair.certificates, pair.key, identity, bundle, now) {
        Ok(own) => own,
        Err(unfit) => return keep_early(&pair, &unfit, identity, now).unwrap_or(Step::Ask(unfit.to_string())),
    };
    let validity = own.validity();
    if validity.age(identity.name(), now).wants_renewal() {
        return Step::Ask(format!("the certificate is good until {} and due for renewal", validity.not_after));
    }
    if validity.length() > SignedDuration::try_from(identity.lifetime()).unwrap_or(SignedDuration::MAX) + SLACK {
        return Step::Ask(format!(
            "the certificate is good until {}, longer than certificates shall be",
            validity.not_after
        ));
    }
    if own.names() != *identity.names() || own.addresses() != *identity.addresses() {
        return Step::Ask("the certificate has names or addresses that are not the member's any more".into());
    }
    if issuer(pair.certificates, bundle).map(Certificate::fingerprint)
        != bundle.certificates().first().map(Certificate::fingerprint)
    {
        return Step::Ask("certificates are issued by another authority now".into());
    }
    Step::Keep(validity.next_check(identity.name(), now))
}

fn keep_early(pair: &Pair<'_>, unfit: &Unfit, identity: &Identity, now: Timestamp) -> Option<Step> {
    let Unfit::NotNow { .. } = unfit else { return None };
    let validity = Certificate::first_from_pem(pair.certificates).ok()?.validity();
    (validity.age(identity.name(), now) == Age::NotYetValid)
        .then(|| Step::KeepEarly(validity.next_check(identity.name(), now)))
}

/// Whether a certificate that was handed out takes the place of what is there; why not otherwise. It has to be good, and to
/// last longer or at least not to be due itself, as an old answer or that of an issuer whose clock is behind would be.
pub fn improves(
    issued: Pair<'_>,
    present: Option<Pair<'_>>,
    identity: &Identity,
    bundle: &Bundle,
    now: Timestamp,
) -> Result<(), String> {
    let new = accept(issued.certificates, issued.key, identity, bundle, now).map_err(|unfit| unfit.to_string())?;
    let current = present.and_then(|pair| accept(pair.certificates, pair.key, identity, bundle, now).ok());
    let is_fresh = new.validity().age(identity.name(), now) == Age::Fresh;
    if is_fresh || new.validity().replaces(current.map(|current| current.validity()).as_ref(), now) {
        return Ok(());
    }
    Err(format!(
        "the certificate is good until {} only and does not last longer than the one in use",
        new.validity().not_after
    ))
}

/// The authority of the bundle that a chain leads to.
pub fn issuer<'a>(certificates: &str, bundle: &'a Bundle) -> Option<&'a Certificate> {
    let chain = Certificate::all_from_pem(certificates).ok()?;
    chain.iter().find_map(|certificate| bundle.issuer_of(certificate))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, net::IpAddr};

    use proptest::prelude::*;
    use tf_pki::{
        authority::{Authority, Curve},
        member::{self, Member, SIGNER, USAGES},
        review::{Candidate, Decision, Request, Requester, Roster, ServiceAccount, review},
    };

    use super::*;

    const DAY: i64 = 86_400;

    fn at(day: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + day * DAY).unwrap()
    }

    fn member(services: &[&str], address: [u8; 4]) -> Member {
        Member {
            pod: "zk-0".into(),
            node: "node-0".into(),
            addresses: BTreeSet::from([IpAddr::from(address)]),
            services: services.iter().map(|name| (*name).to_owned()).collect(),
            lifetime_seconds: (90 * DAY) as u32,
        }
    }

    fn identity() -> Identity {
        Identity::member(&member(&["zk"], [10, 0, 0, 1])).unwrap()
    }

    fn authority(name: &str) -> Authority {
        Authority::generate(name, Curve::P256, Duration::from_hours(10 * 365 * 24), at(-30)).unwrap()
    }

    /// Key and certificates as the operator hands them out at a time.
    fn issued(authority: &Authority, identity: &Identity, now: Timestamp) -> (String, String) {
        let asked = member::request(identity).unwrap();
        let extra = [("pod-name", "zk-0"), ("pod-uid", "u"), ("node-name", "node-0"), ("node-uid", "v")];
        let extra = extra.map(|(key, value)| (format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]));
        let requester = Requester {
            username: "system:serviceaccount:tf:zk".into(),
            groups: vec!["system:serviceaccounts:tf".into()],
            extra: extra.into(),
        };
        let candidate =
            Candidate { uid: "u".into(), node: "node-0".into(), node_uid: None, identity: identity.clone() };
        let roster = Roster {
            account: ServiceAccount { namespace: "tf".into(), name: "zk".into() },
            pods: [("zk-0".to_owned(), candidate)].into(),
        };
        let request = Request {
            signer: SIGNER,
            csr: asked.request.as_bytes(),
            usages: &USAGES.map(str::to_owned),
            expiration_seconds: Some(identity.lifetime().as_secs() as i32),
            requester: &requester,
        };
        let Decision::Approve(approved) = review(&request, &roster) else { panic!("not approved") };
        (asked.key, authority.sign(&approved, now).unwrap().pem)
    }

    fn pair((key, certificates): &(String, String)) -> Pair<'_> {
        Pair { key, certificates }
    }

    fn asks(step: Step) -> String {
        match step {
            Step::Ask(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_good_certificate_is_kept_and_renewed_from_two_thirds_of_its_life() {
        let authority = authority("a");
        let (has, bundle) = (issued(&authority, &identity(), at(0)), authority.bundle());
        let step = |day| decide(Some(pair(&has)), &identity(), &bundle, at(day));
        assert_eq!([0, 53].map(step), [const { Step::Keep(tf_pki::lifetime::LONGEST_WAIT) }; 2]);
        assert!(asks(step(61)).contains("due for renewal"));
        assert!(asks(step(91)).contains("good from"), "{:?}", step(91));
        assert_eq!(step(-1), Step::KeepEarly(tf_pki::lifetime::LONGEST_WAIT), "another one would not help");
        assert_eq!(asks(decide(None, &identity(), &bundle, at(0))), "there is no certificate");
    }

    #[test]
    fn a_certificate_that_is_good_for_longer_than_it_shall_be_is_replaced_and_a_shorter_one_kept() {
        let authority = authority("a");
        let bundle = authority.bundle();
        let lasting = |days: i64| {
            let lifetime_seconds = (days * DAY) as u32;
            Identity::member(&Member { lifetime_seconds, ..member(&["zk"], [10, 0, 0, 1]) }).unwrap()
        };
        let has = issued(&authority, &lasting(30), at(0));
        let step = |days| decide(Some(pair(&has)), &lasting(days), &bundle, at(1));
        assert!(asks(step(20)).contains("longer than certificates shall be"));
        assert!(matches!((step(30), step(40)), (Step::Keep(_), Step::Keep(_))));
    }

    #[test]
    fn names_and_addresses_are_exactly_those_of_the_launch_file() {
        let authority = authority("a");
        let (has, bundle) = (issued(&authority, &identity(), at(0)), authority.bundle());
        for changed in
            [member(&["zk", "zk.tf"], [10, 0, 0, 1]), member(&["zk"], [10, 0, 0, 2]), member(&[], [10, 0, 0, 1])]
        {
            let changed = Identity::member(&changed).unwrap();
            asks(decide(Some(pair(&has)), &changed, &bundle, at(0)));
        }
    }

    #[test]
    fn the_member_follows_its_authorities() {
        let (old, new) = (authority("a"), authority("b"));
        let has = issued(&old, &identity(), at(0));
        let step = |bundle: &Bundle| decide(Some(pair(&has)), &identity(), bundle, at(0));
        assert!(matches!(step(&old.bundle().merged(&new.bundle())), Step::Keep(_)), "the next one is only announced");
        let turned = new.bundle().merged(&old.bundle());
        assert_eq!(asks(step(&turned)), "certificates are issued by another authority now");
        assert!(asks(step(&new.bundle())).contains("not issued by an authority of the bundle"));
        assert_eq!(issuer(&has.1, &turned).unwrap().fingerprint(), old.fingerprint());
    }

    #[test]
    fn a_key_of_another_certificate_and_garbage_lead_to_a_new_one() {
        let authority = authority("a");
        let (one, other) = (issued(&authority, &identity(), at(0)), issued(&authority, &identity(), at(0)));
        let bundle = authority.bundle();
        for (key, certificates) in [(&one.0, &other.1), (&one.1, &one.1), (&one.0, &one.0)] {
            asks(decide(Some(Pair { key, certificates }), &identity(), &bundle, at(0)));
        }
    }

    #[test]
    fn what_is_there_gives_way_only_to_something_better() {
        let authority = authority("a");
        let (bundle, has) = (authority.bundle(), issued(&authority, &identity(), at(0)));
        let taken = |new: &(String, String), day| improves(pair(new), Some(pair(&has)), &identity(), &bundle, at(day));
        assert_eq!(taken(&issued(&authority, &identity(), at(60)), 60), Ok(()));
        assert!(taken(&issued(&authority, &identity(), at(-5)), 60).unwrap_err().contains("does not last longer"));
        assert!(taken(&issued(&authority, &identity(), at(61)), 60).is_err(), "it begins later");
        let shorter = Member { lifetime_seconds: (10 * DAY) as u32, ..member(&["zk"], [10, 0, 0, 1]) };
        let shorter = Identity::member(&shorter).unwrap();
        assert_eq!(taken(&issued(&authority, &shorter, at(60)), 60), Ok(()), "a shorter life was asked for");
    }

    proptest! {
        /// Whoever follows the decisions asks once, and is content with what a sound operator hands out.
        #[test]
        fn a_new_certificate_ends_the_reason_for_asking(
            day in -20_i64..200, services in prop::collection::btree_set("[a-c]", 0..3), turned: bool, has_one: bool,
            minutes in 10_u32..200_000,
        ) {
            let (old, new) = (authority("a"), authority("b"));
            let bundle = if turned { new.bundle().merged(&old.bundle()) } else { old.bundle() };
            let services: Vec<&str> = services.iter().map(String::as_str).collect();
            let lifetime_seconds = minutes * 60;
            let wanted = Identity::member(&Member { lifetime_seconds, ..member(&services, [10, 0, 0, 1]) }).unwrap();
            let has = issued(&old, &identity(), at(0));
            let present = has_one.then(|| pair(&has));
            if let Step::Ask(_) = decide(present, &wanted, &bundle, at(day)) {
                let next = issued(if turned { &new } else { &old }, &wanted, at(day));
                prop_assert_eq!(improves(pair(&next), present, &wanted, &bundle, at(day)), Ok(()));
                prop_assert!(matches!(decide(Some(pair(&next)), &wanted, &bundle, at(day)), Step::Keep(_)));
            }
        }
    }
}
