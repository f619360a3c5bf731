//! OpenStack Keystone as the daemons reach it: `authParameters` of a spec, checked, and the file the daemons share.
//!
//! Defaults are those of the Go tf-operator (docs/upstream/go-operator.md#keystone), except the password: that one had the same for every
//! installation, and here there is none.

#[cfg(test)]
mod tests;
mod unused;

use std::collections::BTreeMap;

use tf_api::{
    Managed,
    common::{AuthMode, AuthParameters, KeystoneVersion},
    contract::Reason,
    schema::Sensitive,
};

use tf_agent_api::node;
use tf_config_files::{Ini, Settings as _, Unrepresentable, url};

pub use self::unused::{ignored, ignored_by_webui};
use crate::{
    external_tls::{self, File},
    not_ready::{NotReady, Obstacle},
    observed::Observed,
    references::References,
    secret::SecretData,
};

/// Name of the file that contrail-api, its workers, the collector and the analytics API read beside their own
/// (docs/upstream/files.md#keystone).
pub const FILE: &str = "contrail-keystone-auth.conf";
/// File with the certificates that Keystone's own is checked against, where they are not the cluster's.
pub const CA: &str = "keystone-ca.crt";
/// Key of the password in the Secret that the spec names.
pub const PASSWORD: &str = "password";
/// Key of the certificates beside it.
pub const AUTHORITY: &str = external_tls::CA;

const SPEC: &str = "commonConfiguration.authParameters";
/// Port of the public API.
const PORT: u16 = 5000;
/// Port of the administration API, which Keystone had for version 2.0 of the Identity API. Since the release Zed of OpenStack nothing listens there
/// (tf-container-builder de3aa90).
const ADMIN_PORT_OF_VERSION_2: u16 = 35357;

/// How to reach Keystone, and as whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Keystone {
    /// Version of the Identity API.
    pub version: KeystoneVersion,
    /// Certificates that Keystone's own is checked against, in PEM; none if they are the cluster's.
    pub authority: Option<String>,
    /// Address or name, without brackets.
    pub address: String,
    /// Port that every daemon but the web UI uses.
    pub port: u16,
    /// Port of the API for users, which the web UI uses.
    pub public_port: u16,
    /// Whether Keystone is reached over TLS.
    pub tls: bool,
    /// Whether its certificate is accepted unchecked.
    pub insecure: bool,
    /// Name of the administrator.
    pub username: String,
    /// Password of the administrator.
    pub password: Sensitive,
    /// Project of the administrator.
    pub tenant: String,
    /// Domain of both: clients of the config API know one only. Version 2.0 has none.
    pub domain: String,
    /// Region.
    pub region: String,
}

/// The port that every daemon but the web UI uses where the spec states none.
pub fn default_port(version: KeystoneVersion) -> u16 {
    match version {
        KeystoneVersion::V3 => PORT,
        KeystoneVersion::V2 => ADMIN_PORT_OF_VERSION_2,
    }
}

/// Whether Keystone authenticates users.
pub fn is_used(auth: Option<&AuthParameters>) -> bool {
    auth.is_some_and(uses_keystone)
}

/// The Secret with the administrator's password, if one is needed.
pub fn secret(auth: Option<&AuthParameters>) -> Option<&str> {
    let auth = auth.filter(|auth| uses_keystone(auth) && spec_password(auth).is_none())?;
    given(auth.keystone_secret_name.as_ref())
}

/// What a resource reads to know how to log in.
pub fn references(cr: &impl Managed) -> References {
    let secret = secret(cr.common().auth_parameters.as_ref());
    References { secrets: secret.map(str::to_owned).into_iter().collect(), ..References::default() }
}

