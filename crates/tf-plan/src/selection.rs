//! What of a spec can be carried out: the containers that run, and the settings that cannot have an effect.
//!
//! Every component begins with this, whether it has members or one pod per node.

use tf_api::{
    KindInfo, Managed,
    common::{Container, PodConfiguration},
    contract::Reason,
};

use crate::{
    images::{self, Builtin, Chosen, Release},
    not_ready::NotReady,
    observed::Operator,
};

const HOST: &str = "it sets up the host (kernel settings, tools in /usr/bin), which is the vRouter's business";
const PREFETCH: &str = "it only pulls an image for tools on the host, which are the vRouter's business";
const REGISTERED: &str = "the operator registers in the config API what it did";
/// Containers that the Go tf-operator ran beside the daemons of Config and Control and that are not needed (docs/upstream/images.md#helpers).
pub const OBSOLETE: [(&str, &str); 4] = [
    ("nodeinit", HOST),
    ("nodeinit-status-prefetch", PREFETCH),
    ("nodeinit-tools-prefetch", PREFETCH),
    ("provisioner", REGISTERED),
];

/// What a component can run, and what the spec says about it.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// Containers it can run.
    pub builtins: &'a [Builtin],
    /// The spec's container list.
    pub containers: &'a [Container],
    /// Containers of the Go tf-operator that this operator does not need, with why. Naming them is no mistake.
    pub obsolete: &'a [(&'static str, &'static str)],
}

/// The containers of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The release of the images.
    pub release: Release,
    /// Containers to run, in the order of [`Offer::builtins`].
    pub containers: Vec<Chosen>,
    /// Fields of the spec that have no effect, with why.
    pub ignored: Vec<String>,
}

impl Selection {
    /// Chooses the containers.
    ///
    /// # Errors
    /// When the spec asks for a release that is not known, for none of the containers, or for an image that no pod can have.
    pub fn of<Cr: Managed>(cr: &Cr, operator: &Operator, offer: &Offer<'_>) -> Result<Self, NotReady> {
        let release = images::release(cr.version())?;
        let (containers, unknown) = images::choose(offer.containers, offer.builtins, &release, &operator.images);
        if containers.is_empty() {
            return Err(no_container(offer));
        }
        let runs = |listed: &&Container| containers.iter().any(|chosen| listed.name.as_deref() == Some(chosen.name));
        if let Some(unusable) = offer.containers.iter().filter(runs).find_map(unusable_image) {
            return Err(unusable);
        }
        let mut ignored = ignored_common(cr.common(), Cr::INFO);
        ignored.extend(unknown.into_iter().map(|name| ignored_container(&name, offer)));
        ignored.extend(unclear_containers(offer.containers));
        Ok(Self { release, containers, ignored })
    }
}

/// Whether a list of containers names one; an empty list names none.
pub fn lists(listed: &[Container], container: &str) -> bool {
    listed.iter().any(|listed| listed.name.as_deref() == Some(container))
}

/// Asks of a list of containers, if there is one, that it names those without which a member is of no use.
///
/// # Errors
/// When it leaves one of them out.
pub fn require(listed: &[Container], needed: &[&str]) -> Result<(), NotReady> {
    let missing = needed.iter().find(|container| !listed.is_empty() && !lists(listed, container));
    missing.map_or(Ok(()), |missing| Err(lacks(missing)))
}

/// What is said of a list that leaves out a container.
pub fn lacks(what: &str) -> NotReady {
    let message = format!(
        "serviceConfiguration.containers does not list {what}; add it, or remove the list to run the usual ones"
    );
    NotReady::invalid(Reason::InvalidSpec, message)
}

fn no_container(offer: &Offer<'_>) -> NotReady {
    let known: Vec<_> = offer.builtins.iter().map(|builtin| builtin.name).collect();
    NotReady::invalid(
        Reason::InvalidSpec,
        format!(
            "serviceConfiguration.containers names none of {}; add one, or remove the list to run the usual ones",
            known.join(", ")
        ),
    )
}

