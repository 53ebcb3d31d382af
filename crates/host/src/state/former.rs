//! Addresses of switches that nobody has any more, and the MACs that they had: who gets one of them later has stations
//! that still know the former MAC.

use std::collections::HashSet;
use std::net::IpAddr;

use overlane_model::{Neighbour, SwitchId, Tables};
use overlane_wire::Mac;
use serde::{Deserialize, Serialize};

/// The most that are remembered: those that left last.
const MOST: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Former {
    pub(crate) switch: SwitchId,
    pub(crate) addr: IpAddr,
    pub(crate) mac: Mac,
}

/// Those of before that still are nobody's, and those that are no longer anybody's now.
pub(crate) fn former((before, earlier): (&Tables, &[Former]), now: &Tables) -> Vec<Former> {
    let id = |it: &Neighbour| (it.switch, it.addr);
    let here: HashSet<_> = now.neighbours.iter().map(id).collect();
    let left = before.neighbours.iter().map(|it| Former {
        switch: it.switch,
        addr: it.addr,
        mac: it.mac,
    });
    let all = earlier.iter().copied().chain(left);
    let mut all: Vec<Former> = all
        .filter(|it| !here.contains(&(it.switch, it.addr)))
        .collect();
    all.drain(..all.len().saturating_sub(MOST));
    all
}

#[cfg(test)]
mod tests {
    use overlane_model::Fabric;

    use super::*;

    fn tables(numbers: std::ops::Range<usize>) -> Tables {
        let addresses = numbers.map(|n| format!("198.19.{}.{}", n / 250, n % 250 + 1));
        let addresses: Vec<String> = addresses.collect();
        let text = format!(
            "version: 1
tunnel: {{ encapsulation: vxlan }}
hosts: {{ h1: {{ underlay: 198.18.0.1, uplink: eth1 }} }}
switches: {{ blue: {{ vni: 5001 }} }}
ports:
  a1: {{ switch: blue, host: h1, device: a1, mac: '02:00:00:00:00:01', addresses: [{}] }}
",
            addresses.join(", ")
        );
        let fabric = Fabric::parse("f", &text).ok();
        fabric.unwrap().compile("h1").unwrap()
    }

    #[test]
    fn they_are_remembered_until_somebody_has_them() {
        let gone =
            |all: &[Former]| -> Vec<String> { all.iter().map(|it| it.addr.to_string()).collect() };
        let first = former((&tables(0..3), &[]), &tables(0..1));
        assert_eq!(gone(&first), ["198.19.0.2", "198.19.0.3"]);
        let second = former((&tables(0..1), &first), &tables(0..2));
        assert_eq!(gone(&second), ["198.19.0.3"]);
    }

    #[test]
    fn those_that_left_last_stay() {
        let many = MOST + 10;
        let first = former((&tables(many..many + 1), &[]), &tables(0..0));
        let left = former((&tables(0..many), &first), &tables(0..0));
        assert_eq!(left.len(), MOST);
        assert!(!left.contains(&first[0]));
    }
}
