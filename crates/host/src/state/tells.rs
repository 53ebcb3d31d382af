//! What the stations of a switch are told: that an address there has another MAC than the tables said before. Every host
//! tells those behind its own ports, whatever the order in which hosts apply. Where a peer has stations that is no host of
//! ours, the host tells them on which the address lives.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use overlane_model::{
    Attachment, FloodMember, Neighbour, PortTable, SwitchId, SwitchTable, Tables,
};
use overlane_net::Link;
use overlane_wire::Mac;

use super::answers::Answer;
use super::former::Former;

/// The most that one `apply` tells: an address to a port, or to a peer.
pub(crate) const MOST: usize = 16_384;

/// Changed addresses for the stations of their switches, and how many there is no time to tell.
#[derive(Debug, Default)]
pub(crate) struct Tells {
    pub(crate) all: BTreeSet<Answer>,
    pub(crate) too_many: usize,
}

/// `peers`: remotes that never said that they are hosts of ours.
pub(crate) fn tells(
    before: (&Tables, &[Former]),
    now: &Tables,
    links: &[Link],
    peers: &BTreeSet<IpAddr>,
) -> Tells {
    let devices: HashSet<&str> = links.iter().map(|link| link.name.as_str()).collect();
    let switches = now.switches.iter().map(|switch| (switch.id, switch));
    let switches: HashMap<SwitchId, &SwitchTable> = switches.collect();
    let mut ports: HashMap<SwitchId, Vec<&PortTable>> = HashMap::new();
    for port in &now.ports {
        if devices.contains(port.attachment.device.as_str()) {
            ports.entry(port.switch).or_default().push(port);
        }
    }
    let mut tells = Tells::default();
    for neighbour in changed(before, now) {
        let Some(switch) = switches.get(&neighbour.switch) else {
            continue;
        };
        let answer = |device: &str, vlan, remote| Answer {
            device: device.to_owned(),
            vlan,
            address: Some(neighbour.addr),
            mac: neighbour.mac.to_string(),
            is_router: neighbour.is_router,
            port: None,
            switch: Some(switch.name.to_string()),
            remote,
        };
        let here = ports.get(&neighbour.switch).into_iter().flatten();
        let others = here.filter(|port| port.key != neighbour.key);
        let at_ports = others.map(|port| {
            let Attachment { device, vlan } = &port.attachment;
            answer(device.as_str(), vlan.map(|vlan| vlan.get()), None)
        });
        let behind =
            remotes(now, switch).filter(|addr| peers.contains(addr) && lives_here(now, neighbour));
        let at_peers = behind.map(|addr| answer(now.uplink.as_str(), None, Some(addr)));
        for tell in at_ports.chain(at_peers) {
            match tells.all.len() < MOST {
                true => drop(tells.all.insert(tell)),
                false => tells.too_many += 1,
            }
        }
    }
    tells
}

/// The addresses that had another MAC, the last time that somebody had them, or floated. Those of routers come first:
/// without them a guest reaches nobody outside.
fn changed<'t>((before, former): (&Tables, &[Former]), now: &'t Tables) -> Vec<&'t Neighbour> {
    let old = before
        .neighbours
        .iter()
        .map(|it| ((it.switch, it.addr), Some(it.mac)));
    let floating = before
        .floating_addresses
        .iter()
        .map(|it| ((it.switch, it.addr), None));
    let former = former.iter().map(|it| ((it.switch, it.addr), Some(it.mac)));
    let old = former.chain(old).chain(floating);
    let old: HashMap<(SwitchId, IpAddr), Option<Mac>> = old.collect();
    let is_other = |it: &&Neighbour| {
        let old = old.get(&(it.switch, it.addr));
        old.is_some_and(|old| *old != Some(it.mac))
    };
    let mut changed: Vec<&Neighbour> = now.neighbours.iter().filter(is_other).collect();
    changed.sort_by_key(|it| !it.is_router);
    changed
}

