//! Settings of a login that are set and have no effect.

use tf_api::common::{AuthParameters, KeystoneAuthParameters, KeystoneVersion};

use super::{SPEC, given, spec_password, uses_keystone};

/// Settings that are set and have no effect, for every kind but Webui.
pub fn ignored(auth: Option<&AuthParameters>) -> Vec<String> {
    let Some(auth) = auth else { return Vec::new() };
    let parameters = auth.keystone_auth_parameters.as_ref();
    let settings = if uses_keystone(auth) {
        let port = parameters.is_some_and(|p| p.port.is_some() && p.admin_port.is_some());
        let why = "adminPort is set and wins, except in the web UI";
        with_keystone(auth, (port, "keystoneAuthParameters.port", why))
    } else {
        let secret = given(auth.keystone_secret_name.as_ref()).is_some();
        let any = parameters.is_some_and(|p| *p != KeystoneAuthParameters::default());
        vec![(secret, "keystoneSecretName", UNUSED), (any, "keystoneAuthParameters", UNUSED)]
    };
    told(settings)
}

/// Settings that are set and have no effect, for Webui. Without Keystone name and password are those of its one user.
pub fn ignored_by_webui(auth: Option<&AuthParameters>) -> Vec<String> {
    let Some(auth) = auth else { return Vec::new() };
    let parameters = auth.keystone_auth_parameters.clone().unwrap_or_default();
    told(if uses_keystone(auth) {
        let why = "the web UI uses port, everything else uses this one";
        with_keystone(auth, (parameters.admin_port.is_some(), "keystoneAuthParameters.adminPort", why))
    } else {
        let KeystoneAuthParameters {
            api_version,
            address,
            port,
            admin_port,
            auth_protocol,
            admin_username: _,
            admin_password: _,
            admin_tenant,
            user_domain_name,
            project_domain_name,
            region,
            insecure,
        } = parameters;
        vec![
            password_twice(auth),
            (api_version.is_some(), "keystoneAuthParameters.apiVersion", UNUSED),
            (address.is_some(), "keystoneAuthParameters.address", UNUSED),
            (port.is_some(), "keystoneAuthParameters.port", UNUSED),
            (admin_port.is_some(), "keystoneAuthParameters.adminPort", UNUSED),
            (auth_protocol.is_some(), "keystoneAuthParameters.authProtocol", UNUSED),
            (admin_tenant.is_some(), "keystoneAuthParameters.adminTenant", UNUSED),
            (user_domain_name.is_some(), "keystoneAuthParameters.userDomainName", UNUSED),
            (project_domain_name.is_some(), "keystoneAuthParameters.projectDomainName", UNUSED),
            (region.is_some(), "keystoneAuthParameters.region", UNUSED),
            (insecure.is_some(), "keystoneAuthParameters.insecure", UNUSED),
        ]
    })
}

/// Whether a setting has no effect, which one, and why.
type Unused = (bool, &'static str, &'static str);

const UNUSED: &str = "authMode is not keystone";

fn with_keystone(auth: &AuthParameters, port: Unused) -> Vec<Unused> {
    let parameters = auth.keystone_auth_parameters.as_ref();
    let plain = parameters.is_some_and(|p| given(p.auth_protocol.as_ref()) == Some("http"));
    let insecure = plain && parameters.is_some_and(|p| p.insecure.is_some());
    let why = "there is no certificate with authProtocol http";
    let is_v2 = parameters.is_some_and(|p| p.api_version == Some(KeystoneVersion::V2));
    let domain = |set: bool, field| (is_v2 && set, field, "apiVersion v2.0 has no domains");
    let of_user =
        domain(parameters.is_some_and(|p| p.user_domain_name.is_some()), "keystoneAuthParameters.userDomainName");
    let of_project =
        domain(parameters.is_some_and(|p| p.project_domain_name.is_some()), "keystoneAuthParameters.projectDomainName");
    vec![password_twice(auth), port, of_user, of_project, (insecure, "keystoneAuthParameters.insecure", why)]
}

fn password_twice(auth: &AuthParameters) -> Unused {
    let secret = given(auth.keystone_secret_name.as_ref()).is_some();
    (secret && spec_password(auth).is_some(), "keystoneSecretName", "adminPassword is set and wins")
}

fn told(settings: Vec<Unused>) -> Vec<String> {
    settings.into_iter().filter(|(set, ..)| *set).map(|(_, field, why)| format!("spec.{SPEC}.{field}: {why}")).collect()
}
