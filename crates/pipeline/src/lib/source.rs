//! Where a packet comes from, as stages port and leg_in say.

use overlane_model::{PortTable, RouterTable, SwitchTable};
use overlane_wire::ethernet::Tag;

use crate::lib::host::Leg;
use crate::lib::neighbour::Question;

/// Where a packet comes from.
pub(crate) struct Source<'a> {
    pub(crate) port: &'a PortTable,
    pub(crate) switch: &'a SwitchTable,
    /// The tag beside the bytes that is not the trunk's: `parse` judges it.
    pub(crate) guest_tag: Option<Tag>,
}

/// A packet for the router.
pub(crate) struct Taken<'a> {
    pub(crate) router: &'a RouterTable,
    pub(crate) leg: Leg,
    /// For one of its addresses there.
    pub(crate) question: Option<Question>,
}
