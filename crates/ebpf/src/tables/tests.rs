//! `encode` on a small fabric, and what does not fit.

use std::collections::BTreeSet;
use std::net::IpAddr;

use overlane_model::{Dscp, Fabric};
use zerocopy::FromBytes;

use super::remotes::ipv4_sum;
use super::*;

mod firewall;
mod router;

const FABRIC: &str = r#"
version: 1
tunnel: { encapsulation: vxlan, strict: true, dscp: 46 }
hosts:
  h1: { underlay: 198.18.0.1, uplink: eth1 }
  h2: { underlay: 198.18.0.2, uplink: eth1 }
switches:
  blue: { vni: 5001, unknown_unicast: flood }
  base: { uplink_vlan: 100 }
  lab: { vni: 5002, vlan: transparent }
ports:
  web1: { switch: blue, host: h1, device: web1, mac: "02:00:00:00:00:01", addresses: [198.18.100.1], key: 7, limits: { connections: 5000, flood: 2000 } }
  web2: { switch: blue, host: h2, device: web2, mac: "02:00:00:00:00:02", addresses: ["2001:2::2"], key: 8 }
  base1: { switch: base, host: h1, device: trunk, mac: "02:00:00:00:00:03", key: 3, security: off }
  base2: { switch: base, host: h2, device: base2, mac: "02:00:00:00:00:04", key: 4 }
  blue10: { switch: blue, host: h1, device: trunk, vlan: 10, mac: "02:00:00:00:00:05", key: 9, security: mac, allow: [dhcp_server, router_advertisement], learning: { limit: 5, age: 60 } }
  lab1: { switch: lab, host: h1, device: lab, mac: "02:00:00:00:00:06", key: 1 }
"#;

fn tables() -> Tables {
    Fabric::parse("fabric.yaml", FABRIC)
        .unwrap()
        .compile("h1")
        .unwrap()
}

fn devices() -> Devices {
    let device = |name: &str, ifindex, peer| {
        (
            DeviceName::new(name).unwrap(),
            PortDevice {
                ifindex,
                peer,
                takes_no_mark: peer,
                mtu: 1500,
            },
        )
    };
    Devices {
        ports: [
            device("web1", 3, true),
            device("trunk", 4, false),
            device("lab", 5, false),
        ]
        .into(),
        legs: BTreeMap::new(),
        uplink_ifindex: 2,
        underlay_mtu: 1600,
        segmenter_ifindex: 9,
        segmenter_out_ifindex: 10,
        unmarker_ifindex: 11,
        coalescer_ifindex: 12,
        netns_cookie: 13,
        port_shared: true,
        secret: 0x5ec7e7,
        cookie_key: [0xc0, 0x0c],
    }
}

fn value<V: FromBytes>(contents: &Contents, table: Table, key: &impl IntoBytesKey) -> V {
    V::read_from_bytes(&contents[&table][&key.key()]).unwrap()
}

trait IntoBytesKey {
    fn key(&self) -> Vec<u8>;
}

