//! Whether tables fit into their maps. The classifier's own maps are looked at where it is built.

use overlane_model::Tables;
use overlane_model::sizes::{MAX_FLOOD_MEMBERS, Size};

use crate::EbpfError;

/// Whether all tables fit; needs no device, so it can be the first check of all.
pub fn check_capacity(tables: &Tables) -> Result<(), EbpfError> {
    tables.counts().check()?;
    Size::Rules.check(tables.firewall.rules.len())?;
    for switch in &tables.switches {
        let (count, limit) = (tables.flood_members(switch), MAX_FLOOD_MEMBERS);
        if count > limit {
            return Err(EbpfError::FloodList {
                switch: switch.id,
                count,
                limit,
            });
        }
    }
    Ok(())
}
