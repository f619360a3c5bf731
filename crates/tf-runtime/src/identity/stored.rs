//! The authorities of a namespace as their Secret holds them, and what it becomes when one replaces another.
//!
//! `tls.crt` and `tls.key` are the authority that is wanted: a user may put another one there at any time. What is in use is
//! kept beside it, with keys, so that nothing is lost by that: the state of the rotation ([`tf_pki::rotation`]) and every
//! authority that members trust.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};
use tf_pki::{
    authority::{AUTHORITY_LIFETIME, Authority, AuthorityError, Curve, SignError},
    bundle::Bundle,
    fingerprint::Fingerprint,
    rotation::{Behind, Cause, Participant, Source, Stage, State, Step, Waiting, Wish},
};

/// Keys of the Secret. The first two are those of `kubernetes.io/tls`; in the third cert-manager has the root of the first.
const CERTIFICATE: &str = "tls.crt";
const PRIVATE_KEY: &str = "tls.key";
const ROOT: &str = "ca.crt";
const RECORD: &str = "authorities.json";

/// What members have taken may take daemons a moment: no step is taken sooner after the one before.
const SETTLING: Duration = Duration::from_secs(30);

/// What is kept in [`RECORD`].
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    state: State,
    /// The authority that an operator made last; any other is a user's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generated: Option<Fingerprint>,
    /// When the state changed last.
    changed: Timestamp,
    /// Authorities that members trust.
    trusted: Vec<Pem>,
}

/// An authority with its key.
#[derive(Serialize, Deserialize)]
struct Pem {
    certificates: String,
    key: String,
}

impl Pem {
    fn of(authority: &Authority) -> Self {
        Self { certificates: authority.certificates_pem(), key: authority.key_pem() }
    }

    fn read(&self) -> Result<Arc<Authority>, AuthorityError> {
        Authority::from_pem(&self.certificates, &self.key).map(Arc::new)
    }
}

/// What is stored cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The wanted authority.
    #[error("tls.crt and tls.key: {0}; put an authority there with its key")]
    Wanted(AuthorityError),
    /// The one that signs.
    #[error("the authority in use: {0}; put another one into tls.crt and tls.key")]
    Signer(AuthorityError),
    /// The record.
    #[error("authorities.json: {0}; without it the authority of tls.crt is taken as the only one there ever was")]
    Record(String),
}

/// The authorities of a namespace.
pub struct Stored {
    wanted: Arc<Authority>,
    /// As [`State::trusted`]: the one that signs is the first.
    trusted: Vec<Arc<Authority>>,
    state: State,
    generated: Option<Fingerprint>,
    changed: Timestamp,
    /// Whether the Secret says all this.
    recorded: bool,
}

/// What is to be done about the authorities.
pub enum Turn {
    /// Nothing.
    Rests,
    /// Nothing yet: a rotation waits for this.
    Waits(String),
    /// They are to become these; the text says what that means.
    To(Box<Stored>, &'static str),
}

impl Stored {
    /// The first authority of a namespace.
    pub fn generated(namespace: &str, now: Timestamp) -> Result<Self, SignError> {
        let authority = Arc::new(generate(namespace, now)?);
        let fingerprint = authority.fingerprint();
        Ok(Self { generated: Some(fingerprint), ..Self::founded(authority, now) })
    }

    fn founded(authority: Arc<Authority>, now: Timestamp) -> Self {
        Self {
            state: State::founded(authority.fingerprint(), None),
            trusted: vec![Arc::clone(&authority)],
            wanted: authority,
            generated: None,
            changed: now,
            recorded: false,
        }
    }

    /// What the Secret holds.
    pub fn read(data: &BTreeMap<String, ByteString>, now: Timestamp) -> Result<Self, Unusable> {
        let text = |key| data.get(key).map(|bytes: &ByteString| String::from_utf8_lossy(&bytes.0).into_owned());
        let pem = |key| text(key).unwrap_or_default();
        let stated = Pem { certificates: pem(CERTIFICATE), key: pem(PRIVATE_KEY) };
        let wanted = match (stated.read(), text(ROOT)) {
            (Err(AuthorityError::NoRoot(_)), Some(root)) => {
                Pem { certificates: format!("{}\n{root}", stated.certificates), ..stated }.read()
            }
            (read, _) => read,
        };
        let wanted = wanted.map_err(Unusable::Wanted)?;
        let stored = match text(RECORD) {
            None => Self::founded(wanted, now),
            Some(record) => Self::recorded(wanted, &record).map_err(Unusable::Record)?,
        };
        match stored.signer().check(now) {
            // Whoever made it makes another.
            Err(AuthorityError::Expired(_)) if stored.generated == Some(stored.signer().fingerprint()) => {}
            fit => fit.map_err(Unusable::Signer)?,
        }
        if !stored.state.trusted().contains(&stored.wanted.fingerprint()) {
            stored.wanted.check(now).map_err(Unusable::Wanted)?;
        }
        Ok(stored)
    }

