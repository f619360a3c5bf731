//! A real Keystone for operators to log in at: from PyPI, in a virtual environment of Python that is made once and kept, with its database in
//! a file of the lab. It speaks plain HTTP on the loopback address; whoever asks for TLS gets it from [`crate::config_api`], which stands before it as a
//! proxy does in a cloud.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    Lab,
    assets::{cache, in_cache},
    process::{Process, Spec},
    wait::eventually,
};

/// Of OpenStack 2026.2.
const VERSION: &str = "30.0.0";
/// For its server to listen.
const PATIENCE: Duration = Duration::from_secs(60);
/// What it says then, before the port.
const LISTENS: &str = "listens on ";

/// WSGI's server of Python's library. Keystone reads the arguments of the program it is in.
const SERVER: &str = r#"
from wsgiref.simple_server import make_server
from keystone.wsgi.api import application
server = make_server("127.0.0.1", 0, application)
print("listens on", server.server_port, flush=True)
server.serve_forever()
"#;

/// One that runs. It ends with this.
#[derive(Debug)]
pub struct Keystone {
    _process: Process,
    port: u16,
}

impl Keystone {
    /// Its address.
    pub const ADDRESS: &str = "127.0.0.1";

    /// One that lets `admin` of the domain `Default` in with this password, for the project `admin`.
    ///
    /// # Errors
    /// When it cannot be had or does not come up.
    pub async fn start(lab: &Lab, password: &str) -> Result<Self> {
        let installed = tokio::task::spawn_blocking(installed).await??;
        let folder = lab.folder().path().join("keystone");
        let python = installed.join("bin/python");
        configure(&folder)?;
        for step in ["db_sync", "fernet_setup", "credential_setup", "bootstrap"] {
            let mut manage = Command::new(&python);
            manage
                .arg(installed.join("bin/keystone-manage"))
                .arg("--config-file")
                .arg(folder.join("keystone.conf"))
                .arg(step);
            match step {
                "bootstrap" => manage.env("OS_BOOTSTRAP_PASSWORD", password),
                "db_sync" => &mut manage,
                _ => manage.args(["--keystone-user", "root", "--keystone-group", "root"]),
            };
            succeeds(&manage.output()?, step)?;
        }
        let server = folder.join("server.py");
        fs::write(&server, SERVER)?;
        let spec = Spec::new("keystone", python).args([server.display().to_string()]);
        let process = lab.spawn(spec.env("OS_KEYSTONE_CONFIG_DIR", folder.display().to_string()))?;
        let port = eventually("Keystone to listen", PATIENCE, async || {
            ensure!(process.is_running(), "Keystone has ended: {}", fs::read_to_string(process.log())?);
            let said = fs::read_to_string(process.log())?;
            let port = said.lines().find_map(|line| line.strip_prefix(LISTENS));
            Ok(port.map(str::parse).transpose()?)
        })
        .await?;
        Ok(Self { _process: process, port })
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// Where its virtual environment is.
fn installed() -> Result<std::path::PathBuf> {
    in_cache(&cache()?, &format!("keystone@{VERSION}"), |folder| {
        succeeds(&Command::new("python3").args(["-m", "venv"]).arg(folder).output()?, "python3 -m venv")?;
        let mut install = Command::new(folder.join("bin/python"));
        install.args(["-m", "pip", "install", "--quiet"]).arg(format!("keystone=={VERSION}"));
        succeeds(&install.output()?, "pip install keystone")
    })
}

fn configure(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    for keys in ["fernet", "credential"] {
        fs::create_dir_all(folder.join(keys))?;
    }
    let at = folder.display();
    let file = format!(
        "[database]\nconnection = sqlite:///{at}/keystone.db\n[token]\nprovider = fernet\n\
         [fernet_tokens]\nkey_repository = {at}/fernet\n[credential]\nkey_repository = {at}/credential\n"
    );
    fs::write(folder.join("keystone.conf"), file).context("its configuration")
}

fn succeeds(output: &Output, what: &str) -> Result<()> {
    ensure!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
