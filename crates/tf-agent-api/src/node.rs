//! Paths, variables and command lines in the pods that node agents run in.

use std::net::IpAddr;

/// Where the binary lives inside every container of a pod.
pub const BINARY: &str = "/tf-node/tf-node";
/// Directory of [`BINARY`].
pub const BINARY_DIR: &str = "/tf-node";
/// Directory of states below [`BINARY_DIR`].
pub const STATES: &str = "state";
/// Where the agents of a pod's containers leave the state of their daemons, `<daemon>.json` ([`crate::state::State`]). Containers
/// write here.
pub const STATE_DIR: &str = "/tf-node/state";
/// Where the binary lives in its own image.
pub const IMAGE_BINARY: &str = "/tf-node";
/// Where the init container has what is [`BINARY_DIR`] in the others: there its image has the binary.
pub const INSTALL_DIR: &str = "/install";
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
/// Key and certificate that the daemon shows in one file, for daemons that read both from one: [`CERTIFICATE_KEY`] and
/// [`CERTIFICATE`], or those of [`HOST_FILES_DIR`].
pub const KEYSTORE_PEM: &str = "/etc/certificates/keystore.pem";
/// [`CA_BUNDLE`], and what [`HOST_FILES_DIR`] adds, as a file that is replaced when it changes: in a mounted directory only a link
/// is, which a daemon that watches the file itself does not notice.
pub const TRUSTSTORE_PEM: &str = "/etc/certificates/truststore.pem";
/// [`CERTIFICATE`] and [`CERTIFICATE_KEY`] as PKCS #12 for Java daemons, made where there is a [`STORES_FILE`].
pub const KEYSTORE: &str = "/etc/certificates/keystore.p12";
/// [`CA_BUNDLE`] as PKCS #12 for Java daemons, made where there is a [`STORES_FILE`].
pub const TRUSTSTORE: &str = "/etc/certificates/truststore.p12";
/// Environment file among the secret files with the passwords of both stores, `KEYSTORE_PASSWORD` and
/// `TRUSTSTORE_PASSWORD`.
pub const STORES_FILE: &str = "stores.env";
/// File of the launch file's set with the identity of a store's member, `<uid of the resource>/<number>`. What a server has on its disk belongs to
/// one: another number of the same resource is a member that is none any more, and its data is put aside.
pub const MEMBER_FILE: &str = "member";
/// File of the launch file's set with the numbers of the other members, with blanks between them. A server is not started with the data of one of those:
/// its volume is with the pod of another member.
pub const OTHER_MEMBERS_FILE: &str = "other-members";
/// Certificates the member trusts; the Go tf-operator's path.
pub const CA_BUNDLE: &str = "/etc/ssl/certs/kubernetes/ca-bundle.crt";
/// What every daemon of Tungsten Fabric needs before it can connect to anything, for [`crate::launch::Launch::awaits`].
pub const TLS_FILES: [&str; 3] = [CERTIFICATE, CERTIFICATE_KEY, CA_BUNDLE];
/// Directory of [`CA_BUNDLE`].
pub const CA_DIR: &str = "/etc/ssl/certs/kubernetes";
/// The authorities of [`CA_BUNDLE`] that sign for members and operators, without those above them. Operators of earlier releases
/// publish none.
pub const CA_SIGNERS: &str = "/etc/ssl/certs/kubernetes/signers.crt";
/// Number of the bundle at [`CA_BUNDLE`], decimal (`tf_pki::rotation::State::revision`).
pub const CA_REVISION: &str = "/etc/ssl/certs/kubernetes/revision";
/// Directory of a node where its administrator puts keys, certificates and authorities; the Go tf-operator's path.
pub const HOST_FILES: &str = "/etc/contrail/ssl";
/// Where [`HOST_FILES`] is mounted, if daemons show what is there.
pub const HOST_FILES_DIR: &str = "/etc/tf/ssl";
/// Directory of [`HOST_FILES`] with key and certificate of each address.
pub const HOST_CERTIFICATES: &str = "certs";
/// Directory of [`HOST_FILES`] with [`HOST_BUNDLE`].
pub const HOST_AUTHORITIES: &str = "ca-certs";
/// File of [`HOST_AUTHORITIES`] with the certificates of the authorities.
pub const HOST_BUNDLE: &str = "ca-bundle.crt";
/// Where the pod's token for the Kubernetes API is mounted, in a container that asks for a certificate: [`TOKEN_FILE`] and
/// [`TOKEN_CA_FILE`].
pub const TOKEN_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// File of [`TOKEN_DIR`] with the token, which the kubelet replaces before it expires.
pub const TOKEN_FILE: &str = "token";
/// File of [`TOKEN_DIR`] with the authority that the API server's certificate is issued by.
pub const TOKEN_CA_FILE: &str = "ca.crt";
/// Where the pod's own annotations appear, with the configuration to run.
pub const POD_INFO_DIR: &str = "/etc/tf/pod";
/// File of [`POD_INFO_DIR`] with the annotations.
pub const ANNOTATIONS_FILE: &str = "annotations";
/// What follows the name of a file that every node completes for itself.
pub const TEMPLATE_SUFFIX: &str = "node";
/// Variables by which the agent prepares a node for the vRouter (`vhost0`, virtual functions, queues) before it starts the
/// daemon, and finds the values of the [template](crate::template)'s placeholders. The names are those the image's own scripts read
/// (docs/upstream/vrouter.md#parameters).
pub const PARAMETERS_FILE: &str = "params.env";
/// Kernel settings, one `name = value` a line, that the agent of the vRouter keeps on the node ([`crate::launch::Launch::settings`]).
pub const SYSCTL_FILE: &str = "sysctl.conf";
/// Where the CNI configuration is mounted that the agent of the vRouter puts on the node ([`crate::launch::Launch::cni`]).
pub const CNI_DIR: &str = "/etc/tf/cni";
/// What a pod calls the port of its agent.
pub const AGENT_PORT: &str = "agent";
/// Uid and gid of the daemons (docs/upstream/images.md#user).
pub const USER: i64 = 1999;