    fn recorded(wanted: Arc<Authority>, record: &str) -> Result<Self, String> {
        // Without what serde says of the place: it may quote.
        let record: Record = serde_json::from_str(record).map_err(|_| "is not what an operator writes".to_owned())?;
        let known: Result<Vec<_>, _> = record.trusted.iter().map(Pem::read).collect();
        let known = known.map_err(|error| error.to_string())?;
        let trusted = pick(&record.state, &known).ok_or("an authority that members trust is missing")?;
        let Record { state, generated, changed, .. } = record;
        Ok(Self { wanted, trusted, state, generated, changed, recorded: true })
    }

    /// The same, with an authority that is made now and wanted from now on.
    pub fn with_generated(self, namespace: &str, now: Timestamp) -> Result<Self, SignError> {
        let wanted = Arc::new(generate(namespace, now)?);
        let generated = Some(wanted.fingerprint());
        Ok(Self { wanted, generated, recorded: true, ..self })
    }

    /// Whether an operator made the authority that is wanted.
    pub fn wants_generated(&self) -> bool {
        self.generated == Some(self.wanted.fingerprint())
    }

    /// What of [`Self::data`] goes into a Secret that is there: what others put there stays to the letter.
    pub fn changes(&self) -> BTreeMap<String, ByteString> {
        let all = self.wants_generated();
        self.data().into_iter().filter(|(key, _)| all || key == RECORD).collect()
    }

