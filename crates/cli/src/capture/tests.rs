//! Packets as a reader sees them, and which are chosen. What needs a kernel is in
//! `tests/system/test_capture_command.py`.

use overlane_host::capture::Phase;
use overlane_model::Hook;
use overlane_wire::packet::TunnelPorts;

use super::*;

const PORTS: TunnelPorts = TunnelPorts {
    vxlan: 0,
    geneve: 6081,
};

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
        .collect()
}

/// 198.18.100.1:51234 > 198.18.100.2:80, a SYN.
fn syn() -> Vec<u8> {
    hex("020000000002 020000000001 0800
         4500 0028 0000 4000 4006 0000 c6126401 c6126402
         c822 0050 00000001 00000000 5002 fa00 0000 0000")
}

fn ping() -> Vec<u8> {
    hex("020000000002 020000000001 0800
         4500 0020 0000 4000 4001 0000 c6126401 c6126402
         0800 0000 0007 0003 61626364")
}

/// `inner` behind Geneve, VNI 5001, from port 1 to port 2.
fn encapsulated(inner: &[u8]) -> Vec<u8> {
    let tunnel = hex("0240 6558 00138900 01028001 00010002");
    let udp_len = 8 + tunnel.len() + inner.len();
    let mut packet = hex("000000000000 000000000000 0800 4500");
    packet.extend(((20 + udp_len) as u16).to_be_bytes());
    packet.extend(hex("0000 4000 4011 0000 c6120001 c6120002 c001 17c1"));
    packet.extend((udp_len as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(tunnel);
    packet.extend(inner);
    packet
}

fn packet(bytes: Vec<u8>, verdict: Verdict, phase: Phase) -> Packet {
    Packet {
        time_unix_ns: 1_795_250_054_123_456_789,
        hook: Hook::FromPort,
        phase,
        verdict,
        switch: Some("blue".to_owned()),
        from_port: Some("a1".to_owned()),
        to_port: None,
        remote: (phase == Phase::Left).then(|| "h2".to_owned()),
        interface: match phase {
            Phase::Entered => "from_port a1".to_owned(),
            Phase::Left => "to_underlay eth1".to_owned(),
        },
        len: bytes.len() as u32,
        segments: 1,
        bytes,
    }
}

fn summary(packet: &Packet, macs: bool) -> String {
    let frame = Frame::new(&packet.bytes, packet.len);
    let tunnel = packet.may_be_outer().then_some(PORTS);
    summary::line(&frame.headers(tunnel), macs)
}

fn entered(bytes: Vec<u8>) -> Packet {
    packet(bytes, Verdict::Encap, Phase::Entered)
}

fn left(bytes: Vec<u8>) -> Packet {
    packet(bytes, Verdict::Encap, Phase::Left)
}

#[test]
fn packets_are_summed_up_in_a_line() {
    for (bytes, expected) in [
        (
            syn(),
            "IP 198.18.100.1.51234 > 198.18.100.2.80: Flags [S], seq 1, win 64000, length 0",
        ),
        (
            ping(),
            "IP 198.18.100.1 > 198.18.100.2: ICMP echo request, id 7, seq 3, length 12",
        ),
        (
            hex("ffffffffffff 020000000001 0806 0001 0800 06 04 0001
                 020000000001 c6126401 000000000000 c6126402"),
            "ARP, Request who-has 198.18.100.2 tell 198.18.100.1",
        ),
        (
            hex("ffffffffffff 020000000001 8100 a00a 88b5 00000000"),
            "vlan 10, 02:00:00:00:00:01 > ff:ff:ff:ff:ff:ff, type 0x88b5, length 4",
        ),
        (
            hex("020000000002 020000000001 86dd 60000000 0008 11 40
                 20010002000000640000000000000001 20010002000000640000000000000002
                 0035 0035 0008 0000"),
            "IP6 2001:2:0:64::1.53 > 2001:2:0:64::2.53: UDP, length 0",
        ),
        (
            hex("020000000002 020000000001 0800
                 4500 0018 0000 2003 4011 0000 c6126401 c6126402 00000000"),
            "IP 198.18.100.1 > 198.18.100.2: protocol 17, fragment at 24+",
        ),
    ] {
        assert_eq!(summary(&entered(bytes), false), expected);
    }
}

#[test]
fn a_tunnel_packet_shows_both_frames() {
    let expected = "IP 198.18.0.1.49153 > 198.18.0.2.6081: Geneve, vni 5001, port 1 > 2 | \
                    IP 198.18.100.1 > 198.18.100.2: ICMP echo request, id 7, seq 3, length 12";
    let outer = encapsulated(&ping());
    assert_eq!(summary(&left(outer.clone()), false), expected);
    // The same bytes from a guest are its own tunnel, which is none of ours.
    assert_eq!(
        summary(&entered(outer), false),
        "IP 198.18.0.1.49153 > 198.18.0.2.6081: UDP, length 62"
    );
}

#[test]
fn addresses_are_shown_where_they_are_the_reason() {
    let spoofed = packet(ping(), Verdict::SpoofedMac, Phase::Entered);
    let frame = Frame::new(&spoofed.bytes, spoofed.len);
    let line = text::line(&spoofed, &frame.headers(None), false, false);
    assert_eq!(
        line,
        "08:34:14.123456  from_port a1        spoofed_mac   \
         02:00:00:00:00:01 > 02:00:00:00:00:02, IP 198.18.100.1 > 198.18.100.2: \
         ICMP echo request, id 7, seq 3, length 12"
    );
    let line = text::line(&spoofed, &frame.headers(None), false, true);
    assert!(line.contains("\x1b[31mspoofed_mac"), "{line:?}");
}

#[test]
fn what_was_not_kept_is_not_invented() {
    let whole = encapsulated(&syn());
    let kept = |len: usize| {
        let mut packet = left(whole[..len].to_vec());
        packet.len = whole.len() as u32;
        summary(&packet, false)
    };
    // Both Ethernet headers and the inner IP header, not TCP.
    let inner_ip = whole.len() - 20;
    assert!(
        kept(inner_ip).ends_with("| IP 198.18.100.1 > 198.18.100.2: protocol 6, length 20 [cut]")
    );
    assert!(kept(whole.len()).ends_with("win 64000, length 0"));
    // The outer UDP header ends at 42.
    assert!(kept(42).ends_with("UDP, length 70 [cut]"), "{}", kept(42));
    for len in 0..whole.len() {
        assert!(kept(len).ends_with("[cut]"), "{len}: {}", kept(len));
    }
}

#[test]
fn a_broken_packet_says_where() {
    let mut broken = ping();
    broken[16..18].copy_from_slice(&[0x05, 0xdc]);
    let line = summary(&entered(broken), false);
    assert_eq!(
        line,
        "02:00:00:00:00:01 > 02:00:00:00:00:02, type 0x0800, length 32 \
         [IPv4 length field claims 1500 bytes, 32 are there]"
    );
}

#[test]
fn comments_say_what_became_of_it() {
    let spoofed = packet(ping(), Verdict::SpoofedIp, Phase::Entered);
    assert_eq!(
        text::comment(&spoofed),
        "verdict: spoofed_ip — port security: the source address is not the port's; \
         from port a1; switch blue; hook from_port; as it entered"
    );
    let super_packet = Packet {
        segments: 44,
        ..left(encapsulated(&syn()))
    };
    assert_eq!(
        text::comment(&super_packet),
        "verdict: encap — unicast, sent to one remote; from port a1; remote h2; switch blue; \
         hook from_port; 44 segments; as it left"
    );
}

#[test]
fn programs_get_everything() {
    let packet = left(encapsulated(&ping()));
    let frame = Frame::new(&packet.bytes, packet.len);
    let json = serde_json::to_value(text::Json::of(&packet, &frame.headers(Some(PORTS)))).unwrap();
    assert_eq!(json["verdict"], "encap");
    assert_eq!(json["drop"], false);
    assert_eq!(json["phase"], "left");
    assert_eq!(json["remote"], "h2");
    assert_eq!(json["to_port"], serde_json::Value::Null);
    assert_eq!(json["time_unix_ns"], 1_795_250_054_123_456_789_u64);
    let bytes = hex(json["bytes"].as_str().unwrap());
    assert_eq!(bytes, packet.bytes);
}

fn chosen(filter: &str, packet: &Packet) -> bool {
    let filter = Filter::parse(filter).unwrap();
    let frame = Frame::new(&packet.bytes, packet.len);
    let headers = frame.headers(packet.may_be_outer().then_some(PORTS));
    filter.matches(packet, headers.inner())
}

#[test]
fn filters_choose_by_the_inner_frame() {
    let (inside, outside) = (entered(syn()), left(encapsulated(&syn())));
    for filter in [
        "",
        "tcp",
        "ip4, tcp",
        "ip4.src=198.18.100.1",
        "ip4.src==198.18.100.1 && tcp.dport=80",
        "ip4.src=198.18.100.0/24",
        "ip4.src=0.0.0.0/0",
        "tcp.flags=S",
        "tcp.dst=0x50",
        "eth.src=02:00:00:00:00:01",
        "ip4.proto!=17",
        "!udp",
        "hook=from_port verdict=encap",
        "!drop",
    ] {
        assert!(chosen(filter, &inside), "{filter}");
        assert!(chosen(filter, &outside), "{filter}");
    }
    for filter in [
        "udp",
        "ip4.src=198.18.0.1",
        "ip4.src!=198.18.100.1",
        "ip4.src=198.18.101.0/24",
        "tcp.dport=81",
        "tcp, ip6",
        "vlan.id=10",
        "drop",
        "verdict=drop",
        "verdict=flood",
        "hook=from_underlay",
    ] {
        assert!(!chosen(filter, &inside), "{filter}");
        assert!(!chosen(filter, &outside), "{filter}");
    }
    let dropped = packet(ping(), Verdict::SpoofedIp, Phase::Entered);
    assert!(chosen("drop, icmp4.type=echo_request", &dropped));
}

#[test]
fn a_wrong_filter_says_what_is_right() {
    for (filter, message) in [
        ("ip4.scr=198.18.0.1", "`ip4.scr` is no field of a packet"),
        (
            "ip4.src=2001:2::1",
            "ip4.src: `2001:2::1` is not an IPv4 address or prefix, like 198.18.1.0/24",
        ),
        (
            "ip4.src=198.18.0.0/33",
            "ip4.src: `198.18.0.0/33` is not an IPv4 address or prefix, like 198.18.1.0/24",
        ),
        ("tcp=80", "tcp takes no value"),
        ("tcp.dport", "tcp.dport has no value"),
        (
            "tcp.dport=65536",
            "tcp.dport: `65536` is not a number from 0 to 65535",
        ),
        (
            "verdict=spoofed",
            "verdict: `spoofed` is not a verdict or `drop`",
        ),
        (
            "gso=1400",
            "`gso` says how a packet is made, not what it is",
        ),
    ] {
        assert_eq!(Filter::parse(filter).unwrap_err().to_string(), message);
    }
    let near = Filter::parse("verdict=spoofed_pi").unwrap_err();
    assert_eq!(near.help().as_deref(), Some("did you mean `spoofed_ip`?"));
}

#[test]
fn the_hosts_own_traffic_is_shown_to_who_asks_for_it() {
    let wants = |filter: &str| {
        let request = Request {
            host: "h1",
            target: Target::All,
            filter: Filter::parse(filter).unwrap(),
            count: None,
            time: None,
            snap: SNAP_TEXT,
        };
        let packet = packet(syn(), Verdict::ToHost, Phase::Entered);
        let frame = Frame::new(&packet.bytes, packet.len);
        request.wants(&packet, &frame.headers(None))
    };
    assert!(!wants(""));
    assert!(!wants("tcp"));
    assert!(wants("verdict=to_host"));
    assert!(wants("verdict!=encap"));
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let said = |path: &str| {
        let mut sink = Sink::file(Path::new(path), SNAP_FILE)?;
        let packet = packet(syn(), Verdict::Encap, Phase::Entered);
        let frame = Frame::new(&packet.bytes, packet.len);
        sink.write(&packet, &frame.headers(None))?;
        sink.flush()
    };
    for (path, why) in [
        ("/dev/full", "No space left on device"),
        ("/nonexistent/x", "No such file or directory"),
        ("/", "Is a directory"),
    ] {
        let error = said(path).unwrap_err();
        let expected = format!("cannot write {path}: {why}");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
    // More than one buffer: it is written at once.
    let mut sink = Sink::file(Path::new("/dev/full"), SNAP_FILE).unwrap();
    let long = packet(vec![0; 20_000], Verdict::Encap, Phase::Entered);
    let frame = Frame::new(&long.bytes, long.len);
    let error = sink.write(&long, &frame.headers(None)).unwrap_err();
    assert!(error.to_string().starts_with("cannot write /dev/full"));
}
