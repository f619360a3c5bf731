//! The parameters of an agent: what the spec sets, under the names the agent's image gives them (docs/upstream/vrouter.md#parameters).
//!
//! A parameter comes from a field of the spec or from `envVariablesConfig`, which wins. Files are rendered from parameters
//! and nothing else of the spec, so an override reaches whatever the field would have reached. Reading is recorded: a
//! field that no file asked for had no effect, and a file that asked for a secret belongs into the Secret. Neither can be
//! forgotten, because neither is written down anywhere. A field that another one replaces has no effect either.

mod fields;
mod read;

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
};

use tf_agent_api::family;
use tf_api::{Vrouter, common::AuthMode, contract::Reason};
use tf_plan::{keystone, not_ready::NotReady};

pub use fields::Secret;

/// Variables that the operator sets itself in every container.
pub const RESERVED: [&str; 6] =
    ["NODE_NAME", "NODE_TYPE", "POD_IP", family::POD_IPS, family::POD_IP_FAMILY, "POD_NAME"];
/// The mode in which a program forwards packets.
pub const DPDK: &str = "dpdk";
/// Beginning of the variables that set any option of the agent's file: `VROUTER_AGENT__<section>__<option>`.
const OPTION_PREFIX: &str = "VROUTER_AGENT__";

/// A parameter that means something to this operator. The text is the variable's name in the agent's image.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::AsRefStr, strum::EnumString, strum::VariantArray,
)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
#[expect(missing_docs, reason = "the names are those of the image's variables")]
pub enum Name {
    AgentMode,
    AnalyticsNodes,
    AuthMode,
    BarbicanPassword,
    BarbicanTenantName,
    BarbicanUser,
    CloudOrchestrator,
    CollectorPort,
    CollectorServers,
    ConfigApiPort,
    ConfigApiServerCaCertfile,
    ConfigApiSslEnable,
    ConfigNodes,
    ContrailSysctlTuning,
    ControlNodes,
    CpuCoreMask,
    /// Ours: the Go tf-operator kept it to itself.
    DataSubnet,
    DnsNodes,
    DnsServerPort,
    DnsServers,
    DpdkCtrlThreadMask,
    DpdkEnableVlanFwrd,
    DpdkMemPerSocket,
    DpdkUioDriver,
    FabricSnatHashTableSize,
    #[strum(serialize = "HUGE_PAGES_1GB")]
    HugePages1G,
    #[strum(serialize = "HUGE_PAGES_1GB_DIR")]
    HugePages1GDir,
    #[strum(serialize = "HUGE_PAGES_2MB")]
    HugePages2M,
    #[strum(serialize = "HUGE_PAGES_2MB_DIR")]
    HugePages2MDir,
    HugePagesDir,
    HypervisorType,
    IntrospectListenAll,
    IntrospectSslEnable,
    IntrospectSslInsecure,
    #[strum(serialize = "K8S_TOKEN")]
    K8sToken,
    #[strum(serialize = "K8S_TOKEN_FILE")]
    K8sTokenFile,
    KeystoneAuthAdminPassword,
    KeystoneAuthAdminPort,
    KeystoneAuthAdminTenant,
    KeystoneAuthAdminUser,
    KeystoneAuthCaCertfile,
    KeystoneAuthCertfile,
    KeystoneAuthHost,
    KeystoneAuthInsecure,
    KeystoneAuthKeyfile,
    KeystoneAuthProjectDomainName,
    KeystoneAuthProto,
    KeystoneAuthPublicPort,
    KeystoneAuthRegionName,
    KeystoneAuthUrlTokens,
    KeystoneAuthUrlVersion,
    KeystoneAuthUserDomainName,
    KubernetesApiPort,
    KubernetesApiSecurePort,
    KubernetesApiServer,
    KubernetesPodSubnets,
    #[strum(serialize = "L3MH_CIDR")]
    L3mhCidr,
    LogDir,
    LogLevel,
    LogLocal,
    MetadataProxySecret,
    MetadataSslCaCertfile,
    MetadataSslCertType,
    MetadataSslCertfile,
    MetadataSslEnable,
    MetadataSslKeyfile,
    NicOffloadEnable,
    PhysicalInterface,
    PriorityBandwidth,
    PriorityId,
    PriorityScheduling,
    PriorityTagging,
    QosDefHwQueue,
    QosLogicalQueues,
    QosQueueId,
    RequiredKernelVrouterEncryption,
    SampleDestination,
    SandeshCaCertfile,
    SandeshCertfile,
    SandeshKeyfile,
    SandeshServerCertfile,
    SandeshServerKeyfile,
    SandeshSslEnable,
    ServerCaCertfile,
    ServerCertfile,
    ServerKeyfile,
    ServiceCoreMask,
    SloDestination,
    SriovPhysicalInterface,
    SriovPhysicalNetwork,
    SriovVf,
    SslEnable,
    SslInsecure,
    StatsCollectorDestinationPath,
    Subcluster,
    TsnAgentMode,
    TsnNodes,
    VrouterAgentIntrospectPort,
    VrouterCryptInterface,
    VrouterDecryptInterface,
    VrouterDecryptKey,
    VrouterEncryption,
    VrouterGateway,
    XmppServerCaCertfile,
    XmppServerCertfile,
    XmppServerKeyfile,
    XmppServerPort,
    XmppServers,
    XmppSslEnable,
}

