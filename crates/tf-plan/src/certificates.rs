//! What a resource says of its members' certificates.

use std::{ops::RangeInclusive, time::Duration};

use jiff::SignedDuration;
use tf_api::{common::PodConfiguration, contract::Reason};

use crate::plan::NotReady;

/// How long a resource wants its members' certificates to be good; none if it does not say.
///
/// # Errors
/// When that is no duration, or none within these bounds.
pub fn lifetime(common: &PodConfiguration, bounds: RangeInclusive<Duration>) -> Result<Option<Duration>, NotReady> {
    let stated = common.certificates.as_ref().and_then(|certificates| certificates.duration.as_deref());
    let Some(stated) = stated else { return Ok(None) };
    let minutes = |bound: &Duration| format!("{}m", bound.as_secs() / 60);
    let lifetime = stated.parse::<SignedDuration>().ok().and_then(|duration| Duration::try_from(duration).ok());
    match lifetime.filter(|lifetime| bounds.contains(lifetime)) {
        Some(lifetime) => Ok(Some(lifetime)),
        None => Err(NotReady::invalid(
            Reason::InvalidSpec,
            format!(
                "spec.commonConfiguration.certificates.duration: {stated} is no duration from {} to {}, such as 2160h",
                minutes(bounds.start()),
                minutes(bounds.end())
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use tf_api::common::Certificates;

    use super::*;

    #[test]
    fn a_duration_is_read_as_kubernetes_writes_it_and_refused_outside_of_the_bounds() {
        let bounds = Duration::from_mins(10)..=Duration::from_hours(1000);
        let read = |duration: Option<&str>| {
            let certificates = Certificates { duration: duration.map(str::to_owned), ..Certificates::default() };
            let common = PodConfiguration { certificates: Some(certificates), ..PodConfiguration::default() };
            lifetime(&common, bounds.clone())
        };
        assert_eq!(read(None), Ok(None));
        for (text, seconds) in [("24h", 86_400), ("1h30m", 5400), ("600s", 600), ("1.5h", 5400)] {
            assert_eq!(read(Some(text)), Ok(Some(Duration::from_secs(seconds))), "{text}");
        }
        for text in ["9m", "1001h", "99999999999999999999h", "", "h", "-20m"] {
            let refused = read(Some(text)).unwrap_err();
            assert_eq!(refused.reason, Reason::InvalidSpec);
            assert!(refused.message.contains("from 10m to 60000m"), "{}", refused.message);
        }
    }
}
