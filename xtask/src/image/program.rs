//! Images of the programs of this repository: one static executable, what is in it, and its licences. No shell, no account, no
//! certificates: an operator trusts the authority that Kubernetes gives its pod, and no other.

use std::{collections::BTreeMap, env};

use anyhow::Result;
use cargo_metadata::Package;
use tf_testing::operators;

use super::{
    archive::Image,
    executable::{Executable, Workspace},
    layer::{Content, Tree},
    notices, sbom,
    source::Source,
};

/// An image with one executable.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Name of the image and of its file.
    pub name: &'static str,
    /// Package of the executable, which is called like it.
    pub package: &'static str,
    /// Arguments where the pod gives none.
    arguments: &'static [&'static str],
    /// Further names it can be called by, wherever a pod looks for programs, and paths at which one looks for something of it.
    names: &'static [&'static str],
    /// Variables.
    environment: &'static [&'static str],
}

/// Programs besides the operators.
const OTHERS: [Program; 3] = [
    Program { name: "tf-node", package: "tf-node", arguments: &[], names: &[], environment: &[] },
    // What holds a pod's namespaces on the lab's nodes.
    Program { name: "pause", package: "tf-node", arguments: &["pause"], names: &[], environment: &[] },
    // What plays the daemons of Tungsten Fabric on the lab's nodes.
    Program {
        name: "tf-sim",
        package: "tf-sim",
        arguments: &[],
        names: &[
            "contrail-alarm-gen",
            "contrail-analytics-api",
            "contrail-api",
            "contrail-collector",
            "contrail-control",
            "contrail-device-manager",
            "contrail-dns",
            "contrail-kube-manager",
            "contrail-named",
            "contrail-query-engine",
            "contrail-schema",
            "contrail-svc-monitor",
            "contrail-vrouter-agent",
            "dnsmasq",
            "tf-snmp-collector",
            "tf-topology",
            "uwsgi",
            // The programs of the vRouter's kernel module, and its CNI plugin.
            "vif",
            "modprobe",
            "insmod",
            "contrail-k8s-cni",
            // Who knows users, where a test wants one.
            "keystone",
            // The web UI is a program for this one, which starts in the folder of the other two.
            "node",
            "/usr/src/contrail/contrail-web-core/jobServerStart.js",
            "/usr/src/contrail/contrail-web-core/webServerStart.js",
        ],
        // Its client of RabbitMQ wants authorities of the system, too, and there are none. What it is to trust, it checks before.
        // Daemons in Python are slow to start; builds of the image can have them slower, and late to answer (`docs/testing.md`).
        environment: &[
            "SSL_CERT_FILE=/etc/ssl/certs/kubernetes/ca-bundle.crt",
            "TF_SIM_START_SECONDS=2..6",
            "TF_SIM_LATE=0.02",
        ],
    },
];

/// User and group where the pod does not say: anybody but root, who owns no file.
const NOBODY: &str = "65532:65532";

/// Every program.
pub fn all() -> Vec<Program> {
    let operators =
        operators::ALL.map(|name| Program { name, package: name, arguments: &[], names: &[], environment: &[] });
    operators.into_iter().chain(OTHERS).collect()
}

/// Programs in groups that are built at once, in their order: operators are made of the same packages with the same features.
pub fn groups(programs: Vec<Program>) -> Vec<Vec<Program>> {
    let is_operator = |program: &Program| operators::ALL.contains(&program.package);
    let (operators, others): (Vec<_>, Vec<_>) = programs.into_iter().partition(is_operator);
    let mut groups = vec![operators];
    groups.extend(others.into_iter().map(|program| vec![program]));
    groups.retain(|group| !group.is_empty());
    groups
}

