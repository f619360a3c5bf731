//! Locks that outlive a panic: what they guard is changed by single operations, so it is sound whoever held it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock, also one whose holder panicked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
