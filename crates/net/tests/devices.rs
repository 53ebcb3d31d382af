//! Device settings outside netlink: features, receive CPUs, parameters, TAP devices.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

mod common;

use std::io::{Read, Write};
use std::path::Path;

use common::{TestNetns, cable, link};
use overlane_net::ethtool::{self, Pause};
use overlane_net::tap::Tap;
use overlane_net::{NetError, Rejection, sysctl, sysfs};

/// The value of one feature, as `ethtool -k` prints it.
fn by_ethtool(netns: &TestNetns, feature: &str) -> bool {
    let text = netns.output("ethtool", &["-k", "eth0"]);
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(feature)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("{feature} in {text}"))
        .starts_with("on")
}

#[test]
fn features_are_those_of_ethtool() {
    need_root!();
    let (a, _b) = cable();
    let features = a.0.run(|| ethtool::features("eth0")).unwrap().unwrap();
    assert!(features.len() > 30 && features["tx-tcp-segmentation"]);
    let text = a.output("ethtool", &["-k", "eth0"]);
    let mut compared = 0;
    for (name, value) in text.lines().filter_map(|line| line.trim().split_once(": ")) {
        // The names of groups are ethtool's own.
        if let Some(ours) = features.get(name) {
            assert_eq!(*ours, value.starts_with("on"), "{name}");
            compared += 1;
        }
    }
    assert!(compared > 30, "{compared} compared");
}

#[test]
fn features_take_and_are_read_back() {
    need_root!();
    let (a, _b) = cable();
    let set = |wanted: &[(&str, bool)]| a.0.run(|| ethtool::set_features("eth0", wanted)).unwrap();
    set(&[
        ("tso", false),
        ("tx-udp-segmentation", false),
        ("gro", true),
    ])
    .unwrap();
    assert!(!by_ethtool(&a, "tcp-segmentation-offload"));
    assert!(!by_ethtool(&a, "tx-tcp6-segmentation"));
    assert!(!by_ethtool(&a, "tx-udp-segmentation"));
    assert!(by_ethtool(&a, "generic-receive-offload"));
    set(&[("tso", true), ("gro", false)]).unwrap();
    assert!(by_ethtool(&a, "tcp-segmentation-offload"));
    assert!(!by_ethtool(&a, "generic-receive-offload"));

    let error = set(&[
        ("warp-drive", true),
        ("tx-lockless", false),
        ("rx-lro", false),
    ])
    .unwrap_err();
    let NetError::Features { place, rejected } = &error else {
        panic!("{error}")
    };
    assert_eq!(place.device.as_deref(), Some("eth0"));
    assert_eq!(place.namespace, a.0.name());
    let reasons: Vec<_> = rejected
        .iter()
        .map(|one| (one.name.as_str(), one.reason))
        .collect();
    let unknown = ("warp-drive", Rejection::Unknown);
    assert!(reasons.contains(&unknown), "{error}");
    assert!(
        reasons.iter().all(|(name, _)| *name != "rx-lro"),
        "already off: {error}"
    );
}

#[test]
fn a_feature_that_another_switches_off_is_named() {
    need_root!();
    let (a, _b) = cable();
    // TSO cannot be without checksum offload.
    let wanted = [("tx", false), ("tx-tcp-segmentation", true)];
    let error =
        a.0.run(|| ethtool::set_features("eth0", &wanted))
            .unwrap()
            .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("tx-tcp-segmentation on (overridden"),
        "{error}"
    );
}

#[test]
fn driver_and_pause() {
    need_root!();
    let (a, _b) = cable();
    let driver = a.0.run(|| ethtool::driver("eth0")).unwrap().unwrap();
    assert_eq!(driver.name, "veth");
    match a.0.run(|| ethtool::pause("eth0")).unwrap() {
        Ok(pause) => assert_eq!(
            pause,
            Pause {
                autoneg: false,
                rx: false,
                tx: false
            }
        ),
        Err(error) => assert!(error.is_unsupported(), "{error}"),
    }
    let error = a.0.run(|| ethtool::driver("nope")).unwrap().unwrap_err();
    assert!(
        error.is_not_found() && error.device() == Some("nope"),
        "{error}"
    );
    assert_eq!(error.namespace(), Some(a.0.name()));
}

#[test]
fn receive_cpus_take_and_the_machine_sees_nothing_of_it() {
    need_root!();
    let (a, _b) = cable();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(sysfs::rps(&a.0, "eth0").unwrap()[0].is_empty());
    sysfs::set_rps(&a.0, "eth0", &[0]).unwrap();
    assert!(
        sysfs::rps(&a.0, "eth0")
            .unwrap()
            .iter()
            .all(|queue| queue == &[0])
    );
    // `ip netns exec` mounts a sysfs of the namespace: an independent witness.
    let path = "/sys/class/net/eth0/queues/rx-0/rps_cpus";
    let args = ["netns", "exec", a.0.name(), "cat", path];
    assert!(common::host_output("ip", &args).trim().ends_with('1'));
    sysfs::set_rps(&a.0, "eth0", &[]).unwrap();
    assert!(sysfs::rps(&a.0, "eth0").unwrap()[0].is_empty());

    let sysfs_mounts = |text: &str| text.matches(" - sysfs ").count();
    let after = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert_eq!(sysfs_mounts(&after), sysfs_mounts(&mounts));
    let error = sysfs::set_rps(&a.0, "nope", &[0]).unwrap_err();
    assert!(
        error.is_not_found() && error.namespace() == Some(a.0.name()),
        "{error}"
    );
}

