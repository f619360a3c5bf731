//! Files that every node completes for itself.
//!
//! The files of a DaemonSet are the same for all of its nodes, five or five thousand. What only the node knows stands in
//! them as a placeholder, `{{node.address}}`, and the node agent puts the value in.
//!
//! ```text
//! template = { any character but "{" | "{{" name "}}" }
//! name     = "brace" | a name of the closed list `Local`
//! ```
//!
//! A `{` stands in placeholders and nowhere else: a literal one is written `{{brace}}`. Text that comes from a user goes
//! through [`literal`], so it is never taken for a placeholder. A line with a placeholder that has no value on the node is
//! left out as a whole; that suits files with one setting a line, and says "use your default" to their daemons.

use std::{fmt, str::FromStr};

use tf_config_files::ReadError;

const OPEN: &str = "{{";
const CLOSE: &str = "}}";
const BRACE: &str = "brace";

/// What a template may ask of the node: the closed list. Several items of one value are separated by one blank.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::AsRefStr, strum::EnumString, strum::VariantArray,
)]
pub enum Local {
    /// Name of the node's virtual-router in the config API (docs/upstream/daemons.md#names).
    #[strum(serialize = "node.name")]
    Name,
    /// Own address in the network of the overlay.
    #[strum(serialize = "node.address")]
    Address,
    /// The same with the prefix length of `vhost0`, less than 32.
    #[strum(serialize = "node.cidr")]
    Cidr,
    /// Own address towards the control nodes.
    #[strum(serialize = "node.controlAddress")]
    ControlAddress,
    /// Names of the physical interfaces below `vhost0`.
    #[strum(serialize = "node.interfaces")]
    Interfaces,
    /// MAC addresses of these interfaces.
    #[strum(serialize = "node.macs")]
    Macs,
    /// PCI addresses of these interfaces, those of a bond's members separated by commas.
    #[strum(serialize = "node.pciAddresses")]
    PciAddresses,
    /// Addresses of these interfaces with their prefix lengths.
    #[strum(serialize = "node.interfaceCidrs")]
    InterfaceCidrs,
    /// Gateways of these interfaces. None where the default route leads over another interface.
    #[strum(serialize = "node.gateway")]
    Gateway,
    /// Directory where pages of 2 MiB are mounted. None where they are not.
    #[strum(serialize = "node.hugePages2M")]
    HugePages2M,
    /// Directory where pages of 1 GiB are mounted. None where they are not.
    #[strum(serialize = "node.hugePages1G")]
    HugePages1G,
}

impl Local {
    /// What stands for the value in a template.
    pub fn placeholder(self) -> String {
        self.to_string()
    }
}

/// The placeholder.
impl fmt::Display for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OPEN}{}{CLOSE}", self.as_ref())
    }
}

/// Text of somebody else, as it stands in a template.
pub fn literal(text: &str) -> String {
    text.replace('{', "{{brace}}")
}

/// Completes a template.
///
/// # Errors
/// The first line with a placeholder that is not of the list, or whose value could mean something to the file's reader:
/// values consist of ASCII letters, digits and ` . , : / _ -`.
pub fn fill(template: &str, value: impl Fn(Local) -> Option<String>) -> Result<String, ReadError> {
    let mut filled = String::with_capacity(template.len());
    for (index, line) in template.split_inclusive('\n').enumerate() {
        let line = fill_line(line, &value).map_err(|why| ReadError { line: index + 1, why })?;
        filled.extend(line);
    }
    Ok(filled)
}

fn fill_line(line: &str, value: impl Fn(Local) -> Option<String>) -> Result<Option<String>, &'static str> {
    let mut filled = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, from_brace)) = rest.split_once('{') {
        let (name, after) = from_brace
            .strip_prefix('{')
            .and_then(|inside| inside.split_once(CLOSE))
            .ok_or("has a brace that begins no placeholder")?;
        filled.push_str(before);
        if name == BRACE {
            filled.push('{');
        } else {
            let local = Local::from_str(name).map_err(|_| "has a placeholder that is not known")?;
            let Some(value) = value(local) else { return Ok(None) };
            if !is_plain(&value) {
                return Err("has a placeholder whose value has characters that may mean something in the file");
            }
            filled.push_str(&value);
        }
        rest = after;
    }
    filled.push_str(rest);
    Ok(Some(filled))
}

fn is_plain(value: &str) -> bool {
    !value.is_empty()
        && !value.starts_with(' ')
        && !value.ends_with(' ')
        && value.bytes().all(|b| b.is_ascii_alphanumeric() || b" .,:/_-".contains(&b))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use strum::VariantArray;

    use super::*;

    fn node(local: Local) -> Option<String> {
        match local {
            Local::Address => Some("10.0.0.1".into()),
            Local::Interfaces => Some("eth1 eth2".into()),
            Local::Gateway => None,
            Local::Name => Some("a\nb".into()),
            _ => Some("x".into()),
        }
    }

    #[test]
    fn placeholders_are_replaced_and_a_line_without_a_value_is_left_out() {
        let template = format!(
            "ip = {}/24\ngateway = {}\nnics = {}\n",
            Local::Address.placeholder(),
            Local::Gateway.placeholder(),
            Local::Interfaces.placeholder()
        );
        assert_eq!(fill(&template, node).unwrap(), "ip = 10.0.0.1/24\nnics = eth1 eth2\n");
    }

    #[test]
    fn what_is_not_of_the_list_is_an_error_and_not_text() {
        for line in ["{{node.uptime}}", "{{}}", "{{node.address", "{node.address}", "{", "{{ node.address }}"] {
            let error = fill(&format!("a = 1\nb = {line}\n"), node).unwrap_err();
            assert_eq!(error.line, 2, "{line}");
        }
    }

    #[test]
    fn a_value_that_could_break_the_file_is_an_error() {
        assert!(fill("n = {{node.name}}\n", node).is_err());
        for bad in ["", " a", "a#b", "a%b", "a;b", "a=b", "[a]", "{{node.address}}", "é"] {
            assert!(fill("n = {{node.name}}\n", |_| Some(bad.to_owned())).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_placeholder_reads_back() {
        for local in Local::VARIANTS {
            assert_eq!(fill(&local.placeholder(), |asked| (asked == *local).then(|| "v".into())).unwrap(), "v");
        }
    }

    proptest! {
        /// Whatever a user writes, and wherever it stands, it stays what it is.
        #[test]
        fn text_is_never_taken_for_a_placeholder(
            before in "[^\n]{0,6}",
            text in "(\\{|\\}|node|\\.address|brace|[a-z]){0,24}",
        ) {
            let template = format!("{}{}{}", literal(&before), Local::Address.placeholder(), literal(&text));
            let expected = format!("{before}10.0.0.1{text}");
            prop_assert_eq!(fill(&template, node).unwrap(), expected);
            prop_assert_eq!(fill(&literal(&text), |_| None).unwrap(), text);
        }
    }
}
