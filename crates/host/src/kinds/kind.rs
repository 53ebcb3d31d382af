//! What a kind is, and what it looks at.

use std::collections::BTreeSet;

use overlane_net::Netlink;

use super::current::Current;
use super::plan::Plan;
use super::target::Target;
use crate::HostError;
use crate::state::NetnsId;

/// One kind of thing.
pub(crate) trait Kind: Sync {
    /// Compares what is wanted with what is there, and plans what is to be done.
    fn compare<'a>(&self, look: &Look<'a>, plan: &mut Plan<'a>) -> Result<(), HostError>;

    /// Whether the record writes things of this kind in these words.
    fn knows(&self, _thing: &str) -> bool {
        false
    }
}

/// What kinds compare.
pub(crate) struct Look<'a> {
    pub(crate) host: &'a str,
    /// None: nothing of the host should be there.
    pub(crate) target: Option<&'a Target<'a>>,
    pub(crate) current: &'a Current,
    pub(crate) netlink: &'a Netlink,
    pub(crate) here: NetnsId,
    /// What is ours in this namespace, in the words of the record.
    pub(crate) ours: BTreeSet<String>,
}

impl<'a> Look<'a> {
    pub(crate) fn new(
        host: &'a str,
        target: Option<&'a Target<'a>>,
        current: &'a Current,
        netlink: &'a Netlink,
        here: NetnsId,
    ) -> Self {
        Self {
            host,
            target,
            current,
            netlink,
            here,
            ours: current.ours_in(here),
        }
    }
}