/// Remotes with ports of a switch in tunnels.
fn remotes<'t>(tables: &'t Tables, switch: &'t SwitchTable) -> impl Iterator<Item = IpAddr> + 't {
    let flood = switch.flood.iter().filter_map(|member| match member {
        FloodMember::Remote(addr) => Some(*addr),
        FloodMember::Local(_) => None,
    });
    flood.filter(|addr| tables.remotes.iter().any(|remote| remote.addr == *addr))
}

/// A port of this host has it, or a router for which this host acts.
fn lives_here(tables: &Tables, neighbour: &Neighbour) -> bool {
    match neighbour.router {
        Some(id) => {
            let mut routers = tables.routers.iter().filter(|router| router.id == id);
            routers.any(|router| router.is_gateway_here())
        }
        None => {
            let mut ports = tables.ports.iter();
            ports.any(|port| (port.switch, port.key) == (neighbour.switch, neighbour.key))
        }
    }
}

/// Which of some answers still hold.
pub(crate) struct Truth<'a> {
    answers: &'a BTreeSet<Answer>,
    tables: &'a Tables,
    switches: BTreeMap<&'a str, SwitchId>,
    neighbours: HashMap<(SwitchId, IpAddr), Mac>,
    ports: HashSet<(SwitchId, &'a str, Option<u16>)>,
}

impl<'a> Truth<'a> {
    pub(crate) fn new(answers: &'a BTreeSet<Answer>, tables: &'a Tables) -> Self {
        let ports = tables.ports.iter().map(|port| {
            let Attachment { device, vlan } = &port.attachment;
            (port.switch, device.as_str(), vlan.map(|vlan| vlan.get()))
        });
        let neighbours = tables.neighbours.iter();
        let switches = tables.switches.iter();
        Self {
            answers,
            tables,
            switches: switches.map(|it| (it.name.as_str(), it.id)).collect(),
            neighbours: neighbours
                .map(|it| ((it.switch, it.addr), it.mac))
                .collect(),
            ports: ports.collect(),
        }
    }

    /// Of a tell: the address still has the MAC, and the receiver is still there.
    pub(crate) fn holds(&self, answer: &Answer) -> bool {
        let Some(name) = &answer.switch else {
            return self.answers.contains(answer);
        };
        let switch = self.switches.get(name.as_str());
        let (Some(&switch), Some(address)) = (switch, answer.address) else {
            return false;
        };
        let mac = self.neighbours.get(&(switch, address)).map(Mac::to_string);
        let is_there = match answer.remote {
            Some(remote) => self.tables.remotes.iter().any(|it| it.addr == remote),
            None => self
                .ports
                .contains(&(switch, answer.device.as_str(), answer.vlan)),
        };
        is_there && mac.as_ref() == Some(&answer.mac)
    }
}

#[cfg(test)]
mod tests {
    use overlane_model::Fabric;

    use super::*;
    use crate::state::former;

    const FABRIC: &str = "version: 1
tunnel: { options: none }
hosts:
  h1: { underlay: 198.18.0.1, uplink: eth1 }
  h2: { underlay: 198.18.0.2, uplink: eth1 }
  peer: { underlay: 198.18.0.3, uplink: eth1 }
switches:
  blue: { vni: 5001 }
  office: { uplink_vlan: 100 }
ports:
  web: { switch: blue, host: h1, device: web, mac: '02:00:00:00:00:01', addresses: [198.18.1.1, '2001:2:0:1::1'] }
  db: { switch: blue, host: h1, device: trunk, vlan: 7, mac: '02:00:00:00:00:02', addresses: [198.18.1.2] }
  far: { switch: blue, host: h2, device: far, mac: '02:00:00:00:00:03', addresses: [198.18.1.3] }
  away: { switch: blue, host: peer, device: away, mac: '02:00:00:00:00:04' }
  pc: { switch: office, host: h1, device: pc, mac: '02:00:00:00:00:05', addresses: [198.18.2.1] }
  vip: { switch: blue, host: h2, device: vip, mac: '02:00:00:00:00:06', allowed_addresses: [198.18.1.9] }
routers:
  core:
    mac: '02:00:00:00:00:fe'
    interfaces: { blue: [198.18.1.254/24, '2001:2:0:1::fe/64'], office: [198.18.2.254/24] }
";

