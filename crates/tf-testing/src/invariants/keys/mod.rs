//! No configuration file has a key that its reader never had. Most daemons take what they do not know without a word, so nobody else would
//! tell a key that is spelt wrong, or one that only scripts of the stock images write.
//!
//! What they read is in [`known`]. contrail-control, contrail-dns and contrail-query-engine end at a key that they do not know; they are
//! played on their files ([`tf_sim`]). Who else reads settings is named here, so that no file is forgotten.

mod known;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::Value;
use tf_plan::object::{CONFIG_MAP, Object, SECRET};
use tf_sim::{analytics, boost::Boost, control, webui::module};

use known::Sections;

/// Endings of the names of files with settings. Members are told apart by what follows.
const ENDINGS: [&str; 3] = [".conf", ".ini", ".js"];
/// Files that are no business of this law: programs that end at what they do not know, and are real or played in other tests; the kernel;
/// devices that SNMP asks, whose sections are their addresses.
const ELSEWHERE: [&str; 12] = [
    "base.conf",
    "device.ini",
    "dnsmasq.conf",
    "rabbitmq-env.conf",
    "rabbitmq-formation-4.conf",
    "rabbitmq-formation.conf",
    "rabbitmq.conf",
    "redis-auth.conf",
    "redis.conf",
    "sentinel-auth.conf",
    "sentinel.conf",
    "sysctl.conf",
];

/// Who reads a file.
enum Reader {
    /// It takes what it does not know without a word.
    Lenient(Sections),
    /// It ends at what it does not know, and says at what.
    Played(fn(&str) -> Result<(), String>),
    Elsewhere,
}

/// Checks every file of ConfigMaps and Secrets.
///
/// # Panics
/// When there is a key that nobody reads, or a file of which nobody knows who reads it.
pub fn check(name: &str, objects: &[Object]) {
    let files = objects.iter().flat_map(files);
    let unknown: Vec<String> = files.flat_map(|(file, text)| unknown(&file, &text)).collect();
    assert!(unknown.is_empty(), "{name}:\n{}", unknown.join("\n"));
}

fn files(object: &Object) -> Vec<(String, String)> {
    let text = |value: &Value| match object.kind {
        CONFIG_MAP => value.as_str().map(str::to_owned),
        SECRET => String::from_utf8(BASE64_STANDARD.decode(value.as_str()?).ok()?).ok(),
        _ => None,
    };
    let data = object.body["data"].as_object().into_iter().flatten();
    data.filter_map(|(file, value)| Some((file.clone(), text(value)?))).collect()
}

/// What is wrong with a file. No value is quoted.
fn unknown(file: &str, text: &str) -> Vec<String> {
    let Some(name) = stem(file) else { return Vec::new() };
    let told = |fault: String| vec![format!("{file}: {fault}")];
    match reader(name) {
        None => told("nobody knows who reads it (tf_testing::invariants::keys)".into()),
        Some(Reader::Elsewhere) => Vec::new(),
        Some(Reader::Played(read)) => read(text).err().map(told).unwrap_or_default(),
        Some(Reader::Lenient(sections)) => match keys(text) {
            Err(fault) => told(fault),
            Ok(keys) => {
                let unread = keys.iter().filter(|(section, key)| !is_read(sections, section, key));
                let place = |section: &str| if section.is_empty() { String::new() } else { format!("[{section}] ") };
                unread.map(|(section, key)| format!("{file}: {}{key} is read by nobody", place(section))).collect()
            }
        },
    }
}

/// The name that a file has in its container, if it is one with settings.
fn stem(file: &str) -> Option<&str> {
    ENDINGS.iter().find_map(|ending| {
        let end = file.find(ending)? + ending.len();
        let (name, member) = file.split_at(end);
        (member.is_empty() || member.starts_with('.')).then_some(name)
    })
}

fn reader(name: &str) -> Option<Reader> {
    let sections = match name {
        "contrail-control.conf" => return Some(Reader::Played(|text| played(control::options::Daemon::Control, text))),
        "contrail-dns.conf" => return Some(Reader::Played(|text| played(control::options::Daemon::Dns, text))),
        "contrail-query-engine.conf" => return Some(Reader::Played(query_engine)),
        "contrail-api-uwsgi.ini" => known::UWSGI,
        "contrail-schema.conf" => known::SCHEMA,
        "contrail-svc-monitor.conf" => known::SVC_MONITOR,
        "contrail-device-manager.conf" => known::DEVICE_MANAGER,
        "contrail-fabric-ansible.conf" => known::FABRIC_ANSIBLE,
        "contrail-keystone-auth.conf" => known::KEYSTONE,
        "contrail-kubernetes.conf" => known::KUBE_MANAGER,
        "vnc_api_lib.ini" => known::VNC_API,
        "contrail-collector.conf" => known::COLLECTOR,
        "contrail-analytics-api.conf" => known::ANALYTICS_API,
        "contrail-alarm-gen.conf" => known::ALARM_GENERATOR,
        "tf-snmp-collector.conf" => known::SNMP_COLLECTOR,
        "tf-topology.conf" => known::TOPOLOGY,
        "contrail-vrouter-agent.conf" => known::AGENT,
        "contrail-lbaas-auth.conf" => known::LOAD_BALANCER,
        "10-tf-cni.conf" => known::CNI,
        "config.global.js" => known::WEB_UI,
        "contrail-webui-userauth.js" => known::WEB_UI_USER,
        _ if name.ends_with("-nodemgr.conf") => known::NODE_MANAGER,
        // One for each worker.
        _ if name.starts_with("contrail-api-") => known::CONFIG_API,
        _ if ELSEWHERE.contains(&name) => return Some(Reader::Elsewhere),
        _ => return None,
    };
    Some(Reader::Lenient(sections))
}