impl Program {
    /// The image, and the bill of materials that is in it.
    pub fn assemble(
        &self,
        executable: Executable,
        workspace: &Workspace,
        reference: String,
        source: &Source,
    ) -> Result<(Image, Vec<u8>)> {
        let metadata = workspace.metadata();
        let package = &metadata[&executable.package];
        let materials = sbom::cyclonedx(&executable, metadata, source.time)?;
        let path = format!("/{}", self.package);
        let mut tree = Tree::default();
        tree.file("/licenses/LICENSE", 0o644, Content::File(crate::root()?.join("LICENSE")));
        let notices = notices::notices(&executable, metadata)?;
        tree.file("/licenses/THIRD-PARTY", 0o644, Content::Memory(notices.into_bytes()));
        let sbom = format!("/usr/share/sbom/{}.cdx.json", self.package);
        tree.file(&sbom, 0o644, Content::Memory(materials.clone()));
        tree.file(&path, 0o755, Content::Memory(executable.content));
        for name in self.names {
            let at = if name.starts_with('/') { (*name).to_owned() } else { format!("/usr/bin/{name}") };
            tree.link(&at, &path);
        }
        let image = Image {
            reference,
            created: source.time,
            user: NOBODY.into(),
            environment: self.environment.iter().map(|variable| given(variable, |name| env::var(name).ok())).collect(),
            entrypoint: std::iter::once(path).chain(self.arguments.iter().map(|&word| word.to_owned())).collect(),
            labels: labels(self.name, package, source),
            layers: vec![(tree.layer(source.mtime())?, "cargo xtask image".into())],
        };
        Ok((image, materials))
    }
}

/// A variable of the image, or what the builder's environment says instead, as far as it is one of those that say how `tf-sim` behaves.
fn given(variable: &str, environment: impl Fn(&str) -> Option<String>) -> String {
    let other = variable.split_once('=').filter(|(name, _)| name.starts_with("TF_SIM_"));
    let other = other.and_then(|(name, _)| Some(format!("{name}={}", environment(name)?)));
    other.unwrap_or_else(|| variable.to_owned())
}

fn labels(title: &str, package: &Package, source: &Source) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([
        ("title", title.to_owned()),
        ("description", package.description.clone().unwrap_or_default()),
        ("version", package.version.to_string()),
        ("licenses", package.license.clone().unwrap_or_default()),
        ("created", source.time.to_string()),
    ]);
    if let Some(revision) = &source.revision {
        labels.insert("revision", revision.clone());
    }
    labels.into_iter().map(|(name, value)| (format!("org.opencontainers.image.{name}"), value)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What cargo links into a program built by itself, with features. A crate of ours without features is the same for all of them.
    fn linked(package: &str) -> BTreeSet<String> {
        let mut cargo = crate::cargo();
        cargo.args(["tree", "--locked", "--edges", "normal", "--prefix", "none", "--no-dedupe"]);
        let output = cargo.args(["--format", "{p} {f}", "--package", package]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout).unwrap();
        let is_ours = |line: &&str| line.contains(" (/") && line.trim_end().ends_with(')');
        // The package itself has the feature of its executable.
        let is_itself = |line: &&str| line.starts_with(&format!("{package} "));
        lines.lines().filter(|line| !is_ours(line) && !is_itself(line)).map(str::to_owned).collect()
    }

    #[test]
    fn who_builds_the_image_says_how_the_played_daemons_behave_and_nothing_else() {
        let busy = |name: &str| Some(format!("of {name}"));
        assert_eq!(given("TF_SIM_LATE=0.02", busy), "TF_SIM_LATE=of TF_SIM_LATE");
        assert_eq!(given("TF_SIM_LATE=0.02", |_| None), "TF_SIM_LATE=0.02");
        assert_eq!(given("SSL_CERT_FILE=/a", busy), "SSL_CERT_FILE=/a");
    }

    #[test]
    fn programs_that_are_built_at_once_are_made_of_the_same_packages_with_the_same_features() {
        let groups = groups(all());
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [operators::ALL.len(), 1, 1, 1]);
        for group in groups {
            let first = linked(group[0].package);
            assert!(first.len() > 45, "{first:?}");
            for program in &group[1..] {
                let other = linked(program.package);
                let differences: Vec<_> = first.symmetric_difference(&other).collect();
                assert!(differences.is_empty(), "{} and {}: {differences:#?}", group[0].name, program.name);
            }
        }
    }
}
