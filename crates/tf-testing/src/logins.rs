//! Logins with the files of a plan, as the daemons read them, at a Keystone that `tf-sim` plays on the loopback address. It knows one
//! administrator, whose name, password, project and domain have everything in them that files could lose, and is in a region of another
//! name than usual.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tf_agent_api::node;
use tf_api::contract::{ConditionStatus, ConditionType};
use tf_plan::{component::Component, keystone, observed::Observed};
use tf_sim::{
    keystone::{Account, Guard, Identity, Login, Played},
    options::Pair,
};
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
};

use crate::{pki::Authority, situation::Planned};

/// Versions of its API, and whether it speaks TLS.
pub const KINDS: [(&str, bool); 4] = [("v2.0", false), ("v2.0", true), ("v3", false), ("v3", true)];
/// Name of the Secret with the password.
const SECRET: &str = "keystone";
/// The administrator's password.
pub const PASSWORD: &str = "a&b+%<c>='#;%(d)s";
/// The administrator's other texts: name, project, domain.
pub const TEXTS: [&str; 3] = ["ad%min;'1", "#pro=ject", "Do%%main"];
/// Where Keystone is.
pub const REGION: &str = "Region'2";

/// The administrator.
pub fn administrator() -> Identity {
    let [user, project, domain] = TEXTS.map(str::to_owned);
    Identity { user, password: PASSWORD.into(), project, user_domain: domain.clone(), project_domain: domain }
}

/// A Keystone. It ends with this.
pub struct Logins {
    runtime: Runtime,
    folder: TempDir,
    port: u16,
    authority: String,
    is_tls: bool,
}

impl Logins {
    /// One with TLS or without.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start(is_tls: bool) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let folder = TempDir::new()?;
        let authority = Authority::new()?;
        let shown = authority.server("keystone", &["127.0.0.1".parse()?], &[])?;
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).map(|()| path)
        };
        let pair =
            Pair { certificate: file("keystone.crt", &shown.certificate)?, key: file("keystone.key", &shown.key)? };
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let port = listener.local_addr()?.port();
        let url = format!("{}://127.0.0.1:{port}", if is_tls { "https" } else { "http" });
        let account = Account { who: Some(administrator()), role: "admin".into(), region: REGION.into(), url };
        runtime.spawn(Played::new(account).serve(listener, is_tls.then_some(pair)));
        Ok(Self { runtime, folder, port, authority: authority.certificate(), is_tls })
    }

    /// The folder that stands for that of the files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The certificate of its authority.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// `authParameters` that name it, with this version of its API.
    fn parameters(&self, version: &str) -> Value {
        let [user, project, domain] = TEXTS;
        let mut parameters = json!({
            "apiVersion": version,
            "address": "127.0.0.1",
            "port": self.port,
            "adminPort": self.port,
            "authProtocol": if self.is_tls { "https" } else { "http" },
            "adminUsername": user,
            "adminTenant": project,
            "region": REGION,
        });
        if version == "v3" {
            parameters["userDomainName"] = json!(domain);
            parameters["projectDomainName"] = json!(domain);
        }
        json!({"authMode": "keystone", "keystoneSecretName": SECRET, "keystoneAuthParameters": parameters})
    }

    /// What is planned for a resource that names it, with a Secret that holds this password and the authority.
    ///
    /// # Errors
    /// When nothing can be planned.
    pub fn plan<C: Component>(
        &self,
        cr: &C::Cr,
        observed: Observed<C::Cr>,
        version: &str,
        password: &str,
    ) -> Result<Planned> {
        let (cr, observed) = self.named::<C>(cr, observed, version, password)?;
        Ok(Planned(C::plan(&cr, &observed).map_err(|not_ready| anyhow!("{}", not_ready.message))?))
    }

    /// That a login is asked about before it is handed out, and not handed out where Keystone refuses it.
    ///
    /// # Errors
    /// When it is.
    pub fn are_withheld<C: Component>(&self, cr: &C::Cr, observed: Observed<C::Cr>) -> Result<()> {
        let (cr, mut observed) = self.named::<C>(cr, observed, "v3", PASSWORD)?;
        let asked = C::login(&cr, &observed).context("nobody is asked about")?;
        ensure!(asked.port == self.port && asked.password.expose() == PASSWORD, "another one is asked about");
        ensure!(C::plan(&cr, &observed).is_ok(), "there is no plan anyway");
        observed.refused_login = Some("POST nowhere: 401".into());
        let not_ready = C::plan(&cr, &observed).err().context("a refused login is handed out")?;
        let told = not_ready.drafts.iter().find(|draft| draft.kind == ConditionType::InputsReady);
        let told = told.context("inputs are not spoken of")?;
        ensure!(told.status == ConditionStatus::False && told.message.contains("POST nowhere: 401"), "{told:?}");
        ensure!(not_ready.prepared.is_empty(), "something is made");
        Ok(())
    }

    /// The resource with this Keystone, and what is observed with the Secret that its spec names.
    fn named<C: Component>(
        &self,
        cr: &C::Cr,
        mut observed: Observed<C::Cr>,
        version: &str,
        password: &str,
    ) -> Result<(C::Cr, Observed<C::Cr>)> {
        let mut cr = serde_json::to_value(cr)?;
        cr["spec"]["commonConfiguration"]["authParameters"] = self.parameters(version);
        let data = [(keystone::PASSWORD, password), (keystone::AUTHORITY, self.authority.as_str())];
        let data = data.map(|(key, value)| (key.to_owned(), value.to_owned()));
        observed.secrets.insert(SECRET.into(), data.into_iter().collect());
        Ok((serde_json::from_value(cr)?, observed))
    }

    /// A file of a plan as a daemon finds it, where a folder stands for that of its files.
    ///
    /// # Errors
    /// When there is no such file, or the authority of the plan cannot be put there.
    pub fn file(&self, planned: &Planned, key: &str) -> Result<String> {
        self.among(&planned.files(), key)
    }

    /// The same of these files.
    ///
    /// # Errors
    /// Likewise.
    pub fn among(&self, files: &BTreeMap<String, String>, key: &str) -> Result<String> {
        if let Some(authority) = files.get(keystone::CA) {
            fs::write(self.folder.path().join(keystone::CA), authority)?;
        }
        let folder = self.folder.path().to_str().context("a path that is no text")?;
        let text = files.get(key).with_context(|| format!("no {key} among {:?}", files.keys()))?;
        Ok(text.replace(node::RUN_DIR, folder))
    }

    /// The token that a login gets.
    ///
    /// # Errors
    /// When it is not let in, or does not get through.
    pub fn token(&self, login: &Login) -> Result<String> {
        Ok(self.runtime.block_on(login.token())?.id)
    }

    /// What an API tells who shows this token, if it does not let them in.
    pub fn refusal(&self, guard: &Guard, token: &str) -> Option<u16> {
        let refused = self.runtime.block_on(guard.admit("/domains", Some(token))).err();
        refused.map(|(status, ..)| status.as_u16())
    }
}
