//! Cookies: what a host writes into a greeting for a remote, and who shows it has received there (`bpf/lib/cookie.h`).

use std::net::IpAddr;

use overlane_wire::hash::hash_words;

/// Bytes of a cookie.
pub const LEN: usize = 8;
/// An epoch is 2^36 ns: 69 seconds.
const EPOCH_SHIFT: u32 = 36;

/// What only one host knows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Key {
    /// Seed of other hashes, too.
    pub secret: u32,
    /// Of cookies alone.
    pub words: [u32; 2],
}

/// The cookie of a host with this key for a remote, at a time of the programs' clock.
pub fn cookie(key: Key, remote: IpAddr, now_ns: u64) -> [u8; LEN] {
    of_epoch(key, remote, epoch(now_ns))
}

/// Whether the host gives it to the remote in this epoch, or gave it in the last one.
pub fn is_valid(shown: [u8; LEN], key: Key, remote: IpAddr, now_ns: u64) -> bool {
    let now = epoch(now_ns);
    [now, now.wrapping_sub(1)]
        .iter()
        .any(|epoch| of_epoch(key, remote, *epoch) == shown)
}

const fn epoch(now_ns: u64) -> u32 {
    (now_ns >> EPOCH_SHIFT) as u32
}

fn of_epoch(key: Key, remote: IpAddr, epoch: u32) -> [u8; LEN] {
    let octets = match remote {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    let (chunks, _) = octets.as_chunks::<4>();
    let mut words: Vec<u32> = chunks
        .iter()
        .map(|chunk| u32::from_le_bytes(*chunk))
        .collect();
    words.push(epoch);
    words.extend(key.words);
    let halves = [key.secret, !key.secret].map(|seed| hash_words(&words, seed));
    (u64::from(halves[0]) | u64::from(halves[1]) << 32).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key {
        secret: 1,
        words: [2, 3],
    };

    #[test]
    fn a_cookie_lives_for_one_to_two_epochs() {
        let remote = IpAddr::from([198, 18, 0, 2]);
        let second = 1_000_000_000;
        let given = cookie(KEY, remote, 0);
        let is_valid = |now_s: u64| is_valid(given, KEY, remote, now_s * second);
        assert_eq!(
            [0, 68, 69, 137, 138].map(is_valid),
            [true, true, true, true, false]
        );
    }

    #[test]
    fn it_is_of_one_host_and_one_remote() {
        let [one, two] = [[198, 18, 0, 2], [198, 18, 0, 3]].map(IpAddr::from);
        let given = cookie(KEY, one, 0);
        assert!(is_valid(given, KEY, one, 0) && !is_valid(given, KEY, two, 0));
        for key in [
            Key { secret: 2, ..KEY },
            Key {
                words: [3, 3],
                ..KEY
            },
            Key {
                words: [2, 2],
                ..KEY
            },
        ] {
            assert!(!is_valid(given, key, one, 0));
        }
        assert_ne!(given[..4], given[4..]);
    }
}
