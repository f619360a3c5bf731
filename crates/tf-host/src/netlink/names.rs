//! Words of iproute2 for numbers of rtnetlink.

/// A MAC address as it is written. None where there is none.
pub fn mac(bytes: &[u8]) -> Option<String> {
    let is_set = bytes.len() == 6 && bytes.iter().any(|byte| *byte != 0);
    is_set.then(|| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":"))
}

/// A MAC address from what is written.
pub fn mac_bytes(text: &str) -> Option<Vec<u8>> {
    let bytes: Option<Vec<u8>> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    bytes.filter(|bytes| bytes.len() == 6)
}

/// Scopes of addresses and routes.
pub const SCOPES: &[(u8, &str)] = &[(0, "global"), (200, "site"), (253, "link"), (254, "host"), (255, "nowhere")];

/// Who made a route (`/etc/iproute2/rt_protos`).
pub const PROTOCOLS: &[(u8, &str)] = &[
    (0, "unspec"),
    (1, "redirect"),
    (2, "kernel"),
    (3, "boot"),
    (4, "static"),
    (9, "ra"),
    (11, "zebra"),
    (12, "bird"),
    (16, "dhcp"),
    (18, "keepalived"),
    (42, "babel"),
    (186, "bgp"),
    (187, "isis"),
    (188, "ospf"),
    (189, "rip"),
    (192, "eigrp"),
];

/// The name of a number, or the number.
pub fn named<N: PartialEq + Copy + ToString>(number: N, names: &[(N, &str)]) -> String {
    let found = names.iter().find(|(known, _)| *known == number);
    found.map_or_else(|| number.to_string(), |(_, name)| (*name).to_owned())
}

/// The number of a name. Zero for what is neither a name nor a number.
pub fn number<N: Copy + Default + std::str::FromStr>(name: &str, names: &[(N, &str)]) -> N {
    let found = names.iter().find(|(_, known)| *known == name).map(|(number, _)| *number);
    found.or_else(|| name.parse().ok()).unwrap_or_default()
}
