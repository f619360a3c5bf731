//! What a client of the config API goes by: `vnc_api_lib.ini` and what the daemon brings itself (upstream `vnc_api.py`). Without an authority in
//! the file it does not get through TLS (docs/upstream/observed.md#certificates).

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    exit::{Exit, exception},
    http::Patience,
    ini::Ini,
    keystone::{Login, Trust, Url, Version},
};

/// Where the library looks.
const FILE: &str = "/etc/contrail/vnc_api_lib.ini";

/// What the file says.
#[derive(Clone)]
pub struct Library {
    authorities: Option<PathBuf>,
    auth: BTreeMap<String, String>,
    patience: Patience,
}

impl Default for Library {
    fn default() -> Self {
        let patience = Patience { connection: Duration::from_secs(5), answer: Duration::from_secs(120) };
        Self { authorities: None, auth: BTreeMap::new(), patience }
    }
}

/// What a daemon brings beside the file. What it has counts.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Brought {
    /// User, password and project; empty ones are none.
    pub login: [String; 3],
    /// Where tokens are to be had.
    pub token_url: Option<String>,
    /// Protocol, host and port of Keystone.
    pub server: Option<[String; 3]>,
}

/// Without what it holds.
impl fmt::Debug for Brought {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Brought").finish_non_exhaustive()
    }
}

impl Library {
    /// Reads the file, if it is there.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read() -> Result<Self, Exit> {
        Self::read_from(Path::new(FILE))
    }

    fn read_from(path: &Path) -> Result<Self, Exit> {
        std::fs::read_to_string(path).map_or_else(|_| Ok(Self::default()), |text| Self::of(&text))
    }

    /// What this text says.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(text: &str) -> Result<Self, Exit> {
        let mut ini = Ini::default();
        ini.read(text)?;
        let global = ini.options("global")?;
        if global.get("web_port").is_some_and(|port| port.parse::<u16>().is_err()) {
            return Err(exception("ValueError: WEB_PORT"));
        }
        let is_tls = global.get("use_ssl").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let authorities = global.get("cafile").filter(|_| is_tls).map(PathBuf::from);
        let mut patience = Self::default().patience;
        // A fraction is taken of the first one and not of the second (upstream `_connection_timeout`, `_timeout`).
        if let Some(text) = global.get("connection_timeout") {
            patience.connection =
                seconds(text.trim().parse().ok()).ok_or_else(|| exception("ValueError: CONNECTION_TIMEOUT"))?;
        }
        if let Some(text) = global.get("timeout") {
            let whole = text.trim().parse::<u32>().ok().map(f64::from);
            patience.answer = seconds(whole).ok_or_else(|| exception("ValueError: TIMEOUT"))?;
        }
        Ok(Self { authorities, auth: ini.options("auth")?, patience })
    }

    /// How long the client waits for a connection and for an answer.
    pub const fn patience(&self) -> Patience {
        self.patience
    }

    /// The authorities of the API, if it speaks TLS to who reads the file.
    pub fn authorities(&self) -> Option<&Path> {
        self.authorities.as_deref()
    }

    /// How the client logs in once the API wants it to. None if it has been told that the API is open.
    ///
    /// # Errors
    /// What ends the daemon.
    pub fn login(&self, brought: &Brought) -> Result<Option<Login>, Exit> {
        match self.or("authn_type", "keystone") {
            "noauth" => return Ok(None),
            "keystone" => {}
            _ => {
                return Err(exception(
                    "NotImplementedError: The authentication strategy is not supported by the VNC API lib",
                ));
            }
        }
        let own = [("authn_protocol", "http"), ("authn_server", "127.0.0.1"), ("authn_port", "35357")];
        let own = own.map(|(option, default)| self.or(option, default).to_owned());
        let [protocol, host, port] = brought.server.clone().unwrap_or(own);
        // Without the option it looks for version 3 first.
        let path = self.or("authn_url", "/v3/auth/tokens");
        let version = if path.contains("v2") { Version::V2 } else { Version::V3 };
        let text = brought.token_url.clone().or_else(|| self.given("authn_token_url").map(str::to_owned));
        let text = text.unwrap_or_else(|| format!("{protocol}://{host}:{port}{path}"));
        let url =
            Url::read(&text).ok_or_else(|| exception("RuntimeError: Unable to connect to keystone: InvalidURL"))?;
        let insecure = self.given("insecure").is_some_and(is_true);
        let authorities = self.given("cafile").filter(|_| protocol == "https").map(str::to_owned);
        Ok(Some(Login {
            url,
            trust: Trust::of(insecure, authorities),
            version,
            question: self.question(version, brought)?,
        }))
    }

    /// The question for a token. Texts are pasted into JSON as they are, and go out as Latin-1, which `requests` of images before urllib3 2 makes
    /// of them (seen with requests 2.27.1 and urllib3 1.26.20).
    fn question(&self, version: Version, brought: &Brought) -> Result<Vec<u8>, Exit> {
        let own = [self.or("authn_user", ""), self.or("authn_password", ""), self.or("authn_tenant", "default-tenant")];
        let [user, password, project] = [0, 1, 2].map(|index| match brought.login[index].as_str() {
            "" => own[index],
            brought => brought,
        });
        let domain = self.or("authn_domain", "default");
        let text = match version {
            Version::V2 => format!(
                r#"{{"auth":{{"passwordCredentials":{{"username": "{user}", "password": "{password}"}}, "tenantName":"{project}"}}}}"#
            ),
            Version::V3 => format!(
                r#"{{"auth":{{"identity":{{"methods": ["password"], "password":{{ "user":{{ "name": "{user}", "domain": {{ "name": "{domain}" }}, "password": "{password}"}}}}}}, "scope":{{ "project":{{ "domain": {{ "name": "{domain}" }}, "name": "{project}"}}}}}}}}"#
            ),
        };
        let bytes: Option<Vec<u8>> = text.chars().map(|character| u8::try_from(u32::from(character)).ok()).collect();
        bytes.ok_or_else(|| exception("RuntimeError: Unable to connect to keystone: UnicodeEncodeError"))
    }

    fn given(&self, option: &str) -> Option<&str> {
        self.auth.get(option).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn or<'a>(&'a self, option: &str, default: &'a str) -> &'a str {
        self.given(option).unwrap_or(default)
    }
}

