//! Making the credentials that a component asks for and that do not exist yet.

use rand::RngExt;
use tf_plan::{
    credentials::{Credential, Generator, rabbitmq_hash},
    secret::SecretData,
};

const LETTERS_AND_DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const UPPER_CASE: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Fills in what is missing, in the order of the list, so that a hash finds the password made before it. What exists is
/// never changed.
pub fn complete(data: &mut SecretData, credentials: &[&Credential]) {
    for credential in credentials {
        if data.get(credential.key).is_none_or(str::is_empty) {
            let value = generate(credential.generator, data);
            data.insert(credential.key, value);
        }
    }
}

fn generate(generator: Generator, data: &SecretData) -> String {
    match generator {
        Generator::Alphanumeric { length } => random(LETTERS_AND_DIGITS, length),
        Generator::UpperCase { length } => random(UPPER_CASE, length),
        Generator::RabbitmqHash { of } => rabbitmq_hash(data.get(of).unwrap_or_default(), rand::random()),
    }
}

/// Uniformly random characters from the process's cryptographic generator, which is seeded by the operating system.
fn random(alphabet: &[u8], length: usize) -> String {
    let mut generator = rand::rng();
    (0..length).map(|_| char::from(alphabet[generator.random_range(..alphabet.len())])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials() -> [Credential; 2] {
        [
            Credential::new("s", "password", Generator::Alphanumeric { length: 32 }),
            Credential::new("s", "hash", Generator::RabbitmqHash { of: "password" }),
        ]
    }

    #[test]
    fn what_exists_is_kept_and_what_is_missing_is_made() {
        let credentials = credentials();
        let mut data: SecretData = [("password".to_owned(), "kept".to_owned())].into_iter().collect();
        complete(&mut data, &credentials.iter().collect::<Vec<_>>());
        assert_eq!(data.get("password"), Some("kept"));
        assert!(data.get("hash").is_some());
        let before = data.clone();
        complete(&mut data, &credentials.iter().collect::<Vec<_>>());
        assert_eq!(data, before);
    }

    #[test]
    fn two_clusters_get_different_credentials() {
        let credentials = credentials();
        let make = || {
            let mut data = SecretData::default();
            complete(&mut data, &credentials.iter().collect::<Vec<_>>());
            data
        };
        let (a, b) = (make(), make());
        assert_ne!(a.get("password"), b.get("password"));
        assert!(
            a.get("password").is_some_and(|text| text.len() == 32 && text.bytes().all(|b| b.is_ascii_alphanumeric()))
        );
    }
}
