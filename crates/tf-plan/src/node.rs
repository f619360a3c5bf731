//! How pods run the node agent `tf-node`: the command lines, paths and variables both sides agree on.
//!
//! An init container copies the static binary into a shared volume; every daemon's container starts through it. The agent
//! picks the files of its own address from the mounted configuration, waits for what is missing, supervises the
//! daemon and answers probes (`docs/adr/0005`).

/// Where the binary lives inside every container of a pod.
pub const BINARY: &str = "/tf-node/tf-node";
/// Directory of [`BINARY`].
pub const BINARY_DIR: &str = "/tf-node";
/// Where the binary lives in its own image.
pub const IMAGE_BINARY: &str = "/tf-node";
/// Where files without secrets are mounted; the Go tf-operator's path.
pub const CONFIG_DIR: &str = "/etc/contrailconfigmaps";
/// Where files with secrets are mounted.
pub const SECRET_DIR: &str = "/etc/tf/secrets";
/// Where the agent writes the files the daemon reads.
pub const RUN_DIR: &str = "/etc/contrail";
/// Where the agent keeps the member's key and certificate.
pub const CERTIFICATE_DIR: &str = "/etc/certificates";
/// Server and client certificate of the member.
pub const CERTIFICATE: &str = "/etc/certificates/tls.crt";
/// Its private key, made in the pod.
pub const CERTIFICATE_KEY: &str = "/etc/certificates/tls.key";
/// Certificates the member trusts; the Go tf-operator's path.
pub const CA_BUNDLE: &str = "/etc/ssl/certs/kubernetes/ca-bundle.crt";
/// Directory of [`CA_BUNDLE`].
pub const CA_DIR: &str = "/etc/ssl/certs/kubernetes";
/// Where the pod's own annotations appear, with the configuration to run.
pub const POD_INFO_DIR: &str = "/etc/tf/pod";
/// Uid and gid of the daemons (tf-components 1.1).
pub const USER: i64 = 1999;

/// Arguments that start a daemon.
pub fn run(daemon: &str) -> Vec<String> {
    vec![BINARY.into(), "run".into(), daemon.into()]
}

/// Arguments that probe a daemon: exit code 0 when it serves.
pub fn probe(daemon: &str) -> Vec<String> {
    vec![BINARY.into(), "probe".into(), daemon.into()]
}

/// Arguments that take a daemon out of service before it is stopped.
pub fn drain(daemon: &str) -> Vec<String> {
    vec![BINARY.into(), "drain".into(), daemon.into()]
}

/// Arguments of the init container: copy the binary and give directories to [`USER`].
pub fn install(directories: &[&str]) -> Vec<String> {
    let mut arguments = vec![IMAGE_BINARY.into(), "install".into(), BINARY_DIR.into()];
    arguments.extend(directories.iter().flat_map(|directory| ["--own".to_owned(), (*directory).to_owned()]));
    arguments
}
