//! What routers found, and whom they ask for, must be the same in both executors.

use std::collections::BTreeMap;
use std::net::IpAddr;

use overlane_ebpf::{EbpfError, abi};
use overlane_pipeline::{NeighbourId, State};
use overlane_wire::Mac;

use crate::test_runner::TestRunner;

/// By side and address; MAC, key, when it was confirmed, when asked again, how often, and whether it spoke first.
type Found = BTreeMap<(u32, IpAddr), (Mac, u16, u64, Option<u64>, u32, bool)>;
/// When, and how often.
type Asked = BTreeMap<(u32, IpAddr), (u64, u32)>;

pub(super) fn differences(state: &State, kernel: &TestRunner) -> Result<Vec<String>, EbpfError> {
    let number = |(side, addr): &NeighbourId| (side.number(), *addr);
    let of = |key: &abi::NeighbourKey| (key.switch_id, IpAddr::from(key.addr).to_canonical());
    // Nobody reads when it was asked last, where it was not.
    let asked = |tries, ns| Some(ns).filter(|_| tries > 0);
    let ours: Found = state
        .found()
        .iter()
        .map(|(id, it)| {
            let asked = asked(it.tries, it.asked_ns);
            let value = (it.mac, it.key, it.confirmed_ns, asked, it.tries, it.unasked);
            (number(id), value)
        })
        .collect();
    let theirs: Found = kernel
        .found()?
        .iter()
        .map(|(key, it)| {
            let asked = asked(it.tries, it.asked);
            let unasked = it.unasked != 0;
            let value = (
                it.mac.into(),
                it.key,
                it.confirmed,
                asked,
                it.tries,
                unasked,
            );
            (of(key), value)
        })
        .collect();
    let mut found = Vec::new();
    if ours != theirs {
        found.push(format!(
            "found:\n  reference {ours:?}\n  eBPF      {theirs:?}"
        ));
    }
    let ours: Asked = state
        .asked()
        .iter()
        .map(|(id, it)| (number(id), (it.at_ns, it.tries)))
        .collect();
    let theirs: Asked = kernel
        .asked()?
        .iter()
        .map(|(key, it)| (of(key), (it.at, it.tries)))
        .collect();
    if ours != theirs {
        found.push(format!(
            "asked:\n  reference {ours:?}\n  eBPF      {theirs:?}"
        ));
    }
    Ok(found)
}
