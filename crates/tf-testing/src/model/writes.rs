//! An operator that is killed between two writes.

/// How many writes an operator gets through before it is killed. By default it is not.
#[derive(Debug)]
pub struct WritesLeft(pub usize);

impl Default for WritesLeft {
    fn default() -> Self {
        Self(usize::MAX)
    }
}

impl WritesLeft {
    /// One write. None where the operator is killed before it.
    pub fn spend(&mut self) -> Option<()> {
        self.0 = self.0.checked_sub(1)?;
        Some(())
    }

    /// Writes what is wanted, and whether that is news. None where the operator is killed before it.
    pub fn write<T: PartialEq>(&mut self, stored: &mut T, wanted: T) -> Option<bool> {
        if *stored == wanted {
            return Some(false);
        }
        self.spend()?;
        *stored = wanted;
        Some(true)
    }
}
