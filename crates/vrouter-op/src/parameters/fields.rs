//! Which field of the spec is which parameter.

use tf_agent_api::node;
use tf_api::{
    VrouterConfiguration,
    common::{AuthMode, AuthParameters, PodConfiguration},
    schema::Sensitive,
};
use tf_plan::{keystone, member_set::sys_log_level};

use super::Name;

/// Field below which everything is about Keystone.
pub const KEYSTONE: &str = "keystoneAuthParameters";

/// One field of the spec as a parameter.
pub struct Field {
    pub name: Name,
    pub path: String,
    pub value: Option<String>,
    pub secret: bool,
}

/// What the Secret for Keystone holds.
#[derive(Clone)]
pub struct Secret<'a> {
    /// The administrator's password.
    pub password: &'a str,
    /// Certificates that Keystone's own is checked against, if they are not the cluster's.
    pub authority: Option<String>,
}

/// Where programs find those certificates.
pub fn authority_file() -> String {
    format!("{}/{}", node::RUN_DIR, keystone::CA)
}

/// Fields of `commonConfiguration`.
pub fn common(common: &PodConfiguration, secret: Option<&Secret<'_>>) -> Vec<Field> {
    let level = sys_log_level(common.log_level.unwrap_or_default());
    let mut fields = vec![open(Name::LogLevel, "spec.commonConfiguration.logLevel", Some(level.to_owned()))];
    fields.extend(common.auth_parameters.iter().flat_map(|auth| authentication(auth, secret)));
    fields
}

fn authentication(auth: &AuthParameters, secret: Option<&Secret<'_>>) -> Vec<Field> {
    const BASE: &str = "spec.commonConfiguration.authParameters";
    let keystone = auth.keystone_auth_parameters.clone().unwrap_or_default();
    let mode = auth.auth_mode.map(|mode| match mode {
        AuthMode::Noauth => "noauth".to_owned(),
        AuthMode::Keystone => "keystone".to_owned(),
    });
    let from_secret = secret.map(|secret| secret.password.to_owned());
    let authority = secret.and_then(|secret| secret.authority.as_ref()).map(|_| authority_file());
    let field = |name, field: &str, value| open(name, &format!("{BASE}.{KEYSTONE}.{field}"), value);
    vec![
        open(Name::AuthMode, &format!("{BASE}.authMode"), mode),
        Field {
            secret: true,
            ..open(Name::KeystoneAuthAdminPassword, &format!("{BASE}.keystoneSecretName"), from_secret)
        },
        Field {
            secret: true,
            ..field(
                Name::KeystoneAuthAdminPassword,
                "adminPassword",
                keystone.admin_password.as_ref().map(|password| password.expose().to_owned()),
            )
        },
        open(Name::KeystoneAuthCaCertfile, &format!("{BASE}.keystoneSecretName[{}]", keystone::AUTHORITY), authority),
        field(Name::KeystoneAuthHost, "address", keystone.address),
        field(Name::KeystoneAuthAdminPort, "adminPort", keystone.admin_port.map(|port| port.to_string())),
        field(Name::KeystoneAuthUrlVersion, "apiVersion", keystone.api_version.map(|it| keystone::base(it).to_owned())),
        field(
            Name::KeystoneAuthUrlTokens,
            "apiVersion",
            keystone.api_version.map(|it| keystone::tokens(it).to_owned()),
        ),
        field(Name::KeystoneAuthAdminTenant, "adminTenant", keystone.admin_tenant),
        field(Name::KeystoneAuthAdminUser, "adminUsername", keystone.admin_username),
        field(Name::KeystoneAuthProto, "authProtocol", keystone.auth_protocol),
        field(Name::KeystoneAuthInsecure, "insecure", keystone.insecure.map(|flag| flag.to_string())),
        field(Name::KeystoneAuthPublicPort, "port", keystone.port.map(|port| port.to_string())),
        field(Name::KeystoneAuthProjectDomainName, "projectDomainName", keystone.project_domain_name),
        field(Name::KeystoneAuthRegionName, "region", keystone.region),
        field(Name::KeystoneAuthUserDomainName, "userDomainName", keystone.user_domain_name),
    ]
}

