//! Options of the Java machine, as `JVM_EXTRA_OPTS`.
//!
//! The image's own `cassandra-env.sh` appends that variable to everything else, so it wins over the image's `jvm.options`,
//! which stays: its garbage collector fits the image's Java. Two things could not stand in that file: `cassandra-env.sh`
//! refuses one heap size without the other, and sets the JMX port after it. Thrift could stand in `cassandra.yaml` of 3.11 alone:
//! of properties a server takes those it knows. Whoever sets the variable by `podOverrides`
//! takes all of it over.

use tf_agent_api::node;
use tf_api::{CassandraConfiguration, contract::Reason, ports, schema::Port};
use tf_config_files::{EnvFile, Settings as _};
use tf_plan::not_ready::NotReady;

/// Name of the daemon, of its container and, with `.env`, of the file.
pub const DAEMON: &str = "cassandra";

/// The environment file of the server. `limit`: bytes that its container may have. `ipv6` tells whether any member has an IPv6 address.
///
/// # Errors
/// When a heap size is not one, or the smallest heap is larger than the largest, or than what the container may have.
pub fn environment(spec: &CassandraConfiguration, limit: Option<u64>, ipv6: bool) -> Result<String, NotReady> {
    let mut options = vec![format!("-Dcassandra.jmx.local.port={}", spec.jmx_local_port)];
    options.push(format!("-Dcassandra.start_rpc={}", thrift(spec).is_some()));
    options.extend(thrift(spec).map(|port| format!("-Dcassandra.rpc_port={port}")));
    if ipv6 {
        // The image's jvm.options says true, which hides IPv6 addresses from the server.
        options.push("-Djava.net.preferIPv4Stack=false".into());
    }
    options.extend(heap(spec, limit)?);
    let mut file = EnvFile::new(node::environment_file(DAEMON));
    file.set("JVM_EXTRA_OPTS", options.join(" "));
    Ok(file.render()?)
}

/// The port of Thrift, if it is served. It is unless the spec says otherwise, as with the Go tf-operator: current clients
/// speak CQL only, those of an installation that is taken over may be older. Servers from 4.0 on do not know it.
pub fn thrift(spec: &CassandraConfiguration) -> Option<Port> {
    spec.start_rpc.unwrap_or(true).then(|| spec.port.unwrap_or(ports::CASSANDRA_THRIFT))
}

fn heap(spec: &CassandraConfiguration, limit: Option<u64>) -> Result<Vec<String>, NotReady> {
    let smallest = size("minHeapSize", spec.min_heap_size.as_deref())?;
    let largest = size("maxHeapSize", spec.max_heap_size.as_deref())?;
    if let (Some((min, min_bytes)), Some((max, max_bytes))) = (smallest, largest)
        && min_bytes > max_bytes
    {
        return Err(invalid(format!("minHeapSize {min} is larger than maxHeapSize {max}; swap or change them")));
    }
    if let (Some((stated, bytes)), Some(limit)) = (largest.or(smallest), limit)
        && bytes >= limit
    {
        return Err(invalid(format!(
            "a heap of {stated} leaves nothing of the {} MiB that podOverrides limits container {DAEMON} to; state half of that at most, or neither minHeapSize \
             nor maxHeapSize",
            limit >> 20
        )));
    }
    // One alone would meet the other as cassandra-env.sh reckons it from the node's memory, and Java does not start with a
    // smallest heap above the largest.
    let option = |flag: &str, size: Option<(&str, u64)>| size.map(|(text, _)| format!("-{flag}{text}"));
    let stated = [option("Xms", smallest.or(largest)), option("Xmx", largest.or(smallest))].into_iter().flatten();
    match limit.filter(|_| smallest.or(largest).is_none()) {
        Some(limit) => Ok(["Xms", "Xmx"].map(|flag| format!("-{flag}{}M", fitting(limit >> 20))).into()),
        None => Ok(stated.collect()),
    }
}

/// A heap in MiB that fits so many MiB: what `cassandra-env.sh` reckons from the memory of a node.
fn fitting(memory: u64) -> u64 {
    (memory / 2).min(1024).max((memory / 4).min(8192)).max(1)
}

