//! What fits: the bytes that a tunnel puts around a guest's packet, the largest packet that leaves room for, and what
//! guests and physical switches need. All sizes that Overlane says are computed here.
//!
//! ```text
//! physical switches: Ethernet 14 (+ 4 tag) | IP packet of the underlay                        | FCS 4
//! underlay's MTU:                          | IP | UDP | VXLAN, Geneve | Ethernet 14 (+ 4) |   |
//! guest's MTU:                                                                        | IP  |
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::fabric::{Fabric, GuestVlan, Host, Switch};
use crate::names::Name;
use crate::tables::{Encapsulation, GeneveOptions, PortTable, SwitchId, Tables};
use crate::template;

/// Every host takes IPv4 packets of this size (RFC 791), so guests need it.
pub const IPV4_LEAST: u32 = 576;
/// IPv6 needs this of every link (RFC 8200 section 5).
pub const IPV6_LEAST: u32 = 1280;
/// Longest IP packet.
pub const IP_MOST: u32 = 65535;
const ETHERNET: u32 = 14;
const TAG: u32 = 4;
/// Frame check sequence: physical switches count it.
const FCS: u32 = 4;

/// The largest packet of a guest that leaves room for `header` bytes around it, and for its own tag if it has one.
pub const fn room(underlay_mtu: u32, header: u32, tagged: bool) -> u32 {
    underlay_mtu.saturating_sub(header + if tagged { TAG } else { 0 })
}

/// The MTU that the underlay needs for a guest's packet of this size.
pub const fn underlay_for(guest_mtu: u32, header: u32, tagged: bool) -> u32 {
    guest_mtu.saturating_add(header + if tagged { TAG } else { 0 })
}

/// The frame that physical switches must carry for an IP packet of this size.
pub const fn frame(ip_packet: u32, tagged: bool) -> u32 {
    ip_packet.saturating_add(ETHERNET + if tagged { TAG } else { 0 } + FCS)
}

/// Whether two sizes differ by a VLAN tag. Linux takes in that much beyond a device's MTU, so such sizes of the two
/// directions of a path do not make two paths of it.
pub const fn differ_by_a_tag(one: u32, other: u32) -> bool {
    one.abs_diff(other) == TAG
}

/// The least MTU of an uplink: guests need [`IPV4_LEAST`], and the underlay's own family has its least.
pub const fn least_uplink(header: u32, is_ipv6: bool) -> u32 {
    let needs = underlay_for(IPV4_LEAST, header, false);
    if is_ipv6 && needs < IPV6_LEAST {
        return IPV6_LEAST;
    }
    needs
}

/// What is around a guest's packet on the underlay. The outer Ethernet header is as long as the inner one, so this
/// is the length of the template: of what goes before the inner frame, or of all that an underlay's MTU counts.
fn around(template: &[u8]) -> u32 {
    u32::try_from(template.len()).unwrap_or(u32::MAX)
}

impl Tables {
    /// The longest header that this host writes; 0 without remotes.
    pub fn longest_header(&self) -> u32 {
        let lengths = self.remotes.iter().map(|remote| around(&remote.header));
        lengths.max().unwrap_or(0)
    }

    /// The largest packet of a port that fits into the underlay to every remote.
    pub fn largest_packet(&self, port: &PortTable, underlay_mtu: u32) -> u32 {
        let mut switches = self.switches.iter();
        let switch = switches.find(|switch| switch.id == port.switch);
        let tagged = switch.is_some_and(|switch| switch.vlan_transparent);
        match port.switch {
            SwitchId::Vlan(_) => underlay_mtu,
            SwitchId::Vni(_) => room(underlay_mtu, self.longest_header(), tagged),
        }
    }
}

/// The header of packets to a host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Header {
    /// `vxlan` or `geneve`.
    pub encapsulation: Wrapping,
    /// 4 or 6: the IP version of the underlay.
    pub ip_version: u8,
    /// Bytes around a guest's IP packet, without its own tag.
    #[serde(rename = "header_bytes")]
    pub bytes: u32,
}

