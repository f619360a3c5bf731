//! Kubernetes quantities: amounts of memory and storage as people write them.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;

/// Name of the resource that a claim asks for.
pub(super) const STORAGE: &str = "storage";

/// A Kubernetes quantity as a whole number of bytes, fractions of a byte dropped. None if it is not one or too large.
pub fn bytes(quantity: &str) -> Option<u64> {
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    // From 10^-9 on, by thousands.
    const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    let end = quantity.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(quantity.len());
    let (number, suffix) = quantity.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // Nine digits are what a quantity keeps.
    let fraction = &fraction[..fraction.floor_char_boundary(9)];
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let exponent = -i32::try_from(fraction.len()).ok()?;
    let (factor, exponent) = if let Some(index) = BINARY.iter().position(|it| *it == suffix) {
        (1_u128 << (10 * (index + 1)), exponent)
    } else if let Some(index) = DECIMAL.iter().position(|it| *it == suffix) {
        (1, exponent + 3 * i32::try_from(index).ok()? - 9)
    } else {
        (1, exponent + suffix.strip_prefix(['e', 'E'])?.parse::<i8>().map(i32::from).ok()?)
    };
    let power = 10_u128.checked_pow(exponent.unsigned_abs())?;
    let number = digits.checked_mul(factor)?;
    u64::try_from(if exponent < 0 { number / power } else { number.checked_mul(power)? }).ok()
}

/// How much storage a claim asks for.
pub fn storage(claim: &PersistentVolumeClaim) -> &str {
    let requests = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
    requests.and_then(|requests| requests.get(STORAGE)).map(|size| size.0.as_str()).unwrap_or_default()
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
            ("2e9", Some(2_000_000_000)),
            ("2.5E3", Some(2500)),
            ("25e-1", Some(2)),
            ("0.5k", Some(500)),
            (".5k", Some(500)),
            ("1500m", Some(1)),
            ("5000000000u", Some(5000)),
            ("16Ei", None),
            ("1e99", None),
            ("many", None),
            ("1.2.3", None),
            ("1e", None),
            ("1KiB", None),
            ("-1Gi", None),
            ("", None),
        ] {
            assert_eq!(bytes(quantity), expected, "{quantity}");
        }
    }
}
