use super::*;

/// Two hosts with a tunnel, as the laboratory builds them; `polled`: the uplinks have rings.
fn devices(polled: bool) -> Vec<Device> {
    let device = |name: &str, part, other: Option<&str>| Device {
        place: name.split(' ').next().unwrap().to_owned(),
        name: name.to_owned(),
        part,
        other_end: other.map(str::to_owned),
        told_twice: false,
    };
    let cable_out = Part::CableOut { polled: false };
    vec![
        device("guest1 eth0", Part::CableIn, Some("host1 port0")),
        device("host1 port0", cable_out, None),
        device("host1 vxlan0", Part::Inner, None),
        device("host1 uplink", Part::CableIn, Some("host2 uplink")),
        device("host2 uplink", Part::CableOut { polled }, None),
        device("host2 vxlan0", Part::Inner, None),
        device("host2 port0", Part::CableIn, Some("guest2 eth0")),
        device("guest2 eth0", cable_out, None),
    ]
}

/// Counters from `(name, value)`: a device's `host1 uplink tx_dropped`, else a socket's `guest2 Udp NoPorts`.
fn counters(values: &[(&str, u64)]) -> Counters {
    let mut all = Counters::default();
    for (name, value) in values {
        let (place, rest) = name.split_once(' ').unwrap();
        let device = ["tx_dropped", "rx_dropped", "rx_errors", "tx_errors"]
            .into_iter()
            .find_map(|counter| Some((name.strip_suffix(counter)?.trim_end(), counter)));
        let Some((device, counter)) = device else {
            let sockets = all.sockets.entry(place.to_owned()).or_default();
            sockets.insert(rest.to_owned(), *value);
            continue;
        };
        let stats = all.devices.entry(device.to_owned()).or_default();
        let field = match counter {
            "tx_dropped" => &mut stats.tx_dropped,
            "rx_dropped" => &mut stats.rx_dropped,
            "rx_errors" => &mut stats.rx_errors,
            _ => &mut stats.tx_errors,
        };
        *field = *value;
    }
    all
}

fn ends(sent: u64, received: u64) -> Ends {
    let sender = message::Counters {
        sent_packets: sent,
        ..message::Counters::default()
    };
    let receiver = message::Counters {
        received_packets: received,
        ..message::Counters::default()
    };
    Ends {
        senders: vec![("guest1".to_owned(), sender)],
        receivers: vec![("guest2".to_owned(), receiver)],
    }
}

fn datagrams(ends: &Ends, polled: bool, after: &Counters) -> Accounting {
    let before = Counters::default();
    account(Kind::Datagrams, ends, &devices(polled), &before, after)
}

fn lost(accounting: &Accounting) -> Vec<(&str, u64)> {
    let lost = accounting.lost.iter();
    lost.map(|(name, count)| (name.as_str(), *count)).collect()
}

#[test]
fn nothing_lost_is_nothing_named() {
    let accounting = datagrams(&ends(1000, 1000), false, &Counters::default());
    assert_eq!((lost(&accounting), accounting.unexplained), (vec![], 0));
    let hidden = datagrams(&ends(1000, 990), false, &Counters::default());
    assert_eq!(hidden.unexplained, 10);
    let twice = datagrams(&ends(1000, 1003), false, &Counters::default());
    assert_eq!(twice.unexplained, -3);
}

/// As measured with Linux 6.18: 148032 sent, 11309 and 6028 found a queue full, on a tunnel without rings.
#[test]
fn a_full_queue_behind_an_ordinary_cable_is_counted_once() {
    let mut after = counters(&[
        ("host1 uplink tx_dropped", 11309),
        ("host1 vxlan0 tx_dropped", 11309),
        ("host2 uplink rx_dropped", 11309),
        ("host2 port0 tx_dropped", 6028),
        ("guest2 eth0 rx_dropped", 6028),
        ("guest2 Udp InErrors", 1417),
        ("guest2 Udp RcvbufErrors", 1417),
    ]);
    after.softnet = [(1, 17337)].into();
    let accounting = datagrams(&ends(148_032, 129_278), false, &after);
    let expected = vec![
        ("guest2 Udp RcvbufErrors", 1417),
        ("host1 uplink tx_dropped", 11309),
        ("host2 port0 tx_dropped", 6028),
    ];
    assert_eq!(lost(&accounting), expected);
    assert_eq!(accounting.unexplained, 0);
}