impl<K: IntoBytes + zerocopy::Immutable> IntoBytesKey for K {
    fn key(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
}

#[test]
fn every_table_has_the_sizes_of_its_map() {
    let mut all = router::tables();
    all.firewall = firewall::firewall();
    let port = &mut all.ports[0];
    port.allowed_addresses = vec!["198.18.200.0/24".parse().unwrap()];
    port.allowed_macs = vec![Mac::new([0, 0, 0x5e, 0, 1, 1])];
    let contents = encode(&all, &router::devices()).unwrap();
    assert_eq!(contents.len(), Table::ALL.len());
    for (table, entries) in &contents {
        assert!(!entries.is_empty(), "{}", table.name());
        for (key, value) in entries {
            assert_eq!((key.len(), value.len()), table.sizes(), "{}", table.name());
        }
    }
}

fn port_id(ifindex: u32, vlan: u32) -> abi::PortId {
    abi::PortId { ifindex, vlan }
}

const BASE: u32 = abi::SWITCH_ID_VLAN | 100;

#[test]
fn ports_become_numbers() {
    let contents = encode(&tables(), &devices()).unwrap();
    let port: abi::Port = value(&contents, Table::Ports, &port_id(3, 0));
    let expected = abi::Port {
        switch_id: 5001,
        key: 7,
        mac: abi::MacBytes {
            bytes: [2, 0, 0, 0, 0, 1],
        },
        flags: abi::PORT_PEER
            | abi::PORT_CHECK_MAC
            | abi::PORT_CHECK_ADDRESSES
            | abi::PORT_TAKES_NO_MARK,
        learn_limit: 0,
        learn_age: 0,
        rules_from: 0,
        rules_to: 0,
        counters: port.counters,
        connections: 5000,
        flood: 200,
        mtu: 1500,
        owner: (tables().ports.iter().find(|it| it.key.get() == 7))
            .unwrap()
            .owner(),
    };
    assert_eq!(port, expected);
    let place: abi::PortId = value(&contents, Table::PortNumbers, &port.counters);
    assert_eq!(place, port_id(3, 0));
    // A trunk: two ports of one device.
    let untagged: abi::Port = value(&contents, Table::Ports, &port_id(4, 0));
    assert_eq!(
        (untagged.switch_id, untagged.key, untagged.flags),
        (BASE, 3, 0)
    );
    let tagged: abi::Port = value(&contents, Table::Ports, &port_id(4, 10));
    let flags = abi::PORT_CHECK_MAC | abi::PORT_DHCP_SERVER | abi::PORT_ROUTER | abi::PORT_LEARNING;
    assert_eq!(
        (tagged.switch_id, tagged.key, tagged.flags),
        (5001, 9, flags)
    );
    assert_eq!((tagged.learn_limit, tagged.learn_age), (5, 60));
    let key = abi::PortKey {
        switch_id: 5001,
        key: 9,
    };
    let place: abi::PortPlace = value(&contents, Table::PortKeys, &key);
    assert_eq!(
        (place.id, place.counters),
        (port_id(4, 10), tagged.counters)
    );
}

#[test]
fn counters_keep_their_numbers_and_what_is_new_takes_none_of_them() {
    let before = encode(&tables(), &devices()).unwrap();
    let numbers = |contents: &Contents| -> BTreeMap<abi::PortKey, u32> {
        read::<abi::PortKey, abi::PortPlace>(contents, Table::PortKeys)
            .map(|(key, place)| (key, place.counters))
            .collect()
    };
    let known = numbers(&before);
    assert_eq!(known.values().collect::<BTreeSet<_>>().len(), known.len());
    assert!(!known.values().any(|&number| number == 0));

    // The first port goes, another comes: the others count where they did.
    let mut changed = tables();
    let gone = changed.ports.remove(0);
    let mut new = gone.clone();
    new.key = 99u32.try_into().unwrap();
    changed.ports.push(new);
    let after = numbers(&encode_beside(&changed, &devices(), &before).unwrap());
    for (key, number) in &after {
        match known.get(key) {
            Some(before) => assert_eq!(number, before),
            None => assert!(!known.values().any(|taken| taken == number)),
        }
    }
    assert_eq!(after.len(), known.len());
    // Every port says the same as its key.
    for (_, port) in read::<abi::PortId, abi::Port>(&before, Table::Ports) {
        let key = abi::PortKey {
            switch_id: port.switch_id,
            key: port.key.into(),
        };
        assert_eq!(known[&key], port.counters);
    }
}

#[test]
fn switches_and_flood_lists_become_numbers() {
    let mut tables = tables();
    for switch in &mut tables.switches {
        let is_blue = switch.id.number() == 5001;
        (switch.asks, switch.mss_clamp) = (is_blue, is_blue);
        switch.path_mtu_discovery = !is_blue;
    }
    let contents = encode(&tables, &devices()).unwrap();
    let switch = |id: u32| value::<abi::Switch>(&contents, Table::Switches, &id);
    let blue = switch(5001);
    assert_eq!((blue.flood_members, blue.learn_age), (3, 60));
    let expected =
        abi::SWITCH_FLOOD_UNKNOWN | abi::SWITCH_LEARNING | abi::SWITCH_ASKS | abi::SWITCH_MSS_CLAMP;
    assert_eq!((blue.flags, blue.flood_routers), (expected, 0));
    // No remote among the receivers: the programs send one copy to the uplink.
    let base = switch(BASE);
    assert_eq!((base.flood_members, base.learn_age), (1, 0));
    assert_eq!(base.flags, abi::SWITCH_TELLS_TOO_BIG);
    let transparent = abi::SWITCH_TRANSPARENT | abi::SWITCH_TELLS_TOO_BIG;
    assert_eq!(switch(5002).flags, transparent);
    let default = abi::Timeouts::from(overlane_model::Timeouts::default());
    assert_eq!(switch(5002).timeouts, default);
    let member = |switch_id, index| -> abi::FloodMember {
        value(&contents, Table::Flood, &abi::FloodKey { switch_id, index })
    };
    assert_eq!(member(5001, 0).port, port_id(4, 10));
    assert_eq!(member(5001, 1).port, port_id(3, 0));
    let remote = member(5001, 2);
    assert_eq!(remote.port, abi::PortId::default());
    assert_eq!(IpAddr::from(remote.remote), IpAddr::from([198, 18, 0, 2]));
    assert_eq!(member(BASE, 0).port, port_id(4, 0));
    assert_eq!(contents[&Table::Flood].len(), 3 + 1 + 1);
}

#[test]
fn addresses_become_numbers() {
    let contents = encode(&tables(), &devices()).unwrap();
    let fdb = |switch_id, last| -> abi::FdbEntry {
        let mac = abi::MacBytes {
            bytes: [2, 0, 0, 0, 0, last],
        };
        let key = abi::FdbKey {
            switch_id,
            mac,
            pad: 0,
        };
        value(&contents, Table::Fdb, &key)
    };
    let here = fdb(5001, 5);
    assert_eq!((here.port, here.key), (port_id(4, 10), 9));
    let there = fdb(5001, 2);
    assert_eq!((there.port, there.key), (abi::PortId::default(), 8));
    assert_eq!(IpAddr::from(there.remote), IpAddr::from([198, 18, 0, 2]));
    // On the VLAN: neither here nor behind a VTEP.
    let vlan = fdb(BASE, 4);
    assert_eq!((vlan.port, vlan.key), (abi::PortId::default(), 4));
    assert_eq!(vlan.remote, abi::Addr::default());
    let addr: abi::Addr = "2001:2::2".parse::<IpAddr>().unwrap().into();
    let key = abi::NeighbourKey {
        switch_id: 5001,
        addr,
    };
    let neighbour: abi::Neighbour = value(&contents, Table::Neighbours, &key);
    assert_eq!((neighbour.mac.bytes[5], neighbour.key), (2, 8));
}

#[test]
fn what_ports_share_is_nobodys_and_what_they_may_use_is_theirs() {
    let allowed = r#"addresses: [198.18.100.1], allowed_addresses: [198.18.100.9, 198.18.200.0/24, "::/0"], allowed_macs: ["00:00:5e:00:01:01"]"#;
    let fabric = FABRIC.replacen("addresses: [198.18.100.1]", allowed, 1);
    let fabric = Fabric::parse("fabric.yaml", &fabric).unwrap();
    let contents = encode(&fabric.compile("h1").unwrap(), &devices()).unwrap();
    let port: abi::Port = value(&contents, Table::Ports, &port_id(3, 0));
    let flags = abi::PORT_ALLOWED_ADDRESSES | abi::PORT_ALLOWED_MACS;
    assert_eq!((port.flags & flags, port.learn_age), (flags, 300));
    let address = |prefixlen, family: u32, addr: &str| -> u32 {
        let key = abi::AllowedAddressKey {
            prefixlen,
            switch_id: 5001u32.to_be(),
            key: 7u32.to_be(),
            family: family.to_be(),
            addr: addr.parse::<IpAddr>().unwrap().into(),
        };
        value(&contents, Table::AllowedAddresses, &key)
    };
    // A single address is marked.
    assert_eq!(address(96 + 128, 4, "198.18.100.9"), 1);
    assert_eq!(address(96 + 96 + 24, 4, "198.18.200.0"), 0);
    assert_eq!(address(96, 6, "::"), 0);
    assert_eq!(contents[&Table::AllowedAddresses].len(), 3);
    let mac = abi::MacBytes {
        bytes: [0, 0, 0x5e, 0, 1, 1],
    };
    let (switch_id, key) = (5001, 7);
    let allowed = abi::AllowedMacKey {
        switch_id,
        mac,
        key,
    };
    assert_eq!(value::<u32>(&contents, Table::AllowedMacs, &allowed), 1);
    let key = abi::FdbKey {
        switch_id,
        mac,
        pad: 0,
    };
    let entry: abi::FdbEntry = value(&contents, Table::Fdb, &key);
    assert_eq!((entry.flags, entry.key), (abi::FDB_FLOATS, 0));
    let key = abi::NeighbourKey {
        switch_id,
        addr: IpAddr::from([198, 18, 100, 9]).into(),
    };
    let neighbour: abi::Neighbour = value(&contents, Table::Neighbours, &key);
    assert_eq!(
        (neighbour.flags, neighbour.key),
        (abi::NEIGHBOUR_FLOATING, 0)
    );
}

#[test]
fn settings_become_numbers() {
    let mut tables = tables();
    let settings = |tables: &Tables| -> abi::Settings {
        value(&encode(tables, &devices()).unwrap(), Table::Settings, &0u32)
    };
    let found = settings(&tables);
    assert_eq!(
        (
            found.uplink_ifindex,
            found.segmenter_ifindex,
            found.underlay_mtu
        ),
        (2, 9, 1600)
    );
    assert_eq!(
        (found.family, found.strict, found.tunnel_port),
        (4, 1, 4789)
    );
    assert_eq!(found.port_shared, 1);
    assert_eq!((found.dscp, found.copy_dscp), (46, 0));
    tables.tunnel.dscp = Dscp::Copy;
    let found = settings(&tables);
    assert_eq!((found.dscp, found.copy_dscp), (0, 1));
}

/// The data path adds the length to the sum and inverts; the result must be right by RFC 1071.
#[test]
fn the_template_sum_completes_to_a_right_checksum() {
    let tables = tables();
    let contents = encode(&tables, &devices()).unwrap();
    let remote: abi::Remote = value(
        &contents,
        Table::Remotes,
        &abi::Addr::from(IpAddr::from([198, 18, 0, 2])),
    );
    let len: u16 = 1450;
    let mut header = remote.header;
    header[16..18].copy_from_slice(&len.to_be_bytes());
    let sum = u32::from(remote.ip_csum) + u32::from(len.to_be());
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    header[24..26].copy_from_slice(&(!(folded as u16)).to_ne_bytes());
    assert_eq!(ipv4_sum(&header), 0xffff);
}

#[test]
fn what_does_not_fit_is_named_with_its_limit() {
    let mut tables = tables();
    let member = tables.switches[0].flood[0].clone();
    tables.switches[0].flood = vec![member; abi::MAX_FLOOD_MEMBERS + 1];
    let error = check_capacity(&tables).unwrap_err();
    assert_eq!(
        error.to_string(),
        "switch with VLAN 100: 1025 receivers in the flood list, 1024 fit"
    );
    let remote = tables.remotes[0].clone();
    tables.remotes = vec![remote; abi::MAX_REMOTES + 1];
    let error = check_capacity(&tables).unwrap_err();
    assert_eq!(
        error.to_string(),
        "table remotes needs 1025 entries and holds 1024"
    );
    assert_eq!(error.help().unwrap(), "shrink the fabric: fewer hosts");
}

#[test]
fn a_port_without_its_device_is_known_and_is_nowhere() {
    let mut devices = devices();
    let whole = encode(&tables(), &devices).unwrap();
    devices.ports.remove(&DeviceName::new("trunk").unwrap());
    let contents = encode_beside(&tables(), &devices, &whole).unwrap();
    let nowhere = |vlan| port_id(NO_DEVICE, vlan);

    let mut ports = whole[&Table::Ports].clone();
    ports.retain(|id, _| abi::PortId::read_from_bytes(id).unwrap().ifindex != 4);
    assert_eq!(contents[&Table::Ports], ports);
    // Nobody's packets go to it, and no packet finds another port.
    for (switch_id, key, vlan) in [(BASE, 3, 0), (5001, 9, 10)] {
        let key = abi::PortKey { switch_id, key };
        let place: abi::PortPlace = value(&contents, Table::PortKeys, &key);
        let before: abi::PortPlace = value(&whole, Table::PortKeys, &key);
        assert_eq!(place.id, nowhere(vlan));
        assert_eq!(place.counters, before.counters);
    }
    let places = contents[&Table::Fdb].values();
    let places = places.map(|entry| abi::FdbEntry::read_from_bytes(entry).unwrap());
    let places: Vec<_> = places.map(|entry| (entry.key, entry.port)).collect();
    assert!(places.contains(&(3, nowhere(0))) && places.contains(&(9, nowhere(10))));
    assert_eq!(places.len(), whole[&Table::Fdb].len());
    assert_eq!(contents[&Table::Neighbours], whole[&Table::Neighbours]);
    // Flooded frames go to the others, without a gap.
    let blue: abi::Switch = value(&contents, Table::Switches, &5001u32);
    let is_blue = |key: &&Vec<u8>| abi::FloodKey::read_from_bytes(key).unwrap().switch_id == 5001;
    let indices = contents[&Table::Flood].keys().filter(is_blue);
    let indices = indices.map(|key| abi::FloodKey::read_from_bytes(key).unwrap().index);
    let indices: BTreeSet<_> = indices.collect();
    assert_eq!(indices, (0..blue.flood_members).collect());
    let before: abi::Switch = value(&whole, Table::Switches, &5001u32);
    assert_eq!(blue.flood_members + 1, before.flood_members);
}