    /// What a new Secret is to hold.
    pub fn data(&self) -> BTreeMap<String, ByteString> {
        let record = Record {
            state: self.state.clone(),
            generated: self.generated,
            changed: self.changed,
            trusted: self.trusted.iter().map(|authority| Pem::of(authority)).collect(),
        };
        let record = serde_json::to_string(&record).unwrap_or_default();
        let texts =
            [(CERTIFICATE, self.wanted.certificates_pem()), (PRIVATE_KEY, self.wanted.key_pem()), (RECORD, record)];
        texts.into_iter().map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes()))).collect()
    }

    /// Whether the Secret says all of it.
    pub fn is_recorded(&self) -> bool {
        self.recorded
    }

    /// What members have to trust, the authority that signs first.
    pub fn bundle(&self) -> Bundle {
        self.trusted
            .iter()
            .map(|authority| authority.bundle())
            .reduce(|all, next| all.merged(&next))
            .unwrap_or_default()
    }

    /// The authorities themselves, without those above them: who is allowed to call agents has a certificate of one of them, and of no
    /// other that their roots may have issued.
    pub fn signers(&self) -> Bundle {
        self.trusted.iter().map(|authority| authority.certificate().clone()).collect()
    }

    /// Number of the bundle.
    pub fn revision(&self) -> u64 {
        self.state.revision
    }

    /// The authority that signs.
    pub fn signer(&self) -> &Authority {
        // Made with at least one.
        &self.trusted[0]
    }

    /// The authorities that members trust.
    pub fn trusted(&self) -> Vec<Fingerprint> {
        self.state.trusted()
    }

    /// The authority that signs for a member which has loaded this bundle.
    pub fn issuer_for(&self, loaded: u64) -> Result<&Authority, Behind> {
        self.state.issuer_for(loaded).map(|_| self.signer())
    }

    /// Whether two authorities are trusted.
    pub fn is_rotating(&self) -> bool {
        self.state.stage != Stage::Settled
    }

    /// Whether another one than the one that signs is wanted: one replaces another, or is about to.
    pub fn is_unfinished(&self) -> bool {
        self.is_rotating() || self.wanted.fingerprint() != self.state.current.authority
    }

    /// Whether these are the same as others, in the same state.
    pub fn is_as(&self, other: &Self) -> bool {
        self.state == other.state && self.wanted.fingerprint() == other.wanted.fingerprint()
    }

    /// What is to be done. `request` is a text by which the user asks for another authority.
    pub fn turn(
        &self,
        namespace: &str,
        participants: &[Participant],
        request: Option<String>,
        now: Timestamp,
    ) -> Result<Turn, SignError> {
        let wish = Wish { source: self.source(), request };
        let has_settled = now.duration_since(self.changed).unsigned_abs() >= SETTLING;
        let (mut wanted, mut generated, mut known) = (Arc::clone(&self.wanted), self.generated, self.trusted.clone());
        let (state, what) = match self.state.next(participants, &wish, now) {
            Step::Rest(_) => return Ok(Turn::Rests),
            Step::Wait(Waiting::ToTrust(names)) => {
                return Ok(Turn::Waits(format!("{} do not trust the next one yet", names.join(", "))));
            }
            Step::Wait(Waiting::ToRenew(names)) => {
                return Ok(Turn::Waits(format!("{} have no certificate of the new one yet", names.join(", "))));
            }
            Step::IssueFromNew | Step::DropOld if !has_settled => {
                return Ok(Turn::Waits(format!("the step before is less than {} s old", SETTLING.as_secs())));
            }
            Step::TrustBoth(cause) => {
                if cause != Cause::Supplied {
                    wanted = Arc::new(generate(namespace, now)?);
                    generated = Some(wanted.fingerprint());
                }
                known.push(Arc::clone(&wanted));
                let state = self.state.trust_both(wanted.fingerprint(), wish.request);
                (state, "members are configured to trust the next authority, too")
            }
            Step::Abandon => {
                (self.state.abandon(), "the next authority is not wanted any more, nothing was signed by it")
            }
            Step::IssueFromNew => (self.state.issue_from_new(), "the next authority signs from now on"),
            Step::DropOld => (self.state.drop_old(), "the authority before is not trusted any more"),
        };
        let Some(trusted) = pick(&state, &known) else { return Ok(Turn::Rests) };
        Ok(Turn::To(Box::new(Self { wanted, trusted, state, generated, changed: now, recorded: true }), what))
    }

    /// Where the wanted authority comes from.
    fn source(&self) -> Source {
        let wanted = self.wanted.fingerprint();
        let latest = match self.state.stage {
            Stage::TrustBoth { next } => next.authority,
            Stage::Settled | Stage::IssueFromNew { .. } => self.state.current.authority,
        };
        if wanted == latest && self.wants_generated() {
            Source::Generated(self.signer().validity())
        } else {
            Source::Supplied(wanted)
        }
    }
}

fn generate(namespace: &str, now: Timestamp) -> Result<Authority, SignError> {
    Authority::generate(&format!("members of {namespace}"), Curve::P256, AUTHORITY_LIFETIME, now)
}

