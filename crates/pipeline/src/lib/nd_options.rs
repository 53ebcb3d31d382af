//! Options of neighbour discovery (RFC 4861 section 4.6). `bpf/lib/nd_options.h`.

use overlane_wire::Mac;

use crate::lib::bytes::array;

/// The link-layer addresses: in solicitations and router advertisements that of the source, else that of the target.
pub(crate) const SOURCE_MAC: u8 = 1;
pub(crate) const TARGET_MAC: u8 = 2;
pub(crate) const MAX_OPTIONS: usize = 16;

/// An option has length 0, runs past the message, or has another length than a MAC needs; two MACs differ; or there are
/// more than sixteen.
pub(crate) struct Broken;

/// The MAC in options of type `kind`. `None` looks for none.
pub(crate) fn mac_option(mut options: &[u8], kind: Option<u8>) -> Result<Option<Mac>, Broken> {
    let mut found = None;
    for _ in 0..MAX_OPTIONS {
        if options.is_empty() {
            break;
        }
        let [it, units, mac @ ..] = array::<8>(options, 0).ok_or(Broken)?;
        let rest = options.get(usize::from(units) * 8..);
        options = rest.filter(|_| units > 0).ok_or(Broken)?;
        if Some(it) == kind {
            let mac = Mac::new(mac);
            if units != 1 || found.is_some_and(|other| other != mac) {
                return Err(Broken);
            }
            found = Some(mac);
        }
    }
    match options.is_empty() {
        true => Ok(found),
        false => Err(Broken),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: [u8; 8] = [14, 1, 0, 0, 0, 0, 0, 0];
    const A: [u8; 8] = [2, 1, 2, 0, 0, 0, 0, 1];
    const B: [u8; 8] = [2, 1, 2, 0, 0, 0, 0, 2];

    fn read(options: &[[u8; 8]]) -> Option<Option<Mac>> {
        mac_option(&options.concat(), Some(TARGET_MAC)).ok()
    }

    #[test]
    fn it_is_found_wherever_it_stands() {
        let mac = Some(Mac::new([2, 0, 0, 0, 0, 1]));
        assert_eq!(read(&[]), Some(None));
        assert_eq!(read(&[A]), Some(mac));
        assert_eq!(read(&[NONCE, A]), Some(mac));
        assert_eq!(read(&[A, NONCE, A]), Some(mac));
        assert_eq!(read(&[NONCE; MAX_OPTIONS]), Some(None));
    }

    #[test]
    fn what_is_broken_says_nothing() {
        let longer = [2, 2, 2, 0, 0, 0, 0, 1];
        for options in [
            vec![A, B],
            vec![A, [14, 0, 0, 0, 0, 0, 0, 0]],
            vec![A, [14, 2, 0, 0, 0, 0, 0, 0]],
            vec![longer, NONCE],
            vec![NONCE; MAX_OPTIONS + 1],
        ] {
            assert_eq!(read(&options), None, "{options:?}");
        }
        assert!(mac_option(&A[..7], Some(TARGET_MAC)).is_err());
    }
}