/// What `requests` takes for a timeout: more than nothing.
fn seconds(number: Option<f64>) -> Option<Duration> {
    number.filter(|number| *number > 0.0).and_then(|number| Duration::try_from_secs_f64(number).ok())
}

/// As Python's parser reads booleans.
fn is_true(value: &str) -> bool {
    ["1", "yes", "true", "on"].contains(&value.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authorities(text: &str) -> Result<Option<PathBuf>, Exit> {
        Ok(Library::of(text)?.authorities)
    }

    fn login(auth: &str, brought: &Brought) -> Result<Option<Login>, Exit> {
        Library::of(&format!("[auth]\n{auth}\n")).unwrap().login(brought)
    }

    fn brought(login: [&str; 3]) -> Brought {
        Brought { login: login.map(str::to_owned), ..Brought::default() }
    }

    #[test]
    fn authorities_count_with_tls_and_a_comment_is_part_of_the_port() {
        assert_eq!(authorities("[global]\nuse_ssl = True\ncafile = /ca\n").unwrap(), Some("/ca".into()));
        assert_eq!(authorities("[global]\nuse_ssl = False\ncafile = /ca\n").unwrap(), None);
        assert_eq!(authorities("[global]\nWEB_PORT = 8082 ; comment\n").unwrap_err().why, "ValueError: WEB_PORT");
        assert!(Library::read_from(Path::new("/nothing/here")).unwrap().authorities.is_none());
    }

    #[test]
    fn a_client_waits_five_seconds_for_a_connection_or_as_long_as_is_said() {
        let waits = |text: &str| {
            let patience = Library::of(&format!("[global]\n{text}\n")).map(|library| library.patience());
            patience.map(|Patience { connection, answer }| (connection.as_secs_f64(), answer.as_secs_f64()))
        };
        assert_eq!(waits(""), Ok((5.0, 120.0)));
        assert_eq!(waits("CONNECTION_TIMEOUT = 7.5\nTIMEOUT = 60"), Ok((7.5, 60.0)));
        for text in ["CONNECTION_TIMEOUT = x", "CONNECTION_TIMEOUT = 0", "CONNECTION_TIMEOUT = 30 s", "TIMEOUT = 1.5"] {
            assert!(waits(text).unwrap_err().why.starts_with("ValueError: "), "{text}");
        }
    }

    #[test]
    fn nothing_said_means_a_keystone_on_the_loopback_address_and_noauth_none() {
        let found = login("", &Brought::default()).unwrap().unwrap();
        assert_eq!(found.url.to_string(), "http://127.0.0.1:35357/v3/auth/tokens");
        assert!(login("AUTHN_TYPE = noauth", &Brought::default()).unwrap().is_none());
        assert!(login("AUTHN_TYPE = none", &Brought::default()).is_err());
    }

    #[test]
    fn what_a_daemon_brings_counts_and_an_empty_text_is_nothing() {
        let auth = "AUTHN_USER = file\nAUTHN_PASSWORD = f\nAUTHN_TENANT = p\nAUTHN_URL = /v2.0/tokens";
        let asked = |login_of: [&str; 3]| {
            let found = login(auth, &brought(login_of)).unwrap().unwrap();
            let body: serde_json::Value = serde_json::from_slice(&found.question).unwrap();
            let user = &body["auth"]["passwordCredentials"]["username"];
            (user.as_str().unwrap().to_owned(), body["auth"]["tenantName"].as_str().unwrap().to_owned())
        };
        assert_eq!(asked(["own", "o", "q"]), ("own".to_owned(), "q".to_owned()));
        assert_eq!(asked(["", "", ""]), ("file".to_owned(), "p".to_owned()));
    }

    /// Keystone finds no JSON, or no UTF-8, in them.
    #[test]
    fn quotation_marks_and_characters_beyond_ascii_do_not_arrive() {
        let arrives = |password: &str| {
            let found = login("", &brought(["u", password, "p"])).ok().flatten();
            found.is_some_and(|login| serde_json::from_slice::<serde_json::Value>(&login.question).is_ok())
        };
        assert!(arrives("a&b+%<c>='#;%(d)s{}"));
        for password in ["a\"b", "a\\", "é", "€"] {
            assert!(!arrives(password), "{password}");
        }
    }
}