impl Keystone {
    /// What the spec says, with the password out of the Secret it names. None if nobody authenticates users. `home` is the
    /// resource's namespace and `secrets` are those of the snapshot.
    ///
    /// # Errors
    /// When there is no password, or the daemons cannot use a value.
    pub fn of(
        auth: Option<&AuthParameters>,
        home: &str,
        secrets: &BTreeMap<String, SecretData>,
    ) -> Result<Option<Self>, NotReady> {
        let Some(auth) = auth.filter(|auth| uses_keystone(auth)) else { return Ok(None) };
        let parameters = auth.keystone_auth_parameters.clone().unwrap_or_default();
        let tls = match given(parameters.auth_protocol.as_ref()) {
            None | Some("https") => true,
            Some("http") => false,
            Some(_) => return Err(invalid("keystoneAuthParameters.authProtocol has to be http or https")),
        };
        let text = |value: Option<&String>, field: &str, default: &str| {
            let value = given(value).unwrap_or(default);
            check(value).map_err(|rule| invalid(&format!("keystoneAuthParameters.{field} {rule}")))?;
            Ok::<_, NotReady>(value.to_owned())
        };
        let domain = text(parameters.project_domain_name.as_ref(), "projectDomainName", "Default")?;
        if text(parameters.user_domain_name.as_ref(), "userDomainName", "Default")? != domain {
            return Err(invalid(
                "keystoneAuthParameters.userDomainName and projectDomainName have to be the same: clients of the config \
                 API know one domain for user and project",
            ));
        }
        let password = password(auth, home, secrets)?;
        let authority = authority(auth, home, secrets)?;
        let version = parameters.api_version.unwrap_or_default();
        Ok(Some(Self {
            version,
            address: address(given(parameters.address.as_ref()).unwrap_or("127.0.0.1"))?,
            port: parameters.admin_port.or(parameters.port).unwrap_or(default_port(version)),
            public_port: parameters.port.unwrap_or(PORT),
            tls,
            insecure: parameters.insecure.unwrap_or(authority.is_none()),
            authority,
            username: text(parameters.admin_username.as_ref(), "adminUsername", "admin")?,
            password,
            tenant: text(parameters.admin_tenant.as_ref(), "adminTenant", "admin")?,
            domain,
            region: text(parameters.region.as_ref(), "region", "RegionOne")?,
        }))
    }

    /// As whom a resource logs in, if the spec says so in a way that can be.
    pub fn named<Cr: Managed>(cr: &Cr, observed: &Observed<Cr>) -> Option<Self> {
        Self::of(cr.common().auth_parameters.as_ref(), cr.home(), &observed.secrets).ok().flatten()
    }

    /// [`of`](Self::of), for the files of pods: where Keystone refuses the login, it is not handed out, and what runs stays as it is.
    ///
    /// # Errors
    /// Those of [`of`](Self::of), and that Keystone refuses the login.
    pub fn let_in<Cr: Managed>(cr: &Cr, observed: &Observed<Cr>) -> Result<Option<Self>, NotReady> {
        let found = Self::of(cr.common().auth_parameters.as_ref(), cr.home(), &observed.secrets)?;
        match &observed.refused_login {
            Some(why) if found.is_some() => Err(NotReady::secret(format!(
                "Keystone does not let in its administrator, so that nothing is changed: {why}"
            ))),
            _ => Ok(found),
        }
    }

    /// `http` or `https`.
    pub fn protocol(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// What the paths of the API begin with.
    pub fn base(&self) -> &'static str {
        base(self.version)
    }

