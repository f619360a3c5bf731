//! `contrail-vrouter-agent.conf`, complete (docs/upstream/vrouter.md#agent-file): a template that every node completes.

use tf_agent_api::{node, template::Local};
use tf_api::{ports, schema::Port};
use tf_plan::{external_tls::ExternalTls, not_ready::NotReady};

use super::{LOG_DIR, ini_template::IniTemplate, qos};
use crate::{
    parameters::{DPDK, Name, Parameters},
    services::Services,
};

pub use tf_agent_api::vrouter::FILE;
/// What the agent takes for the destination of samples and security events. Any other word makes it exit with code 0
/// (docs/upstream/vrouter.md#values-that-end-the-agent).
const DESTINATIONS: [&str; 3] = ["collector", "file", "syslog"];

/// The file.
///
/// # Errors
/// When a value means nothing to the agent, or cannot be expressed in the file.
pub fn file(parameters: &Parameters, services: &Services) -> Result<String, NotReady> {
    let mut template = IniTemplate::default();
    defaults(&mut template, parameters, services)?;
    template.list("CONTROL-NODE", "servers", &services.xmpp_servers(parameters)?);
    template.set_if_some("CONTROL-NODE", "subcluster_name", parameters.get(Name::Subcluster));
    template.list("DNS", "servers", &services.dns_servers(parameters)?);
    template.node("NETWORKS", "control_network_ip", Local::ControlAddress);
    sandesh(&mut template, parameters, services)?;
    metadata(&mut template, parameters)?;
    virtual_host_interface(&mut template, parameters)?;
    // Found through PATH, because older images have them in another directory.
    template.set("SERVICE-INSTANCE", "netns_command", "opencontrail-vrouter-netns");
    template.set("SERVICE-INSTANCE", "docker_command", "opencontrail-vrouter-docker");
    template.set_if_some("HYPERVISOR", "type", parameters.get(Name::HypervisorType));
    let hint = "use a number from 0 to 65535";
    let table = parameters.number(Name::FabricSnatHashTableSize, hint)?.unwrap_or(4096);
    template.set("FLOWS", "fabric_snat_hash_table_size", table);
    template.list("SESSION", "slo_destination", &destinations(parameters, Name::SloDestination)?);
    template.list("SESSION", "sample_destination", &destinations(parameters, Name::SampleDestination)?);
    template.set_if_some("STATS", "stats_collector", parameters.get(Name::StatsCollectorDestinationPath));
    // Queues of hardware that the kernel does not have, and tables that are the forwarder's.
    if !parameters.is_dpdk() {
        qos::fill(&mut template, parameters)?;
        restart(&mut template, parameters)?;
    }
    for option in parameters.agent_options() {
        template.set(&option.section, &option.key, option.value);
    }
    Ok(template.render(FILE)?)
}

fn defaults(template: &mut IniTemplate, parameters: &Parameters, services: &Services) -> Result<(), NotReady> {
    const SECTION: &str = "DEFAULT";
    if parameters.flag(Name::IntrospectListenAll)?.unwrap_or(true) {
        template.set(SECTION, "http_server_ip", "0.0.0.0");
    } else {
        template.node(SECTION, "http_server_ip", Local::Address);
    }
    let port = introspect_port(parameters)?;
    template.set(SECTION, "http_server_port", port);
    template.set(SECTION, "rest_port", ports::AGENT_PORT_API);
    template.list(SECTION, "collectors", &services.collectors(parameters)?);
    template.set(SECTION, "log_file", format!("{}/contrail-vrouter-agent.log", log_dir(parameters)?));
    template.set_if_some(SECTION, "log_level", parameters.get(Name::LogLevel));
    template.set(SECTION, "log_local", parameters.flag(Name::LogLocal)?.unwrap_or(true));
    template.node(SECTION, "hostname", Local::Name);
    template.node(SECTION, "agent_name", Local::Name);
    let xmpp_tls = xmpp_tls(parameters)?;
    template.set(SECTION, "xmpp_auth_enable", xmpp_tls);
    template.set(SECTION, "xmpp_dns_auth_enable", xmpp_tls);
    if xmpp_tls {
        let file = |own, server, issued| parameters.first(&[own, server]).unwrap_or(issued);
        template.set(
            SECTION,
            "xmpp_server_cert",
            file(Name::XmppServerCertfile, Name::ServerCertfile, node::CERTIFICATE),
        );
        template.set(
            SECTION,
            "xmpp_server_key",
            file(Name::XmppServerKeyfile, Name::ServerKeyfile, node::CERTIFICATE_KEY),
        );
        template.set(
            SECTION,
            "xmpp_ca_cert",
            file(Name::XmppServerCaCertfile, Name::ServerCaCertfile, node::CA_BUNDLE),
        );
    }
    template.node(SECTION, "physical_interface_mac", Local::Macs);
    if parameters.is_dpdk() {
        template.set(SECTION, "platform", DPDK);
        template.node(SECTION, "physical_interface_address", Local::PciAddresses);
    }
    if let Some(mode) = parameters.get(Name::TsnAgentMode) {
        if mode != "tsn" && mode != "tsn-no-forwarding" {
            return Err(parameters.invalid(Name::TsnAgentMode, "use tsn or tsn-no-forwarding"));
        }
        template.set(SECTION, "agent_mode", mode);
    }
    template.list(SECTION, "tsn_servers", &parameters.items(Name::TsnNodes));
    Ok(())
}

