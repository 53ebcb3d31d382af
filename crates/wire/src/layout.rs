//! The one place where bytes become a fixed header layout.

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::error::{Layer, WireError};

/// Splits the fixed header `T` off the front of `bytes`.
pub(crate) fn split<T>(layer: Layer, bytes: &[u8]) -> Result<(&T, &[u8]), WireError>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    T::ref_from_prefix(bytes).map_err(|_| WireError::Truncated {
        layer,
        needed: size_of::<T>(),
        have: bytes.len(),
    })
}

/// The first `needed` bytes and the rest.
pub(crate) fn take(layer: Layer, bytes: &[u8], needed: usize) -> Result<(&[u8], &[u8]), WireError> {
    bytes.split_at_checked(needed).ok_or(WireError::Truncated {
        layer,
        needed,
        have: bytes.len(),
    })
}