    fn tables(host: &str, changes: &[(&str, &str)]) -> Tables {
        let mut text = FABRIC.to_owned();
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        Fabric::parse("f", &text).unwrap().compile(host).unwrap()
    }

    /// Of a change of the file, on a host with these devices.
    fn told(host: &str, changes: &[(&str, &str)], devices: &[&str]) -> Vec<String> {
        let links = devices.iter().map(|name| Link {
            name: (*name).to_owned(),
            ..Link::default()
        });
        let links: Vec<Link> = links.collect();
        let peers = BTreeSet::from(["198.18.0.3".parse().unwrap()]);
        let now = tables(host, changes);
        let tells = tells((&tables(host, &[]), &[]), &now, &links, &peers);
        assert_eq!(tells.too_many, 0);
        let nothing = BTreeSet::new();
        let truth = Truth::new(&nothing, &now);
        assert!(tells.all.iter().all(|tell| truth.holds(tell)));
        // Where the file is as before, none of it holds.
        let old = tables(host, &[]);
        let before = Truth::new(&nothing, &old);
        assert!(!tells.all.iter().any(|tell| before.holds(tell)));
        let words = |it: &Answer| {
            let to = match (it.remote, it.vlan) {
                (Some(remote), _) => remote.to_string(),
                (None, Some(vlan)) => format!("{}.{vlan}", it.device),
                (None, None) => it.device.clone(),
            };
            let router = if it.is_router { " router" } else { "" };
            format!("{to}: {it} {}{router}", it.mac)
        };
        tells.all.iter().map(words).collect()
    }

    const ALL: [&str; 6] = ["eth1", "web", "trunk", "far", "pc", "vip"];

    #[test]
    fn nothing_that_stayed_as_it_was_is_told() {
        assert_eq!(told("h1", &[], &ALL), Vec::<String>::new());
        let key = [
            ("device: far", "device: vip2"),
            ("vni: 5001", "vni: 5001, mss_clamp: true"),
        ];
        assert_eq!(told("h1", &key, &ALL), Vec::<String>::new());
    }

    #[test]
    fn a_guest_that_was_replaced_is_told_to_all_others_on_each_host() {
        let other = [("02:00:00:00:00:01", "02:00:00:00:00:a1")];
        assert_eq!(
            told("h1", &other, &ALL),
            [
                "198.18.0.3: 198.18.1.1 02:00:00:00:00:a1",
                "198.18.0.3: 2001:2:0:1::1 02:00:00:00:00:a1",
                "trunk.7: 198.18.1.1 02:00:00:00:00:a1",
                "trunk.7: 2001:2:0:1::1 02:00:00:00:00:a1",
            ]
        );
        let there = [
            "far: 198.18.1.1 02:00:00:00:00:a1",
            "far: 2001:2:0:1::1 02:00:00:00:00:a1",
        ];
        assert_eq!(told("h2", &other, &["eth1", "far"]), there);
        assert_eq!(told("h2", &other, &["eth1"]), Vec::<String>::new());
    }

    #[test]
    fn an_address_that_changes_hands_or_no_longer_floats_is_told() {
        let moved = [
            ("addresses: [198.18.1.3]", ""),
            ("[198.18.1.2]", "[198.18.1.2, 198.18.1.3]"),
        ];
        assert_eq!(
            told("h1", &moved.map(|(a, b)| (a, b)), &["web", "trunk"]),
            [
                "198.18.0.3: 198.18.1.3 02:00:00:00:00:02",
                "web: 198.18.1.3 02:00:00:00:00:02",
            ]
        );
        let owned = [("allowed_addresses: [198.18.1.9]", "addresses: [198.18.1.9]")];
        assert_eq!(
            told("h1", &owned, &["web"]),
            ["web: 198.18.1.9 02:00:00:00:00:06"]
        );
        // What floats now has no MAC that could be told.
        let floats = [("addresses: [198.18.1.3]", "allowed_addresses: [198.18.1.3]")];
        assert_eq!(told("h1", &floats, &ALL), Vec::<String>::new());
    }