/// As measured: the wire segments, so that the uplinks take packets through rings.
#[test]
fn behind_a_ring_the_sending_end_is_not_told() {
    let mut after = counters(&[
        ("host1 uplink tx_dropped", 5),
        ("host1 vxlan0 tx_dropped", 5),
        ("host2 uplink rx_dropped", 346),
        ("host2 port0 tx_dropped", 724),
        ("guest2 eth0 rx_dropped", 724),
    ]);
    after.softnet = [(0, 0), (1, 1070)].into();
    let accounting = datagrams(&ends(87_045, 85_970), true, &after);
    let expected = vec![
        ("host1 uplink tx_dropped", 5),
        ("host2 port0 tx_dropped", 724),
        ("host2 uplink rx_dropped", 346),
    ];
    assert_eq!(lost(&accounting), expected);
    assert_eq!(accounting.unexplained, 0);
}

/// As measured: 72000 sent, 71783 received. Older kernels count the second time as an error.
#[test]
fn what_a_redirect_counts_again_is_one_loss() {
    let mut devices = devices(false);
    devices[3].told_twice = true;
    for again in ["host1 uplink tx_dropped", "host1 uplink tx_errors"] {
        let mut after = counters(&[("host1 uplink tx_dropped", 217), (again, 217)]);
        let uplink = after.devices.get_mut("host1 uplink").unwrap();
        uplink.tx_dropped = 434 - uplink.tx_errors;
        let behind = counters(&[("host2 uplink rx_dropped", 217)]);
        after.devices.extend(behind.devices);
        after.softnet = [(1, 217)].into();
        let (before, ends) = (Counters::default(), ends(72_000, 71_783));
        let accounting = account(Kind::Frames, &ends, &devices, &before, &after);
        assert_eq!(lost(&accounting), [("host1 uplink tx_dropped", 217)]);
        assert_eq!(accounting.unexplained, 0);
    }
}

#[test]
fn a_tunnels_own_losses_and_the_backends_are_named() {
    let mut after = counters(&[
        ("host1 uplink tx_dropped", 5),
        ("host1 vxlan0 tx_dropped", 8),
        ("host1 vxlan0 tx_errors", 2),
        ("host2 vxlan0 rx_dropped", 4),
        ("host2 uplink rx_dropped", 5),
    ]);
    after.softnet = [(1, 5)].into();
    after.backend = [("host1 overlane unknown_vni".to_owned(), 7)].into();
    let accounting = datagrams(&ends(100, 79), false, &after);
    let expected = vec![
        ("host1 overlane unknown_vni", 7),
        ("host1 uplink tx_dropped", 5),
        ("host1 vxlan0 tx_dropped", 3),
        ("host1 vxlan0 tx_errors", 2),
        ("host2 vxlan0 rx_dropped", 4),
    ];
    assert_eq!(lost(&accounting), expected);
    assert_eq!(accounting.unexplained, 0);
}

/// As measured: 73152 sent through a tunnel over IPv6, 72658 received.
#[test]
fn a_tunnel_over_ipv6_counts_its_cables_losses_as_errors() {
    let mut after = counters(&[
        ("host1 uplink tx_dropped", 120),
        ("host1 vxlan0 tx_errors", 120),
        ("host2 uplink rx_dropped", 120),
        ("host2 port0 tx_dropped", 186),
        ("guest2 eth0 rx_dropped", 186),
        ("host2 vxlan0 rx_dropped", 188),
    ]);
    after.softnet = [(1, 306)].into();
    let accounting = datagrams(&ends(73_152, 72_658), false, &after);
    assert_eq!(accounting.unexplained, 0);
    assert_eq!(accounting.lost.get("host1 vxlan0 tx_errors"), None);
}

#[test]
fn a_queue_that_no_device_shows_is_named_by_its_cpu() {
    let mut after = counters(&[("host2 uplink rx_dropped", 5)]);
    after.softnet = [(0, 2), (1, 9)].into();
    let accounting = datagrams(&ends(20, 9), false, &after);
    let expected = vec![("cpu1 softnet dropped", 6), ("host2 uplink rx_dropped", 5)];
    assert_eq!(lost(&accounting), expected);
    // Other packets than the sample's find queues full too.
    let accounting = datagrams(&ends(20, 13), false, &after);
    let expected = vec![("cpu1 softnet dropped", 2), ("host2 uplink rx_dropped", 5)];
    assert_eq!((lost(&accounting), accounting.unexplained), (expected, 0));
}

