//! Addresses, routes and neighbours, compared with `ip -json` and with a ping.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

mod common;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use common::{TestNetns, cable, link};
use overlane_net::{Netlink, Nud, PacketSocket};
use serde_json::Value;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A cable whose ends are `.1` and `.2`, in both families.
fn addressed_cable() -> (TestNetns, TestNetns) {
    let (a, b) = cable();
    for (end, last) in [(&a, 1), (&b, 2)] {
        let netlink = end.netlink();
        netlink
            .add_address("eth0", ip(&format!("198.18.0.{last}")), 24)
            .unwrap();
        netlink
            .add_address("eth0", ip(&format!("2001:2::{last}")), 64)
            .unwrap();
    }
    (a, b)
}

fn neighbour_by_ip(netns: &TestNetns, address: &str) -> Value {
    netns.ip(&["neigh", "show", "to", address, "dev", "eth0"])[0].clone()
}

#[test]
fn addresses_are_usable_at_once() {
    need_root!();
    let (a, _b) = addressed_cable();
    let shown = a.ip(&["address", "show", "dev", "eth0"]);
    let infos = shown[0]["addr_info"].as_array().unwrap();
    let pairs: Vec<_> = infos
        .iter()
        .map(|info| (&info["local"], &info["prefixlen"]))
        .collect();
    assert_eq!(
        pairs,
        [
            (&"198.18.0.1".into(), &24.into()),
            (&Value::from("2001:2::1"), &64.into())
        ]
    );
    assert!(
        infos.iter().all(|info| info.get("tentative").is_none()),
        "no DAD: {infos:?}"
    );
    for peer in ["198.18.0.2", "2001:2::2"] {
        a.output("ping", &["-c1", "-W2", peer]);
    }
    let again = a
        .netlink()
        .add_address("eth0", ip("198.18.0.1"), 24)
        .unwrap_err();
    assert!(again.is_exists(), "{again}");
    assert!(link(&a.netlink(), "eth0").stats.tx_packets > 0);
}

#[test]
fn routes_on_link_and_through_gateways() {
    need_root!();
    let (a, _b) = addressed_cable();
    let netlink = a.netlink();
    let oif = link(&netlink, "eth0").index;
    let none = netlink.route_to(ip("198.19.0.1"), None).unwrap_err();
    assert_eq!(none.errno(), Some(101), "ENETUNREACH: {none}");

    netlink
        .add_route(Some((ip("198.19.0.0"), 16)), Some(ip("198.18.0.2")), "eth0")
        .unwrap();
    netlink
        .add_route(Some((ip("198.18.7.0"), 24)), None, "eth0")
        .unwrap();
    netlink
        .add_route(None, Some(ip("2001:2::2")), "eth0")
        .unwrap();
    for (to, gateway) in [
        ("198.18.0.2", None),
        ("198.18.7.7", None),
        ("198.19.0.1", Some("198.18.0.2")),
        ("2001:2::2", None),
        ("2001:2:0:1::1", Some("2001:2::2")),
    ] {
        for device in [None, Some(oif)] {
            let route = netlink.route_to(ip(to), device).unwrap();
            assert_eq!((route.oif, route.gateway), (oif, gateway.map(ip)), "{to}");
        }
    }
    let again = netlink
        .add_route(Some((ip("198.18.7.0"), 24)), None, "eth0")
        .unwrap_err();
    assert!(
        again.is_exists() && again.device() == Some("eth0"),
        "{again}"
    );
}

#[test]
fn routes_tell_their_mtu() {
    need_root!();
    let (a, _b) = addressed_cable();
    let via = ["via", "198.18.0.2", "dev", "eth0", "mtu", "1400"];
    a.output(
        "ip",
        &[&["route", "add", "198.19.0.0/24"][..], &via].concat(),
    );
    assert_eq!(
        a.netlink().route_to(ip("198.19.0.1"), None).unwrap().mtu,
        Some(1400)
    );
    assert_eq!(
        a.netlink().route_to(ip("198.18.0.2"), None).unwrap().mtu,
        None
    );
}