/// Encapsulation and options, which decide the length of a tunnel's header.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wrapping {
    /// VXLAN.
    Vxlan,
    /// Geneve with OVN's option.
    Geneve,
    /// Geneve without options.
    GenevePlain,
}

impl Wrapping {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Vxlan => "VXLAN",
            Self::Geneve => "Geneve",
            Self::GenevePlain => "plain Geneve",
        }
    }
}

impl Header {
    /// Of packets to `host`: its own option counts.
    pub fn to(fabric: &Fabric, host: &Host) -> Self {
        let tunnel = fabric.tunnel();
        let vtep = host.underlay;
        Self {
            encapsulation: match (tunnel.encapsulation, host.options) {
                (Encapsulation::Vxlan, _) => Wrapping::Vxlan,
                (Encapsulation::Geneve, GeneveOptions::Ovn) => Wrapping::Geneve,
                (Encapsulation::Geneve, GeneveOptions::None) => Wrapping::GenevePlain,
            },
            ip_version: if vtep.is_ipv6() { 6 } else { 4 },
            bytes: around(&template::outer(tunnel, host.options, vtep, vtep)),
        }
    }

    /// For people: `VXLAN over IPv4`.
    pub fn words(self) -> String {
        format!("{} over IPv{}", self.encapsulation.words(), self.ip_version)
    }
}

/// One direction between two hosts that speak to each other in tunnels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Direction {
    /// Who writes the header.
    pub from: Name,
    /// Whose option counts.
    pub to: Name,
    /// The header.
    pub header: Header,
    /// Guests' tags travel inside: both have ports of a switch that carries them.
    pub tagged: bool,
    /// Switches that both have ports of.
    pub switches: Vec<Name>,
    /// Routers that join switches of the one with those of the other.
    pub routers: Vec<Name>,
}

/// What a switch asks of its guests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwitchRoom {
    /// The switch.
    pub switch: Name,
    /// What it is on the underlay.
    pub id: SwitchId,
    /// Guests' tags travel inside, in that tunnel too.
    pub tagged: bool,
    /// The header of the tunnel that leaves least; none on a VLAN, and where all its packets stay on one host.
    pub header: Option<Header>,
    /// The largest MTU of its guests; `None`: the underlay carries none of its packets.
    pub guest_mtu: Option<u32>,
    /// Between which hosts that tunnel is.
    pub smallest: Option<(Name, Name)>,
}

/// Switches that routers join, and the hosts whose packets cross tunnels because of that.
struct Joined<'f> {
    switches: BTreeMap<&'f Name, BTreeSet<&'f Name>>,
    routers: BTreeSet<&'f Name>,
    gateways: BTreeSet<&'f Name>,
}

impl Joined<'_> {
    fn hosts(&self) -> BTreeSet<&Name> {
        let of_ports = self.switches.values().flatten();
        of_ports.chain(&self.gateways).copied().collect()
    }
}

/// Each direction of each pair of hosts, by name.
pub fn directions(fabric: &Fabric) -> Vec<Direction> {
    let mut all: BTreeMap<(&Name, &Name), Direction> = BTreeMap::new();
    let joined = joined(fabric);
    for part in &joined {
        let hosts = part.hosts();
        for (from, to) in pairs(&hosts) {
            let Some(host) = fabric.hosts().get(to) else {
                continue;
            };
            let direction = all.entry((from, to)).or_insert_with(|| Direction {
                from: from.clone(),
                to: to.clone(),
                header: Header::to(fabric, host),
                tagged: false,
                switches: Vec::new(),
                routers: Vec::new(),
            });
            let both = |of: &BTreeSet<&Name>| of.contains(from) && of.contains(to);
            let shared = part.switches.iter().filter(|(_, of)| both(of));
            for (name, _) in shared {
                let switch = fabric.switches().get(*name);
                direction.tagged |= switch.is_some_and(is_tagged);
                direction.switches.push((*name).clone());
            }
            let routers = part.routers.iter().map(|name| (*name).clone());
            direction.routers.extend(routers);
        }
    }
    let by_name = |mut direction: Direction| {
        direction.switches.sort();
        direction
    };
    all.into_values().map(by_name).collect()
}

