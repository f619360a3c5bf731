//! From which release of a store to which other one its data goes. A tag of an image says nothing that can be relied on, so nobody knows before the new server is
//! there: the agent beside it does, and does not start it with data that it must not have.

use std::fmt;

/// A line of releases, such as 3.13 or 4.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
}

impl Line {
    /// Of a version such as `3.11.19` or `6.0-alpha2`. None where it is none.
    pub fn of(version: &str) -> Option<Self> {
        let mut numbers = version.split(|it: char| !it.is_ascii_digit()).map(|number| number.parse().ok());
        Some(Self { major: numbers.next()??, minor: numbers.next()?? })
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// How data of a store goes from one release to another.
#[derive(Clone, Copy, Debug)]
pub struct Upgrades {
    /// What the store is called.
    name: &'static str,
    /// The line that has to have served between an earlier one and a later one, if one has to.
    between: fn(Line, Line) -> Option<Line>,
}

/// RabbitMQ ("Upgrading RabbitMQ": one minor release after the other up to 3.13; from there to 4.0 to 4.2; to 4.3 from 4.2 alone,
/// docs/upstream/rabbitmq.md#releases).
pub const RABBITMQ: Upgrades = Upgrades {
    name: "RabbitMQ",
    between: |from, to| {
        let [last, newest] = [Line { major: 3, minor: 13 }, Line { major: 4, minor: 2 }];
        let next = Line { minor: from.minor + 1, ..from };
        let step = if from < last { next } else { newest };
        (from < newest && step < to).then_some(step)
    },
};

/// Cassandra (`NEWS.txt`: files of the line before, and of no earlier one, are read).
pub const CASSANDRA: Upgrades = Upgrades {
    name: "Cassandra",
    between: |from, to| {
        let next = from.major + 1;
        // The last one of 4.x is 4.1.
        (to.major > next).then(|| Line { major: next, minor: u32::from(next == 4) })
    },
};

impl Upgrades {
    /// Why a server of release `to` is not to be started with data that one of `from` has served with, for people. None where nothing is known against it.
    pub fn refuse(&self, from: &str, to: &str) -> Option<String> {
        let (former, next) = (Line::of(from)?, Line::of(to)?);
        let cure = if next < former {
            "no server goes on with data of a later line".to_owned()
        } else {
            format!("{} has to have served with it before", (self.between)(former, next)?)
        };
        let name = self.name;
        Some(format!(
            "the data is of {name} {from}, and the image has {to}: {cure}; set the image back to one of {former}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn data_goes_from_line_to_line_as_upstream_has_it() {
        let rabbitmq = [
            ("3.10.8", "3.10.0", None),
            ("3.10.8", "3.11.28", None),
            ("3.10.8", "3.12.0", Some("3.11 has")),
            ("3.10.8", "4.0.5", Some("3.11 has")),
            ("3.12.14", "4.0.5", Some("3.13 has")),
            ("3.13.7", "4.0.5", None),
            ("3.13.7", "4.2.0", None),
            ("3.13.7", "4.3.0", Some("4.2 has")),
            ("4.0.5", "4.2.1", None),
            ("4.1.0", "4.3.0", Some("4.2 has")),
            ("4.2.0", "4.3.0", None),
            ("4.0.5", "3.13.7", Some("later line")),
            ("", "4.0.5", None),
            ("3.10.8", "", None),
        ];
        let cassandra = [
            ("3.11.19", "4.1.10", None),
            ("3.11.19", "5.0.9", Some("4.1 has")),
            ("4.1.10", "5.0.9", None),
            ("5.0.9", "5.0.1", None),
            ("5.0.9", "4.1.10", Some("later line")),
            ("4.1.10", "4.0.1", Some("later line")),
            ("4.1.10", "6.0-alpha2", Some("5.0 has")),
        ];
        let cases = rabbitmq.map(|it| (RABBITMQ, it)).into_iter().chain(cassandra.map(|it| (CASSANDRA, it)));
        for (store, (from, to, expected)) in cases {
            let why = store.refuse(from, to);
            assert_eq!(why.is_some(), expected.is_some(), "{from} to {to}: {why:?}");
            assert!(why.zip(expected).is_none_or(|(why, part)| why.contains(part)), "{from} to {to}");
        }
    }

    proptest! {
        /// Whoever is sent by way of another line arrives.
        #[test]
        fn the_way_that_is_told_leads_there(from in (3_u32..7, 0_u32..15), to in (3_u32..7, 0_u32..15), rabbitmq: bool) {
            let line = |(major, minor)| Line { major, minor };
            let (mut at, to) = (line(from), line(to));
            prop_assume!(at <= to);
            let store = if rabbitmq { RABBITMQ } else { CASSANDRA };
            while let Some(next) = (store.between)(at, to) {
                prop_assert!(at < next && next < to, "{at} {next} {to}");
                at = next;
            }
        }
    }
}
