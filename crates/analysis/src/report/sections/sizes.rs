//! The audit of the networks' own MTUs: what the underlay carries, what the headers take, and whether the guests fit.

use std::collections::BTreeMap;

use crate::record::PathSizes;

use crate::report::block::{Block, Field, Row, Table};
use crate::report::page::Report;

/// One row for each network and MTU; older records have none.
pub(in crate::report) fn blocks(r: &Report<'_>) -> Vec<Block> {
    let mut networks: BTreeMap<(_, PathSizes), String> = BTreeMap::new();
    for figures in &r.analysis.cells {
        let key = figures.cell.key;
        if let Some(sizes) = figures.cell.path_sizes {
            networks.insert((key.backend, sizes), key.network());
        }
    }
    if networks.is_empty() {
        return Vec::new();
    }
    let columns = [
        "Network",
        "#Underlay MTU",
        "#Outer header bytes",
        "#Largest guest MTU",
        "#Guest MTU set",
        "Verdict",
    ];
    let rows = networks.iter().map(|((backend, sizes), name)| {
        Row::of([
            Field::network(name.clone(), *backend),
            Field::count(sizes.underlay_mtu.into()),
            Field::count(sizes.header_bytes.into()),
            Field::count(sizes.largest_guest_mtu().into()),
            Field::count(sizes.guest_mtu.into()),
            Field::text(sizes.agreement().words()),
        ])
    });
    let hint = "MTUs are read back from the devices before the samples; the header is what the captured packets have between the \
                underlay’s IP header and the guest’s. A VLAN tag lies outside of what an MTU limits.";
    vec![
        Block::Hint(hint.to_owned()),
        Block::Table(Table::new("MTU audit", &columns).with(rows)),
    ]
}