#[test]
fn permanent_neighbours() {
    need_root!();
    let (a, _b) = addressed_cable();
    let netlink = a.netlink();
    for address in ["198.18.0.9", "2001:2::9"] {
        assert_eq!(netlink.neighbour("eth0", ip(address)).unwrap(), None);
        netlink.add_neighbour("eth0", ip(address), MAC).unwrap();
        let theirs = neighbour_by_ip(&a, address);
        assert_eq!(theirs["lladdr"], "02:00:00:00:00:09");
        assert_eq!(theirs["state"][0], "PERMANENT");
        let ours = netlink.neighbour("eth0", ip(address)).unwrap().unwrap();
        assert_eq!(
            (ours.state, ours.mac, ours.managed),
            (Nud::Permanent, Some(MAC), false)
        );

        netlink.delete_neighbour("eth0", ip(address)).unwrap();
        assert_eq!(netlink.neighbour("eth0", ip(address)).unwrap(), None);
        assert!(
            netlink
                .delete_neighbour("eth0", ip(address))
                .unwrap_err()
                .is_not_found()
        );
    }
}

#[test]
fn managed_neighbours_resolve_by_themselves() {
    need_root!();
    let (a, b) = addressed_cable();
    let netlink = a.netlink();
    // The kernel asks from a link-local address; an address generated now would wait for DAD.
    netlink.add_address("eth0", ip("fe80::1"), 64).unwrap();
    let mac = link(&b.netlink(), "eth0").mac;
    for address in ["198.18.0.2", "2001:2::2"] {
        netlink.manage_neighbour("eth0", ip(address)).unwrap();
        let theirs = neighbour_by_ip(&a, address);
        assert!(
            theirs.as_object().unwrap().contains_key("managed"),
            "{theirs}"
        );
        assert_eq!(resolved(&netlink, address), Some(mac), "{address}");
        assert!(
            netlink
                .neighbour("eth0", ip(address))
                .unwrap()
                .unwrap()
                .managed
        );
        // Asking for the same again is no error.
        netlink.manage_neighbour("eth0", ip(address)).unwrap();
    }
}

#[test]
fn a_proxy_neighbour_joins_its_group_until_it_is_deleted() {
    need_root!();
    let (a, _b) = addressed_cable();
    let netlink = a.netlink();
    let address = ip("2001:2::7:1234");
    let is_joined = |netns: &TestNetns| {
        let groups = netns.output("ip", &["maddr", "show", "dev", "eth0"]);
        groups.contains("ff02::1:ff07:1234") && groups.contains("33:33:ff:07:12:34")
    };
    // Also where the kernel has no IPv6 address: the device's filter is the same.
    for off in ["0", "1"] {
        a.output(
            "sysctl",
            &["-w", &format!("net.ipv6.conf.eth0.disable_ipv6={off}")],
        );
        assert!(!netlink.has_proxy("eth0", address).unwrap());
        netlink.add_proxy("eth0", address).unwrap();
        assert!(netlink.has_proxy("eth0", address).unwrap() && is_joined(&a));
        // Asking for the same again is no error, and one deletion is enough.
        netlink.add_proxy("eth0", address).unwrap();
        netlink.delete_proxy("eth0", address).unwrap();
        assert!(!netlink.has_proxy("eth0", address).unwrap() && !is_joined(&a));
        let again = netlink.delete_proxy("eth0", address).unwrap_err();
        assert!(again.is_not_found(), "{again}");
    }
    assert!(
        netlink
            .has_proxy("eth9", address)
            .unwrap_err()
            .is_not_found()
    );
}

#[test]
fn a_frame_leaves_as_it_is() {
    need_root!();
    let (a, b) = addressed_cable();
    let netlink = b.netlink();
    let before = link(&netlink, "eth0").stats.rx_bytes;
    let frame = [&[0xff; 6][..], &MAC, &[0x88, 0xb5], &[0; 986]].concat();
    let socket =
        a.0.run(|| PacketSocket::open(&link(&Netlink::new().unwrap(), "eth0")));
    let socket = socket.unwrap().unwrap();
    socket.send(&frame).unwrap();
    assert!(link(&netlink, "eth0").stats.rx_bytes >= before + 1000);
    a.netlink().set_down("eth0").unwrap();
    assert!(socket.send(&frame).is_err());
}

/// The neighbour's MAC once the kernel has it; `None` after two seconds without.
fn resolved(netlink: &Netlink, address: &str) -> Option<[u8; 6]> {
    let deadline = Instant::now() + Duration::from_secs(2);
    while Instant::now() < deadline {
        let neighbour = netlink.neighbour("eth0", ip(address)).unwrap().unwrap();
        if neighbour.state.is_valid() {
            return neighbour.mac;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}