/// Name of the file, in the format of [`tf_config_files::env`], whose variables the agent adds to a daemon's environment.
/// Variables of the container itself win. A change of the file restarts the daemon, not the pod.
pub fn environment_file(daemon: &str) -> String {
    format!("{daemon}.env")
}

/// File of [`HOST_CERTIFICATES`] with the certificate of an address.
pub fn host_certificate(address: IpAddr) -> String {
    format!("server-{address}.crt")
}

/// File of [`HOST_CERTIFICATES`] with the key of an address.
pub fn host_key(address: IpAddr) -> String {
    format!("server-key-{address}.pem")
}

/// Arguments that start a daemon.
pub fn run(daemon: &str) -> Vec<String> {
    vec![BINARY.into(), "run".into(), daemon.into()]
}

/// Beginning of the path at which the kubelet asks whether a daemon serves, before its name.
pub const READY_PATH: &str = "/ready/";

/// Arguments that take a daemon out of service before it is stopped.
pub fn drain(daemon: &str) -> Vec<String> {
    vec![BINARY.into(), "drain".into(), daemon.into()]
}

/// Arguments that have a daemon's server read what it shows and trusts anew, where it can be asked to.
pub fn reload(daemon: &str) -> Vec<String> {
    vec![BINARY.into(), "reload".into(), daemon.into()]
}

/// Arguments that start a Redis server with its configuration as what the other members say it is: the daemon of a launch file.
pub fn copy(daemon: &str, config: &str) -> Vec<String> {
    vec![BINARY.into(), "copy".into(), daemon.into(), config.into()]
}

/// Arguments that have another server take writes in the place of a daemon's.
pub fn step_down(daemon: &str) -> Vec<String> {
    vec![BINARY.into(), "step-down".into(), daemon.into()]
}

/// Arguments that copy an executable into a directory of the node: to a temporary name first and then over the old one,
/// which may be running.
pub fn place(from: &str, to: &str) -> Vec<String> {
    vec![BINARY.into(), "place".into(), from.into(), to.into()]
}

/// Arguments that report what the node is for the vRouter, and start nothing (`tf-node host --help`).
pub fn host_show(options: &[String]) -> Vec<String> {
    let summary = format!("--summary={}", crate::host::TERMINATION_LOG);
    on_host("show", &[&[summary], options].concat())
}

/// Arguments that give `vhost0` the place of the node's interface (`tf-node host --help`).
pub fn host_apply(options: &[String]) -> Vec<String> {
    on_host("apply", options)
}

/// Arguments that run the forwarder of the DPDK mode (`tf-node host --help`).
pub fn host_forward(options: &[String]) -> Vec<String> {
    on_host("forward", options)
}

/// Arguments that make virtual functions of interfaces (`tf-node host --help`).
pub fn host_virtual_functions(options: &[String]) -> Vec<String> {
    on_host("virtual-functions", options)
}

/// Arguments that undo on a node what pods of the vRouter changed there (`tf-node host --help`).
pub fn host_remove(options: &[String]) -> Vec<String> {
    on_host("remove", options)
}

fn on_host(action: &str, options: &[String]) -> Vec<String> {
    let arguments = [BINARY, "host", action].map(str::to_owned);
    arguments.into_iter().chain(options.iter().cloned()).collect()
}

/// Arguments of a container that does nothing until it is stopped, from the agent's own image.
pub fn pause() -> Vec<String> {
    vec![IMAGE_BINARY.into(), "pause".into()]
}

/// Arguments of the init container: copy the binary and give directories to [`USER`] and its group, both with the right to
/// write. Containers of the pod that run as root have the group and no capability to pass over ownership. Those that are offered are given where that is
/// possible, and without what is in them.
pub fn install(directories: &[String], offered: &[String]) -> Vec<String> {
    let mut arguments = vec![IMAGE_BINARY.into(), "install".into(), INSTALL_DIR.into()];
    arguments.extend(directories.iter().flat_map(|directory| ["--own".to_owned(), directory.clone()]));
    arguments.extend(offered.iter().flat_map(|directory| ["--offer".to_owned(), directory.clone()]));
    arguments
}
