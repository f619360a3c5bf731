//! What `vif --list` prints (VR utils/vif.c): for each interface of the vRouter a line `vif0/INDEX OS: NAME ...`, and indented
//! lines below it with `Type:`, `Flags:` and more.

/// An interface of the vRouter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vif {
    /// Its number, by which it is deleted.
    pub index: u32,
    /// The interface of the kernel. None for one of a forwarder in user space.
    pub link: Option<String>,
    /// `Physical`, `Host`, `Agent`, `Virtual` and others.
    pub kind: String,
}

/// Interfaces in their order. Lines that are no part of one are passed over: the program prints a legend first.
pub fn list(text: &str) -> Vec<Vif> {
    let mut found: Vec<Vif> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("vif0/") {
            let (index, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let Ok(index) = index.parse() else { continue };
            let link = rest.trim_start().strip_prefix("OS:").and_then(|rest| rest.split_whitespace().next());
            found.push(Vif { index, link: link.map(str::to_owned), kind: String::new() });
        } else if let (Some(vif), Some((_, rest))) = (found.last_mut(), line.split_once("Type:"))
            && line.starts_with(char::is_whitespace)
            && vif.kind.is_empty()
        {
            rest.split_whitespace().next().unwrap_or_default().clone_into(&mut vif.kind);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the program of R2011 to 24.1 prints it, shortened.
    const LISTED: &str = "\
Vrouter Interface Table

Flags: P=Policy, X=Cross Connect, S=Service Chain, Mr=Receive Mirror
       Mt=Transmit Mirror, Tc=Transmit Checksum Offload, L3=Layer 3, L2=Layer 2

vif0/0      OS: eth0 (Speed 10000, Duplex 1) NH: 4
            Type:Physical HWaddr:52:54:00:00:00:07 IPaddr:0.0.0.0
            Vrf:0 Mcast Vrf:65535 Flags:L3L2VpEr QOS:-1 Ref:11
            RX packets:10  bytes:1000 errors:0

vif0/1      OS: vhost0 NH: 5
            Type:Host HWaddr:52:54:00:00:00:07 IPaddr:10.0.0.7
            Vrf:0 Mcast Vrf:65535 Flags:XL3L2DEr QOS:-1 Ref:3

vif0/4353   PMD: tap0
            Type:Virtual HWaddr:00:00:5e:00:01:00 IPaddr:10.2.0.3
";

    #[test]
    fn interfaces_are_listed_with_their_numbers_and_kinds() {
        let vif = |index, link: Option<&str>, kind: &str| Vif { index, link: link.map(Into::into), kind: kind.into() };
        let expected = [vif(0, Some("eth0"), "Physical"), vif(1, Some("vhost0"), "Host"), vif(4353, None, "Virtual")];
        assert_eq!(list(LISTED), expected);
    }

    #[test]
    fn what_is_no_list_has_no_interfaces() {
        for text in ["", "vif0/", "vif0/x OS: eth0", "Error: No such device", "            Type:Host"] {
            assert_eq!(list(text), [], "{text}");
        }
        assert_eq!(list("vif0/7"), [Vif { index: 7, link: None, kind: String::new() }]);
    }
}
