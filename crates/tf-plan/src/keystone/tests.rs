use proptest::prelude::*;
use tf_api::contract::ConditionType;
use tf_config_files::read;

use super::*;

fn auth(yaml: &str) -> AuthParameters {
    serde_saphyr::from_str(yaml).unwrap()
}

fn keystone(yaml: &str) -> Result<Option<Keystone>, NotReady> {
    Keystone::of(Some(&auth(yaml)), "tf", &secrets("s3cret"))
}

fn secrets(password: &str) -> BTreeMap<String, SecretData> {
    let data = [(PASSWORD.to_owned(), password.to_owned())].into_iter().collect();
    [("keystone".to_owned(), data)].into()
}

#[test]
fn without_authentication_nothing_is_asked_for() {
    assert_eq!(Keystone::of(None, "tf", &BTreeMap::new()), Ok(None));
    assert_eq!(keystone("{authMode: noauth, keystoneSecretName: missing}"), Ok(None));
    assert_eq!(secret(Some(&auth("{authMode: noauth, keystoneSecretName: missing}"))), None);
}

#[test]
fn version_2_has_other_paths_and_no_domains() {
    let yaml = "{authMode: keystone, keystoneSecretName: keystone, keystoneAuthParameters: {apiVersion: v2.0, userDomainName: d}}";
    let found = keystone(&yaml.replace("userDomainName: d", "region: r")).unwrap().unwrap();
    assert_eq!((found.tokens(), found.domain()), ("/v2.0/tokens", None));
    let file = read::python(&found.file().unwrap()).unwrap();
    let section = &file["KEYSTONE"];
    assert_eq!(section["auth_url"], "https://127.0.0.1:35357/v2.0");
    assert!(!section.contains_key("user_domain_name") && !section.contains_key("project_domain_name"));
    let told = ignored(Some(&auth(yaml)));
    assert!(told.iter().any(|it| it.ends_with("userDomainName: apiVersion v2.0 has no domains")), "{told:?}");
}

#[test]
fn a_keystone_of_another_authority_is_checked_against_that_unless_the_spec_says_otherwise() {
    let of = |authority: &str, more: &str| {
        let auth =
            auth(&format!("{{authMode: keystone, keystoneSecretName: keystone, keystoneAuthParameters: {{{more}}}}}"));
        let data = [(PASSWORD, "s3cret"), (AUTHORITY, authority)];
        let data = data.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect();
        Keystone::of(Some(&auth), "tf", &[("keystone".to_owned(), data)].into())
    };
    let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let trust = |authority, more| of(authority, more).unwrap().unwrap().trust();
    assert_eq!(trust(pem, "").as_deref(), Some("/etc/contrail/keystone-ca.crt"));
    assert_eq!(trust(pem, "insecure: true"), None);
    assert_eq!(trust(pem, "authProtocol: http"), None);
    assert_eq!(trust(" ", ""), None, "as with the Go tf-operator");
    let refused = of("nonsense", "").unwrap_err();
    assert_eq!((refused.obstacle, refused.reason), (Obstacle::Invalid, Reason::SecretInvalid));
}

#[test]
fn defaults_are_those_of_the_go_tf_operator_but_for_the_port() {
    let found = keystone("{authMode: keystone, keystoneSecretName: keystone}").unwrap().unwrap();
    let file = read::python(&found.file().unwrap()).unwrap();
    let section = &file["KEYSTONE"];
    assert_eq!(section["auth_url"], "https://127.0.0.1:5000/v3");
    assert_eq!((&*section["admin_user"], &*section["admin_tenant_name"]), ("admin", "admin"));
    assert_eq!((&*section["user_domain_name"], &*section["project_domain_name"]), ("Default", "Default"));
    assert_eq!((&*section["region_name"], &*section["insecure"]), ("RegionOne", "true"));
    assert_eq!(section["admin_password"], "s3cret");
    assert!(!section.contains_key("cafile"));
}

#[test]
fn a_checked_certificate_is_asked_for_explicitly() {
    let found =
        keystone("{authMode: keystone, keystoneSecretName: keystone, keystoneAuthParameters: {insecure: false}}");
    let file = read::python(&found.unwrap().unwrap().file().unwrap()).unwrap();
    assert_eq!(file["KEYSTONE"]["insecure"], "false");
    assert_eq!(file["KEYSTONE"]["cafile"], tf_agent_api::node::CA_BUNDLE);
}

#[test]
fn an_ipv6_address_stands_in_brackets_whether_or_not_the_spec_has_them() {
    for address in ["fd00::5", "[fd00::5]"] {
        let yaml = format!(
            "{{authMode: keystone, keystoneSecretName: keystone, keystoneAuthParameters: {{address: \"{address}\", \
             authProtocol: http, adminPort: 5000}}}}"
        );
        let file = read::python(&keystone(&yaml).unwrap().unwrap().file().unwrap()).unwrap();
        assert_eq!(file["KEYSTONE"]["auth_url"], "http://[fd00::5]:5000/v3");
        assert!(!file["KEYSTONE"].contains_key("insecure"));
    }
}

