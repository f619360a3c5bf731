//! TCP ports that something listens on.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::root::Reader;

/// The state `LISTEN` of `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// TCP ports that something listens on, on any address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Listeners(BTreeSet<u16>);

impl Listeners {
    pub(super) fn read(reader: &Reader<'_>) -> Self {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| reader.text(path).unwrap_or_default());
        Self(tables.iter().flat_map(|table| table.lines()).filter_map(port).collect())
    }

    /// Whether something listens on a port.
    pub fn contains(&self, port: u16) -> bool {
        self.0.contains(&port)
    }
}

impl FromIterator<u16> for Listeners {
    fn from_iter<I: IntoIterator<Item = u16>>(ports: I) -> Self {
        Self(ports.into_iter().collect())
    }
}

/// The port of a line `  0: 0100007F:1F95 00000000:0000 0A ...`, if something listens there.
fn port(line: &str) -> Option<u16> {
    let mut fields = line.split_whitespace().skip(1);
    let (local, _remote, state) = (fields.next()?, fields.next()?, fields.next()?);
    let (_, port) = local.rsplit_once(':')?;
    (state == LISTEN).then(|| u16::from_str_radix(port, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tree;

    #[test]
    fn ports_are_those_of_sockets_that_listen() {
        let tcp = "  sl  local_address rem_address   st tx_queue\n\
                   0: 0100007F:2383 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n\
                   1: 0100007F:1F95 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0\n";
        let tcp6 = "   0: 00000000000000000000000000000000:1F95 00000000000000000000000000000000:0000 0A 0\n";
        let found = tree::read(&[("/proc/net/tcp", tcp)], Listeners::read);
        assert_eq!([9091, 8085].map(|port| found.contains(port)), [true, false]);
        let found = tree::read(&[("/proc/net/tcp", tcp), ("/proc/net/tcp6", tcp6)], Listeners::read);
        assert!(found.contains(8085));
    }
}
