//! Files of the agent's helpers: how they reach the config API, and where TLS load balancers get their certificates from.

use tf_agent_api::node;
use tf_api::common::KeystoneVersion;
use tf_config_files::{Ini, Section, Separator::Comma, Settings as _, url};
use tf_contrail::vnc_api;
use tf_plan::{cluster::Cluster, keystone, not_ready::NotReady};

use super::agent::tls;
use crate::{
    parameters::{Name, Parameters},
    services::Services,
};

/// Credentials for TLS load balancers.
pub const LOAD_BALANCER_FILE: &str = "contrail-lbaas-auth.conf";

/// [`vnc_api::FILE`]. Written here because the spec of this kind alone sets nearly every key of it.
///
/// # Errors
/// When a value means nothing to the client, or cannot be expressed in the file.
pub fn api_file(parameters: &Parameters, services: &Services) -> Result<String, NotReady> {
    let mut file = Ini::python(vnc_api::FILE);
    let tls = api_tls(parameters)?;
    let global = file.section("global");
    global
        .list_unless_empty("WEB_SERVER", Comma, services.config_hosts(parameters).iter().map(|host| url::host(host)))
        .set("WEB_PORT", services.config_port(parameters)?)
        .set("BASE_URL", "/")
        .set("use_ssl", tls);
    if tls {
        let named = parameters.first(&[Name::ConfigApiServerCaCertfile, Name::ServerCaCertfile]);
        let authorities = named.map_or_else(|| services.config_foreign(parameters).trust(), str::to_owned);
        global.set("cafile", authorities).set_if_some("insecure", parameters.flag(Name::SslInsecure)?);
    }
    let auth = file.section("auth");
    if !parameters.keystone() {
        // Without it the client looks for a Keystone at 127.0.0.1 (docs/upstream/files.md#client-library).
        auth.set("AUTHN_TYPE", "noauth");
        return Ok(file.render()?);
    }
    let text = |name, default| {
        let value = parameters.get(name).unwrap_or(default);
        keystone::check(value).map_err(|rule| parameters.invalid(name, rule))?;
        Ok::<_, NotReady>(value.to_owned())
    };
    let protocol = keystone_protocol(parameters)?;
    auth.set("AUTHN_TYPE", "keystone")
        .set("AUTHN_PROTOCOL", protocol)
        .set("AUTHN_SERVER", url::host(&text(Name::KeystoneAuthHost, "127.0.0.1")?))
        .set("AUTHN_PORT", keystone_port(parameters)?)
        .set("AUTHN_URL", text(Name::KeystoneAuthUrlTokens, "/v3/auth/tokens")?)
        .set("AUTHN_DOMAIN", text(Name::KeystoneAuthProjectDomainName, "Default")?);
    if parameters.is_set(Name::KeystoneAuthAdminPassword) {
        auth.set("AUTHN_USER", text(Name::KeystoneAuthAdminUser, "admin")?)
            .set("AUTHN_PASSWORD", text(Name::KeystoneAuthAdminPassword, "")?)
            .set("AUTHN_TENANT", text(Name::KeystoneAuthAdminTenant, "admin")?);
    }
    if protocol == "https" {
        keystone_tls(auth, parameters)?;
    }
    Ok(file.render()?)
}

/// Whether the config API is spoken to over TLS.
///
/// # Errors
/// When the spec does not say yes or no.
pub fn api_tls(parameters: &Parameters) -> Result<bool, NotReady> {
    tls(parameters, Name::ConfigApiSslEnable)
}

