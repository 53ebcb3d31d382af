//! Random numbers, for what nobody may foresee.

use std::hash::{BuildHasher as _, RandomState};

/// A new one each time. The standard library keys its hasher by getrandom(2), and SipHash does not show the key.
pub(crate) fn number() -> u64 {
    RandomState::new().hash_one(0)
}
