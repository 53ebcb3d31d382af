//! Both sides of raw-frame jobs, over loopback in a network namespace of the test's own.

use std::io::{Read, Write as _};
use std::process::Command;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};

use crate::job::prepare;
use crate::message::{Counters, Lane, Role, Work};
use crate::sequence::Header;

use super::template::Template;

fn lane(vlans: &[u16], source: &str, destination: &str) -> Lane {
    Lane {
        device: "lo".into(),
        vlans: vlans.to_vec(),
        source_mac: "02:00:00:00:00:01".into(),
        destination_mac: "02:00:00:00:00:02".into(),
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
    }
}

fn ipv4(vlans: &[u16]) -> Lane {
    lane(vlans, "198.18.0.1", "198.18.0.2")
}

fn ipv6(vlans: &[u16]) -> Lane {
    lane(vlans, "2001:2::1", "2001:2::2")
}

fn frames(frame_bytes: u32, rate_pps: Option<f64>) -> Work {
    Work::Frames {
        frame_bytes,
        rate_pps,
    }
}

fn serve() -> Role {
    Role::ServeFrames {
        devices: vec!["lo".into()],
    }
}

/// Whether the test may go on: in a namespace that ends with its thread.
fn in_own_namespace() -> bool {
    if unshare(CloneFlags::CLONE_NEWNET) == Err(Errno::EPERM) {
        // Past the capture of the test harness: a skipped test must be seen.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED frames: packet sockets and network namespaces need root"
        );
        return false;
    }
    let up = Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status();
    assert!(up.unwrap().success());
    true
}

/// Sends some frames; the last counters of both sides, and how many latencies the server measured.
fn exchange(instances: u32, work: &Work, lanes: Vec<Lane>) -> ([Counters; 2], Option<u64>) {
    let mut server = prepare(1, work, &serve()).unwrap();
    assert!(server.ports().is_empty());
    let mut driver = prepare(instances, work, &Role::DriveFrames { lanes }).unwrap();
    driver.go().unwrap();
    while driver.counters().sent_packets < 1000 {
        assert_eq!((driver.failure(), server.failure()), (None, None));
        thread::sleep(Duration::from_millis(1));
    }
    driver.stop();
    server.stop();
    let latencies = server.take_latencies().map(|histogram| histogram.count());
    ([driver.counters(), server.counters()], latencies)
}

#[test]
fn every_frame_that_was_sent_came_or_was_counted_as_dropped() {
    if !in_own_namespace() {
        return;
    }
    for (frame_bytes, payload_bytes, lanes) in [
        (64, 18, vec![ipv4(&[])]),
        (1518, 1472, vec![ipv4(&[1, 2, 4094]), ipv4(&[])]),
        (82, 16, vec![ipv6(&[])]),
        (9018, 8952, vec![ipv6(&[7])]),
    ] {
        let ([sent, came], latencies) = exchange(3, &frames(frame_bytes, None), lanes);
        let counted = came.received_packets + came.receiver_dropped_packets;
        assert_eq!(sent.sent_packets, counted, "{frame_bytes}");
        assert_eq!(sent.sent_bytes, sent.sent_packets * payload_bytes);
        assert_eq!(came.received_bytes, came.received_packets * payload_bytes);
        assert_eq!((came.duplicate_packets, came.reordered_packets), (0, 0));
        assert_eq!(latencies, None);
    }
}

#[test]
fn paced_frames_are_timed_and_frames_of_another_length_are_foreign() {
    if !in_own_namespace() {
        return;
    }
    let ([sent, came], latencies) = exchange(2, &frames(100, Some(5000.0)), vec![ipv4(&[])]);
    assert!(sent.due_packets >= sent.sent_packets);
    assert_eq!(latencies, Some(came.received_packets));

    let mut server = prepare(1, &frames(100, None), &serve()).unwrap();
    let role = Role::DriveFrames {
        lanes: vec![ipv4(&[])],
    };
    let mut driver = prepare(1, &frames(101, Some(1000.0)), &role).unwrap();
    driver.go().unwrap();
    while server.counters().foreign_packets < 10 {
        thread::sleep(Duration::from_millis(1));
    }
    driver.stop();
    server.stop();
    assert_eq!(server.counters().received_packets, 0);
}

#[test]
fn frames_too_long_for_the_device_fail_the_job() {
    if !in_own_namespace() {
        return;
    }
    let set = Command::new("ip")
        .args(["link", "set", "lo", "mtu", "1500"])
        .status();
    assert!(set.unwrap().success());
    let role = Role::DriveFrames {
        lanes: vec![ipv4(&[])],
    };
    let mut driver = prepare(1, &frames(1519, None), &role).unwrap();
    driver.go().unwrap();
    while driver.failure().is_none() {
        thread::sleep(Duration::from_millis(1));
    }
    let reason = driver.failure().unwrap();
    assert!(
        reason.contains("send a frame") && reason.contains("lo"),
        "{reason}"
    );
    assert_eq!(driver.counters().sent_packets, 0);
}

