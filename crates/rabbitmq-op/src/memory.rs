//! How much memory a member may count on.
//!
//! RabbitMQ measures the node's memory and knows nothing of the container's limit: without being told, it would be killed
//! long before it holds its publishers back (measured on 3.10.8; stateful-services 1.2.2).

use tf_api::common::PodConfiguration;

/// The memory limit of a container, in bytes, if the overrides set one.
pub fn limit(common: &PodConfiguration, container: &str) -> Option<u64> {
    let spec = common.pod_overrides.as_ref()?.spec.as_ref()?;
    let overrides = spec.containers.iter().find(|overrides| overrides.name == container)?;
    bytes(&overrides.resources.as_ref()?.limits.as_ref()?.get("memory")?.0)
}

/// A Kubernetes quantity as a whole number of bytes, fractions of a byte dropped. None if it is not one or too large.
fn bytes(quantity: &str) -> Option<u64> {
    const SUFFIXES: [(&str, u64); 12] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("Pi", 1 << 50),
        ("Ei", 1 << 60),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("P", 1_000_000_000_000_000),
        ("E", 1_000_000_000_000_000_000),
    ];
    let (number, unit) = SUFFIXES
        .iter()
        .find_map(|(suffix, unit)| Some((quantity.strip_suffix(suffix)?, *unit)))
        .unwrap_or((quantity, 1));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = whole.parse().ok()?;
    // Nine digits are what a quantity keeps.
    let digits = &fraction[..fraction.floor_char_boundary(9)];
    let part: u128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let part = part * u128::from(unit) / 10_u128.pow(digits.len() as u32);
    whole.checked_mul(unit)?.checked_add(u64::try_from(part).ok()?)
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn quantities_are_read_as_kubernetes_does() {
        for (quantity, expected) in [
            ("1073741824", Some(1 << 30)),
            ("1Gi", Some(1 << 30)),
            ("1.5Gi", Some(3 << 29)),
            ("512Mi", Some(1 << 29)),
            ("2G", Some(2_000_000_000)),
            ("0.5k", Some(500)),
            ("16Ei", None),
            ("many", None),
            ("-1Gi", None),
            ("", None),
        ] {
            assert_eq!(bytes(quantity), expected, "{quantity}");
        }
    }
}
