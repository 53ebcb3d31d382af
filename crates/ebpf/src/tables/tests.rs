//! `encode` on a small fabric, and what does not fit.

use overlane_model::Fabric;
use zerocopy::FromBytes;

use super::*;

const FABRIC: &str = r#"
version: 1
tunnel: { encapsulation: vxlan, strict: true }
hosts:
  h1: { underlay: 198.18.0.1, uplink: eth1 }
  h2: { underlay: 198.18.0.2, uplink: eth1 }
switches:
  blue: { vni: 5001, unknown_unicast: flood }
ports:
  web1: { switch: blue, host: h1, device: web1, mac: "02:00:00:00:00:01", addresses: [198.18.100.1], key: 7 }
  web2: { switch: blue, host: h2, device: web2, mac: "02:00:00:00:00:02", addresses: ["2001:2::2"], key: 8 }
"#;

fn tables() -> Tables {
    Fabric::parse("fabric.yaml", FABRIC)
        .unwrap()
        .compile("h1")
        .unwrap()
}

fn devices() -> Devices {
    let web1 = (
        DeviceName::new("web1").unwrap(),
        PortDevice {
            ifindex: 3,
            peer: true,
        },
    );
    Devices {
        ports: [web1].into(),
        uplink_ifindex: 2,
        underlay_mtu: 1600,
        segmenter_ifindex: 9,
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
    let contents = encode(&tables(), &devices()).unwrap();
    assert_eq!(contents.len(), Table::ALL.len());
    for (table, entries) in &contents {
        assert!(!entries.is_empty(), "{}", table.name());
        for (key, value) in entries {
            assert_eq!((key.len(), value.len()), table.sizes(), "{}", table.name());
        }
    }
}

#[test]
fn names_become_numbers() {
    let contents = encode(&tables(), &devices()).unwrap();
    let port: abi::Port = value(&contents, Table::Ports, &3u32);
    assert_eq!((port.vni, port.key, port.flags), (5001, 7, abi::PORT_PEER));
    let switch: abi::Switch = value(&contents, Table::Switches, &5001u32);
    assert_eq!(
        (switch.flood_members, switch.flags),
        (2, abi::SWITCH_FLOOD_UNKNOWN)
    );
    let local: abi::FloodMember = value(
        &contents,
        Table::Flood,
        &abi::FloodKey {
            vni: 5001,
            index: 0,
        },
    );
    let remote: abi::FloodMember = value(
        &contents,
        Table::Flood,
        &abi::FloodKey {
            vni: 5001,
            index: 1,
        },
    );
    assert_eq!((local.ifindex, remote.ifindex), (3, 0));
    assert_eq!(IpAddr::from(remote.remote), IpAddr::from([198, 18, 0, 2]));
    let mac = abi::MacBytes {
        bytes: [2, 0, 0, 0, 0, 2],
    };
    let entry: abi::FdbEntry = value(
        &contents,
        Table::Fdb,
        &abi::FdbKey {
            vni: 5001,
            mac,
            pad: 0,
        },
    );
    assert_eq!((entry.ifindex, entry.key), (0, 8));
    let addr: abi::Addr = "2001:2::2".parse::<IpAddr>().unwrap().into();
    let neighbour: abi::Neighbour = value(
        &contents,
        Table::Neighbours,
        &abi::NeighbourKey { vni: 5001, addr },
    );
    assert_eq!((neighbour.mac, neighbour.key), (mac, 8));
    let settings: abi::Settings = value(&contents, Table::Settings, &0u32);
    assert_eq!(
        (
            settings.uplink_ifindex,
            settings.segmenter_ifindex,
            settings.underlay_mtu
        ),
        (2, 9, 1600)
    );
    assert_eq!(
        (settings.family, settings.strict, settings.tunnel_port),
        (4, 1, 4789)
    );
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
    let member = tables.switches[0].flood[1].clone();
    tables.switches[0].flood = vec![member; abi::MAX_FLOOD_MEMBERS + 1];
    let error = check_capacity(&tables).unwrap_err();
    assert!(matches!(
        error,
        EbpfError::FloodList {
            vni: 5001,
            count: 1025,
            limit: 1024
        }
    ));
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
fn an_unresolved_device_is_an_error() {
    let error = encode(&tables(), &Devices::default()).unwrap_err();
    assert!(matches!(error, EbpfError::UnknownDevice(name) if name == "web1"));
}