    #[test]
    fn a_routers_other_mac_is_told_first_and_to_peers_by_its_acting_host() {
        let other = [("02:00:00:00:00:fe", "02:00:00:00:00:ee")];
        let here = told("h1", &other, &ALL);
        for tell in [
            "198.18.0.3: 198.18.1.254 02:00:00:00:00:ee router",
            "pc: 198.18.2.254 02:00:00:00:00:ee router",
            "trunk.7: 2001:2:0:1::fe 02:00:00:00:00:ee router",
            "web: 198.18.1.254 02:00:00:00:00:ee router",
        ] {
            assert!(here.iter().any(|it| it == tell), "{tell}: {here:?}");
        }
        let there = told("h2", &other, &ALL);
        assert!(
            there
                .iter()
                .all(|it| it.starts_with("far: ") || it.starts_with("vip: ")),
            "{there:?}"
        );
    }

    #[test]
    fn a_great_change_has_an_end_and_begins_with_routers() {
        let text = |byte: &str| {
            let ports = (0..600).fold(String::new(), |all, n| {
                let (a, b) = (n >> 8, n & 255);
                format!(
                    "{all}  p{n}: {{ switch: blue, host: h1, device: p{n}, mac: '02:00:{byte}:00:{a:02x}:{b:02x}', addresses: [198.18.{}.{b}] }}\n", a + 1
                )
            });
            format!(
                "version: 1\nhosts: {{ h1: {{ underlay: 198.19.0.1, uplink: eth1 }} }}\nswitches: {{ blue: {{ vni: 5001 }} }}\n\
                 routers: {{ core: {{ mac: '02:00:{byte}:ff:00:01', interfaces: {{ blue: [198.18.255.254/16] }} }} }}\nports:\n{ports}"
            )
        };
        let tables = |byte| {
            Fabric::parse("f", &text(byte))
                .unwrap()
                .compile("h1")
                .unwrap()
        };
        let links: Vec<Link> = (0..600)
            .map(|n| Link {
                name: format!("p{n}"),
                ..Link::default()
            })
            .collect();
        let tells = tells(
            (&tables("01"), &[]),
            &tables("02"),
            &links,
            &BTreeSet::new(),
        );
        assert_eq!(tells.all.len(), MOST);
        assert_eq!(tells.all.len() + tells.too_many, 600 + 600 * 599);
        assert_eq!(tells.all.iter().filter(|it| it.is_router).count(), 600);
    }

    #[test]
    fn an_address_that_comes_back_with_another_mac_is_told() {
        let without = [(
            "web: { switch: blue, host: h1, device: web, mac: '02:00:00:00:00:01', addresses: [198.18.1.1, '2001:2:0:1::1'] }",
            "web: { switch: blue, host: h1, device: web, mac: '02:00:00:00:00:01' }",
        )];
        let other = [("mac: '02:00:00:00:00:01'", "mac: '02:00:00:00:00:99'")];
        let (first, second) = (tables("h2", &[]), tables("h2", &without));
        let gone = former((&first, &[]), &second);
        let links = [Link {
            name: "far".to_owned(),
            ..Link::default()
        }];
        let told = |now: &Tables| {
            tells((&second, &gone), now, &links, &BTreeSet::new())
                .all
                .len()
        };
        assert_eq!(told(&tables("h2", &other)), 2, "both of its addresses");
        assert_eq!(told(&first), 0, "with the MAC of before");
    }
}
