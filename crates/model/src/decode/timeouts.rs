//! The shape of `timeouts`, of a switch or of a gateway.

use crate::diagnostic::Sink;
use crate::record::{Key, optional, record};
use crate::scalar::{Spanned, integer};
use crate::tables::Timeouts;
use crate::yaml::Node;

/// What is said, in the order of [`Timeouts::NAMES`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeoutsDraft(pub(crate) [Option<Spanned<u32>>; 9]);

impl TimeoutsDraft {
    /// What is not said is the default.
    pub(crate) fn whole(&self) -> Timeouts {
        let mut timeouts = Timeouts::default();
        for (said, place) in self.0.into_iter().zip(timeouts.all_mut()) {
            *place = said.map_or(*place, |said| said.value);
        }
        timeouts
    }
}

pub(super) const TIMEOUTS: [Key; 9] = {
    let [a, b, c, d, e, f, g, h, i] = Timeouts::NAMES;
    [
        optional(a),
        optional(b),
        optional(c),
        optional(d),
        optional(e),
        optional(f),
        optional(g),
        optional(h),
        optional(i),
    ]
};

pub(super) fn timeouts(node: &Node, whose: &str, sink: &mut Sink) -> TimeoutsDraft {
    let what = format!("`timeouts` of {whose}");
    let mut nodes = record(node, node.at, &what, &TIMEOUTS, sink).into_iter();
    TimeoutsDraft(Timeouts::NAMES.map(|name| {
        let node = nodes.next().flatten()?;
        integer(node, &format!("`{name}`"), Timeouts::RANGE, sink)
    }))
}