/// What fits into each switch, by name, where the uplink of a host has the MTU that `uplink` says.
pub fn switch_rooms(fabric: &Fabric, uplink: &dyn Fn(&Name) -> u32) -> Vec<SwitchRoom> {
    let mut rooms = BTreeMap::new();
    for part in joined(fabric) {
        let hosts = part.hosts();
        for (name, own) in &part.switches {
            let Some(switch) = fabric.switches().get(*name) else {
                continue;
            };
            rooms.insert(*name, tunnel_room(fabric, switch, own, &hosts, uplink));
        }
    }
    let on_vlans = fabric.switches().values();
    for switch in on_vlans.filter(|switch| switch.id.vlan().is_some()) {
        rooms.insert(&switch.name, vlan_room(fabric, switch, uplink));
    }
    rooms.into_values().collect()
}

fn tunnel_room(
    fabric: &Fabric,
    switch: &Switch,
    own: &BTreeSet<&Name>,
    hosts: &BTreeSet<&Name>,
    uplink: &dyn Fn(&Name) -> u32,
) -> SwitchRoom {
    let mut of = SwitchRoom {
        switch: switch.name.clone(),
        id: switch.id,
        tagged: is_tagged(switch),
        header: None,
        guest_mtu: None,
        smallest: None,
    };
    // Tags stay in their switch; routers take none.
    let has_tag =
        |from: &Name, to: &Name| is_tagged(switch) && own.contains(from) && own.contains(to);
    for (from, to) in pairs(hosts) {
        let is_own = own.contains(from) || own.contains(to);
        let Some(host) = fabric.hosts().get(to).filter(|_| is_own) else {
            continue;
        };
        let header = Header::to(fabric, host);
        let mtu = uplink(from).min(uplink(to));
        let fits = room(mtu, header.bytes, has_tag(from, to));
        if of.guest_mtu.is_none_or(|smallest| fits < smallest) {
            (of.guest_mtu, of.header) = (Some(fits), Some(header));
            of.tagged = has_tag(from, to);
            of.smallest = Some((from.clone(), to.clone()));
        }
    }
    of
}

fn vlan_room(fabric: &Fabric, switch: &Switch, uplink: &dyn Fn(&Name) -> u32) -> SwitchRoom {
    let ports = fabric.ports().values();
    let hosts = ports.filter(|port| port.switch == switch.name);
    let hosts: BTreeSet<&Name> = hosts.map(|port| &port.host).collect();
    let smallest = hosts.iter().min_by_key(|host| uplink(host));
    SwitchRoom {
        switch: switch.name.clone(),
        id: switch.id,
        tagged: is_tagged(switch),
        header: None,
        guest_mtu: smallest.map(|host| uplink(host)),
        smallest: None,
    }
}

