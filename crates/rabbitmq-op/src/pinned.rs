//! What the members of a running cluster have been told and cannot be told otherwise one at a time.
//!
//! A node's name is the name of its data: a renamed node is a new one (docs/upstream/rabbitmq.md#node-names). Cookie, port mapper, TLS and delegates
//! are how members find and trust each other: a member that is restarted with another one waits for its peers in vain and stops the roll-out. So all
//! of them are read back from the files that the members were given, by this operator or by the Go tf-operator, whose installations are adopted. That
//! way they outlive a change of the spec, of the operator's settings and of the Secret they once came from; how members speak with each other is in
//! the status, too. While the cluster sleeps no member runs, and all but the names follow the spec.

use tf_agent_api::content;
use tf_api::{
    Managed, Rabbitmq, RabbitmqDistribution, contract::MemberStatus, names::ANNOTATION_HIBERNATE, schema::Port,
};
use tf_plan::{
    build::{configuration, identity::Identity},
    member_set::MemberSet,
    observed::Observed,
    references::References,
    secret::SecretData,
};

use crate::{OPERATOR, config, distribution, nodes};

/// The Go tf-operator's file with the settings all its members share.
const FOREIGN_FILE: &str = "rabbitmq-common.env";
/// Variables that both operators set.
const NODE_NAME: &str = "RABBITMQ_NODENAME";
const EPMD_PORT: &str = "ERL_EPMD_PORT";
/// A variable that only the Go tf-operator sets.
const COOKIE: &str = "RABBITMQ_ERLANG_COOKIE";

/// The objects with the members' files, so that they are observed.
pub fn references(cr: &Rabbitmq) -> References {
    let identity = Identity::of(OPERATOR, cr);
    References { secrets: vec![configuration::secret_name(&identity)], config_maps: config_maps(&identity).to_vec() }
}

/// Names of the ConfigMaps with members' files, the later ones first.
fn config_maps(identity: &Identity) -> [String; 2] {
    [configuration::config_map_name(identity), configuration::foreign_config_map_name(identity)]
}

/// The files that members were given so far.
pub struct PinnedFiles<'a> {
    /// Name of the Go tf-operator's ConfigMap.
    foreign: String,
    running: bool,
    files: Vec<(&'a str, &'a str)>,
    secrets: Option<&'a SecretData>,
    members: &'a [MemberStatus],
    recorded: Option<&'a RabbitmqDistribution>,
}

/// A setting as members get it.
#[derive(Debug, PartialEq, Eq)]
pub struct Pinned<T> {
    /// The value in force.
    pub value: T,
    /// Why it is not the one the spec asks for.
    pub held: Option<String>,
}

impl<'a> PinnedFiles<'a> {
    /// What was observed of the resource's files.
    pub fn of(cr: &'a Rabbitmq, observed: &'a Observed<Rabbitmq>, member_set: &MemberSet<'_, Rabbitmq>) -> Self {
        let identity = &member_set.identity;
        let mut files: Vec<(&str, &str)> = Vec::new();
        for (key, text) in config_maps(identity).iter().filter_map(|name| observed.config_maps.get(name)).flatten() {
            if files.iter().all(|(other, _)| other != key) {
                files.push((key, text));
            }
        }
        let contract = cr.contract();
        let [_, foreign] = config_maps(identity);
        Self {
            foreign,
            running: (cr.is_initialized()
                || member_set.is_mixed()
                || files.iter().any(|(key, _)| *key == FOREIGN_FILE))
                && !member_set.is_fast_asleep(),
            files,
            secrets: observed.secrets.get(&configuration::secret_name(identity)),
            members: contract.map(|contract| contract.members.as_slice()).unwrap_or_default(),
            recorded: cr.status.as_ref().and_then(|status| status.own.distribution.as_ref()),
        }
    }

    /// What members of a cluster that is taken over have to be told and no file says, for people.
    pub fn untold(&self, members: &[MemberStatus]) -> Option<String> {
        let cure = "let the Go tf-operator write it once more, or add it by hand (docs/rabbitmq.md says how)";
        let lacks =
            |file: &str, variable: &str| format!("ConfigMap {} has no {file} with {variable}; {cure}", self.foreign);
        let nameless = members.iter().find(|member| self.host(member).is_none()).map(|member| {
            let file = content::key(config::ENV_FILE, &member.address);
            format!("the name of the server on node {} is unknown: {}", member.node, lacks(&file, NODE_NAME))
        });
        let cookie = || format!("their Erlang cookie is unknown: {}", lacks(FOREIGN_FILE, COOKIE));
        nameless.or_else(|| self.told_cookie().is_none().then(cookie))
    }