/// A size as Java reads it, with its bytes. The Go tf-operator's default for an unset size is an empty one.
fn size<'a>(field: &str, text: Option<&'a str>) -> Result<Option<(&'a str, u64)>, NotReady> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => Some(0),
        "k" | "K" => Some(10),
        "m" | "M" => Some(20),
        "g" | "G" => Some(30),
        "t" | "T" => Some(40),
        _ => None,
    };
    let plain = digits.bytes().all(|b| b.is_ascii_digit());
    let bytes = digits.parse::<u64>().ok().filter(|_| plain).zip(shift);
    match bytes.and_then(|(number, shift)| number.checked_mul(1 << shift)) {
        Some(bytes) if bytes > 0 => Ok(Some((text, bytes))),
        _ => Err(invalid(format!("{field} {text:?} is not a size; give one such as 512M or 8G"))),
    }
}

fn invalid(message: String) -> NotReady {
    NotReady::invalid(Reason::InvalidSpec, format!("spec.serviceConfiguration: {message}"))
}

#[cfg(test)]
mod tests {
    use tf_config_files::env;

    use super::*;

    fn options(spec: &CassandraConfiguration, ipv6: bool) -> Result<Vec<String>, NotReady> {
        limited(spec, None, ipv6)
    }

    fn limited(spec: &CassandraConfiguration, limit: Option<u64>, ipv6: bool) -> Result<Vec<String>, NotReady> {
        let text = environment(spec, limit, ipv6)?;
        let variables = env::parse(&text).unwrap();
        Ok(variables["JVM_EXTRA_OPTS"].split(' ').map(str::to_owned).collect())
    }

    fn heap(min: &str, max: &str) -> CassandraConfiguration {
        CassandraConfiguration {
            min_heap_size: Some(min.into()),
            max_heap_size: Some(max.into()),
            ..CassandraConfiguration::default()
        }
    }

    #[test]
    fn the_jmx_port_and_whether_thrift_is_served_are_always_given() {
        let given = options(&CassandraConfiguration::default(), false).unwrap();
        let usual = ["-Dcassandra.jmx.local.port=7201"];
        assert_eq!(given, [&usual[..], &["-Dcassandra.start_rpc=true", "-Dcassandra.rpc_port=9161"]].concat());
        let without = CassandraConfiguration { start_rpc: Some(false), ..CassandraConfiguration::default() };
        assert_eq!(options(&without, false).unwrap(), [&usual[..], &["-Dcassandra.start_rpc=false"]].concat());
    }

    #[test]
    fn one_heap_size_stands_for_both_and_an_empty_one_is_none() {
        assert!(options(&heap("512M", ""), false).unwrap().ends_with(&["-Xms512M".into(), "-Xmx512M".into()]));
        assert!(options(&heap("", "8G"), false).unwrap().ends_with(&["-Xms8G".into(), "-Xmx8G".into()]));
        assert!(options(&heap("", ""), false).unwrap().iter().all(|option| !option.starts_with("-Xm")));
        assert!(options(&heap("1g", "1024m"), false).unwrap().ends_with(&["-Xms1g".into(), "-Xmx1024m".into()]));
    }

    #[test]
    fn a_heap_that_nobody_states_fits_what_the_container_may_have() {
        for (limit, heap) in [(1 << 30, 512), (2 << 30, 1024), (4 << 30, 1024), (16 << 30, 4096), (64 << 30, 8192)] {
            let given = limited(&CassandraConfiguration::default(), Some(limit), false).unwrap();
            assert!(given.ends_with(&[format!("-Xms{heap}M"), format!("-Xmx{heap}M")]), "{limit}: {given:?}");
        }
        let stated = limited(&heap("", "700M"), Some(1 << 30), false).unwrap();
        assert!(stated.ends_with(&["-Xms700M".into(), "-Xmx700M".into()]), "{stated:?}");
        for (min, max) in [("", "1G"), ("2G", ""), ("1M", "8G")] {
            let refused = limited(&heap(min, max), Some(1 << 30), false).unwrap_err();
            assert!(refused.message.contains("1024 MiB"), "{refused:?}");
        }
    }

    #[test]
    fn ipv6_members_may_use_ipv6() {
        assert!(
            options(&CassandraConfiguration::default(), true)
                .unwrap()
                .contains(&"-Djava.net.preferIPv4Stack=false".into())
        );
    }

    #[test]
    fn what_java_would_not_take_is_refused() {
        for (min, max) in [("2G", "1024M"), ("0", "1G"), ("+1G", ""), ("1G -XX:A", ""), ("", "1GB"), ("", "99999999T")]
        {
            let refused = options(&heap(min, max), false).unwrap_err();
            assert_eq!(refused.reason, Reason::InvalidSpec, "{min:?} {max:?}");
        }
    }
}
