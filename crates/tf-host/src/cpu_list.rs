//! Lists of CPUs as the kernel writes them: `0-3,8`.

use std::{collections::BTreeSet, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// More CPUs than any kernel is built for (`CONFIG_NR_CPUS` is at most 8192).
const MOST: u32 = 8192;

/// A set of CPUs. Its text is the kernel's: ranges with commas, the smallest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuList(BTreeSet<u32>);

/// A text that is no list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no list of CPUs; write for example 2-5,8")]
pub struct NoCpuList(String);

/// A text that is no mask of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no mask and no list of several CPUs; write 0x4 or 2,3")]
pub struct NoMask(String);

impl CpuList {
    /// What `CPU_CORE_MASK` says: a mask (`0x3c`) or a list (`2-5`). A number alone is a mask to taskset(1) and a CPU to people, so it is refused.
    ///
    /// # Errors
    /// When it is neither.
    pub fn from_mask(text: &str) -> Result<Self, NoMask> {
        let no_mask = || NoMask(text.to_owned());
        let Some(digits) = text.trim().strip_prefix("0x") else {
            let is_list = text.contains([',', '-']);
            return text.parse().ok().filter(|_| is_list).ok_or_else(no_mask);
        };
        let mut cpus = BTreeSet::new();
        for (place, digit) in (0..).zip(digits.chars().rev()) {
            let digit = digit.to_digit(16).filter(|_| place * 4 < MOST).ok_or_else(no_mask)?;
            cpus.extend((0..4).filter(|bit| digit >> bit & 1 == 1).map(|bit| place * 4 + bit));
        }
        if cpus.is_empty() { Err(no_mask()) } else { Ok(Self(cpus)) }
    }

    /// The CPUs, the smallest first.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }

    /// How many CPUs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a CPU is among them.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// CPUs of this list that another one does not have.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(&self.0 - &other.0)
    }
}

impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl FromStr for CpuList {
    type Err = NoCpuList;

    fn from_str(text: &str) -> Result<Self, NoCpuList> {
        let no_list = || NoCpuList(text.to_owned());
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|cpu| *cpu < MOST).ok_or_else(no_list);
        let mut cpus = BTreeSet::new();
        for item in text.trim().split(',').filter(|item| !item.is_empty()) {
            let (first, last) = item.split_once('-').unwrap_or((item, item));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(no_list());
            }
            cpus.extend(first..=last);
        }
        Ok(Self(cpus))
    }
}

impl TryFrom<String> for CpuList {
    type Error = NoCpuList;

    fn try_from(text: String) -> Result<Self, NoCpuList> {
        text.parse()
    }
}

impl From<CpuList> for String {
    fn from(list: CpuList) -> Self {
        list.to_string()
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_or_a_list_says_which_cpus_and_a_number_alone_neither() {
        for (text, expected) in [("0x3c", "2-5"), ("0x100000000f", "0-3,36"), ("2-5", "2-5"), ("2,3", "2-3")] {
            assert_eq!(CpuList::from_mask(text).unwrap().to_string(), expected, "{text}");
        }
        for text in ["2", "", "0x", "0x0", "0xg", "3c", "a-b", "-"] {
            assert!(CpuList::from_mask(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_list_is_written_as_the_kernel_writes_it() {
        for (text, expected) in [("0-3,8\n", "0-3,8"), ("3,1,2", "1-3"), ("", ""), ("\n", ""), ("5", "5")] {
            assert_eq!(text.parse::<CpuList>().unwrap().to_string(), expected, "{text:?}");
        }
        for text in ["a", "3-1", "0-99999999", "-1"] {
            assert!(text.parse::<CpuList>().is_err(), "{text}");
        }
    }
}
