//! Command line of an operator. Everything can be set by environment too, which is what the charts do.

use std::{collections::BTreeMap, net::SocketAddr};

use clap::Parser;
use tf_plan::images::ImageOverrides;
use tracing_subscriber::filter::Targets;

use crate::caches::Scope;

/// Command line.
#[derive(Clone, Debug, Parser)]
#[command(version, about)]
pub struct Arguments {
    /// Namespaces to watch, separated by commas; all if empty.
    #[arg(long, env = "WATCH_NAMESPACE", default_value = "")]
    pub watch_namespaces: String,

    /// Namespace of the operator itself, for its lease.
    #[arg(long, env = "POD_NAMESPACE", default_value = "default")]
    pub namespace: String,

    /// Name of this process.
    #[arg(long, env = "POD_NAME")]
    pub identity: Option<String>,

    /// Uid of the pod whose only process this is: one that is started after it takes over at once.
    #[arg(long, env = "POD_UID")]
    pub pod_uid: Option<String>,

    /// Whether to campaign for the leader lease; without it this process must be the only one.
    #[arg(long, env = "LEADER_ELECTION", default_value_t = true, action = clap::ArgAction::Set)]
    pub leader_election: bool,

    /// Where health and metrics are served; [::] stands for every address, IPv4 ones included.
    #[arg(long, env = "LISTEN_ADDRESS", default_value = "[::]:8080")]
    pub listen: SocketAddr,

    /// Domain of cluster services.
    #[arg(long, env = "CLUSTER_DOMAIN", default_value = "cluster.local")]
    pub cluster_domain: String,

    /// Proxy of HTTP (`host:port`) through which the config API is reached, where pods do not reach the nodes' addresses.
    #[arg(long, env = "CONFIG_API_PROXY")]
    pub config_api_proxy: Option<String>,

    /// Levels of logs, for example info or info,tf_runtime=debug.
    #[arg(long, env = "LOG_LEVEL", default_value = "info")]
    pub log_level: Targets,

    /// Log format.
    #[arg(long, env = "LOG_FORMAT", value_enum, default_value_t = LogFormat::Json)]
    pub log_format: LogFormat,

    /// Registry of all images that are not named otherwise, instead of the runtime's default.
    #[arg(long, env = "IMAGE_REGISTRY")]
    pub image_registry: Option<String>,

    /// Registry, organisation and prefix of workload images, instead of the release's.
    #[arg(long, env = "OPERAND_IMAGE_PREFIX")]
    pub image_prefix: Option<String>,

    /// Tag of workload images, instead of the release's.
    #[arg(long, env = "OPERAND_IMAGE_TAG")]
    pub image_tag: Option<String>,

    /// Whole image references by image name, for example external-zookeeper=registry/zk:1, separated by commas.
    #[arg(long, env = "OPERAND_IMAGES", value_delimiter = ',', value_parser = image_pair)]
    pub images: Vec<(String, String)>,

    /// Image with the node agent.
    #[arg(long, env = "TF_NODE_IMAGE")]
    pub tf_node_image: Option<String>,
}

/// Log formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// For people.
    Text,
}

impl Arguments {
    /// The watched namespaces.
    pub fn scope(&self) -> Scope {
        let named: std::collections::BTreeSet<String> = self
            .watch_namespaces
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        if named.is_empty() { Scope::All } else { Scope::Namespaces(named) }
    }

    /// The images chosen at installation.
    pub fn image_overrides(&self) -> ImageOverrides {
        let set = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        ImageOverrides {
            registry: set(&self.image_registry),
            prefix: set(&self.image_prefix),
            tag: set(&self.image_tag),
            references: self.images.iter().cloned().collect::<BTreeMap<_, _>>(),
            tf_node: set(&self.tf_node_image),
        }
    }
}

fn image_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, reference)) if !name.is_empty() && !reference.is_empty() => Ok((name.into(), reference.into())),
        _ => Err(format!("{text:?} is not of the form image-name=reference")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn namespaces_are_a_list_and_none_means_all() {
        let arguments = |list: &str| Arguments::parse_from(["op", "--watch-namespaces", list]);
        assert_eq!(arguments("").scope(), Scope::All);
        let named = Scope::Namespaces(["a".to_owned(), "b".to_owned()].into());
        assert_eq!(arguments(" b, a ,").scope(), named);
    }
}