#[test]
fn what_the_sender_was_told_of_is_refused_and_not_lost() {
    let mut after = counters(&[
        ("guest1 eth0 tx_dropped", 50),
        ("host1 port0 rx_dropped", 50),
        ("guest1 Ip OutDiscards", 53),
        ("guest1 Udp SndbufErrors", 50),
    ]);
    after.softnet = [(0, 50)].into();
    let accounting = datagrams(&ends(1000, 947), false, &after);
    let expected = vec![("guest1 Ip OutDiscards", 3), ("guest1 eth0 tx_dropped", 50)];
    assert_eq!((lost(&accounting), accounting.unexplained), (expected, 0));
    // A socket that asked to be told, of 48 of them.
    let mut asked = ends(952, 947);
    asked.senders[0].1.refused_packets = 48;
    let accounting = datagrams(&asked, false, &after);
    let expected = vec![("guest1 Ip OutDiscards", 3), ("guest1 eth0 tx_dropped", 2)];
    assert_eq!((lost(&accounting), accounting.unexplained), (expected, 0));
    let mut frames = ends(947, 940);
    frames.senders[0].1.refused_packets = 50;
    frames.receivers[0].1.receiver_dropped_packets = 7;
    let before = Counters::default();
    let accounting = account(Kind::Frames, &frames, &devices(false), &before, &after);
    assert_eq!(lost(&accounting), [("guest2 packet socket full", 7)]);
    assert_eq!((accounting.unexplained, accounting.refused), (0, 50));
}

/// A counter saw a super-packet or one of its segments: it explains some datagrams, and no more than there can be in it.
#[test]
fn a_counter_explains_the_datagrams_of_its_super_packets() {
    let after = counters(&[("host2 port0 tx_dropped", 2), ("guest2 Udp NoPorts", 1)]);
    let of = |received| {
        let (kind, before) = (Kind::SuperPackets { datagrams: 40 }, Counters::default());
        account(
            kind,
            &ends(4000, received),
            &devices(false),
            &before,
            &after,
        )
    };
    let whole = of(4000 - 3 * 40);
    let seen = [("guest2 Udp NoPorts", 1), ("host2 port0 tx_dropped", 2)];
    let together = (SAME_SUPER_PACKETS, 3 * 39);
    assert_eq!(lost(&whole), [&[together], &seen[..]].concat());
    assert_eq!(whole.unexplained, 0);
    let segments = of(3997);
    assert_eq!((&lost(&segments)[..], segments.unexplained), (&seen[..], 0));
    assert_eq!(of(4000 - 3 * 40 - 7).unexplained, 7);
    assert_eq!(of(3999).unexplained, -2);
    // Nobody counted anything: nothing is explained.
    let (kind, none) = (Kind::SuperPackets { datagrams: 40 }, Counters::default());
    let hidden = account(kind, &ends(4000, 3960), &devices(false), &none, &none);
    assert_eq!((lost(&hidden), hidden.unexplained), (vec![], 40));
}

#[test]
fn guests_kernels_name_their_reasons_once() {
    let after = counters(&[
        ("guest2 Udp InErrors", 12),
        ("guest2 Udp RcvbufErrors", 8),
        ("guest2 Udp InCsumErrors", 1),
        ("guest2 Udp6InErrors", 4),
        ("guest2 Udp6RcvbufErrors", 4),
        ("guest2 Udp NoPorts", 2),
        ("guest2 Ip InDiscards", 1),
        ("guest1 Udp NoPorts", 99),
    ]);
    let accounting = datagrams(&ends(119, 100), false, &after);
    assert_eq!(accounting.lost.get("guest2 Udp InErrors"), Some(&3));
    assert_eq!(accounting.unexplained, 0);
    // Raw frames reach their program whatever the guest's IP makes of them.
    let before = Counters::default();
    let frames = ends(100, 100);
    let accounting = account(Kind::Frames, &frames, &devices(false), &before, &after);
    assert_eq!((lost(&accounting), accounting.unexplained), (vec![], 0));
}

#[test]
fn only_what_rose_counts_and_pacing_tells_what_was_not_sent() {
    let before = counters(&[("host1 uplink tx_dropped", 1000)]);
    let after = counters(&[("host1 uplink tx_dropped", 1003)]);
    let mut ends = ends(90, 87);
    ends.senders[0].1.due_packets = 100;
    ends.senders[0].1.refused_packets = 4;
    ends.receivers[0].1.reordered_packets = 2;
    ends.receivers[0].1.duplicate_packets = 1;
    ends.receivers[0].1.corrupt_packets = 5;
    let accounting = account(Kind::Datagrams, &ends, &devices(false), &before, &after);
    assert_eq!(lost(&accounting), [("host1 uplink tx_dropped", 3)]);
    assert_eq!(accounting.unexplained, 0);
    assert_eq!((accounting.refused, accounting.not_sent), (4, 6));
    assert_eq!((accounting.reordered, accounting.duplicates), (2, 1));
    assert_eq!(accounting.corrupt, 5);
}
