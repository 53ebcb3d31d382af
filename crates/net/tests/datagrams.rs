//! Datagrams that are never fragmented, as the other end of a cable sees them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

mod common;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use common::{TestNetns, cable, link};
use overlane_net::{Instruction, PacketReader, datagram};

const PORT: u16 = 4789;

/// UDP over IPv4 or IPv6 without options, and of that the first 100 bytes.
const UDP: [Instruction; 8] = [
    step(0x28, 0, 0, 12),
    step(0x15, 0, 2, 0x0800),
    step(0x30, 0, 0, 14 + 9),
    step(0x15, 2, 3, 17),
    step(0x30, 0, 0, 14 + 6),
    step(0x15, 0, 1, 17),
    step(0x06, 0, 0, 100),
    step(0x06, 0, 0, 0),
];

const fn step(code: u16, when_true: u8, when_false: u8, k: u32) -> Instruction {
    Instruction {
        code,
        when_true,
        when_false,
        k,
    }
}

/// The first frame that comes.
fn next(reader: &PacketReader) -> Vec<u8> {
    let mut buffer = [0; 2048];
    for _ in 0..500 {
        if let Some(frame) = reader.receive(&mut buffer).unwrap() {
            return frame.to_vec();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no frame came");
}

fn exchange(a: &TestNetns, b: &TestNetns, from: IpAddr, to: IpAddr, len: usize) -> Vec<u8> {
    let there = link(&b.netlink(), "eth0");
    let reader =
        b.0.run(|| PacketReader::open(&there, &UDP))
            .unwrap()
            .unwrap();
    let socket = a.0.run(|| datagram::unfragmented(SocketAddr::new(from, 0)));
    let socket = socket.unwrap().unwrap();
    let to = SocketAddr::new(to, PORT);
    socket.send_to(&vec![7; len], to).unwrap();
    // One byte more than the device takes.
    let error = socket.send_to(&vec![7; len + 1], to).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(90), "{error}");
    next(&reader)
}

#[test]
fn a_datagram_is_as_long_as_the_device_takes_whatever_the_route_says() {
    need_root!();
    let (a, b) = cable();
    for (netns, v4, v6) in [(&a, [198, 18, 9, 1], 1), (&b, [198, 18, 9, 2], 2)] {
        let netlink = netns.netlink();
        netlink.add_address("eth0", v4.into(), 24).unwrap();
        let v6 = IpAddr::from([0x2001, 2, 9, 0, 0, 0, 0, v6]);
        let address = format!("{v6}/64");
        netns.output("ip", &["address", "add", &address, "dev", "eth0", "nodad"]);
    }
    // What the kernel believes of the path.
    for route in ["198.18.9.0/24", "2001:2:9::/64"] {
        a.output(
            "ip",
            &["route", "replace", route, "dev", "eth0", "mtu", "1400"],
        );
    }
    let frame = exchange(&a, &b, [198, 18, 9, 1].into(), [198, 18, 9, 2].into(), 1472);
    assert_eq!(frame.len(), 100);
    assert_eq!(frame[14 + 2..14 + 4], 1500_u16.to_be_bytes());
    assert_eq!(frame[14 + 6] & 0xe0, 0x40, "DF");
    assert_eq!(frame[14 + 20 + 6..14 + 28], [0, 0], "the checksum");

    let v6 = |last| IpAddr::from([0x2001, 2, 9, 0, 0, 0, 0, last]);
    let frame = exchange(&a, &b, v6(1), v6(2), 1452);
    assert_eq!(frame[14 + 4..14 + 6], 1460_u16.to_be_bytes());
    assert_eq!(frame[14 + 6], 17, "no fragment header");
    assert_eq!(frame[14 + 40 + 6..14 + 48], [0, 0], "the checksum");
}
