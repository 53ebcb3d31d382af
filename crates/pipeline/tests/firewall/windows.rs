//! The windows of a TCP connection, at their edges.

use overlane_model::Verdict::*;

use crate::wall::*;

/// Established; sequence numbers of both ends begin anywhere.
fn open(local: u32, peer: u32, window: u16, scale: Option<u8>) -> Wall {
    let mut wall = Wall::new(OUTBOUND, vec![]);
    let (l0, p0) = (local.wrapping_sub(1), peer.wrapping_sub(1));
    let all = [
        (Local, segment(SYN, l0, 0)),
        (Peer, segment(SYN | ACK, p0, local)),
        (Local, segment(ACK, local, peer)),
    ];
    for (from, tcp) in all {
        let scale = scale.filter(|_| tcp.flags & SYN != 0);
        let tcp = Tcp { scale, ..tcp }.window(window);
        assert_eq!(wall.tcp(from, tcp), ToPort);
    }
    wall
}

#[test]
fn the_edges_of_the_window() {
    for (local, peer) in [(100, 500), (0, 0), (u32::MAX - 300, 1 << 31), (1, u32::MAX)] {
        let at = |offset: i32| local.wrapping_add_signed(offset);
        let mut wall = open(local, peer, 1000, None);
        let mut passes = |sequence, ack, len| {
            let state = wall.state.clone();
            let verdict = wall.tcp(Local, segment(ACK, sequence, ack).len(len));
            let unchanged = wall.state == state;
            wall.state = state;
            assert!(verdict == ToPort || (verdict == OutOfWindow && unchanged));
            verdict == ToPort
        };
        // From the oldest that can be sent again to the newest that is allowed.
        assert!(passes(at(0), peer, 1000));
        assert!(passes(at(1000), peer, 1));
        assert!(!passes(at(1001), peer, 1));
        assert!(passes(at(-1000), peer, 0));
        assert!(!passes(at(-1001), peer, 0));
        assert!(passes(at(-1001), peer, 1));
        // Nothing is acknowledged that was not sent.
        assert!(!passes(at(0), peer.wrapping_add(1), 0));
        assert!(passes(at(0), peer.wrapping_sub(66_000), 0));
        assert!(!passes(at(0), peer.wrapping_sub(66_001), 0));
    }
}

#[test]
fn a_window_is_scaled_if_both_say_so() {
    let mut wall = open(100, 500, 1000, Some(3));
    // The SYN's own windows are not: of the peer's 1000, so far.
    assert_eq!(wall.tcp(Local, segment(ACK, 1101, 500).len(1)), OutOfWindow);
    assert_eq!(wall.tcp(Peer, segment(ACK, 500, 100)), ToPort);
    assert_eq!(wall.tcp(Local, segment(ACK, 8100, 500).len(1)), ToPort);
    assert_eq!(wall.tcp(Local, segment(ACK, 8102, 500).len(1)), OutOfWindow);
    let (_, connection) = wall.connection();
    assert_eq!(
        (connection.local.scale, connection.peer.scale),
        (Some(3), Some(3))
    );
    assert_eq!(connection.peer.max_window, 8000);
    // One end alone: both count plain.
    let mut wall = Wall::new(OUTBOUND, vec![]);
    assert_eq!(wall.tcp(Local, segment(SYN, 99, 0).scale(3)), ToPort);
    assert_eq!(wall.tcp(Peer, segment(SYN | ACK, 499, 100)), ToPort);
    assert_eq!(wall.tcp(Local, segment(ACK, 100, 500)), ToPort);
    assert_eq!(wall.connection().1.local.max_window, 1000);
    assert_eq!(wall.connection().1.peer.max_end, 1500);
}

#[test]
fn options_are_walked_to_the_end() {
    let scale = |options: &[u8]| {
        let mut wall = Wall::new(OPEN, vec![]);
        let mut bytes = segment(SYN, 1, 0).len(options.len()).bytes(Local);
        bytes[46] = (5 + options.len() as u8 / 4) << 4;
        bytes[54..].copy_from_slice(options);
        assert_eq!(wall.run(Local, bytes).verdict, ToPort);
        wall.connection().1.local.scale
    };
    assert_eq!(scale(&[2, 4, 5, 180, 1, 3, 3, 7]), Some(7));
    assert_eq!(scale(&[3, 3, 99, 1]), Some(14));
    assert_eq!(scale(&[3, 3, 1, 3, 3, 2, 0, 0]), Some(2));
    assert_eq!(scale(&[1, 0, 3, 3, 7, 0, 0, 0]), None);
    assert_eq!(scale(&[3, 4, 7, 7]), None);
    assert_eq!(scale(&[9, 1, 3, 3, 7, 0, 0, 0]), None);
    assert_eq!(scale(&[1, 1, 3, 3]), None);
    assert_eq!(scale(&[1, 1, 1, 3]), None);
    assert_eq!(scale(&[]), None);
}

#[test]
fn a_closed_window_lets_a_probe_pass() {
    let mut wall = open(100, 500, 1000, None);
    assert_eq!(wall.tcp(Local, segment(ACK, 100, 500).len(1000)), ToPort);
    assert_eq!(wall.tcp(Peer, segment(ACK, 500, 1100).window(0)), ToPort);
    assert_eq!(wall.tcp(Local, segment(ACK, 1100, 500).len(1)), ToPort);
    assert_eq!(wall.tcp(Local, segment(ACK, 1102, 500).len(1)), OutOfWindow);
    // Keep-alive: what is acknowledged already.
    assert_eq!(wall.tcp(Local, segment(ACK, 1099, 500).len(1)), ToPort);
}

#[test]
fn a_super_packet_counts_whole() {
    let mut wall = open(100, 500, 60_000, None);
    let bytes = segment(ACK, 100, 500).len(50_000).bytes(Local);
    let mut packet = overlane_pipeline::Packet::new(bytes);
    packet.gso = tcp_gso(1400, 36);
    assert_eq!(wall.run_packet(Local, &packet).verdict, ToPort);
    assert_eq!(wall.connection().1.local.end, 50_100);
    // Padding of the frame does not.
    let mut bytes = segment(ACK, 50_100, 500).bytes(Local);
    bytes.extend([0; 6]);
    assert_eq!(wall.run(Local, bytes).verdict, ToPort);
    assert_eq!(wall.connection().1.local.end, 50_100);
}

/// BIG TCP over IPv6 has the length in a hop-by-hop option, and 0 in the header.
#[test]
fn big_tcp_counts_whole() {
    let mut wall = Wall::new(OPEN, vec![]);
    let segment = tcp(1000, 80, 1, ACK, &[7; 70_000]);
    let jumbo = [6, 0, 0xc2, 4, 0, 1, 0x11, 0x99];
    let mut bytes = ip6_frame(Local, 0, &[&jumbo[..], &segment].concat());
    bytes[18..20].copy_from_slice(&[0, 0]);
    let mut packet = overlane_pipeline::Packet::new(bytes);
    packet.gso = tcp_gso(1400, 50);
    assert_eq!(wall.run_packet(Local, &packet).verdict, ToPort);
    assert_eq!(wall.connection().1.local.end, 70_001);
}