/// One parameter that is set.
#[derive(Clone)]
struct Parameter {
    value: String,
    /// Path in the spec.
    path: String,
    secret: bool,
}

/// An option of the agent's file that is set by its name.
#[derive(Clone)]
pub struct AgentOption {
    /// Section.
    pub section: String,
    /// Key.
    pub key: String,
    /// Value, which is as secret as the variable it comes from.
    pub value: String,
}

/// A parameter of the nodes of one group.
#[derive(Clone)]
pub struct Setting {
    /// The variable's name in the agent's image.
    pub variable: String,
    /// Its value. Empty for the image's default.
    pub value: String,
    /// Where it is stated.
    pub path: String,
    /// Whether it is stated as a variable, which may be a secret and is handed on to the programs of the images.
    pub is_variable: bool,
}

/// The parameters that are set, and which of them were asked for. Deliberately not `Debug`: values may be secrets.
#[derive(Clone, Default)]
pub struct Parameters {
    values: BTreeMap<Name, Parameter>,
    variables: BTreeMap<String, String>,
    /// Where the parameters of profiles are stated, by their variables.
    profiled: BTreeMap<String, String>,
    /// Fields that something else replaces, with what does.
    replaced: Vec<String>,
    asked: RefCell<BTreeSet<Name>>,
    secret: Cell<bool>,
}