#[test]
fn a_missing_password_says_which_secret_and_key() {
    let reason = |result: Result<Option<Keystone>, NotReady>| {
        let not_ready = result.unwrap_err();
        assert!(not_ready.drafts.iter().any(|draft| draft.kind == ConditionType::InputsReady && !draft.is_true()));
        (not_ready.reason, not_ready.message)
    };
    let named = auth("{authMode: keystone, keystoneSecretName: ks}");
    let (why, message) = reason(Keystone::of(Some(&named), "prod", &BTreeMap::new()));
    assert_eq!(why, Reason::SecretNotFound);
    assert!(message.contains("Secret prod/ks") && message.contains("key password"), "{message}");
    let empty = [("ks".to_owned(), SecretData::default())].into();
    assert_eq!(reason(Keystone::of(Some(&named), "prod", &empty)).0, Reason::SecretInvalid);
    let unnamed = auth("{authMode: keystone, keystoneAuthParameters: {adminPassword: \"\"}}");
    assert_eq!(reason(Keystone::of(Some(&unnamed), "prod", &BTreeMap::new())).0, Reason::SecretNotFound);
}

#[test]
fn a_password_in_the_spec_wins_and_the_secret_is_not_read() {
    let yaml = "{authMode: keystone, keystoneSecretName: ks, keystoneAuthParameters: {adminPassword: inline}}";
    let auth = auth(yaml);
    assert_eq!(secret(Some(&auth)), None);
    let found = Keystone::of(Some(&auth), "tf", &BTreeMap::new()).unwrap().unwrap();
    assert_eq!(found.password.expose(), "inline");
    assert_eq!(ignored(Some(&auth)).len(), 1);
    assert!(!format!("{found:?}").contains("inline"));
}

#[test]
fn what_clients_would_turn_into_another_login_is_refused_without_showing_it() {
    for bad in ["a\"b", "a\\b", "secret\n", " secret"] {
        let not_ready =
            Keystone::of(Some(&auth("{authMode: keystone, keystoneSecretName: keystone}")), "tf", &secrets(bad))
                .unwrap_err();
        assert_eq!((not_ready.reason, not_ready.obstacle), (Reason::SecretInvalid, Obstacle::Invalid));
        assert!(!not_ready.message.contains(bad), "{}", not_ready.message);
    }
    for parameters in
        ["{authProtocol: ftp}", "{address: \"https://keystone\"}", "{userDomainName: users}", "{adminUsername: 'a\"b'}"]
    {
        let yaml =
            format!("{{authMode: keystone, keystoneSecretName: keystone, keystoneAuthParameters: {parameters}}}");
        assert_eq!(keystone(&yaml).unwrap_err().reason, Reason::InvalidSpec, "{parameters}");
    }
}

#[test]
fn one_stated_port_is_for_all_daemons_and_version_2_has_a_port_of_its_own() {
    for (parameters, ports) in [
        ("{}", (5000, 5000)),
        ("{port: 5001}", (5001, 5001)),
        ("{adminPort: 35357}", (35357, 5000)),
        ("{port: 5001, adminPort: 5002}", (5002, 5001)),
        ("{apiVersion: v2.0}", (35357, 5000)),
    ] {
        let yaml =
            format!("{{authMode: keystone, keystoneSecretName: keystone, keystoneAuthParameters: {parameters}}}");
        let found = keystone(&yaml).unwrap().unwrap();
        assert_eq!((found.port, found.public_port), ports, "{parameters}");
    }
}

#[test]
fn where_nothing_answers_at_the_port_that_recent_keystones_do_not_have_the_advice_is_another_port() {
    let advice = |parameters: &str| {
        let yaml =
            format!("{{authMode: keystone, keystoneSecretName: keystone, keystoneAuthParameters: {parameters}}}");
        keystone(&yaml).unwrap().unwrap().without_answer().unwrap_or_default()
    };
    assert_eq!(advice("{}"), "");
    assert_eq!(advice("{port: 5001}"), "");
    let of_version_3 = advice("{adminPort: 35357}");
    assert!(of_version_3.ends_with("set keystoneAuthParameters.adminPort to 5000"), "{of_version_3}");
    let of_version_2 = advice("{apiVersion: v2.0}");
    assert!(of_version_2.contains("remove keystoneAuthParameters.apiVersion"), "{of_version_2}");
}

#[test]
fn settings_without_effect_are_told() {
    let told = |yaml: &str| ignored(Some(&auth(yaml))).join("\n");
    assert!(told("{authMode: keystone, keystoneAuthParameters: {port: 5001, adminPort: 1}}").contains(".port: "));
    assert_eq!(told("{authMode: keystone, keystoneAuthParameters: {port: 5001}}"), "");
    assert!(told("{keystoneSecretName: ks, keystoneAuthParameters: {region: r}}").lines().count() == 2);
    assert_eq!(told("{authMode: noauth}"), "");
    assert!(
        told("{authMode: keystone, keystoneAuthParameters: {authProtocol: http, insecure: true}}")
            .contains(".insecure: ")
    );
}

proptest! {
    #[test]
    fn every_password_that_is_accepted_reads_back(password in "[ -~é😀\"\\\\]{1,24}") {
        let auth = auth("{authMode: keystone, keystoneSecretName: keystone}");
        match Keystone::of(Some(&auth), "tf", &secrets(&password)) {
            Ok(found) => {
                let file = read::python(&found.unwrap().file().unwrap()).unwrap();
                prop_assert_eq!(&file["KEYSTONE"]["admin_password"], &password);
            }
            Err(_) => prop_assert!(check(&password).is_err()),
        }
    }
}