/// Port of introspection.
///
/// # Errors
/// When the spec gives no port.
pub fn introspect_port(parameters: &Parameters) -> Result<Port, NotReady> {
    Ok(parameters.port(Name::VrouterAgentIntrospectPort)?.map_or(ports::AGENT_INTROSPECT, Port))
}

/// Whether introspection speaks TLS.
///
/// # Errors
/// When the spec does not say yes or no.
pub fn introspect_tls(parameters: &Parameters) -> Result<bool, NotReady> {
    tls(parameters, Name::IntrospectSslEnable)
}

/// Directory of the log. The node's directory is mounted there, so it must not cover anything else.
///
/// # Errors
/// When it is not below `/var/log`.
pub fn log_dir(parameters: &Parameters) -> Result<&str, NotReady> {
    let Some(directory) = parameters.get(Name::LogDir) else { return Ok(LOG_DIR) };
    let plain = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    match directory.strip_prefix("/var/log/") {
        Some(below) if below.split('/').all(plain) => Ok(directory),
        _ => Err(parameters.invalid(Name::LogDir, "use a directory below /var/log, for example /var/log/contrail")),
    }
}

/// Whether agents and control nodes talk over TLS.
///
/// # Errors
/// When the spec does not say yes or no.
pub fn xmpp_tls(parameters: &Parameters) -> Result<bool, NotReady> {
    tls(parameters, Name::XmppSslEnable)
}

/// Whether agents and collectors talk over TLS.
///
/// # Errors
/// When the spec does not say yes or no.
pub fn collector_tls(parameters: &Parameters) -> Result<bool, NotReady> {
    tls(parameters, Name::SandeshSslEnable)
}

/// A switch of its own, else the one for everything.
pub(super) fn tls(parameters: &Parameters, name: Name) -> Result<bool, NotReady> {
    let all = parameters.flag(Name::SslEnable)?.unwrap_or(true);
    Ok(parameters.flag(name)?.unwrap_or(all))
}

fn sandesh(template: &mut IniTemplate, parameters: &Parameters, services: &Services) -> Result<(), NotReady> {
    const SECTION: &str = "SANDESH";
    const AUTHORITIES: [Name; 2] = [Name::SandeshCaCertfile, Name::ServerCaCertfile];
    let introspect = introspect_tls(parameters)?;
    let collector = collector_tls(parameters)?;
    template.set(SECTION, "introspect_ssl_enable", introspect);
    // Without it introspect asks for client certificates, which probes and people do not have.
    let insecure = parameters.flag(Name::IntrospectSslInsecure)?.unwrap_or(true);
    template.set(SECTION, "introspect_ssl_insecure", insecure);
    template.set(SECTION, "sandesh_ssl_enable", collector);
    let external_tls = if collector { services.collectors_foreign(parameters) } else { ExternalTls::default() };
    if introspect && !insecure && external_tls.ca.is_some() && parameters.first(&AUTHORITIES).is_none() {
        let hint = "set it to true: collectors have an authority of their own (spec.dependencies.analytics), and the agent has one file of \
                    authorities for collectors and for who asks for introspection";
        return Err(parameters.invalid(Name::IntrospectSslInsecure, hint));
    }
    let mut file = |key, names: &[Name], issued: &str| {
        template.set(SECTION, key, parameters.first(names).unwrap_or(issued));
    };
    if collector {
        file("sandesh_keyfile", &[Name::SandeshKeyfile, Name::ServerKeyfile], &external_tls.key());
        file("sandesh_certfile", &[Name::SandeshCertfile, Name::ServerCertfile], &external_tls.certificate());
    }
    if introspect {
        file("sandesh_server_keyfile", &[Name::SandeshServerKeyfile, Name::ServerKeyfile], node::CERTIFICATE_KEY);
        file("sandesh_server_certfile", &[Name::SandeshServerCertfile, Name::ServerCertfile], node::CERTIFICATE);
    }
    if collector || introspect {
        file("sandesh_ca_cert", &AUTHORITIES, &external_tls.trust());
    }
    Ok(())
}

