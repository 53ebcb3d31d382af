//! A device of the fabric as `apply` found it: what it counted until then, and which packets it took.

use overlane_net::{Link, LinkStats};
use overlane_wire::Mac;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeviceState {
    pub(crate) ifindex: u32,
    pub(crate) mtu: u32,
    /// None: it was written down by an older build.
    #[serde(default)]
    pub(crate) mac: Option<[u8; 6]>,
    /// Since the device exists.
    pub(crate) lost: Lost,
}

/// Packets that a device lost, by its own counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// It was given them to send, and had no use for them: too large for what is behind it, or its queue was full.
    pub tx_dropped: u64,
    /// It could not send them.
    pub tx_errors: u64,
    /// They came in, and were dropped before any program saw them: larger than its MTU, for example.
    pub rx_dropped: u64,
    /// They came in broken.
    pub rx_errors: u64,
}

impl DeviceState {
    /// The MAC that `apply` found, where the same device has another one now.
    pub(crate) fn other_mac(&self, link: &Link) -> Option<Mac> {
        let before = self
            .mac
            .filter(|mac| *mac != link.mac && self.ifindex == link.index);
        before.map(Mac::new)
    }

    /// What is counted goes on from where an earlier `apply` found the same device.
    pub(crate) fn of(link: &Link, before: Option<&Self>) -> Self {
        let before = before.filter(|before| before.ifindex == link.index);
        Self {
            ifindex: link.index,
            mtu: link.mtu,
            mac: Some(link.mac),
            lost: before.map_or_else(|| Lost::from(link.stats), |before| before.lost),
        }
    }
}

impl Lost {
    /// What was lost after `earlier`.
    pub(crate) const fn since(self, earlier: Self) -> Self {
        Self {
            tx_dropped: self.tx_dropped.saturating_sub(earlier.tx_dropped),
            tx_errors: self.tx_errors.saturating_sub(earlier.tx_errors),
            rx_dropped: self.rx_dropped.saturating_sub(earlier.rx_dropped),
            rx_errors: self.rx_errors.saturating_sub(earlier.rx_errors),
        }
    }

    /// Whether there is anything to tell.
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

impl From<LinkStats> for Lost {
    fn from(stats: LinkStats) -> Self {
        Self {
            tx_dropped: stats.tx_dropped,
            tx_errors: stats.tx_errors,
            rx_dropped: stats.rx_dropped,
            rx_errors: stats.rx_errors,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_device_counts_on_and_another_one_anew() {
        let link = |index, mtu, tx_dropped| Link {
            index,
            mtu,
            stats: LinkStats {
                tx_dropped,
                ..LinkStats::default()
            },
            ..Link::default()
        };
        let first = DeviceState::of(&link(3, 1500, 7), None);
        assert_eq!((first.mtu, first.lost.tx_dropped), (1500, 7));
        let again = DeviceState::of(&link(3, 1400, 9), Some(&first));
        assert_eq!((again.mtu, again.lost.tx_dropped), (1400, 7));
        let other = DeviceState::of(&link(4, 1500, 1), Some(&first));
        assert_eq!(other.lost.tx_dropped, 1);
        let now = Lost::from(link(3, 1400, 9).stats);
        assert_eq!(now.since(again.lost).tx_dropped, 2);
    }
}