    /// Where tokens are to be had.
    pub fn tokens(&self) -> &'static str {
        tokens(self.version)
    }

    /// The domain of user and project, where there are any.
    pub fn domain(&self) -> Option<&str> {
        (self.version == KeystoneVersion::V3).then_some(self.domain.as_str())
    }

    /// What a person should know of an administrator as whom clients of the config API cannot log in, depending on the image: before version 2
    /// Python's urllib3 sends texts as Latin-1, in which Keystone finds no JSON (upstream `vnc_api.py`, `_authenticate`; seen with requests
    /// 2.27.1 and urllib3 1.26.20).
    pub fn note(&self) -> Option<String> {
        let texts = [&self.username, self.password.expose(), &self.tenant, self.domain().unwrap_or_default()];
        (!texts.iter().all(|text| text.is_ascii())).then(|| {
            "name, password, project or domain of Keystone's administrator holds a character that is not ASCII: daemons of images whose urllib3 of \
             Python is older than 2 cannot send it, and the config API does not let them in; choose ASCII"
                .to_owned()
        })
    }

    /// What to do where no Keystone answers at the port.
    pub fn without_answer(&self) -> Option<&'static str> {
        match self.version {
            _ if self.port != ADMIN_PORT_OF_VERSION_2 => None,
            KeystoneVersion::V3 => Some(
                "Keystone of OpenStack Zed and later does not listen at port 35357: set keystoneAuthParameters.adminPort to 5000",
            ),
            KeystoneVersion::V2 => Some(
                "Keystone of OpenStack Zed and later has no version 2.0 and does not listen at port 35357: remove \
                 keystoneAuthParameters.apiVersion, and set adminPort to 5000",
            ),
        }
    }

    /// The content of [`FILE`], which holds the password.
    ///
    /// # Errors
    /// When a value cannot be expressed in the file.
    pub fn file(&self) -> Result<String, Unrepresentable> {
        let mut file = Ini::python(FILE);
        let section = file.section("KEYSTONE");
        section
            .set("admin_user", &self.username)
            .set("admin_password", self.password.expose())
            .set("admin_tenant_name", &self.tenant)
            .set("auth_host", url::host(&self.address))
            .set("auth_port", self.port)
            .set("auth_protocol", self.protocol())
            .set(
                "auth_url",
                format!("{}://{}{}", self.protocol(), url::authority(&self.address, self.port), self.base()),
            )
            .set("auth_type", "password")
            .set_if_some("user_domain_name", self.domain())
            .set_if_some("project_domain_name", self.domain())
            .set("region_name", &self.region)
            // The endpoint that every Keystone has. By itself contrail-api looks for the one for administration (docs/upstream/files.md#keystone).
            .set("interface", "public");
        if self.tls {
            // Without the key contrail-api accepts every certificate (upstream `vnc_cfg_api_server/utils.py`).
            section.set("insecure", self.insecure).set_if_some("cafile", self.trust());
        }
        file.render()
    }

    /// The certificates Keystone's own is checked against, if it is.
    ///
    /// There is no client key pair beside it: the daemons only add it to the file of trusted certificates, which they
    /// write to `/tmp`, and never present it (upstream `vnc_auth_keystone.py`, `vnc_api.py`).
    pub fn trust(&self) -> Option<String> {
        (self.tls && !self.insecure)
            .then(|| external_tls::path(self.authority.as_ref().map(|_| CA.to_owned()), node::CA_BUNDLE))
    }
}

/// The file with the authority of a Keystone's own, where there is one and it has one.
pub fn files(keystone: Option<&Keystone>) -> Option<File> {
    authority_file(keystone?.authority.as_ref())
}

/// The same of an authority.
pub fn authority_file(authority: Option<&String>) -> Option<File> {
    authority.map(|content| File { name: CA.to_owned(), content: content.clone(), is_secret: false })
}

/// What the paths of a version of the API begin with.
pub fn base(version: KeystoneVersion) -> &'static str {
    match version {
        KeystoneVersion::V3 => "/v3",
        KeystoneVersion::V2 => "/v2.0",
    }
}

/// Where a version of the API has tokens. Clients of the config API know by it which version they speak (upstream `vnc_api.py`).
pub fn tokens(version: KeystoneVersion) -> &'static str {
    match version {
        KeystoneVersion::V3 => "/v3/auth/tokens",
        KeystoneVersion::V2 => "/v2.0/tokens",
    }
}