/// Fields of `serviceConfiguration`. The pattern names every field of the type: one that is added later does not compile
/// until it is decided what it does.
#[expect(clippy::too_many_lines, reason = "one line a field of the spec")]
pub fn service(spec: &VrouterConfiguration) -> Vec<Field> {
    let VrouterConfiguration {
        // The plan's own: which containers run, which Control is meant, the CNI configuration, variables.
        containers: _,
        control_instance: _,
        cni_mtu: _,
        cni_conf_dir: _,
        cni_bin_dir: _,
        cni_meta_plugin: _,
        cluster_name: _,
        env_variables_config: _,
        vhost0: _,
        agent_not_ready_taint: _,
        physical_interface,
        vrouter_gateway,
        data_subnet,
        l3mh_cidr,
        kubernetes_pod_subnet,
        subcluster,
        cloud_orchestrator,
        hypervisor_type,
        agent_mode,
        tsn_agent_mode,
        hugepages_2m,
        hugepages_1g,
        dpdk_uio_driver,
        sriov_physical_interface,
        sriov_physical_network,
        sriov_vf,
        fabric_snt_hash_table_size,
        fabric_snat_hash_table_size,
        ssl_enable,
        ssl_insecure,
        config_api_ssl_enable,
        xmmp_ssl_enable,
        xmpp_ssl_enable,
        sandesh_ssl_enable,
        introspect_ssl_enable,
        server_ca_certfile,
        server_certfile,
        server_keyfile,
        config_api_server_ca_certfile,
        xmpp_server_ca_certfile,
        xmpp_server_certfile,
        xmpp_server_keyfile,
        sandesh_ca_certfile,
        sandesh_certfile,
        sandesh_keyfile,
        sandesh_server_certfile,
        sandesh_server_keyfile,
        metadata_proxy_secret,
        metadata_ssl_enable,
        metadata_ssl_certfile,
        metadata_ssl_keyfile,
        metadata_ssl_ca_certfile,
        metadata_ssl_cert_type,
        log_dir,
        log_local,
        slo_destination,
        sample_destination,
        stats_collector_destination_path,
        priority_id,
        priority_bandwidth,
        priority_scheduling,
        priority_tagging,
        qos_queue_id,
        qos_logical_queues,
        qos_def_hw_queue,
        vrouter_encryption,
        required_kernel_vrouter_encryption,
        vrouter_crypt_interface,
        vrouter_decrypt_interface,
        vrouter_decrypt_key,
        collector_port,
        config_api_port,
        dns_server_port,
        xmpp_server_port,
        k8s_token,
        k8s_token_file,
        kubernetes_api_port,
        kubernetes_api_secure_port,
        barbican_tenant_name,
        barbican_user,
        barbican_password,
        keystone_auth_host,
        keystone_auth_proto,
        keystone_auth_admin_port,
        keystone_auth_admin_password,
        keystone_auth_insecure,
        keystone_auth_ca_certfile,
        keystone_auth_certfile,
        keystone_auth_keyfile,
        keystone_auth_project_domain_name,
        keystone_auth_user_domain_name,
        keystone_auth_region_name,
        keystone_auth_url_tokens,
        keystone_auth_url_version,
    } = spec;
    let pages = |count: Option<u32>| count.filter(|count| *count > 0).map(|count| count.to_string());
    vec![
        text(Name::PhysicalInterface, "physicalInterface", physical_interface.as_ref()),
        text(Name::VrouterGateway, "vrouterGateway", vrouter_gateway.as_ref()),
        text(Name::DataSubnet, "dataSubnet", data_subnet.as_ref()),
        text(Name::L3mhCidr, "l3mhCidr", l3mh_cidr.as_ref()),
        text(Name::KubernetesPodSubnets, "kubernetesPodSubnet", kubernetes_pod_subnet.as_ref()),
        text(Name::Subcluster, "subcluster", subcluster.as_ref()),
        in_service(Name::CloudOrchestrator, "cloudOrchestrator", Some(cloud_orchestrator.clone())),
        in_service(Name::HypervisorType, "hypervisorType", Some(hypervisor_type.clone())),
        in_service(Name::AgentMode, "agentMode", agent_mode.clone()),
        text(Name::TsnAgentMode, "tsnAgentMode", tsn_agent_mode.as_ref()),
        in_service(Name::HugePages2M, "hugePages2M", pages(*hugepages_2m)),
        in_service(Name::HugePages1G, "hugePages1G", pages(*hugepages_1g)),
        text(Name::DpdkUioDriver, "dpdkUioDriver", dpdk_uio_driver.as_ref()),
        text(Name::SriovPhysicalInterface, "sriovPhysicalInterface", sriov_physical_interface.as_ref()),
        text(Name::SriovPhysicalNetwork, "sriovPhysicalNetwork", sriov_physical_network.as_ref()),
        text(Name::SriovVf, "sriovVf", sriov_vf.as_ref()),
        text(Name::FabricSnatHashTableSize, "fabricSntHashTableSize", fabric_snt_hash_table_size.as_ref()),
        text(Name::FabricSnatHashTableSize, "fabricSnatHashTableSize", fabric_snat_hash_table_size.as_ref()),
        flag(Name::SslEnable, "sslEnable", Some(*ssl_enable)),
        flag(Name::SslInsecure, "sslInsecure", *ssl_insecure),
        flag(Name::ConfigApiSslEnable, "configApiSslEnable", *config_api_ssl_enable),
        flag(Name::XmppSslEnable, "xmmpSslEnable", *xmmp_ssl_enable),
        flag(Name::XmppSslEnable, "xmppSslEnable", *xmpp_ssl_enable),
        flag(Name::SandeshSslEnable, "sandeshSslEnable", *sandesh_ssl_enable),
        flag(Name::IntrospectSslEnable, "introspectSslEnable", *introspect_ssl_enable),
        text(Name::ServerCaCertfile, "serverCaCertfile", server_ca_certfile.as_ref()),
        text(Name::ServerCertfile, "serverCertfile", server_certfile.as_ref()),
        text(Name::ServerKeyfile, "serverKeyfile", server_keyfile.as_ref()),
        text(Name::ConfigApiServerCaCertfile, "configApiServerCaCertfile", config_api_server_ca_certfile.as_ref()),
        text(Name::XmppServerCaCertfile, "xmppServerCaCertfile", xmpp_server_ca_certfile.as_ref()),
        text(Name::XmppServerCertfile, "xmppServerCertfile", xmpp_server_certfile.as_ref()),
        text(Name::XmppServerKeyfile, "xmppServerKeyfile", xmpp_server_keyfile.as_ref()),
        text(Name::SandeshCaCertfile, "sandeshCaCertfile", sandesh_ca_certfile.as_ref()),
        text(Name::SandeshCertfile, "sandeshCertfile", sandesh_certfile.as_ref()),
        text(Name::SandeshKeyfile, "sandeshKeyfile", sandesh_keyfile.as_ref()),
        text(Name::SandeshServerCertfile, "sandeshServerCertfile", sandesh_server_certfile.as_ref()),
        text(Name::SandeshServerKeyfile, "sandeshServerKeyfile", sandesh_server_keyfile.as_ref()),
        secret(Name::MetadataProxySecret, "metadataProxySecret", metadata_proxy_secret.as_ref()),
        text(Name::MetadataSslEnable, "metadataSslEnable", metadata_ssl_enable.as_ref()),
        text(Name::MetadataSslCertfile, "metadataSslCertfile", metadata_ssl_certfile.as_ref()),
        text(Name::MetadataSslKeyfile, "metadataSslKeyfile", metadata_ssl_keyfile.as_ref()),
        text(Name::MetadataSslCaCertfile, "metadataSslCaCertfile", metadata_ssl_ca_certfile.as_ref()),
        text(Name::MetadataSslCertType, "metadataSslCertType", metadata_ssl_cert_type.as_ref()),
        text(Name::LogDir, "logDir", log_dir.as_ref()),
        in_service(Name::LogLocal, "logLocal", Some(log_local.to_string())),
        text(Name::SloDestination, "sloDestination", slo_destination.as_ref()),
        text(Name::SampleDestination, "sampleDestination", sample_destination.as_ref()),
        text(
            Name::StatsCollectorDestinationPath,
            "statsCollectorDestinationPath",
            stats_collector_destination_path.as_ref(),
        ),
        text(Name::PriorityId, "priorityId", priority_id.as_ref()),
        text(Name::PriorityBandwidth, "priorityBandwidth", priority_bandwidth.as_ref()),
        text(Name::PriorityScheduling, "priorityScheduling", priority_scheduling.as_ref()),
        flag(Name::PriorityTagging, "priorityTagging", *priority_tagging),
        text(Name::QosQueueId, "qosQueueId", qos_queue_id.as_ref()),
        text(Name::QosLogicalQueues, "qosLogicalQueues", qos_logical_queues.as_ref()),
        flag(Name::QosDefHwQueue, "qosDefHwQueue", *qos_def_hw_queue),
        flag(Name::VrouterEncryption, "vrouterEncryption", vrouter_encryption.filter(|encrypted| *encrypted)),
        text(
            Name::RequiredKernelVrouterEncryption,
            "requiredKernelVrouterEncryption",
            required_kernel_vrouter_encryption.as_ref(),
        ),
        text(Name::VrouterCryptInterface, "vrouterCryptInterface", vrouter_crypt_interface.as_ref()),
        text(Name::VrouterDecryptInterface, "vrouterDecryptInterface", vrouter_decrypt_interface.as_ref()),
        secret(Name::VrouterDecryptKey, "vrouterDecryptKey", vrouter_decrypt_key.as_ref()),
        text(Name::CollectorPort, "collectorPort", collector_port.as_ref()),
        text(Name::ConfigApiPort, "configApiPort", config_api_port.as_ref()),
        text(Name::DnsServerPort, "dnsServerPort", dns_server_port.as_ref()),
        text(Name::XmppServerPort, "xmppServerPort", xmpp_server_port.as_ref()),
        secret(Name::K8sToken, "k8sToken", k8s_token.as_ref()),
        text(Name::K8sTokenFile, "k8sTokenFile", k8s_token_file.as_ref()),
        text(Name::KubernetesApiPort, "kubernetesApiPort", kubernetes_api_port.as_ref()),
        text(Name::KubernetesApiSecurePort, "kubernetesApiSecurePort", kubernetes_api_secure_port.as_ref()),
        text(Name::BarbicanTenantName, "barbicanTenantName", barbican_tenant_name.as_ref()),
        text(Name::BarbicanUser, "barbicanUser", barbican_user.as_ref()),
        secret(Name::BarbicanPassword, "barbicanPassword", barbican_password.as_ref()),
        text(Name::KeystoneAuthHost, "keystoneAuthHost", keystone_auth_host.as_ref()),
        text(Name::KeystoneAuthProto, "keystoneAuthProto", keystone_auth_proto.as_ref()),
        text(Name::KeystoneAuthAdminPort, "keystoneAuthAdminPort", keystone_auth_admin_port.as_ref()),
        secret(Name::KeystoneAuthAdminPassword, "keystoneAuthAdminPassword", keystone_auth_admin_password.as_ref()),
        flag(Name::KeystoneAuthInsecure, "keystoneAuthInsecure", *keystone_auth_insecure),
        text(Name::KeystoneAuthCaCertfile, "keystoneAuthCaCertfile", keystone_auth_ca_certfile.as_ref()),
        text(Name::KeystoneAuthCertfile, "keystoneAuthCertfile", keystone_auth_certfile.as_ref()),
        text(Name::KeystoneAuthKeyfile, "keystoneAuthKeyfile", keystone_auth_keyfile.as_ref()),
        text(
            Name::KeystoneAuthProjectDomainName,
            "keystoneAuthProjectDomainName",
            keystone_auth_project_domain_name.as_ref(),
        ),
        text(Name::KeystoneAuthUserDomainName, "keystoneAuthUserDomainName", keystone_auth_user_domain_name.as_ref()),
        text(Name::KeystoneAuthRegionName, "keystoneAuthRegionName", keystone_auth_region_name.as_ref()),
        text(Name::KeystoneAuthUrlTokens, "keystoneAuthUrlTokens", keystone_auth_url_tokens.as_ref()),
        text(Name::KeystoneAuthUrlVersion, "keystoneAuthUrlVersion", keystone_auth_url_version.as_ref()),
    ]
}