#[test]
fn orders_that_make_no_sense_are_refused() {
    let drive = |lanes| Role::DriveFrames { lanes };
    let mut bad_mac = ipv4(&[]);
    bad_mac.source_mac = "02:00:00:00:00".into();
    let mut worse_mac = ipv4(&[]);
    worse_mac.destination_mac = "02:00:00:00:00:+1".into();
    let mut other_family = ipv4(&[]);
    other_family.destination = "2001:2::2".parse().unwrap();
    let mut no_device = ipv4(&[]);
    no_device.device = "not-there".into();
    let tags: Vec<u16> = (0..300).collect();
    for (instances, bytes, role, word) in [
        (1, 63, drive(vec![ipv4(&[])]), "frame_bytes"),
        (1, 81, drive(vec![ipv6(&[])]), "frame_bytes"),
        (1, 65554, drive(vec![ipv4(&[])]), "frame_bytes"),
        (1, 64, drive(vec![]), "lanes"),
        (1, 64, drive(vec![ipv4(&[4095])]), "vlans"),
        (1, 64, drive(vec![bad_mac]), "source_mac"),
        (1, 64, drive(vec![worse_mac]), "destination_mac"),
        (1, 64, drive(vec![other_family]), "same family"),
        (1, 64, drive(vec![no_device]), "not-there"),
        (256, 64, drive(vec![ipv4(&tags)]), "65536 streams"),
        (1, 64, Role::ServeFrames { devices: vec![] }, "devices"),
        (1, 63, serve(), "frame_bytes"),
    ] {
        let Err(error) = prepare(instances, &frames(bytes, None), &role) else {
            panic!("{role:?}");
        };
        assert!(error.to_string().contains(word), "{error}");
    }
}

/// The one's complement sum over 16-bit words, as RFC 1071 has it.
fn sum(bytes: &[u8]) -> u16 {
    let mut sum = bytes.chunks(2).fold(0_u32, |sum, word| {
        sum + u32::from(word[0]) * 256 + u32::from(word.get(1).copied().unwrap_or(0))
    });
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn frame(lane: &Lane, vlan: Option<u16>, frame_bytes: u32) -> Vec<u8> {
    let template = Template::new(lane, vlan, 5, frame_bytes).unwrap();
    let mut frame = template.bytes().to_vec();
    let header = Header {
        stream: 5,
        number: 0x0102_0304,
        intended_ns: u64::MAX - 77,
    };
    template.number(&mut frame, header);
    let at = frame.len() - template.payload_bytes();
    assert_eq!(Header::read(&frame[at..]), Some(header));
    frame
}

#[test]
fn headers_and_checksums_are_right() {
    let plain = frame(&ipv4(&[]), None, 64);
    assert_eq!(plain.len(), 60);
    assert_eq!(plain[..6], [2, 0, 0, 0, 0, 2]);
    assert_eq!(plain[6..12], [2, 0, 0, 0, 0, 1]);
    assert_eq!(plain[12..14], [0x08, 0x00]);
    assert_eq!(plain[16..18], 46_u16.to_be_bytes());
    assert_eq!(sum(&plain[14..34]), 0xffff);
    assert_eq!(plain[34..42], [0x04, 0x05, 0, 9, 0, 26, 0, 0]);

    let tagged = frame(&ipv4(&[]), Some(0x123), 64);
    assert_eq!(tagged[12..18], [0x81, 0x00, 0x01, 0x23, 0x08, 0x00]);
    assert_eq!(tagged[18..], plain[14..]);

    for frame_bytes in [82, 83, 1518] {
        let ipv6 = frame(&ipv6(&[]), None, frame_bytes);
        let udp_bytes = frame_bytes as u16 - 4 - 54;
        assert_eq!(ipv6[18..20], udp_bytes.to_be_bytes());
        let mut pseudo = ipv6[22..54].to_vec();
        pseudo.extend(u32::from(udp_bytes).to_be_bytes());
        pseudo.extend([0, 0, 0, 17]);
        pseudo.extend(&ipv6[54..]);
        assert_eq!(sum(&pseudo), 0xffff);
    }
}

/// The kernel runs the filter program for a socket of its own as it does for a packet socket.
#[test]
fn the_filter_keeps_numbered_headers_only() {
    use std::os::unix::net::UnixDatagram;
    let (sender, mut kept) = {
        let (sender, receiver) = UnixDatagram::pair().unwrap();
        crate::sys::set_filter(&receiver, &super::filter::program()).unwrap();
        receiver.set_nonblocking(true).unwrap();
        (
            sender,
            std::fs::File::from(std::os::fd::OwnedFd::from(receiver)),
        )
    };
    let mut passes = |frame: &[u8]| {
        let mut bytes = [0; 4096];
        let _ = sender.send(frame);
        kept.read(&mut bytes).ok()
    };
    let (small, large) = (frame(&ipv4(&[]), None, 64), frame(&ipv6(&[]), None, 1518));
    assert_eq!(passes(&small), Some(60));
    assert_eq!(passes(&large), Some(78));
    for at in [12, 14, 20, 23, 37, 42, 43] {
        let mut other = small.clone();
        other[at] ^= 1;
        assert_eq!(passes(&other), None, "IPv4, byte {at}");
    }
    for at in [13, 20, 57, 62, 63] {
        let mut other = large.clone();
        other[at] ^= 1;
        assert_eq!(passes(&other), None, "IPv6, byte {at}");
    }
    assert_eq!(passes(&small[..43]), None);
}