    /// The host parts of the nodes' names that members were told.
    pub fn hosts(&self) -> impl Iterator<Item = &'a str> {
        self.ours().filter_map(host)
    }

    /// The host part of the name that this member was told, if it was a member before or the cluster is being adopted.
    pub fn host(&self, member: &MemberStatus) -> Option<&'a str> {
        let before = self.members.iter().find(|before| before.id == member.id);
        if before.is_none() && !self.members.is_empty() {
            return None; // A newcomer may have the address of one that left.
        }
        // The address of a member may change; its file then still has the old one.
        let addresses = before.map(|before| &before.address).into_iter().chain([&member.address]);
        addresses.filter_map(|address| self.file(&content::key(config::ENV_FILE, address))).find_map(host)
    }

    /// The port of the port mapper.
    pub fn epmd_port(&self, wanted: Port) -> Pinned<Port> {
        let told = self.ours().chain(self.file(FOREIGN_FILE)).find_map(|text| variable(text, EPMD_PORT)?.parse().ok());
        let value = told.filter(|_| self.running).map_or(wanted, Port);
        let held = (value != wanted).then(|| held("erlEpmdPort", &format!("set it back to {value}")));
        Pinned { value, held }
    }

    /// Whether members speak TLS with each other. Who does not say keeps what there is, and a cluster is founded with it. Members of
    /// the Go tf-operator do not.
    pub fn tls(&self, wanted: Option<bool>) -> Pinned<bool> {
        let arguments = self.ours().find_map(|file| variable(file, config::SERVER_ARGUMENTS));
        // Who was told nothing of it speaks plainly.
        let silent = || (self.ours().next().is_some() || self.file(FOREIGN_FILE).is_some()).then_some(false);
        let told = arguments.map(distribution::is_tls).or_else(|| self.recorded?.tls).or_else(silent);
        let value = told.filter(|_| self.running || wanted.is_none()).or(wanted).unwrap_or(true);
        let differs = wanted.is_some_and(|wanted| wanted != value);
        Pinned { value, held: differs.then(|| held("tls.distribution", &format!("set it back to {value}"))) }
    }

    /// By how many processes each member calls the others. A process picks one of them by the number that one of the others has, and calls all
    /// others by it: where they have different numbers, what is sent to one that lacks it is lost (`delegate:delegate/3`, 3.10.7).
    pub fn delegates(&self) -> u32 {
        let configurations = self.files.iter().filter(|(key, _)| key.starts_with(config::CONFIG_FILE));
        let mut told = configurations.map(|(_, text)| delegates(text).unwrap_or(config::SERVERS_DELEGATES));
        let foreign = || self.file(FOREIGN_FILE).map(|_| config::SERVERS_DELEGATES);
        let told = told.next().or_else(|| self.recorded?.delegates).or_else(foreign);
        told.filter(|_| self.running).unwrap_or(config::DELEGATES)
    }

    /// The cookie. `wanted` is the spec's, `stored` the one in the operator's Secret, made at random if it was missing.
    pub fn cookie<'b>(&self, wanted: Option<&'b str>, stored: Option<&'b str>) -> Option<Pinned<&'b str>>
    where
        'a: 'b,
    {
        let running = self.told_cookie().or(stored).filter(|_| self.running);
        let value = running.or(wanted).or(stored)?;
        let held =
            wanted.is_some_and(|wanted| wanted != value).then(|| held("erlangCookie", "set it back or remove it"));
        Some(Pinned { value, held })
    }

    /// The cookie that members were told.
    fn told_cookie(&self) -> Option<&'a str> {
        let ours = self.secrets.and_then(|files| files.get(config::COOKIE_FILE));
        ours.or_else(|| variable(self.file(FOREIGN_FILE)?, COOKIE))
    }

    /// The environments that members were given.
    fn ours(&self) -> impl Iterator<Item = &'a str> {
        self.files.iter().filter(|(key, _)| key.starts_with(config::ENV_FILE)).map(|(_, text)| *text)
    }

    fn file(&self, name: &str) -> Option<&'a str> {
        self.files.iter().find(|(key, _)| *key == name).map(|(_, text)| *text)
    }
}

