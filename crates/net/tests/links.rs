//! Links, compared with what `ip -details link` says of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

mod common;

use common::{TestNetns, cable, link};
use overlane_net::Vxlan;

const VXLAN: Vxlan = Vxlan {
    vni: None,
    external: false,
    group_policy: false,
    local: None,
    remote: None,
    port: 4789,
    learning: false,
    udp_csum: true,
    udp6_zero_csum: false,
    device: None,
};

#[test]
fn veth_across_namespaces_knows_its_peer() {
    need_root!();
    let (a, b) = (TestNetns::new(), TestNetns::new());
    let here = a.netlink();
    here.add_veth("port", "eth0", Some(&b.0)).unwrap();
    here.add_veth("left", "right", None).unwrap();

    let (port, far) = (link(&here, "port"), link(&b.netlink(), "eth0"));
    assert_eq!(port.kind.as_deref(), Some("veth"));
    assert_eq!(
        (port.peer_index, port.peer_in_other_netns),
        (Some(far.index), true)
    );
    assert_eq!(
        (far.peer_index, far.peer_in_other_netns),
        (Some(port.index), true)
    );
    let (left, right) = (link(&here, "left"), link(&here, "right"));
    assert_eq!(
        (left.peer_index, left.peer_in_other_netns),
        (Some(right.index), false)
    );

    here.delete("port").unwrap();
    assert!(
        b.netlink().link("eth0").unwrap_err().is_not_found(),
        "both ends go"
    );
}

#[test]
fn promiscuous_mode_is_what_was_asked_for_and_not_what_a_capture_does() {
    need_root!();
    let (a, _b) = cable();
    let netlink = a.netlink();
    let seen = || {
        let flags = a.ip_link("eth0")["flags"].clone();
        let by_ip = flags
            .as_array()
            .unwrap()
            .iter()
            .any(|flag| flag == "PROMISC");
        let by_us = link(&netlink, "eth0").promiscuous;
        assert_eq!(by_us, by_ip);
        by_us
    };
    assert!(!seen());
    netlink.set_promiscuous("eth0", true).unwrap();
    assert!(seen());
    netlink.set_promiscuous("eth0", false).unwrap();
    assert!(!seen());
    assert!(link(&netlink, "eth0").up, "nothing else changes");
    // A bridge takes everything from its ports, without anybody having asked for it.
    netlink.add_bridge("br").unwrap();
    netlink.set_master("eth0", "br").unwrap();
    assert_eq!(a.ip_link("eth0")["promiscuity"], 1);
    assert!(!seen());
    let error = netlink.set_promiscuous("nodev", true).unwrap_err();
    assert!(error.is_not_found());
}

#[test]
fn link_reads_what_ip_reads() {
    need_root!();
    let (a, _b) = cable();
    let netlink = a.netlink();
    let ours = link(&netlink, "eth0");
    let theirs = a.ip_link("eth0");
    let mac = ours.mac.map(|byte| format!("{byte:02x}")).join(":");
    assert_eq!(theirs["ifindex"], ours.index);
    assert_eq!(theirs["address"], mac);
    assert_eq!(theirs["mtu"], ours.mtu);
    assert_eq!(theirs["gso_max_size"], ours.gso_max_size);
    assert_eq!(theirs["gso_max_segs"], ours.gso_max_segs);
    assert!(ours.up && ours.carrier);
    assert_eq!(netlink.link_by_index(ours.index).unwrap().name, "eth0");
    let names: Vec<_> = netlink
        .links()
        .unwrap()
        .into_iter()
        .map(|link| link.name)
        .collect();
    assert_eq!(names, ["lo", "eth0"]);
}

#[test]
fn settings_take() {
    need_root!();
    let a = TestNetns::new();
    let netlink = a.netlink();
    netlink.add_veth("x", "y", None).unwrap();
    netlink.set_mtu("x", 8950).unwrap();
    netlink.set_mac("x", [2, 0, 0, 0, 0, 7]).unwrap();
    netlink.set_arp("x", false).unwrap();
    netlink.set_addr_gen_none("x").unwrap();
    netlink.set_up("x").unwrap();
    let theirs = a.ip_link("x");
    assert_eq!(theirs["mtu"], 8950);
    assert_eq!(theirs["address"], "02:00:00:00:00:07");
    assert_eq!(theirs["inet6_addr_gen_mode"], "none");
    let flags = theirs["flags"].to_string();
    assert!(
        flags.contains("\"NOARP\"") && flags.contains("\"UP\""),
        "{flags}"
    );

    netlink.set_arp("x", true).unwrap();
    netlink.set_down("x").unwrap();
    let flags = a.ip_link("x")["flags"].to_string();
    assert!(
        !flags.contains("\"NOARP\"") && !flags.contains("\"UP\""),
        "{flags}"
    );
    assert!(!link(&netlink, "x").up);

    netlink.rename("x", "z").unwrap();
    assert!(netlink.link("x").unwrap_err().is_not_found());
    let b = TestNetns::new();
    netlink.set_netns("z", &b.0).unwrap();
    assert!(netlink.link("z").unwrap_err().is_not_found());
    assert_eq!(link(&b.netlink(), "z").mac, [2, 0, 0, 0, 0, 7]);
    assert!(link(&netlink, "y").peer_in_other_netns);
}