impl Parameters {
    /// The parameters of a resource. `secret` is what a Secret holds for its Keystone, where there is one.
    ///
    /// # Errors
    /// When a variable asks for what this release cannot do.
    pub fn of(cr: &Vrouter, secret: Option<&Secret<'_>>) -> Result<Self, NotReady> {
        let mut values: BTreeMap<Name, Parameter> = BTreeMap::new();
        let mut replaced = Vec::new();
        let fields = fields::common(&cr.spec.common_configuration, secret).into_iter();
        for field in fields.chain(fields::service(&cr.spec.service_configuration)) {
            // An empty text means the same as none, as in the Go tf-operator.
            if let Some(value) = field.value.filter(|value| !value.is_empty()) {
                let wins = format!("{} wins", field.path);
                let former = values.insert(field.name, Parameter { value, path: field.path, secret: field.secret });
                replaced.extend(former.map(|former| format!("{}: {wins}", former.path)));
            }
        }
        let variables: BTreeMap<String, String> = cr
            .spec
            .service_configuration
            .env_variables_config
            .iter()
            .filter(|(name, _)| !RESERVED.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.expose().to_owned()))
            .collect();
        for (variable, value) in &variables {
            let Ok(name) = variable.parse::<Name>() else { continue };
            let path = format!("spec.serviceConfiguration.envVariablesConfig[{variable}]");
            // An empty variable stands for the image's default, whatever a field says.
            let former = if value.is_empty() {
                values.remove(&name)
            } else {
                values.insert(name, Parameter { value: value.clone(), path, secret: true })
            };
            let differs = former.filter(|former| former.value != *value && !fields::is_usual(name, &former.value));
            replaced.extend(differs.map(|former| format!("{}: envVariablesConfig[{variable}] wins", former.path)));
        }
        let parameters = Self { values, variables, replaced, ..Self::default() };
        parameters.supported()?;
        Ok(parameters)
    }

    /// Refuses what would leave the network other than it was asked to be if it were ignored.
    fn supported(&self) -> Result<(), NotReady> {
        if self.get(Name::AgentMode).is_some_and(|mode| !["kernel", DPDK].contains(&mode)) {
            return Err(self.invalid(Name::AgentMode, "use kernel or dpdk"));
        }
        if self.get(Name::VrouterEncryption).is_some_and(|encrypted| !encrypted.eq_ignore_ascii_case("false")) {
            return Err(self.invalid(
                Name::VrouterEncryption,
                "this release does not encrypt the traffic between nodes; remove the setting if the traffic may be in clear text",
            ));
        }
        Ok(())
    }

    /// Whether a program forwards packets, and not the kernel. That is no secret.
    pub fn is_dpdk(&self) -> bool {
        self.asked.borrow_mut().insert(Name::AgentMode);
        self.values.get(&Name::AgentMode).is_some_and(|mode| mode.value == DPDK)
    }

    /// The same with the parameters of a group's profiles, which win over those of the spec.
    ///
    /// # Errors
    /// When one asks for what this release cannot do.
    pub fn with_settings(mut self, settings: Vec<Setting>) -> Result<Self, NotReady> {
        for Setting { variable, value, path, is_variable } in settings {
            if let Ok(name) = variable.parse::<Name>() {
                if value.is_empty() {
                    self.values.remove(&name);
                } else {
                    let (value, path) = (value.clone(), path.clone());
                    self.values.insert(name, Parameter { value, path, secret: is_variable });
                }
            }
            if is_variable {
                self.variables.insert(variable.clone(), value);
            } else {
                self.variables.remove(&variable);
            }
            self.profiled.insert(variable, path);
        }
        self.supported()?;
        Ok(self)
    }

    /// The same with another gateway, that of a group. `profiles_win`: whether one that a profile states counts instead.
    #[must_use]
    pub fn with_gateway(mut self, group: &str, gateway: Option<&str>, profiles_win: bool) -> Self {
        let Some(gateway) = gateway.filter(|gateway| !gateway.is_empty()) else { return self };
        let path = format!("spec.groups[{group}].vrouterGateway");
        let variable = Name::VrouterGateway.as_ref();
        let profiled = self.profiled.get(variable);
        if let Some(profile) = profiled.filter(|_| profiles_win) {
            let said = format!("{path}: {profile} wins");
            self.replaced.push(said);
        } else if self.variables.contains_key(variable) && profiled.is_none() {
            self.replaced.push(format!("{path}: envVariablesConfig[{variable}] wins"));
        } else {
            self.variables.remove(variable);
            self.values.insert(Name::VrouterGateway, Parameter { value: gateway.into(), path, secret: false });
        }
        self
    }

    /// The value of a parameter, if it is set.
    pub fn get(&self, name: Name) -> Option<&str> {
        self.asked.borrow_mut().insert(name);
        let parameter = self.values.get(&name)?;
        if parameter.secret {
            self.secret.set(true);
        }
        Some(&parameter.value)
    }

    /// Whether Keystone authenticates users; `OpenStack` cannot do without it.
    pub fn keystone(&self) -> bool {
        self.get(Name::AuthMode) == Some("keystone") || self.get(Name::CloudOrchestrator) == Some("openstack")
    }

    /// Whether Keystone's certificate is checked against those of its Secret. That is no secret, whoever names the file.
    pub fn has_keystones_authority(&self) -> bool {
        self.values.get(&Name::KeystoneAuthCaCertfile).is_some_and(|file| file.value == fields::authority_file())
    }

    /// Whether a parameter is set. That is no secret.
    pub fn is_set(&self, name: Name) -> bool {
        self.values.contains_key(&name)
    }

    /// Whether `envVariablesConfig` sets the variable to nothing. That is no secret.
    pub fn is_blanked(&self, name: Name) -> bool {
        self.variables.get(name.as_ref()).is_some_and(String::is_empty)
    }

    /// What `render` makes, and whether it asked for a secret.
    pub fn watch<T>(&self, render: impl FnOnce(&Self) -> T) -> (T, bool) {
        self.secret.set(false);
        let made = render(self);
        (made, self.secret.get())
    }

    /// The variables of `envVariablesConfig`, which are all secret.
    pub fn variables(&self) -> &BTreeMap<String, String> {
        if !self.variables.is_empty() {
            self.secret.set(true);
        }
        &self.variables
    }

    /// Options of the agent's file among the variables. `DASH` stands for a dash, as in the image.
    pub fn agent_options(&self) -> Vec<AgentOption> {
        let dashed = |text: &str| text.replace("DASH", "-");
        let options: Vec<AgentOption> = self
            .variables
            .iter()
            .filter_map(|(name, value)| {
                let (section, key) = name.strip_prefix(OPTION_PREFIX)?.split_once("__")?;
                Some(AgentOption { section: dashed(section), key: dashed(key), value: value.clone() })
            })
            .collect();
        if !options.is_empty() {
            self.secret.set(true);
        }
        options
    }

    /// Every parameter that is set, a line each with where it is stated. Values of variables, which may be secrets, are left out.
    pub fn listed(&self) -> String {
        let known = self.values.iter().map(|(name, parameter)| {
            let value = if parameter.secret { String::new() } else { format!("={}", parameter.value) };
            (name.as_ref().to_owned(), format!("{}{value}  # {}", name.as_ref(), parameter.path))
        });
        let others = self.variables.keys().filter(|variable| variable.parse::<Name>().is_err()).map(|variable| {
            let profiled = self.profiled.get(variable).cloned();
            let path = profiled.unwrap_or_else(|| format!("spec.serviceConfiguration.envVariablesConfig[{variable}]"));
            (variable.clone(), format!("{variable}  # {path}"))
        });
        let lines: BTreeMap<String, String> = known.chain(others).collect();
        lines.into_values().map(|line| line + "\n").collect()
    }

    /// A value that cannot be used. The message has the path and never the value, which may be a secret.
    pub fn invalid(&self, name: Name, why: &str) -> NotReady {
        NotReady::invalid(Reason::InvalidSpec, format!("{}: {why}", self.path(name)))
    }

    /// Where a parameter is set. Its value may be a secret.
    pub fn path(&self, name: Name) -> String {
        self.values.get(&name).map_or_else(|| name.as_ref().to_owned(), |parameter| parameter.path.clone())
    }
}