/// Each part of the fabric whose switches routers join, with the tunnel switches that have ports.
fn joined(fabric: &Fabric) -> Vec<Joined<'_>> {
    let mut hosts: BTreeMap<&Name, BTreeSet<&Name>> = BTreeMap::new();
    let in_tunnels = fabric.switches().values();
    for switch in in_tunnels.filter(|switch| switch.id.vni().is_some()) {
        hosts.insert(&switch.name, BTreeSet::new());
    }
    for port in fabric.ports().values() {
        if let Some(of) = hosts.get_mut(&port.switch) {
            of.insert(&port.host);
        }
    }
    let alone = hosts.into_iter().map(|of| Joined {
        switches: BTreeMap::from([of]),
        routers: BTreeSet::new(),
        gateways: BTreeSet::new(),
    });
    let mut parts: Vec<Joined<'_>> = alone.collect();
    for router in fabric.routers().values() {
        let has = |part: &Joined<'_>| {
            let mut interfaces = router.interfaces.iter();
            interfaces.any(|interface| part.switches.contains_key(&interface.switch))
        };
        let (of_router, others) = parts.into_iter().partition::<Vec<_>, _>(has);
        parts = others;
        let gateway = router.gateway.as_ref().map(|gateway| &gateway.host);
        parts.push(Joined {
            routers: of_router
                .iter()
                .flat_map(|part| part.routers.iter().copied())
                .chain([&router.name])
                .collect(),
            gateways: of_router
                .iter()
                .flat_map(|part| part.gateways.iter().copied())
                .chain(gateway)
                .collect(),
            switches: of_router.into_iter().flat_map(|it| it.switches).collect(),
        });
    }
    parts
}

fn pairs<'f>(hosts: &BTreeSet<&'f Name>) -> impl Iterator<Item = (&'f Name, &'f Name)> {
    let to = |from: &&'f Name| {
        let from = *from;
        let others = hosts.iter().copied().filter(move |to| *to != from);
        others.map(move |to| (from, to)).collect::<Vec<_>>()
    };
    hosts.iter().flat_map(to).collect::<Vec<_>>().into_iter()
}

fn is_tagged(switch: &Switch) -> bool {
    switch.guest_vlan == GuestVlan::Transparent
}