fn played(daemon: control::options::Daemon, text: &str) -> Result<(), String> {
    control::options::Options::read(daemon, text).map(drop).map_err(|exit| exit.why)
}

fn query_engine(text: &str) -> Result<(), String> {
    let read = analytics::options::Options::read(analytics::options::Daemon::QueryEngine, &[text.to_owned()]);
    read.map(drop).map_err(|exit| exit.why)
}

/// Sections and keys of a file. What has no sections has all of its keys, in paths, in one without a name.
fn keys(text: &str) -> Result<Vec<(String, String)>, String> {
    let paths = |value: &Value| Ok(paths(value).into_iter().map(|path| (String::new(), path)).collect());
    if text.starts_with("var ") {
        return paths(&module::read(text).map_err(|exit| exit.why)?);
    }
    if text.starts_with('{') {
        return paths(&serde_json::from_str(text).map_err(|error| error.to_string())?);
    }
    // Of names alone Python and Boost make the same.
    let file = Boost::read(text).map_err(|fault| fault.to_string())?;
    let names = file.names().filter_map(|name| name.split_once('.'));
    Ok(names.map(|(section, key)| (section.to_owned(), key.to_owned())).collect())
}

/// Paths of everything that is no object, and of objects with nothing in them.
fn paths(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (key, value) in value.as_object().into_iter().flatten() {
        let below = paths(value);
        if below.is_empty() {
            found.push(key.clone());
        }
        found.extend(below.into_iter().map(|path| format!("{key}.{path}")));
    }
    found
}

fn is_read(sections: Sections, section: &str, key: &str) -> bool {
    let fits = |pattern: &str, name: &str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    };
    let mut fitting = sections.iter().filter(|(name, _)| fits(name, section));
    fitting.any(|(_, words)| words.iter().flat_map(|words| words.split_whitespace()).any(|word| fits(word, key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_nobody_reads_is_named_with_its_file_and_section_and_without_its_value() {
        for (file, text, named) in [
            (
                "contrail-schema.conf.10.0.0.1",
                "[DEFAULTS]\nlog_level = x\nlog_levle = hunter2\n",
                "[DEFAULTS] log_levle",
            ),
            ("contrail-api-0.conf.fd00--1", "[CASSANDRA]\nlog_level = hunter2\n", "[CASSANDRA] log_level"),
            ("contrail-api-uwsgi.ini.10.0.0.1", "[uwsgi]\nwrokers = hunter2\n", "[uwsgi] wrokers"),
            ("vnc_api_lib.ini", "[auth]\nAUTHN_REALM = hunter2\n", "[auth] AUTHN_REALM"),
            ("contrail-config-nodemgr.conf.10.0.0.1", "[SANDESH]\nhostip = hunter2\n", "[SANDESH] hostip"),
            ("contrail-vrouter-agent.conf.node", "[QUEUE-3]\nqueue = hunter2\n", "[QUEUE-3] queue"),
            (
                "config.global.js",
                "var config = {};\nconfig.cnfg = {};\nconfig.cnfg.port = \"hunter2\";\nmodule.exports = config;\n",
                "cnfg.port",
            ),
            ("10-tf-cni.conf", "{\"contrail\": {\"mtu\": 1500, \"mut\": \"hunter2\"}}", "contrail.mut"),
            (
                "contrail-control.conf.10.0.0.1",
                "[DEFAULT]\nhostip = 10.0.0.1\nhostname = n\nbpg_port = hunter2\n",
                "DEFAULT.bpg_port",
            ),
            ("contrail-query-engine.conf.10.0.0.1", "[DEFAULT]\nhostipp = hunter2\n", "DEFAULT.hostipp"),
        ] {
            let unknown = unknown(file, text);
            let [told] = unknown.as_slice() else { panic!("{file}: {unknown:?}") };
            assert!(told.starts_with(file) && told.contains(named) && !told.contains("hunter2"), "{told}");
        }
    }

    #[test]
    fn a_key_that_is_read_is_none_of_them_whatever_its_number() {
        for (file, text) in [
            ("contrail-schema.conf.10.0.0.1", "[DEFAULTS]\nlog_level = x\n\n[SANDESH]\nsandesh_ssl_enable = true\n"),
            (
                "contrail-vrouter-agent.conf.node",
                "[QUEUE-3]\nlogical_queue = [1]\n\n[PG-0]\nbandwidth = 1\n\n[QOS-NIANTIC]\n",
            ),
            ("config.global.js", "var config = {};\nconfig.regions = {\"a\":\"b\"};\nmodule.exports = config;\n"),
            ("contrail-control.conf.10.0.0.1", "[DEFAULT]\nhostip = 10.0.0.1\nhostname = n\n"),
        ] {
            assert_eq!(unknown(file, text), [""; 0], "{file}");
        }
    }

    #[test]
    fn a_file_of_which_nobody_knows_who_reads_it_is_named_if_it_has_settings() {
        assert!(unknown("contrail-new.conf.10.0.0.1", "")[0].contains("nobody knows who reads it"));
        for file in ["definitions.json", "inter_node_tls.config", "logback.xml", "tls.crt", "redis.conf.10.0.0.1"] {
            assert!(unknown(file, "a = b\n").is_empty(), "{file}");
        }
    }
}