fn uses_keystone(auth: &AuthParameters) -> bool {
    auth.auth_mode == Some(AuthMode::Keystone)
}

/// Empty texts are as good as none, as with the Go tf-operator.
fn given(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

fn spec_password(auth: &AuthParameters) -> Option<&Sensitive> {
    let password = auth.keystone_auth_parameters.as_ref()?.admin_password.as_ref()?;
    (!password.expose().is_empty()).then_some(password)
}

fn password(auth: &AuthParameters, home: &str, secrets: &BTreeMap<String, SecretData>) -> Result<Sensitive, NotReady> {
    if let Some(password) = spec_password(auth) {
        check(password.expose()).map_err(|rule| invalid(&format!("keystoneAuthParameters.adminPassword {rule}")))?;
        return Ok(password.clone());
    }
    let Some(name) = given(auth.keystone_secret_name.as_ref()) else {
        return Err(NotReady::input(
            Reason::SecretNotFound,
            format!(
                "{SPEC} names no password for Keystone; create a Secret with the key {PASSWORD} and name it in \
                 keystoneSecretName"
            ),
        ));
    };
    let Some(data) = secrets.get(name) else {
        return Err(NotReady::input(
            Reason::SecretNotFound,
            format!(
                "Secret {home}/{name} does not exist; create it with the key {PASSWORD}, the password of Keystone's \
                 administrator"
            ),
        ));
    };
    let unfit = |what: &str| {
        let place = format!("key {PASSWORD} of Secret {home}/{name}");
        NotReady { obstacle: Obstacle::Invalid, ..NotReady::input(Reason::SecretInvalid, format!("{place} {what}")) }
    };
    let value = data
        .get(PASSWORD)
        .filter(|value| !value.is_empty())
        .ok_or_else(|| unfit("has no text; set it to the password of Keystone's administrator"))?;
    check(value).map_err(unfit)?;
    Ok(Sensitive::new(value))
}

/// The certificates beside the password, which the Secret need not have.
///
/// # Errors
/// When the Secret has something else under their key.
pub fn authority(
    auth: &AuthParameters,
    home: &str,
    secrets: &BTreeMap<String, SecretData>,
) -> Result<Option<String>, NotReady> {
    let Some(name) = secret(Some(auth)) else { return Ok(None) };
    let found = secrets.get(name).and_then(|data| data.get(AUTHORITY)).filter(|text| !text.trim().is_empty());
    match found {
        Some(text) if !text.contains("-----BEGIN CERTIFICATE-----") => {
            let message = format!(
                "key {AUTHORITY} of Secret {home}/{name} holds no certificate in PEM; put the authority of Keystone's there, or remove it"
            );
            Err(NotReady { obstacle: Obstacle::Invalid, ..NotReady::input(Reason::SecretInvalid, message) })
        }
        found => Ok(found.map(str::to_owned)),
    }
}

/// What the daemons can use as a name or password: clients of the config API put them into JSON as they are (upstream
/// `vnc_api.py`, `_v3_authn_body`), and the readers of their files work line by line and strip white space.
///
/// # Errors
/// What is wrong with the text and what to do, as a verb phrase.
pub fn check(text: &str) -> Result<(), &'static str> {
    if text.contains(['"', '\\']) {
        return Err("contains a quotation mark or a backslash, which clients of the config API cannot send; change it");
    }
    if text.chars().any(char::is_control) || text.trim() != text {
        return Err("contains a line break, or begins or ends with white space; remove that");
    }
    Ok(())
}

fn address(text: &str) -> Result<String, NotReady> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._:".contains(&b);
    if !bare.bytes().all(plain) {
        return Err(invalid("keystoneAuthParameters.address has to be one address or name, without protocol and port"));
    }
    Ok(bare.to_owned())
}

fn invalid(what: &str) -> NotReady {
    NotReady::invalid(Reason::InvalidSpec, format!("{SPEC}.{what}"))
}
