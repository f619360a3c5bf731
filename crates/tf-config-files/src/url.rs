//! What stands in a URL: credentials that survive being pasted into one, and addresses with ports.
//!
//! The daemons build `pyamqp://user:password@host:port/vhost` (Python) and `amqp://...` (C++) from their options without
//! percent-encoding (docs/upstream/files.md#credentials), and no single spelling of a special character works for all of them.
//! So user, password and virtual host are held to characters that mean themselves everywhere.

use super::Refusal;

/// The refusal for a text that is not safe.
pub const UNSAFE: Refusal = Refusal {
    why: "is pasted into a URL unquoted, and is empty or has characters other than ASCII letters, digits, `-`, `_` and `.`",
    hint: "choose one of those characters only",
};

/// Whether `text` may be a RabbitMQ user name or password: not empty, and only ASCII letters, digits, `-`, `_` and `.`
/// (narrower than the unreserved characters of RFC 3986 section 2.3 by `~`).
pub fn is_safe(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

/// Whether `text` may be a RabbitMQ virtual host: as [`is_safe`], or `/`, the default one, which both kinds of daemons
/// understand.
pub fn is_safe_vhost(text: &str) -> bool {
    text == "/" || is_safe(text)
}

/// A host as it stands in a URL: an IPv6 address stands in brackets (RFC 3986 section 3.2.2).
pub fn host(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

/// Host and port as in RFC 3986 section 3.2.
pub fn authority(host: &str, port: u16) -> String {
    format!("{}:{port}", self::host(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ipv6_addresses_stand_in_brackets() {
        assert_eq!(authority("10.0.0.1", 8086), "10.0.0.1:8086");
        assert_eq!(authority("fd00::1", 8086), "[fd00::1]:8086");
        assert_eq!(authority("collector.tf.svc", 8086), "collector.tf.svc:8086");
    }

    #[test]
    fn generated_passwords_are_safe_and_url_syntax_is_not() {
        assert!(is_safe("Az09-_."));
        for text in ["", "a@b", "a:b", "a/b", "a%b", "a b", "a#b", "a?b", "a+b", "a~b", "é"] {
            assert!(!is_safe(text), "{text}");
        }
    }

    #[test]
    fn the_default_virtual_host_is_safe_but_not_as_a_password() {
        assert!(is_safe_vhost("/") && is_safe_vhost("contrail"));
        assert!(!is_safe("/") && !is_safe_vhost("/contrail"));
    }
}