/// The authorities that a state trusts, in its order; none if one is missing.
fn pick(state: &State, known: &[Arc<Authority>]) -> Option<Vec<Arc<Authority>>> {
    let find = |wanted| known.iter().find(|authority| authority.fingerprint() == wanted).cloned();
    state.trusted().into_iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn member(loaded: u64, issuer: Fingerprint) -> Participant {
        Participant { name: "zookeeper-0".into(), running: true, loaded, leaves: [(issuer, at(1_000_000))].into() }
    }

    /// Through the Secret, as another process would see it.
    fn reread(stored: &Stored, now: Timestamp) -> Stored {
        let read = Stored::read(&stored.data(), now).unwrap();
        assert!(read.is_as(stored) && read.is_recorded());
        assert_eq!(read.bundle(), stored.bundle());
        read
    }

    fn to(turn: Turn) -> Stored {
        match turn {
            Turn::To(stored, _) => *stored,
            Turn::Waits(why) => panic!("waits: {why}"),
            Turn::Rests => panic!("rests"),
        }
    }

    fn waits(turn: Turn) -> String {
        match turn {
            Turn::Waits(why) => why,
            Turn::To(_, what) => panic!("{what}"),
            Turn::Rests => panic!("rests"),
        }
    }

    #[test]
    fn at_a_request_members_trust_both_then_have_new_certificates_then_trust_one() {
        let first = reread(&Stored::generated("tf", at(0)).unwrap(), at(1));
        let old = first.signer().fingerprint();
        assert!(matches!(first.turn("tf", &[], None, at(100)).unwrap(), Turn::Rests));
        let request = || Some("please".to_owned());

        let both = reread(&to(first.turn("tf", &[], request(), at(100)).unwrap()), at(100));
        assert_eq!((both.revision(), both.signer().fingerprint()), (2, old));
        assert_eq!(both.bundle().certificates().len(), 2);
        let why = waits(both.turn("tf", &[member(1, old)], request(), at(200)).unwrap());
        assert!(why.contains("zookeeper-0"), "{why}");
        assert!(waits(both.turn("tf", &[member(2, old)], request(), at(110)).unwrap()).contains("30 s"));

        let signs = reread(&to(both.turn("tf", &[member(2, old)], request(), at(200)).unwrap()), at(200));
        let new = signs.signer().fingerprint();
        assert!(new != old && signs.revision() == 2);
        assert!(signs.issuer_for(1).is_err(), "who trusts the old one only is not met with a new certificate");
        waits(signs.turn("tf", &[member(2, old)], request(), at(300)).unwrap());

        let alone = reread(&to(signs.turn("tf", &[member(2, new)], request(), at(300)).unwrap()), at(300));
        assert_eq!((alone.revision(), alone.trusted()), (3, vec![new]));
        assert!(
            matches!(alone.turn("tf", &[], request(), at(400)).unwrap(), Turn::Rests),
            "the request was carried out"
        );
    }

    #[test]
    fn a_users_authority_replaces_the_one_in_use_whose_key_is_not_lost() {
        let first = Stored::generated("tf", at(0)).unwrap();
        let old = first.signer().fingerprint();
        let theirs = generate("theirs", at(0)).unwrap();
        let mut data = first.data();
        data.insert(CERTIFICATE.into(), ByteString(theirs.certificates_pem().into_bytes()));
        data.insert(PRIVATE_KEY.into(), ByteString(theirs.key_pem().into_bytes()));

        let found = Stored::read(&data, at(100)).unwrap();
        assert_eq!(found.signer().fingerprint(), old, "it signs until everybody trusts the next one");
        let both = reread(&to(found.turn("tf", &[], None, at(100)).unwrap()), at(100));
        assert_eq!(both.trusted(), [old, theirs.fingerprint()]);
        let signs = reread(&to(both.turn("tf", &[member(2, old)], None, at(200)).unwrap()), at(200));
        assert_eq!(signs.signer().fingerprint(), theirs.fingerprint());

        // Taken back before it signed.
        let data = both.data().into_iter().chain(first.data().into_iter().filter(|(key, _)| key != RECORD)).collect();
        let back = to(Stored::read(&data, at(150)).unwrap().turn("tf", &[], None, at(150)).unwrap());
        assert_eq!(back.trusted(), [old]);
        assert!(matches!(reread(&back, at(160)).turn("tf", &[], None, at(160)).unwrap(), Turn::Rests));
    }

    #[test]
    fn what_is_supplied_instead_of_one_that_has_not_signed_yet_is_still_to_be_done_when_that_one_is_dropped() {
        let first = Stored::generated("tf", at(0)).unwrap();
        let supplied = |theirs: &Authority, to: &Stored| {
            let pair = [(CERTIFICATE, theirs.certificates_pem()), (PRIVATE_KEY, theirs.key_pem())];
            let pair = pair.map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())));
            Stored::read(&to.data().into_iter().chain(pair).collect(), at(100)).unwrap()
        };
        let [one, other] = ["one", "other"].map(|name| generate(name, at(0)).unwrap());
        let both = to(supplied(&one, &first).turn("tf", &[], None, at(100)).unwrap());
        let dropped = to(supplied(&other, &both).turn("tf", &[], None, at(110)).unwrap());
        assert!(!dropped.is_rotating() && dropped.is_unfinished(), "nobody else would look again");
        let again = to(reread(&dropped, at(115)).turn("tf", &[], None, at(115)).unwrap());
        assert_eq!(again.trusted(), [first.signer().fingerprint(), other.fingerprint()]);
        assert!(again.is_unfinished() && !first.is_unfinished());
    }

    #[test]
    fn an_authority_that_was_there_before_is_used_and_one_that_is_none_is_refused_with_the_key_at_fault() {
        let theirs = generate("theirs", at(0)).unwrap();
        let pair = |certificate: &str, key: &str| {
            let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
            BTreeMap::from([(CERTIFICATE.to_owned(), bytes(certificate)), (PRIVATE_KEY.to_owned(), bytes(key))])
        };
        let found = Stored::read(&pair(&theirs.certificates_pem(), &theirs.key_pem()), at(1)).unwrap();
        assert!(!found.is_recorded());
        assert_eq!(found.signer().fingerprint(), theirs.fingerprint());
        let refused =
            |data: &BTreeMap<String, ByteString>| Stored::read(data, at(1)).err().map(|error| error.to_string());
        assert!(refused(&pair("nonsense", "nonsense")).unwrap().starts_with("tls.crt and tls.key"));
        let other = generate("other", at(0)).unwrap();
        assert!(refused(&pair(&theirs.certificates_pem(), &other.key_pem())).unwrap().contains("not that of"));
        let mut data = found.data();
        data.insert(RECORD.into(), ByteString(b"{\"secret\": 1}".to_vec()));
        assert!(refused(&data).unwrap().starts_with("authorities.json"));
    }

    #[test]
    fn of_the_generated_authorities_an_old_one_is_replaced_and_a_users_is_not() {
        let year = 366 * 24 * 3600;
        let old = Stored::generated("tf", at(0)).unwrap();
        let late = at(i64::try_from(AUTHORITY_LIFETIME.as_secs()).unwrap() - year / 12);
        assert_eq!(to(old.turn("tf", &[], None, late).unwrap()).trusted().len(), 2);
        let users = Stored { generated: None, ..old };
        assert!(matches!(users.turn("tf", &[], None, late).unwrap(), Turn::Rests));
    }

    /// A root and an authority below it, as cert-manager writes them: chain without root, key, root.
    fn below() -> [String; 3] {
        use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
        let params = |name: &str| {
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::CommonName, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
            params
        };
        let keys = [KeyPair::generate().unwrap(), KeyPair::generate().unwrap()];
        let root = params("root").self_signed(&keys[0]).unwrap().pem();
        let [root_key, key] = keys;
        let issuer = Issuer::new(params("root"), root_key);
        [params("members of tf").signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem(), root]
    }

    #[test]
    fn an_authority_from_outside_is_completed_with_its_root_and_left_as_it_is_and_gives_way_to_a_generated_one() {
        let [certificate, key, root] = below();
        let pair = [(CERTIFICATE, certificate), (PRIVATE_KEY, key)].map(|(key, text)| (key.to_owned(), text));
        let bytes = |(key, text): (String, String)| (key, ByteString(text.into_bytes()));
        let mut data: BTreeMap<_, _> = pair.into_iter().map(bytes).collect();
        let refused = Stored::read(&data, at(1)).err().map(|error| error.to_string()).unwrap();
        assert!(refused.contains("add its issuers up to the root"), "{refused}");
        data.insert(ROOT.to_owned(), ByteString(root.into_bytes()));

        let outside = Stored::read(&data, at(1)).unwrap();
        let theirs = outside.signer().fingerprint();
        assert_eq!((outside.bundle().certificates().len(), outside.signers().certificates().len()), (2, 1));
        assert_eq!(outside.signers().certificates()[0].fingerprint(), theirs);
        assert!(!outside.wants_generated());
        assert_eq!(outside.changes().into_keys().collect::<Vec<_>>(), [RECORD]);
        assert!(matches!(outside.turn("tf", &[], Some("now".into()), at(100)).unwrap(), Turn::Rests));

        data.extend(outside.changes());
        let own = Stored::read(&data, at(100)).unwrap().with_generated("tf", at(100)).unwrap();
        assert!(own.wants_generated() && own.trusted() == [theirs]);
        data.extend(own.changes());
        let found = Stored::read(&data, at(100)).unwrap();
        let both = to(found.turn("tf", &[], None, at(200)).unwrap());
        let generated = both.trusted()[1];
        data.extend(both.changes());
        let signs = to(Stored::read(&data, at(200)).unwrap().turn("tf", &[member(2, theirs)], None, at(300)).unwrap());
        let alone = to(signs.turn("tf", &[member(2, generated)], None, at(400)).unwrap());
        assert_eq!(alone.trusted(), [generated]);
        assert_eq!(alone.source(), Source::Generated(alone.signer().validity()), "it ages as any generated one does");
    }
}
