//! Answers about queueing disciplines: only which interfaces have filters for what arrives. Parsed by hand, since the parsers
//! of rust-netlink for traffic control would make the program larger than all the rest of this crate.

use netlink_packet_core::NlasIterator;

/// `struct tcmsg`: family, padding, interface, handle, parent, info.
const HEADER: usize = 20;
const KIND: u16 = 1;

/// All of all interfaces.
pub fn request() -> [u8; HEADER] {
    [0; HEADER]
}

/// The interface's number and `clsact` or `ingress`. None for what only sends.
pub fn ingress(message: &[u8]) -> Option<(u32, String)> {
    let index = u32::from_ne_bytes(*message.get(4..8)?.first_chunk()?);
    let kind = NlasIterator::new(message.get(HEADER..)?).filter_map(Result::ok).find(|nla| nla.kind() == KIND)?;
    let kind = String::from_utf8_lossy(kind.value()).trim_end_matches('\0').to_owned();
    matches!(kind.as_str(), "clsact" | "ingress").then_some((index, kind))
}