fn held(field: &str, what_to_do: &str) -> String {
    format!(
        "serviceConfiguration.{field} differs from what the members run with; a change needs all of them stopped at once, \
         so the former value is kept: {what_to_do}, or have the cluster hibernate (the annotation {ANNOTATION_HIBERNATE}), and wake it \
         when no pod is left"
    )
}

fn host(env_file: &str) -> Option<&str> {
    variable(env_file, NODE_NAME)?.strip_prefix(nodes::PREFIX).filter(|host| nodes::is_host(host))
}

/// The value of a variable in a file of shell assignments of plain words, quoted and exported or not.
fn variable<'a>(file: &'a str, name: &str) -> Option<&'a str> {
    file.lines().find_map(|line| {
        let line = line.trim();
        let (found, value) = line.strip_prefix("export ").unwrap_or(line).split_once('=')?;
        (found == name).then(|| value.trim_matches('\'')).filter(|value| !value.is_empty())
    })
}

/// What a configuration says of delegates.
fn delegates(config_file: &str) -> Option<u32> {
    let settings = config_file.lines().filter_map(|line| line.split_once('='));
    settings.filter(|(key, _)| key.trim() == config::DELEGATE_COUNT).find_map(|(_, value)| value.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: u32, node: &str, address: &str) -> MemberStatus {
        MemberStatus { id, node: node.into(), address: address.into() }
    }

    fn pinned_files<'a>(files: &[(&'a str, &'a str)], members: &'a [MemberStatus]) -> PinnedFiles<'a> {
        PinnedFiles {
            foreign: "theirs".into(),
            running: true,
            files: files.to_vec(),
            secrets: None,
            members,
            recorded: None,
        }
    }

    #[test]
    fn files_of_both_operators_are_understood() {
        for file in ["RABBITMQ_NODENAME='rabbit@a.b'\n", "NODENAME=rabbit@x\nexport RABBITMQ_NODENAME=rabbit@a.b\n"] {
            assert_eq!(host(file), Some("a.b"), "{file}");
        }
        for file in ["", "RABBITMQ_NODENAME=\n", "RABBITMQ_NODENAME=other@a.b", "RABBITMQ_NODENAME=rabbit@a\"]"] {
            assert_eq!(host(file), None, "{file}");
        }
    }

    #[test]
    fn a_newcomer_does_not_inherit_the_name_of_the_one_that_had_its_address() {
        let files = [("rabbitmq-env.conf.10.0.0.2", "RABBITMQ_NODENAME='rabbit@old.local'")];
        let before = [member(1, "a", "10.0.0.1"), member(2, "old", "10.0.0.2")];
        let pinned_files = pinned_files(&files, &before);
        assert_eq!(pinned_files.host(&member(3, "new", "10.0.0.2")), None);
        assert_eq!(pinned_files.host(&member(2, "old", "10.0.0.9")), Some("old.local"));
    }

    #[test]
    fn without_former_members_the_cluster_is_adopted_by_address() {
        let files = [("rabbitmq-env.conf.10.0.0.2", "RABBITMQ_NODENAME=rabbit@10.0.0.2")];
        assert_eq!(pinned_files(&files, &[]).host(&member(1, "a", "10.0.0.2")), Some("10.0.0.2"));
    }

    #[test]
    fn members_speak_tls_with_each_other_if_they_were_founded_with_it() {
        let env = |arguments: &str| format!("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='{arguments}'\n");
        let plain = env("-ssl ssl_pem_cache_clean 1000");
        let tls = env("-proto_dist inet_tls -ssl_dist_optfile /etc/contrail/inter_node_tls.config");
        let key = "rabbitmq-env.conf.10.0.0.1";
        let foreign = (FOREIGN_FILE, "export RABBITMQ_ERLANG_COOKIE=C");
        // What was told, by whom; what is wanted; what they speak while they run and while nobody does.
        for (files, wanted, running, stopped) in [
            (vec![], None, true, true),
            (vec![], Some(false), false, false),
            (vec![(key, plain.as_str())], None, false, false),
            (vec![(key, plain.as_str())], Some(true), false, true),
            (vec![(key, tls.as_str())], None, true, true),
            (vec![(key, tls.as_str())], Some(false), true, false),
            (vec![foreign], None, false, false),
            (vec![foreign], Some(true), false, true),
            (vec![(key, tls.as_str()), foreign], None, true, true),
            (vec![(key, "RABBITMQ_NODENAME=rabbit@a")], None, false, false),
        ] {
            for (runs, expected) in [(true, running), (false, stopped)] {
                let told = PinnedFiles { running: runs, ..pinned_files(&files, &[]) }.tls(wanted);
                assert_eq!(told.value, expected, "{files:?} {wanted:?} {runs}");
                assert_eq!(told.held.is_some(), wanted.is_some_and(|wanted| wanted != expected), "{files:?} {runs}");
            }
        }
    }

    #[test]
    fn how_members_speak_is_known_when_their_files_are_gone() {
        let plain = RabbitmqDistribution { tls: Some(false), delegates: Some(16) };
        let tls = RabbitmqDistribution { tls: Some(true), delegates: Some(20) };
        let told = |files: &[_], recorded| {
            let pinned_files = PinnedFiles { recorded, ..pinned_files(files, &[]) };
            (pinned_files.tls(None).value, pinned_files.delegates())
        };
        assert_eq!(told(&[], None), (true, 20));
        assert_eq!(told(&[], Some(&plain)), (false, 16));
        let foreign = [
            (FOREIGN_FILE, "export RABBITMQ_ERLANG_COOKIE=C"),
            ("rabbitmq-env.conf.10.0.0.1", "RABBITMQ_NODENAME=rabbit@a"),
        ];
        assert_eq!(told(&foreign, None), (false, 16));
        // What the former operator left there is older than what was recorded since.
        assert_eq!(told(&foreign, Some(&tls)), (true, 20));
    }

    #[test]
    fn delegates_are_as_many_as_members_have_until_all_of_them_sleep() {
        let key = "rabbitmq.conf.10.0.0.1";
        for (text, told) in [("heartbeat = 60\n", 16), ("a = b\ndelegate_count = 20\n", 20), ("delegate_count = 8", 8)]
        {
            assert_eq!(pinned_files(&[(key, text)], &[]).delegates(), told, "{text}");
            assert_eq!(PinnedFiles { running: false, ..pinned_files(&[(key, text)], &[]) }.delegates(), 20, "{text}");
        }
    }

    #[test]
    fn who_is_told_no_name_or_no_cookie_is_found() {
        let members = [member(1, "a", "10.0.0.1"), member(2, "b", "10.0.0.2")];
        let cookie = (FOREIGN_FILE, "export RABBITMQ_ERLANG_COOKIE=C");
        let names = [
            ("rabbitmq-env.conf.10.0.0.1", "RABBITMQ_NODENAME=rabbit@a"),
            ("rabbitmq-env.conf.10.0.0.2", "RABBITMQ_NODENAME=rabbit@b"),
        ];
        let untold = |files: &[_]| pinned_files(files, &[]).untold(&members);
        assert_eq!(untold(&[names[0], names[1], cookie]), None);
        assert!(
            untold(&[names[0], cookie])
                .is_some_and(|why| why.contains("on node b is unknown: ConfigMap theirs has no"))
        );
        assert!(untold(&names).is_some_and(|why| why.starts_with("their Erlang cookie is unknown")));
    }

    #[test]
    fn before_the_first_bring_up_cookie_and_port_mapper_may_change() {
        let files = [("rabbitmq-env.conf.10.0.0.1", "ERL_EPMD_PORT='4371'")];
        let pinned_files = PinnedFiles { running: false, ..pinned_files(&files, &[]) };
        assert_eq!(pinned_files.epmd_port(Port(4369)), Pinned { value: Port(4369), held: None });
        assert_eq!(pinned_files.cookie(Some("NEW"), Some("OLD")), Some(Pinned { value: "NEW", held: None }));
    }

    #[test]
    fn afterwards_they_stay_and_the_spec_is_told_so() {
        let files = [("rabbitmq-env.conf.10.0.0.1", "ERL_EPMD_PORT='4371'")];
        let given: SecretData = [(config::COOKIE_FILE.to_owned(), "OLD".to_owned())].into_iter().collect();
        let pinned_files = PinnedFiles { secrets: Some(&given), ..pinned_files(&files, &[]) };
        let port = pinned_files.epmd_port(Port(4369));
        assert_eq!(port.value, Port(4371));
        assert!(port.held.is_some_and(|why| why.contains("set it back to 4371")));
        let cookie = pinned_files.cookie(Some("NEW"), Some("REGENERATED")).unwrap();
        assert_eq!(cookie.value, "OLD");
        assert!(cookie.held.is_some_and(|why| !why.contains("OLD") && !why.contains("NEW")));
        assert_eq!(pinned_files.cookie(None, Some("REGENERATED")), Some(Pinned { value: "OLD", held: None }));
    }
}
