//! The sizes of a network's path: what its devices take, and what its headers took of that.

use serde::{Deserialize, Serialize};

/// As they were read back from the devices, and captured on the underlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PathSizes {
    /// The smallest MTU of the devices of the underlay.
    pub underlay_mtu: u32,
    /// Bytes between the underlay's IP header and the guest's, the most of any packet.
    pub header_bytes: u32,
    /// The largest MTU of the guests' devices.
    pub guest_mtu: u32,
    /// The smallest MTU of the devices between the guests and the uplinks.
    pub between_mtu: Option<u32>,
}

/// Whether a path's MTUs agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Agreement {
    /// The guests' largest packet fits; so many bytes could be added.
    Fits(u32),
    /// It is larger than what the underlay leaves, by so many bytes.
    TooLarge(u32),
    /// A device between guest and uplink takes only that.
    Narrowed(u32),
}

impl PathSizes {
    /// The largest MTU of guests that leaves room for the headers.
    pub const fn largest_guest_mtu(&self) -> u32 {
        self.underlay_mtu.saturating_sub(self.header_bytes)
    }

    /// What that says about the guests' MTU.
    pub fn agreement(&self) -> Agreement {
        let (largest, guests) = (self.largest_guest_mtu(), self.guest_mtu);
        match self.between_mtu {
            _ if guests > largest => Agreement::TooLarge(guests - largest),
            Some(between) if between < guests => Agreement::Narrowed(between),
            _ => Agreement::Fits(largest - guests),
        }
    }
}

impl Agreement {
    /// In words.
    pub fn words(self) -> String {
        match self {
            Self::Fits(0) => "fits, to the byte".to_owned(),
            Self::Fits(spare) => format!("fits, {spare} bytes to spare"),
            Self::TooLarge(by) => format!("too large by {by} bytes"),
            Self::Narrowed(to) => format!("a device on the host takes {to} only"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_agrees() {
        let sizes = |underlay_mtu, header_bytes, guest_mtu, between_mtu| PathSizes {
            underlay_mtu,
            header_bytes,
            guest_mtu,
            between_mtu,
        };
        for (sizes, words) in [
            (sizes(9000, 50, 8900, Some(8900)), "fits, 50 bytes to spare"),
            (sizes(9000, 0, 9000, None), "fits, to the byte"),
            (sizes(1500, 58, 1500, Some(1400)), "too large by 58 bytes"),
            (
                sizes(9000, 50, 8900, Some(1500)),
                "a device on the host takes 1500 only",
            ),
            (sizes(40, 50, 0, None), "fits, to the byte"),
        ] {
            assert_eq!(sizes.agreement().words(), words, "{sizes:?}");
        }
    }
}
