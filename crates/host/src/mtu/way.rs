//! The way to a remote: which size is used on it, and what follows from a check of it.

use std::net::IpAddr;

use overlane_ebpf::abi::{Addr, PathMtu};

use super::probe::{self, COMMON, Check, Checked};
use crate::observe::PATH_MTU_SECONDS;

/// What is known is written anew when so many of its seconds are gone.
const REFRESH_S: u32 = 30;

/// What to do about a remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    Nothing,
    /// What is known still holds.
    Refresh,
    /// All that the uplink takes fits again.
    Forget,
    Search,
}

/// The way to a remote, as the data path sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) address: IpAddr,
    /// What is known and live.
    pub(crate) entry: Option<PathMtu>,
    pub(crate) uplink_mtu: u16,
}

impl Way {
    /// The size that is used.
    pub(crate) fn current(&self) -> u16 {
        let known = self.entry.and_then(|entry| u16::try_from(entry.mtu).ok());
        known.map_or(self.uplink_mtu, |mtu| mtu.min(self.uplink_mtu))
    }

    /// The uplink's MTU, and the next common size: a link that is better again mostly has one of them.
    pub(crate) fn check(&self, least: u16) -> Check {
        let current = self.current().max(least);
        let mut larger = Vec::new();
        if current < self.uplink_mtu {
            larger.push(self.uplink_mtu);
            let between = |size: &u16| (current + 1..self.uplink_mtu).contains(size);
            larger.extend(COMMON.into_iter().filter(between).min());
        }
        Check::new(least, current, &larger, probe::first_id())
    }

    /// At a time of the data path's clock. `is_due`: the last search was long ago.
    pub(crate) fn decide(&self, checked: &Checked, is_due: bool, now_s: u32) -> Decision {
        if !checked.is_alive {
            // Nothing gets there at all, or nobody answers there: no size helps.
            return Decision::Nothing;
        }
        let Some(entry) = self.entry else {
            return match checked.passes {
                true => Decision::Nothing,
                false => Decision::Search,
            };
        };
        match checked.larger {
            Some(size) if size >= self.uplink_mtu => Decision::Forget,
            Some(_) => Decision::Search,
            None if !checked.passes || is_due => Decision::Search,
            None if entry.hop == Addr::default() => Self::refresh(&entry, now_s),
            None => Decision::Nothing,
        }
    }

    /// What a hop said, it says again when it is asked again; what probes found lasts as long as they find it.
    fn refresh(entry: &PathMtu, now_s: u32) -> Decision {
        let left = entry.until.saturating_sub(now_s);
        if left + REFRESH_S <= PATH_MTU_SECONDS {
            Decision::Refresh
        } else {
            Decision::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u32 = 1000;

    fn way(mtu: Option<u32>, hop: Option<IpAddr>) -> Way {
        let entry = |mtu| PathMtu {
            mtu,
            until: NOW_S + 300,
            hop: hop.map(Addr::from).unwrap_or_default(),
        };
        Way {
            address: [198, 18, 0, 2].into(),
            entry: mtu.map(entry),
            uplink_mtu: 1500,
        }
    }

    fn checked(passes: bool, larger: Option<u16>) -> Checked {
        Checked {
            is_alive: true,
            passes,
            larger,
        }
    }

    #[test]
    fn a_size_that_fails_is_searched_and_a_remote_that_is_silent_is_left_alone() {
        let (free, known) = (way(None, None), way(Some(1400), None));
        assert_eq!(
            free.decide(&checked(true, None), true, NOW_S),
            Decision::Nothing
        );
        assert_eq!(
            free.decide(&checked(false, None), false, NOW_S),
            Decision::Search
        );
        assert_eq!(
            known.decide(&checked(false, None), false, NOW_S),
            Decision::Search
        );
        let silent = Checked {
            is_alive: false,
            ..checked(false, None)
        };
        assert_eq!(free.decide(&silent, true, NOW_S), Decision::Nothing);
        assert_eq!(known.decide(&silent, true, NOW_S), Decision::Nothing);
    }

    #[test]
    fn what_is_known_lasts_until_more_fits() {
        let known = way(Some(1400), None);
        assert_eq!(known.current(), 1400);
        assert_eq!(
            known.decide(&checked(true, None), false, NOW_S),
            Decision::Refresh
        );
        assert_eq!(
            known.decide(&checked(true, None), true, NOW_S),
            Decision::Search
        );
        assert_eq!(
            known.decide(&checked(true, Some(1450)), false, NOW_S),
            Decision::Search
        );
        assert_eq!(
            known.decide(&checked(true, Some(1500)), false, NOW_S),
            Decision::Forget
        );
        // Who said it says it again.
        let told = way(Some(1400), Some([198, 18, 0, 254].into()));
        assert_eq!(
            told.decide(&checked(true, None), false, NOW_S),
            Decision::Nothing
        );
    }

    #[test]
    fn no_size_is_larger_than_the_uplinks() {
        assert_eq!(way(Some(9000), None).current(), 1500);
    }
}