/// The API server lets blanks into the template of a pod and refuses the pods (upstream `validation.go`, `validateContainerOnlyForPod`), so nobody
/// would say what is wrong.
fn unusable_image(listed: &Container) -> Option<NotReady> {
    let image = listed.image.as_deref()?;
    let is_reference = !image.is_empty() && !image.contains(char::is_whitespace);
    (!is_reference).then(|| {
        let message = format!(
            "serviceConfiguration.containers[{}].image is {image:?}; name an image without blanks, or remove the field to use that of the release",
            listed.name.as_deref().unwrap_or_default()
        );
        NotReady::invalid(Reason::InvalidSpec, message)
    })
}

fn ignored_container(name: &str, offer: &Offer<'_>) -> String {
    let why = offer.obsolete.iter().find(|(obsolete, _)| *obsolete == name).map_or("no such container", |(_, why)| why);
    format!("spec.serviceConfiguration.containers[{name}]: {why}")
}

/// Entries that do not tell which container they are about.
fn unclear_containers(containers: &[Container]) -> impl Iterator<Item = String> {
    let name = |container: &Container| container.name.clone().unwrap_or_default();
    let unclear = containers.iter().enumerate().filter_map(move |(position, container)| {
        let name = name(container);
        if name.is_empty() {
            return Some((position.to_string(), "the entry has no name"));
        }
        let repeated = containers[..position].iter().any(|former| former.name.as_ref() == Some(&name));
        repeated.then_some((name, "an earlier entry has the same name and is used"))
    });
    unclear.map(|(which, why)| format!("spec.serviceConfiguration.containers[{which}]: {why}"))
}

/// Common settings that are set and cannot have an effect on this component.
fn ignored_common(common: &PodConfiguration, kind: KindInfo) -> Vec<String> {
    let settings = [
        (common.host_network == Some(false), "hostNetwork", "the daemons need their node's network"),
        (common.network_policy.is_some(), "networkPolicy", "policies have no effect on pods in their node's network"),
        (
            common.distribution.is_some() && !kind.uses_distribution,
            "distribution",
            "it concerns the kernel module only",
        ),
        (common.replicas.is_some() && !kind.scales, "replicas", "one pod runs on every chosen node"),
        (common.storage.is_some() && !kind.keeps_data, "storage", "members keep no data"),
        (common.auth_parameters.is_some() && !kind.uses_auth, "authParameters", "the service does not use them"),
    ];
    settings
        .into_iter()
        .filter(|(set, ..)| *set)
        .map(|(_, field, why)| format!("spec.commonConfiguration.{field}: {why}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_without_a_name_and_repeated_ones_are_told() {
        let entry = |name: Option<&str>| Container { name: name.map(str::to_owned), ..Container::default() };
        let list = [entry(Some("api")), entry(None), entry(Some("api")), entry(Some("")), entry(Some("dnsmasq"))];
        let told: Vec<String> = unclear_containers(&list).collect();
        assert_eq!(
            told,
            [
                "spec.serviceConfiguration.containers[1]: the entry has no name",
                "spec.serviceConfiguration.containers[api]: an earlier entry has the same name and is used",
                "spec.serviceConfiguration.containers[3]: the entry has no name",
            ]
        );
    }

    #[test]
    fn an_image_that_no_pod_can_have_is_told_with_its_container() {
        let listed =
            |image: &str| Container { name: Some("api".into()), image: Some(image.into()), ..Container::default() };
        assert_eq!(unusable_image(&listed("registry.example.org/api@sha256:0123")), None);
        assert_eq!(unusable_image(&Container::default()), None, "that of the release");
        for image in ["", " ", "api:1 ", "a pi:1", "api\n"] {
            let told = unusable_image(&listed(image)).map(|not_ready| not_ready.message).unwrap_or_default();
            assert!(told.starts_with(&format!("serviceConfiguration.containers[api].image is {image:?}")), "{told}");
        }
    }
}