fn open(name: Name, path: &str, value: Option<String>) -> Field {
    Field { name, path: path.to_owned(), value, secret: false }
}

fn in_service(name: Name, field: &str, value: Option<String>) -> Field {
    open(name, &format!("spec.serviceConfiguration.{field}"), value)
}

fn text(name: Name, field: &str, value: Option<&String>) -> Field {
    in_service(name, field, value.cloned())
}

fn flag(name: Name, field: &str, value: Option<bool>) -> Field {
    in_service(name, field, value.map(|value| value.to_string()))
}

fn secret(name: Name, field: &str, value: Option<&Sensitive>) -> Field {
    let value = value.map(|value| value.expose().to_owned());
    Field { secret: true, ..in_service(name, field, value) }
}

/// Whether a spec that does not state the field says the same.
pub fn is_usual(name: Name, value: &str) -> bool {
    let usual = common(&PodConfiguration::default(), None).into_iter().chain(service(&VrouterConfiguration::default()));
    usual.into_iter().any(|field| field.name == name && field.value.as_deref() == Some(value))
}

/// Why a field had no effect.
pub fn why_ignored(name: Name) -> &'static str {
    match name {
        Name::DpdkUioDriver => "it takes effect with agentMode: dpdk, or in a group with a profile for dpdk",
        Name::VrouterEncryption
        | Name::RequiredKernelVrouterEncryption
        | Name::VrouterCryptInterface
        | Name::VrouterDecryptInterface
        | Name::VrouterDecryptKey => "traffic between nodes is not encrypted yet, a later release brings that",
        Name::SriovPhysicalNetwork => {
            "it takes effect together with sriovPhysicalInterface, where a config API is known"
        }
        Name::SriovPhysicalInterface => "it takes effect together with sriovVf or sriovPhysicalNetwork",
        Name::SriovVf => "it takes effect together with sriovPhysicalInterface",
        Name::K8sTokenFile => "the pod has no file with a token, k8sToken takes the token itself",
        Name::PriorityBandwidth | Name::PriorityScheduling => "it takes effect together with priorityId",
        Name::QosLogicalQueues | Name::QosDefHwQueue => "it takes effect together with qosQueueId",
        Name::MetadataSslCaCertfile
        | Name::MetadataSslCertType
        | Name::MetadataSslCertfile
        | Name::MetadataSslKeyfile => "it takes effect with metadataSslEnable: true",
        Name::VrouterGateway => "every group has a gateway of its own",
        Name::KeystoneAuthPublicPort => "adminPort is set and wins",
        _ => "nothing uses it with the other settings as they are",
    }
}