/// Whether an address makes its guest need [`IPV6_LEAST`]. Every guest has link-local ones.
pub const fn is_routed_ipv6(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTS: &str = "
hosts:
  h1: { underlay: 198.18.0.1, uplink: eth1 }
  h2: { underlay: 198.18.0.2, uplink: eth1, options: none }
  h3: { underlay: 198.18.0.3, uplink: eth1 }
  gw: { underlay: 198.18.0.9, uplink: eth1 }
";
    const REST: &str = "
switches:
  blue: { vni: 5001 }
  red: { vni: 5002, vlan: transparent }
  lone: { vni: 5003 }
  cable: { uplink_vlan: 100 }
ports:
  b1: { switch: blue, host: h1, device: b1, mac: '02:00:00:00:00:01', addresses: [198.18.1.1] }
  b2: { switch: blue, host: h2, device: b2, mac: '02:00:00:00:00:02', addresses: [198.18.1.2] }
  r1: { switch: red, host: h1, device: r1, mac: '02:00:00:00:00:03', addresses: [198.18.2.1] }
  r3: { switch: red, host: h3, device: r3, mac: '02:00:00:00:00:04', addresses: [198.18.2.3] }
  l3: { switch: lone, host: h3, device: l3, mac: '02:00:00:00:00:05' }
  c3: { switch: cable, host: h3, device: c3, mac: '02:00:00:00:00:06' }
";

    fn fabric(text: &str) -> Fabric {
        let text = format!("version: 1\n{text}");
        Fabric::parse("f", &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
    }

    fn rooms(fabric: &Fabric, uplink: &dyn Fn(&Name) -> u32) -> Vec<(String, Option<u32>)> {
        let rooms = switch_rooms(fabric, uplink).into_iter();
        rooms
            .map(|room| (room.switch.to_string(), room.guest_mtu))
            .collect()
    }

    #[test]
    fn the_header_has_the_length_of_what_is_written() {
        for (tunnel, address, options, bytes) in [
            ("vxlan", "198.18.0.", "", 50),
            ("vxlan", "2001:2::", "", 70),
            ("geneve", "198.18.0.", "", 58),
            ("geneve", "2001:2::", "", 78),
            ("geneve", "198.18.0.", ", options: none", 50),
            ("geneve", "2001:2::", ", options: none", 70),
        ] {
            let fabric = fabric(&format!(
                "tunnel: {{ encapsulation: {tunnel}, udp6_zero_checksum: true }}\nhosts:\n  h1: {{ underlay: '{address}1', uplink: u{options} }}\n  \
                 h2: {{ underlay: '{address}2', uplink: u{options} }}\n"
            ));
            let header = Header::to(&fabric, &fabric.hosts()["h2"]);
            assert_eq!(header.bytes, bytes, "{tunnel} {address}{options}");
            let tables = fabric.compile("h1").unwrap();
            assert_eq!(tables.longest_header(), bytes);
        }
    }

    #[test]
    fn sizes_of_all_places() {
        assert_eq!(room(1500, 50, false), 1450);
        assert_eq!(room(1500, 58, true), 1438);
        assert_eq!(room(40, 58, true), 0);
        assert_eq!(underlay_for(8950, 50, false), 9000);
        assert_eq!((frame(1500, false), frame(1500, true)), (1518, 1522));
        assert_eq!(least_uplink(50, false), 626);
        assert_eq!(least_uplink(70, true), 1280);
    }

    #[test]
    fn hosts_without_a_switch_in_common_have_no_tunnel() {
        let fabric = fabric(&format!("{HOSTS}{REST}"));
        let found: Vec<_> = directions(&fabric)
            .into_iter()
            .map(|it| (format!("{} {}", it.from, it.to), it.header.bytes, it.tagged))
            .collect();
        let expected = [
            ("h1 h2", 50, false),
            ("h1 h3", 58, true),
            ("h2 h1", 58, false),
            ("h3 h1", 58, true),
        ];
        assert_eq!(found, expected.map(|(pair, b, t)| (pair.to_owned(), b, t)));
        let expected = [
            ("blue", Some(1442)),
            ("cable", Some(1500)),
            ("lone", None),
            ("red", Some(1438)),
        ];
        let expected = expected.map(|(name, mtu)| (name.to_owned(), mtu));
        assert_eq!(rooms(&fabric, &|_| 1500), expected);
    }

    #[test]
    fn a_router_joins_hosts_and_its_gateway_and_takes_no_tag() {
        let router = "
routers:
  core:
    interfaces: { blue: [198.18.1.254/24], red: [198.18.2.254/24] }
    gateway: { host: gw, device: leg0, addresses: [198.19.0.2/24] }
";
        let fabric = fabric(&format!("{HOSTS}{REST}{router}"));
        let all = directions(&fabric);
        assert_eq!(all.len(), 12);
        let between = |from: &str, to: &str| {
            let mut all = all.iter();
            all.find(|it| it.from.as_str() == from && it.to.as_str() == to)
        };
        let routed = between("h2", "h3").unwrap();
        assert!(routed.switches.is_empty() && !routed.tagged);
        assert_eq!(routed.routers[0].as_str(), "core");
        assert_eq!(between("gw", "h2").unwrap().header.bytes, 50);
        assert!(between("h1", "h3").unwrap().tagged);
        // Blue's guests send to h3 without a tag.
        let expected = [("blue", Some(1442)), ("red", Some(1438))];
        let expected = expected.map(|(name, mtu)| (name.to_owned(), mtu));
        let found = rooms(&fabric, &|_| 1500);
        assert!(expected.iter().all(|one| found.contains(one)), "{found:?}");
    }

    #[test]
    fn the_smaller_uplink_of_two_counts() {
        let fabric = fabric(&format!("{HOSTS}{REST}"));
        let uplink = |host: &Name| if host.as_str() == "h2" { 1400 } else { 9000 };
        let found = rooms(&fabric, &uplink);
        assert!(
            found.contains(&("blue".to_owned(), Some(1342))),
            "{found:?}"
        );
        assert!(found.contains(&("red".to_owned(), Some(8938))), "{found:?}");
        assert!(found.contains(&("cable".to_owned(), Some(9000))));
    }
}