/// Fields that were replaced, and those that no file of any of the given sets asked for, with why. Variables are left out:
/// they reach the containers.
pub fn ignored(sets: &[Parameters]) -> Vec<String> {
    let keystone = sets.iter().any(Parameters::keystone);
    let asked: BTreeSet<Name> = sets.iter().flat_map(|set| set.asked.borrow().clone()).collect();
    let mut ignored: Vec<String> = sets
        .iter()
        .flat_map(|set| &set.values)
        .filter(|(name, parameter)| !asked.contains(name) && !is_variable(&parameter.path))
        .map(|(name, parameter)| {
            if !keystone && name.as_ref().starts_with("KEYSTONE_") {
                format!("{}: it takes effect with authMode: keystone", without_leaf(&parameter.path))
            } else {
                format!("{}: {}", parameter.path, fields::why_ignored(*name))
            }
        })
        .chain(sets.iter().flat_map(|set| set.replaced.clone()))
        .collect();
    ignored.sort_unstable();
    ignored.dedup();
    ignored
}

/// Whether a path is that of a variable: programs of the images get it whatever it is.
fn is_variable(path: &str) -> bool {
    path.contains(".envVariablesConfig[") || path.contains(".moreConfig[")
}

/// Whether a variable sets an option of the agent's file.
pub fn is_option(variable: &str) -> bool {
    variable.strip_prefix(OPTION_PREFIX).is_some_and(|option| option.contains("__"))
}

/// Keystone's many fields, which a Manager copies into every resource, are told as one.
fn without_leaf(path: &str) -> &str {
    path.find(fields::KEYSTONE).map_or(path, |start| &path[..start + fields::KEYSTONE.len()])
}

/// Settings that do not become parameters at all, as ignored paths.
pub fn left_out(cr: &Vrouter) -> Vec<String> {
    let variables = &cr.spec.service_configuration.env_variables_config;
    let reserved = RESERVED
        .iter()
        .filter(|name| variables.contains_key(**name))
        .map(|name| format!("spec.serviceConfiguration.envVariablesConfig[{name}]: the operator sets it"));
    let auth = cr.spec.common_configuration.auth_parameters.as_ref();
    let named = auth.and_then(|auth| auth.keystone_secret_name.as_deref()).is_some_and(|name| !name.is_empty());
    let unread = (named && keystone::secret(auth).is_none()).then(|| {
        let keystone = auth.is_some_and(|auth| auth.auth_mode == Some(AuthMode::Keystone));
        let why = if keystone { "adminPassword is set and wins" } else { "it takes effect with authMode: keystone" };
        format!("spec.commonConfiguration.authParameters.keystoneSecretName: {why}")
    });
    reserved.chain(unread).collect()
}