#[test]
fn parameters_belong_to_the_namespace() {
    need_root!();
    let (a, b) = (TestNetns::new(), TestNetns::new());
    let key = "net.ipv6.conf.all.disable_ipv6";
    let here = || std::fs::read_to_string("/proc/sys/net/ipv6/conf/all/disable_ipv6").unwrap();
    let before = here();
    sysctl::set(&a.0, key, "1").unwrap();
    sysctl::set(&b.0, key, "0").unwrap();
    assert_eq!(sysctl::get(&a.0, key).unwrap(), "1");
    assert_eq!(sysctl::get(&b.0, key).unwrap(), "0");
    assert_eq!(a.output("sysctl", &["-n", key]).trim(), "1");
    assert_eq!(here(), before, "this namespace is untouched");
    let error = sysctl::set(&a.0, "net.ipv4.no_such_thing", "1").unwrap_err();
    assert!(
        error.is_not_found() && error.namespace() == Some(a.0.name()),
        "{error}"
    );
    assert!(
        sysctl::set(&a.0, "kernel.panic", "0").is_err(),
        "not the namespace's"
    );
}

#[test]
fn tap_with_queues_is_what_vhost_has() {
    need_root!();
    let a = TestNetns::new();
    let taps = a.0.run(|| Tap::create_queues("tap0", 3)).unwrap().unwrap();
    assert_eq!(taps.len(), 3);
    assert!(taps.iter().all(|tap| tap.vnet_header_len() == 12));
    let data = a.ip_link("tap0")["linkinfo"]["info_data"].clone();
    assert_eq!(data["multi_queue"], true, "{data}");
    assert_eq!(data["numqueues"], 3, "{data}");
    let features = a.0.run(|| ethtool::features("tap0")).unwrap().unwrap();
    for name in [
        "tx-tcp-segmentation",
        "tx-tcp6-segmentation",
        "tx-checksum-ip-generic",
    ] {
        assert!(features[name], "{name}");
    }
    let again = a.0.run(|| Tap::create_queues("tap0", 1)).unwrap();
    assert!(again.unwrap_err().is_exists());
    drop(taps);
    assert_goes(&a, "tap0");
}

#[test]
fn tap_carries_frames_both_ways() {
    need_root!();
    let a = TestNetns::new();
    let netlink = a.netlink();
    for vnet_hdr in [false, true] {
        let tap = a.0.run(|| Tap::create("tap0", vnet_hdr)).unwrap().unwrap();
        let header = tap.vnet_header_len();
        assert_eq!(header, if vnet_hdr { 12 } else { 0 });
        let shown = a.ip_link("tap0");
        assert_eq!(shown["linkinfo"]["info_data"]["type"], "tap");
        assert_eq!(shown["linkinfo"]["info_data"]["vnet_hdr"], vnet_hdr);
        let tso = a.0.run(|| ethtool::features("tap0")).unwrap().unwrap()["tx-tcp-segmentation"];
        assert_eq!(tso, vnet_hdr, "offload only to a reader that knows headers");

        netlink.set_addr_gen_none("tap0").unwrap();
        netlink.set_up("tap0").unwrap();
        netlink
            .add_address("tap0", [198, 18, 0, 1].into(), 24)
            .unwrap();
        netlink
            .add_neighbour("tap0", [198, 18, 0, 2].into(), [2, 0, 0, 0, 0, 2])
            .unwrap();
        let socket =
            a.0.run(|| std::net::UdpSocket::bind("198.18.0.1:0").unwrap())
                .unwrap();
        socket.send_to(b"out", "198.18.0.2:9").unwrap();
        let mut frame = [0; 2048];
        let length = (&tap).read(&mut frame).unwrap();
        assert_eq!(length, header + 14 + 20 + 8 + 3);
        assert_eq!(&frame[header..header + 6], [2, 0, 0, 0, 0, 2]);
        assert_eq!(&frame[length - 3..length], b"out");

        let mut incoming = vec![0; header + 64];
        incoming[header..header + 6].copy_from_slice(&link(&netlink, "tap0").mac);
        let before = link(&netlink, "tap0").stats.rx_packets;
        assert_eq!((&tap).write(&incoming).unwrap(), incoming.len());
        assert_eq!(link(&netlink, "tap0").stats.rx_packets, before + 1);
        drop(tap);
        assert_goes(&a, "tap0");
    }
}

#[test]
fn tap_can_persist_and_is_created_once() {
    need_root!();
    let a = TestNetns::new();
    let inside = |task: fn() -> Result<Tap, NetError>| a.0.run(task).unwrap();
    let missing = inside(|| Tap::attach("tap0", true)).unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
    let tap = inside(|| Tap::create("tap0", true)).unwrap();
    tap.set_persist(true).unwrap();
    tap.set_offload(false).unwrap();
    let exists = inside(|| Tap::create("tap0", true)).unwrap_err();
    assert!(
        exists.is_exists() && exists.device() == Some("tap0"),
        "{exists}"
    );
    assert_eq!(exists.namespace(), Some(a.0.name()));
    drop(tap);
    let tap = eventually(|| inside(|| Tap::attach("tap0", true)).ok()).unwrap();
    tap.set_persist(false).unwrap();
    drop(tap);
    assert_goes(&a, "tap0");
    assert!(Path::new("/dev/net/tun").exists());
}

/// A TAP goes with the last descriptor of its file.
#[track_caller]
fn assert_goes(netns: &TestNetns, device: &str) {
    let gone = eventually(|| match netns.netlink().link(device) {
        Ok(_) => None,
        Err(error) => Some(error.is_not_found()),
    });
    assert_eq!(gone, Some(true), "{device} goes with its file");
}

/// Tries for ten seconds at most.
///
/// A child that another test has just forked holds every descriptor until it executes its program.
fn eventually<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    (0..1000).find_map(|_| {
        attempt().or_else(|| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            None
        })
    })
}