#[test]
fn gso_limits_take_for_both_families() {
    need_root!();
    let a = TestNetns::new();
    let netlink = a.netlink();
    netlink.add_veth("x", "y", None).unwrap();
    netlink.set_gso_limits("x", 1, 512).unwrap();
    let theirs = a.ip_link("x");
    assert_eq!(theirs["gso_max_segs"], 1);
    assert_eq!(theirs["gso_max_size"], 512);
    // Older iproute2 does not print the IPv4 limit.
    assert!(
        theirs
            .get("gso_ipv4_max_size")
            .is_none_or(|size| size == 512)
    );
    let ours = link(&netlink, "x");
    assert_eq!(
        (ours.gso_max_segs, ours.gso_max_size, ours.gso_ipv4_max_size),
        (1, 512, 512)
    );
}

#[test]
fn bridge_and_its_ports() {
    need_root!();
    let a = TestNetns::new();
    let netlink = a.netlink();
    netlink.add_bridge("br0").unwrap();
    netlink.add_veth("x", "y", None).unwrap();
    netlink.set_master("x", "br0").unwrap();
    assert_eq!(a.ip_link("br0")["linkinfo"]["info_kind"], "bridge");
    assert_eq!(a.ip_link("x")["master"], "br0");
    let bridge = link(&netlink, "br0");
    assert_eq!(bridge.kind.as_deref(), Some("bridge"));
    assert_eq!(link(&netlink, "x").master, Some(bridge.index));
    netlink.clear_master("x").unwrap();
    assert_eq!(link(&netlink, "x").master, None);
}

#[test]
fn vxlan_unicast_over_both_families() {
    need_root!();
    let (a, _b) = cable();
    let netlink = a.netlink();
    let eth0 = link(&netlink, "eth0").index;
    let v4 = Vxlan {
        vni: Some(5001),
        local: Some([198, 18, 0, 1].into()),
        remote: Some([198, 18, 0, 2].into()),
        device: Some(eth0),
        ..VXLAN
    };
    netlink.add_vxlan("vx4", &v4).unwrap();
    let vx4 = a.ip_link("vx4");
    assert_eq!(vx4["linkinfo"]["info_kind"], "vxlan");
    let data = &vx4["linkinfo"]["info_data"];
    assert_eq!((&data["id"], &data["port"]), (&5001.into(), &4789.into()));
    assert_eq!(
        (&data["local"], &data["remote"]),
        (&"198.18.0.1".into(), &"198.18.0.2".into())
    );
    assert_eq!(
        (&data["link"], &data["learning"]),
        (&"eth0".into(), &false.into())
    );

    let v6 = Vxlan {
        vni: Some(5002),
        local: Some("2001:2::1".parse().unwrap()),
        remote: Some("2001:2::2".parse().unwrap()),
        port: 8472,
        learning: true,
        udp6_zero_csum: true,
        ..VXLAN
    };
    netlink.add_vxlan("vx6", &v6).unwrap();
    let data = &a.ip_link("vx6")["linkinfo"]["info_data"];
    assert_eq!((&data["id"], &data["port"]), (&5002.into(), &8472.into()));
    assert_eq!(
        (&data["local6"], &data["remote6"]),
        (&"2001:2::1".into(), &"2001:2::2".into())
    );
    assert_eq!(data["learning"], true);
    assert_eq!(data["udp_zero_csum6_tx"], true);
    assert_eq!(data["udp_zero_csum6_rx"], true);
    assert!(!link(&netlink, "vx4").peer_in_other_netns);
    assert_eq!(
        link(&netlink, "vx4").peer_index,
        None,
        "the device below is no peer"
    );
}

#[test]
fn a_tunnel_says_how_it_was_set() {
    need_root!();
    let (a, _b) = cable();
    let netlink = a.netlink();
    for (name, vni, udp_csum, learning) in [("on", 1, true, false), ("off", 2, false, true)] {
        let vxlan = Vxlan {
            vni: Some(vni),
            udp_csum,
            learning,
            ..VXLAN
        };
        netlink.add_vxlan(name, &vxlan).unwrap();
        let shown = &a.ip_link(name)["linkinfo"]["info_data"];
        assert_eq!(shown["udp_csum"], udp_csum);
        let link = link(&netlink, name);
        assert_eq!(link.udp_csum, Some(udp_csum));
        assert_eq!(link.udp6_zero_csum, Some(false));
        assert_eq!(link.learning, Some(learning));
        assert_eq!((link.tx_queues, link.rx_queues), (1, 1));
    }
    let eth0 = link(&netlink, "eth0");
    assert_eq!(eth0.qdisc, "noqueue");
    assert!(eth0.tx_queues > 0 && eth0.rx_queues > 0);
    assert_eq!((eth0.udp_csum, eth0.learning), (None, None));
}

