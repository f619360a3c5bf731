//! How slowly and unreliably a daemon in Python behaves: from exec to an open introspect port and from there to service it takes seconds, and some of its
//! answers are late (seen of real ones: 7-20 s alone, 20-120 s on a busy machine; answers 1.5-25 s late under load).
//!
//! Two variables of the process say how much of that there is, and are read once. Where neither is there, nothing takes time, as unit tests want it; the
//! image of the laboratory sets both. Values are drawn at random: one number for each start and each answer.

use std::{env, str::FromStr, sync::OnceLock, time::Duration};

use rand::{Rng, RngExt as _};

/// Seconds from exec to service: `2..6`, or one number.
pub const START: &str = "TF_SIM_START_SECONDS";
/// The share of answers that are late, between 0 and 1, and by how many seconds, if not by [`DELAY`]: `0.02`, or `0.2:1.5..25`.
pub const LATE: &str = "TF_SIM_LATE";

/// Seconds by which an answer is late.
const DELAY: Span = Span { least: 1.5, most: 5.0 };
/// The part of a start that passes before introspection opens.
const IMPORTS: f64 = 0.6;
/// No start and no answer takes longer, in seconds.
const LONGEST: f64 = 600.0;

static OWN: OnceLock<Unkind> = OnceLock::new();

/// A range of seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    least: f64,
    most: f64,
}

impl Span {
    /// A duration of this range, drawn.
    pub fn draw(self, random: &mut impl Rng) -> Duration {
        Duration::from_secs_f64(random.random_range(self.least..=self.most))
    }

    const fn times(self, factor: f64) -> Self {
        Self { least: self.least * factor, most: self.most * factor }
    }
}

/// A variable that says nothing that can be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable} is {value:?}: {wanted}")]
pub struct Unreadable {
    variable: &'static str,
    value: String,
    wanted: &'static str,
}

impl FromStr for Span {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        let (least, most) = (least.trim().parse().map_err(drop)?, most.trim().parse().map_err(drop)?);
        (0.0 <= least && least <= most && most <= LONGEST).then_some(Self { least, most }).ok_or(())
    }
}

/// What takes time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Unkind {
    start: Option<Span>,
    late: Option<(f64, Span)>,
}

impl Unkind {
    /// What the two variables say.
    ///
    /// # Errors
    /// When one says something else.
    pub fn of_environment() -> Result<Self, Unreadable> {
        let given = |variable| env::var(variable).ok();
        Self::read(given(START).as_deref(), given(LATE).as_deref())
    }

    fn read(start: Option<&str>, late: Option<&str>) -> Result<Self, Unreadable> {
        let given = |text: Option<&str>| text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
        let start = given(start).map(|value| {
            let wanted = "seconds are wanted, as 2..6";
            value.parse().map_err(|()| Unreadable { variable: START, value, wanted })
        });
        let late = given(late).map(|value| {
            let wanted = "a share and seconds are wanted, as 0.02 or 0.2:1.5..25";
            share(&value).ok_or(Unreadable { variable: LATE, value, wanted })
        });
        let start = start.transpose()?.filter(|span: &Span| span.most > 0.0);
        Ok(Self { start, late: late.transpose()?.filter(|(share, _)| *share > 0.0) })
    }

    /// Has the process behave like this from now on. Only the first call counts.
    pub fn begin(self) {
        let _ = OWN.set(self);
    }

    /// From exec until introspection opens, or until a daemon stands in line, drawn.
    pub fn imports(self) -> Duration {
        self.part(IMPORTS, &mut rand::rng())
    }

    /// From an open introspect port to service, drawn.
    pub fn loading(self) -> Duration {
        self.part(1.0 - IMPORTS, &mut rand::rng())
    }

    fn part(self, part: f64, random: &mut impl Rng) -> Duration {
        self.start.map(|span| span.times(part).draw(random)).unwrap_or_default()
    }

    /// By how much the next answer is late, drawn; mostly not at all.
    pub fn late(self) -> Duration {
        self.delay(&mut rand::rng())
    }

    fn delay(self, random: &mut impl Rng) -> Duration {
        let late = self.late.filter(|(share, _)| random.random_bool(*share));
        late.map(|(_, span)| span.draw(random)).unwrap_or_default()
    }

    /// A time that a real daemon waits, or nothing where nothing takes time.
    pub fn pause(self, real: Duration) -> Duration {
        if self.start.is_some() { real } else { Duration::ZERO }
    }
}

/// A share between 0 and 1, and seconds.
fn share(text: &str) -> Option<(f64, Span)> {
    let (share, span) = match text.split_once(':') {
        Some((share, span)) => (share, span.parse().ok()?),
        None => (text, DELAY),
    };
    let share = share.trim().parse().ok().filter(|share| (0.0..=1.0).contains(share))?;
    Some((share, span))
}

/// How this process behaves.
pub fn own() -> Unkind {
    OWN.get().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng as _, rngs::StdRng};

    use super::*;

    fn unkind(start: &str, late: &str) -> Unkind {
        Unkind::read(Some(start), Some(late)).unwrap()
    }

    #[test]
    fn nothing_takes_time_where_nothing_is_said() {
        for said in [None, Some(""), Some("0"), Some("0..0")] {
            let kind = Unkind::read(said, said.filter(|said| !said.contains('.'))).unwrap();
            assert_eq!(kind, Unkind::default(), "{said:?}");
            assert_eq!((kind.imports(), kind.loading(), kind.late()), Default::default());
            assert_eq!(kind.pause(Duration::from_secs(15)), Duration::ZERO);
        }
    }

    #[test]
    fn a_start_takes_what_is_said_and_not_always_the_same() {
        let (unkind, mut random) = (unkind("2..6", ""), StdRng::seed_from_u64(1));
        let starts: Vec<f64> = (0..200)
            .map(|_| unkind.part(IMPORTS, &mut random) + unkind.part(1.0 - IMPORTS, &mut random))
            .map(|start| start.as_secs_f64())
            .collect();
        assert!(starts.iter().all(|start| (2.0..=6.0).contains(start)), "{starts:?}");
        assert!(starts.iter().any(|start| *start < 3.5) && starts.iter().any(|start| *start > 4.5), "{starts:?}");
        assert_eq!(unkind.pause(Duration::from_secs(15)), Duration::from_secs(15));
    }

    #[test]
    fn a_share_of_the_answers_is_late() {
        let late = |text: &str| {
            let (unkind, mut random) = (unkind("", text), StdRng::seed_from_u64(1));
            let delays = (0..2000).map(|_| unkind.delay(&mut random).as_secs_f64());
            delays.filter(|delay| *delay > 0.0).collect::<Vec<_>>()
        };
        let delays = late("0.1");
        assert!((120..280).contains(&delays.len()), "{}", delays.len());
        assert!(delays.iter().all(|delay| (1.5..=5.0).contains(delay)), "{delays:?}");
        let delays = late("1:7..25");
        assert!(delays.len() == 2000 && delays.iter().all(|delay| (7.0..=25.0).contains(delay)));
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_its_variable() {
        for start in ["x", "6..2", "-1", "1..", "1..1000", "nan"] {
            let error = Unkind::read(Some(start), None).unwrap_err();
            assert!(error.to_string().starts_with(START), "{error}");
        }
        for late in ["x", "2", "-0.1", "0.1:", "0.1:5..1", "nan"] {
            let error = Unkind::read(None, Some(late)).unwrap_err();
            assert!(error.to_string().starts_with(LATE), "{error}");
        }
    }
}
