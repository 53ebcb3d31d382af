//! Reading and writing a few bytes at an offset of a packet, in network order. Where a stage asks for
//! less than a whole header (`overlane_wire` checks more than the meaning of a packet allows), it reads
//! here.

/// `N` bytes at `at`, if they are all there.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

pub(crate) fn byte(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

pub(crate) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_be_bytes)
}

/// Overwrites what is there; `new` must fit, else nothing is written.
pub(crate) fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    if let Some(place) = bytes
        .get_mut(at..)
        .and_then(|rest| rest.get_mut(..new.len()))
    {
        place.copy_from_slice(new);
    }
}

/// Overwrites a 16-bit field.
pub(crate) fn put16(bytes: &mut [u8], at: usize, new: u16) {
    put(bytes, at, &new.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_beyond_the_end_is_read_or_written() {
        let mut bytes = [1, 2, 3];
        assert_eq!(be16(&bytes, 1), Some(0x0203));
        assert_eq!(be16(&bytes, 2), None);
        assert_eq!(be32(&bytes, 0), None);
        assert_eq!(byte(&bytes, 3), None);
        assert_eq!(array::<1>(&bytes, usize::MAX), None);
        put16(&mut bytes, 2, 0xffff);
        assert_eq!(bytes, [1, 2, 3]);
        put16(&mut bytes, 1, 0xabcd);
        assert_eq!(bytes, [1, 0xab, 0xcd]);
    }
}
