//! Addresses that a router does not forward from or to, and where a packet may come from.

use overlane_model::Verdict;

use crate::net::*;

fn four(source: &str, destination: &str) -> Vec<u8> {
    eth(
        A1,
        R1,
        0x0800,
        &ip4(source, destination, UDP, &udp(1, 2, b"")),
    )
}

fn six(source: &str, destination: &str, next: u8, payload: &[u8]) -> Vec<u8> {
    eth(A1, R1, 0x86dd, &ip6(source, destination, next, payload))
}

/// As h1's a1 without port security sends it. Nobody is told.
fn from_a1(one: &mut One, frame: Vec<u8>, verdict: Verdict) {
    let outcome = one.from("v1", frame);
    assert_eq!(outcome.verdict, verdict, "{:#?}", outcome.steps);
    let is_dropped = verdict.is_drop();
    assert_eq!(outcome.outputs.is_empty(), is_dropped);
}

fn open(more: &str) -> One {
    let fabric = FABRIC
        .replace(
            "key: 1, addresses: [198.18.1.1",
            "key: 1, security: off, addresses: [198.18.1.1",
        )
        .replace("    interfaces:", &format!("    {more}\n    interfaces:"));
    host_of("h1", &fabric)
}

#[test]
fn not_from_and_not_to_these() {
    let mut h1 = open("");
    for addr in [
        "0.1.2.3",
        "127.0.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "169.254.1.1",
        "192.0.2.1",
        "198.51.100.7",
        "198.18.2.0",
        "198.18.2.255",
        "198.19.0.255",
    ] {
        from_a1(&mut h1, four("198.18.1.1", addr), Verdict::NotRoutable);
        from_a1(&mut h1, four(addr, "198.18.2.1"), Verdict::NotRoutable);
    }
    for addr in [
        "::1",
        "::ffff:198.18.2.1",
        "fe80::1",
        "ff02::1",
        "2001:db8::1",
    ] {
        let to = six("2001:2:0:1::1", addr, UDP, &udp(1, 2, b""));
        from_a1(&mut h1, to, Verdict::NotRoutable);
        let from = six(addr, "2001:2:0:2::1", UDP, &udp(1, 2, b""));
        from_a1(&mut h1, from, Verdict::NotRoutable);
    }
}

#[test]
fn a_link_local_address_may_speak_to_the_router() {
    let mut h1 = open("");
    for (source, destination) in [
        ("fe80::ff:fe00:11", "fe80::ff:fe00:fe"),
        ("fe80::ff:fe00:11", "2001:2:0:1::fe"),
        ("2001:2:0:1::1", "fe80::ff:fe00:fe"),
    ] {
        let ping = six(source, destination, 58, &[128, 0, 0, 0, 0, 1, 0, 1]);
        from_a1(&mut h1, ping, Verdict::Answer);
    }
    let four = |destination| {
        let ping = [8, 0, 0xf7, 0xfd, 0, 1, 0, 1];
        eth(
            A1,
            R1,
            0x0800,
            &ip4("169.254.7.7", destination, ICMP, &ping),
        )
    };
    from_a1(&mut h1, four("198.18.1.254"), Verdict::Answer);
    from_a1(&mut h1, four("198.18.2.1"), Verdict::NotRoutable);
}

#[test]
fn no_vtep_is_behind_a_router() {
    let mut h1 = open("");
    for vtep in ["198.18.0.1", "198.18.0.3"] {
        from_a1(&mut h1, four("198.18.1.1", vtep), Verdict::VtepAddress);
        from_a1(&mut h1, four(vtep, "198.18.2.1"), Verdict::VtepAddress);
    }
    // Destinations first, and the checksum before the source.
    from_a1(
        &mut h1,
        four("198.18.0.1", "127.0.0.1"),
        Verdict::NotRoutable,
    );
    let mut wrong = four("198.18.0.1", "198.18.2.1");
    wrong[24] ^= 1;
    from_a1(&mut h1, wrong, Verdict::InnerIpHeader);
}

#[test]
fn the_way_back_leads_where_it_came_from() {
    use Verdict::*;
    let (mut strict, mut off) = (open(""), open("reverse_path: off"));
    for (source, when_strict, when_off) in [
        ("198.18.1.77", ToPort, ToPort),
        ("198.18.2.77", ReversePath, ToPort), // of another switch
        ("198.18.8.8", ReversePath, ToPort),  // behind next hops on that
        ("198.19.7.7", ReversePath, ToPort),  // behind the leg
        ("198.18.1.254", ReversePath, ReversePath),
        ("198.18.2.254", ReversePath, ReversePath),
    ] {
        from_a1(&mut strict, four(source, "198.18.2.1"), when_strict);
        from_a1(&mut off, four(source, "198.18.2.1"), when_off);
    }
    // Nobody is there.
    let nowhere = || six("2001:2:0:77::1", "2001:2:0:2::1", UDP, &udp(1, 2, b""));
    from_a1(&mut strict, nowhere(), ReversePath);
    from_a1(&mut off, nowhere(), ToPort);
    // From the leg, and by an own address before the echo.
    let outside = |source, destination| {
        let ip = ip4(source, destination, UDP, &udp(1, 2, b""));
        host("h3").on_leg(eth(OUTSIDE, LEG, 0x0800, &ip)).verdict
    };
    assert_eq!(outside("198.19.7.7", "198.18.2.2"), Encap);
    assert_eq!(outside("198.18.1.1", "198.18.2.2"), ReversePath);
    assert_eq!(outside("198.19.0.2", "198.19.0.2"), ReversePath);
    // On the leg the last address of a switch's network is taken, and goes no further.
    assert_eq!(outside("198.19.7.7", "198.18.2.255"), NotRoutable);
    for left in ["198.19.0.255", "127.0.0.1", "192.0.0.9"] {
        assert_eq!(outside("198.19.7.7", left), ToHost, "{left}");
    }
}
