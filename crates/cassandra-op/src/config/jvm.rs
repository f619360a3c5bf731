//! Options of the Java machine, as `JVM_EXTRA_OPTS`.
//!
//! The image's own `cassandra-env.sh` appends that variable to everything else, so it wins over the image's `jvm.options`,
//! which stays: its garbage collector fits the image's Java. Two things could not stand in that file: `cassandra-env.sh`
//! refuses one heap size without the other, and sets the JMX port after it. Thrift could stand in `cassandra.yaml` of 3.11 alone:
//! of properties a server takes those it knows. Whoever sets the variable by `podOverrides`
//! takes all of it over.

use tf_api::{CassandraConfiguration, contract::Reason, ports, schema::Port};
use tf_plan::{
    files::{EnvFile, Settings as _},
    node,
    plan::NotReady,
};

/// Name of the daemon, of its container and, with `.env`, of the file.
pub const DAEMON: &str = "cassandra";

/// The environment file of the server. `ipv6` tells whether any member has an IPv6 address.
///
/// # Errors
/// When a heap size is not one, or the smallest heap is larger than the largest.
pub fn environment(spec: &CassandraConfiguration, ipv6: bool) -> Result<String, NotReady> {
    let mut options = vec![format!("-Dcassandra.jmx.local.port={}", spec.jmx_local_port)];
    options.push(format!("-Dcassandra.start_rpc={}", thrift(spec).is_some()));
    options.extend(thrift(spec).map(|port| format!("-Dcassandra.rpc_port={port}")));
    if ipv6 {
        // The image's jvm.options says true, which hides IPv6 addresses from the server.
        options.push("-Djava.net.preferIPv4Stack=false".into());
    }
    options.extend(heap(spec)?);
    let mut file = EnvFile::new(node::environment_file(DAEMON));
    file.set("JVM_EXTRA_OPTS", options.join(" "));
    Ok(file.render()?)
}

/// The port of Thrift, if it is served. It is unless the spec says otherwise, as with the Go tf-operator: current clients
/// speak CQL only, those of an installation that is taken over may be older. Servers from 4.0 on do not know it.
pub fn thrift(spec: &CassandraConfiguration) -> Option<Port> {
    spec.start_rpc.unwrap_or(true).then(|| spec.port.unwrap_or(ports::CASSANDRA_THRIFT))
}

fn heap(spec: &CassandraConfiguration) -> Result<Vec<String>, NotReady> {
    let smallest = size("minHeapSize", spec.min_heap_size.as_deref())?;
    let largest = size("maxHeapSize", spec.max_heap_size.as_deref())?;
    if let (Some((min, min_bytes)), Some((max, max_bytes))) = (smallest, largest)
        && min_bytes > max_bytes
    {
        return Err(invalid(format!("minHeapSize {min} is larger than maxHeapSize {max}; swap or change them")));
    }
    // One alone would meet the other as cassandra-env.sh reckons it from the node's memory, and Java does not start with a
    // smallest heap above the largest.
    let option = |flag: &str, size: Option<(&str, u64)>| size.map(|(text, _)| format!("-{flag}{text}"));
    Ok([option("Xms", smallest.or(largest)), option("Xmx", largest.or(smallest))].into_iter().flatten().collect())
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
    use tf_plan::files::env;

    use super::*;

    fn options(spec: &CassandraConfiguration, ipv6: bool) -> Result<Vec<String>, NotReady> {
        let text = environment(spec, ipv6)?;
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