fn metadata(template: &mut IniTemplate, parameters: &Parameters) -> Result<(), NotReady> {
    const SECTION: &str = "METADATA";
    template.set_if_some(SECTION, "metadata_proxy_secret", parameters.get(Name::MetadataProxySecret));
    let Some(tls) = parameters.flag(Name::MetadataSslEnable)? else { return Ok(()) };
    template.set(SECTION, "metadata_use_ssl", tls);
    if tls {
        template.set_if_some(SECTION, "metadata_client_cert", parameters.get(Name::MetadataSslCertfile));
        template.set_if_some(SECTION, "metadata_client_key", parameters.get(Name::MetadataSslKeyfile));
        template.set_if_some(SECTION, "metadata_ca_cert", parameters.get(Name::MetadataSslCaCertfile));
        template.set_if_some(SECTION, "metadata_client_cert_type", parameters.get(Name::MetadataSslCertType));
    }
    Ok(())
}

/// What `vhost0` is, which exists before the daemon starts.
fn virtual_host_interface(template: &mut IniTemplate, parameters: &Parameters) -> Result<(), NotReady> {
    const SECTION: &str = "VIRTUAL-HOST-INTERFACE";
    let several_uplinks = parameters.subnet(Name::L3mhCidr)?.is_some();
    template.set(SECTION, "name", "vhost0");
    template.node(SECTION, "compute_node_address", Local::Address);
    template.node(SECTION, "physical_interface", Local::Interfaces);
    if several_uplinks {
        // The address is on the loopback interface, and the uplinks keep their own.
        template.node(SECTION, "physical_interface_addr", Local::InterfaceCidrs);
        template.node(SECTION, "loopback_ip", Local::Address);
    } else {
        template.node(SECTION, "ip", Local::Cidr);
    }
    match parameters.addresses(Name::VrouterGateway)?.as_slice() {
        [] => template.node(SECTION, "gateway", Local::Gateway),
        gateways => {
            let subnet = parameters.subnet(Name::DataSubnet)?.filter(|_| !several_uplinks);
            if subnet.is_some_and(|subnet| gateways.iter().any(|gateway| !subnet.contains(gateway))) {
                return Err(parameters.invalid(Name::VrouterGateway, "a gateway has to be in dataSubnet"));
            }
            template.list(SECTION, "gateway", gateways);
        }
    }
    Ok(())
}

fn destinations(parameters: &Parameters, name: Name) -> Result<Vec<String>, NotReady> {
    let words = parameters.items(name);
    if words.iter().any(|word| !DESTINATIONS.contains(&word.as_str())) {
        return Err(parameters.invalid(name, "use collector, file or syslog, separated by blanks"));
    }
    Ok(if words.is_empty() { vec!["collector".to_owned()] } else { words })
}

/// Where the kernel keeps its tables while the agent restarts. The larger pages, as the image chooses.
fn restart(template: &mut IniTemplate, parameters: &Parameters) -> Result<(), NotReady> {
    let mut tables = |key, own, local: Local| {
        if let Some(directory) = parameters.first(&[own, Name::HugePagesDir]) {
            template.list("RESTART", key, &[format!("{directory}/bridge"), format!("{directory}/flow")]);
        } else {
            let directory = local.placeholder();
            template.template("RESTART", key, format!("{directory}/bridge {directory}/flow"));
        }
    };
    let small = parameters.pages(Name::HugePages2M)? > 0;
    if parameters.pages(Name::HugePages1G)? > 0 {
        tables("huge_page_1G", Name::HugePages1GDir, Local::HugePages1G);
    } else if small {
        tables("huge_page_2M", Name::HugePages2MDir, Local::HugePages2M);
    }
    Ok(())
}
