//! IPv6 extension headers, of a packet and of one that an ICMP error quotes.

use overlane_wire::ip::protocol;

use crate::lib::bytes::{array, byte};
use crate::lib::ip::{Fragment, is_extension};

/// IPv6 extension headers that are skipped.
const MAX_EXTENSIONS: usize = 6;
const FRAGMENT_LEN: usize = 8;

/// What stands behind IPv6 extension headers, and where. A chain that does not end names the header where it was
/// left.
pub(crate) struct Chain {
    pub(crate) next: u8,
    pub(crate) at: usize,
    pub(crate) fragment: Option<Fragment>,
    pub(crate) is_atomic: bool,
    pub(crate) may_have_other_ends: bool,
}

impl Chain {
    pub(crate) fn walk(bytes: &[u8], first: u8, begin: usize) -> Self {
        let mut chain = Self {
            next: first,
            at: begin,
            fragment: None,
            is_atomic: false,
            may_have_other_ends: false,
        };
        for _ in 0..MAX_EXTENSIONS {
            let skipped = match chain.next {
                protocol::FRAGMENT => chain.skip_fragment_header(bytes),
                next if is_extension(next) => chain.skip(bytes),
                _ => None,
            };
            // Behind the header of a later fragment there is none.
            if skipped.is_none() || chain.fragment.is_some_and(|it| !it.is_first()) {
                break;
            }
        }
        chain
    }

    fn skip(&mut self, bytes: &[u8]) -> Option<()> {
        let [next, len] = array(bytes, self.at)?;
        self.may_have_other_ends |= self.may_name_an_end(bytes, len);
        self.next = next;
        self.at += (usize::from(len) + 1) * 8;
        Some(())
    }

    /// A routing header with segments left: its last address is the destination that checksums cover (RFC 8200 section
    /// 8.1). Or destination options with room for a home address, which stands for the source (RFC 6275 section 6.3).
    fn may_name_an_end(&self, bytes: &[u8], len: u8) -> bool {
        match self.next {
            protocol::ROUTING => byte(bytes, self.at + 3).is_some_and(|left| left > 0),
            protocol::DESTINATION_OPTIONS => len >= 2,
            _ => false,
        }
    }

    /// One makes a fragment, none follows that.
    fn skip_fragment_header(&mut self, bytes: &[u8]) -> Option<()> {
        if self.fragment.is_some() {
            return None;
        }
        let [next, _, o0, o1, i0, i1, i2, i3] = array::<FRAGMENT_LEN>(bytes, self.at)?;
        self.next = next;
        self.at += FRAGMENT_LEN;
        let field = u16::from_be_bytes([o0, o1]);
        if field & 0xfff9 == 0 {
            self.is_atomic = true;
            return Some(());
        }
        self.fragment = Some(Fragment {
            identification: u32::from_be_bytes([i0, i1, i2, i3]),
            offset: (field & 0xfff8).into(),
            next,
            begin: self.at,
        });
        Some(())
    }
}