#[test]
fn vxlan_external_and_its_fdb() {
    need_root!();
    let a = TestNetns::new();
    let netlink = a.netlink();
    netlink
        .add_vxlan(
            "ext",
            &Vxlan {
                external: true,
                ..VXLAN
            },
        )
        .unwrap();
    netlink.set_up("ext").unwrap();
    let data = &a.ip_link("ext")["linkinfo"]["info_data"];
    assert_eq!(
        (&data["external"], &data["port"]),
        (&true.into(), &4789.into())
    );
    let taken = netlink
        .add_vxlan(
            "two",
            &Vxlan {
                external: true,
                ..VXLAN
            },
        )
        .unwrap_err();
    assert!(taken.is_exists(), "{taken}");

    netlink
        .add_vxlan(
            "vx",
            &Vxlan {
                vni: Some(7),
                port: 8472,
                ..VXLAN
            },
        )
        .unwrap();
    let mac = [2, 0, 0, 0, 0, 9];
    netlink
        .add_bridge_fdb("vx", mac, [198, 18, 0, 2].into())
        .unwrap();
    for last in [2, 3] {
        netlink
            .add_bridge_fdb("vx", [0; 6], [198, 18, 0, last].into())
            .unwrap();
    }
    let again = netlink
        .add_bridge_fdb("vx", mac, [198, 18, 0, 3].into())
        .unwrap_err();
    assert!(again.is_exists(), "{again}");
    let fdb = a.output("bridge", &["fdb", "show", "dev", "vx"]);
    for line in [
        "02:00:00:00:00:09 dst 198.18.0.2",
        "00:00:00:00:00:00 dst 198.18.0.3",
    ] {
        assert!(fdb.contains(line), "{line}: {fdb}");
    }
    assert_eq!(fdb.matches("00:00:00:00:00:00").count(), 2, "{fdb}");
    // What it was given before it is up, it keeps.
    netlink.set_up("vx").unwrap();
    assert_eq!(a.output("bridge", &["fdb", "show", "dev", "vx"]), fdb);
}

#[test]
fn vxlan_port_held_by_a_socket_is_in_use() {
    need_root!();
    let a = TestNetns::new();
    let netlink = a.netlink();
    let _socket =
        a.0.run(|| std::net::UdpSocket::bind("[::]:4789").unwrap())
            .unwrap();
    netlink
        .add_vxlan(
            "ext",
            &Vxlan {
                external: true,
                ..VXLAN
            },
        )
        .unwrap();
    let error = netlink.set_up("ext").unwrap_err();
    assert!(error.is_in_use(), "{error}");
}

#[test]
fn errors_name_device_and_namespace() {
    need_root!();
    let a = TestNetns::new();
    let netlink = a.netlink();
    for error in [
        netlink.link("nope").unwrap_err(),
        netlink.set_up("nope").unwrap_err(),
        netlink.delete("nope").unwrap_err(),
        netlink
            .add_address("nope", [198, 18, 0, 1].into(), 24)
            .unwrap_err(),
        netlink
            .neighbour("nope", [198, 18, 0, 1].into())
            .unwrap_err(),
    ] {
        assert!(error.is_not_found() && !error.is_exists(), "{error}");
        assert_eq!(
            (error.device(), error.namespace()),
            (Some("nope"), Some(a.0.name()))
        );
        let text = error.to_string();
        assert!(text.contains("nope") && text.contains(a.0.name()), "{text}");
        assert!(text.contains("ENODEV"), "{text}");
    }
    netlink.add_veth("x", "y", None).unwrap();
    let error = netlink.add_bridge("x").unwrap_err();
    assert!(error.is_exists() && error.device() == Some("x"), "{error}");
    let error = netlink.set_mtu("x", 1 << 20).unwrap_err().to_string();
    assert!(
        error.contains("mtu greater than device maximum"),
        "the kernel's own words: {error}"
    );
    assert!(netlink.add_bridge("a name too long for it").is_err());
}

#[test]
fn a_device_moves_by_index_and_gets_the_one_that_is_chosen() {
    need_root!();
    let (a, b) = (TestNetns::new(), TestNetns::new());
    let (here, there) = (a.netlink(), b.netlink());
    for netlink in [&here, &there] {
        netlink.add_veth("port", "peer", None).unwrap();
    }
    let port = link(&here, "port");
    let taken = link(&there, "port").index;
    // Its name is taken there, and then the index.
    let moved = here.move_to((port.index, "port"), &b.0, None);
    assert!(moved.unwrap_err().is_exists());
    there.rename("port", "other").unwrap();
    let moved = here.move_to((port.index, "port"), &b.0, Some(taken));
    assert!(moved.unwrap_err().is_busy());
    here.move_to((port.index, "port"), &b.0, Some(1 << 29))
        .unwrap();
    assert!(here.link("port").unwrap_err().is_not_found());
    let moved = link(&there, "port");
    assert_eq!(
        (moved.index, moved.up, moved.mac),
        (1 << 29, false, port.mac)
    );
    there
        .move_to((moved.index, "port"), &a.0, Some(port.index))
        .unwrap();
    assert_eq!(link(&here, "port").index, port.index);
}