/// `contrail-lbaas-auth.conf`. Barbican's section stands where there is a Keystone or the spec says anything about Barbican. The reader of
/// Kubernetes' section ends without any of its keys (upstream `kubernetes_cert.py`); the port without TLS is used without a token.
///
/// # Errors
/// When a value means nothing to its readers, or cannot be expressed in the file.
pub fn load_balancer_file(
    parameters: &Parameters,
    cluster: &Cluster,
    cluster_domain: &str,
) -> Result<String, NotReady> {
    let mut file = Ini::python(LOAD_BALANCER_FILE);
    let barbican = [Name::BarbicanTenantName, Name::BarbicanUser, Name::BarbicanPassword];
    if parameters.keystone() || barbican.iter().any(|name| parameters.is_set(*name)) {
        let text = |name, default| parameters.get(name).unwrap_or(default).to_owned();
        let host = text(Name::KeystoneAuthHost, "127.0.0.1");
        let version = text(Name::KeystoneAuthUrlVersion, "/v3");
        let keystone = url::authority(&host, keystone_port(parameters)?);
        file.section("BARBICAN")
            .set("admin_tenant_name", text(Name::BarbicanTenantName, "service"))
            .set("admin_user", text(Name::BarbicanUser, "barbican"))
            .set_if_some("admin_password", parameters.first(&[Name::BarbicanPassword, Name::KeystoneAuthAdminPassword]))
            .set("auth_url", format!("{}://{keystone}{version}", keystone_protocol(parameters)?))
            .set("region", text(Name::KeystoneAuthRegionName, "RegionOne"))
            .set("user_domain_name", text(Name::KeystoneAuthUserDomainName, "Default"))
            .set("project_domain_name", text(Name::KeystoneAuthProjectDomainName, "Default"));
    }
    // The Service of the API server is there for everybody where the cluster names no other address.
    let (server, port) =
        cluster.endpoint.clone().unwrap_or_else(|| (format!("kubernetes.default.svc.{cluster_domain}"), 443));
    file.section("KUBERNETES")
        .set("kubernetes_token", parameters.get(Name::K8sToken).unwrap_or_default())
        .set("kubernetes_api_server", url::host(parameters.get(Name::KubernetesApiServer).unwrap_or(&server)))
        .set("kubernetes_api_port", parameters.port(Name::KubernetesApiPort)?.unwrap_or(8080))
        .set("kubernetes_api_secure_port", parameters.port(Name::KubernetesApiSecurePort)?.unwrap_or(port));
    Ok(file.render()?)
}

fn keystone_port(parameters: &Parameters) -> Result<u16, NotReady> {
    for stated in [Name::KeystoneAuthAdminPort, Name::KeystoneAuthPublicPort] {
        if let Some(port) = parameters.port(stated)? {
            return Ok(port);
        }
    }
    let is_former = parameters.get(Name::KeystoneAuthUrlVersion) == Some(keystone::base(KeystoneVersion::V2));
    Ok(keystone::default_port(if is_former { KeystoneVersion::V2 } else { KeystoneVersion::V3 }))
}

fn keystone_protocol(parameters: &Parameters) -> Result<&str, NotReady> {
    match parameters.get(Name::KeystoneAuthProto) {
        None => Ok("https"),
        Some(protocol @ ("http" | "https")) => Ok(protocol),
        Some(_) => Err(parameters.invalid(Name::KeystoneAuthProto, "use http or https")),
    }
}

/// How Keystone's certificate is checked, by the authority of its Secret, else of the spec, else of the namespace. Whoever names none and does
/// not say that it is checked has it accepted as it is.
fn keystone_tls(section: &mut Section, parameters: &Parameters) -> Result<(), NotReady> {
    let all = parameters.flag(Name::SslInsecure)?.unwrap_or(!parameters.has_keystones_authority());
    let insecure = parameters.flag(Name::KeystoneAuthInsecure)?.unwrap_or(all);
    let authority = parameters.get(Name::KeystoneAuthCaCertfile).or((!insecure).then_some(node::CA_BUNDLE));
    section
        .set("insecure", insecure)
        .set_if_some("certfile", parameters.get(Name::KeystoneAuthCertfile))
        .set_if_some("keyfile", parameters.get(Name::KeystoneAuthKeyfile))
        .set_if_some("cafile", authority);
    Ok(())
}
