//! Both sides of UDP jobs, over loopback; [`cable`] has super-packets over a cable.

mod cable;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::thread;
use std::time::Duration;

use crate::job::{Job, prepare};
use crate::message::{Counters, Role, Work};
use crate::sequence::Header;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn udp(payload_bytes: u32, rate_pps: Option<f64>, segments: u32) -> Work {
    Work::Udp {
        payload_bytes,
        rate_pps,
        segments,
        gro: true,
        buffer_bytes: Some(1 << 20),
    }
}

/// Super-packets for a receiver that does not know of them.
fn without_gro(mut work: Work) -> Work {
    if let Work::Udp { gro, .. } = &mut work {
        *gro = false;
    }
    work
}

fn udp_rr(request_bytes: u32, response_bytes: u32) -> Work {
    Work::UdpRr {
        request_bytes,
        response_bytes,
        timeout_ms: 20,
    }
}

fn server(instances: u32, work: &Work, address: IpAddr) -> Box<dyn Job> {
    prepare(instances, work, &Role::Serve { address }).unwrap()
}

fn driver(instances: u32, work: &Work, address: IpAddr, ports: Vec<u16>) -> Box<dyn Job> {
    let role = Role::Drive {
        from: address,
        to: address,
        ports,
    };
    let mut driver = prepare(instances, work, &role).unwrap();
    driver.go().unwrap();
    driver
}

fn wait(until: impl Fn() -> bool) {
    while !until() {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs both sides until `enough`; the last counters of both, and how many latencies each measured.
fn exchange(
    instances: u32,
    work: &Work,
    address: IpAddr,
    enough: impl Fn(&Counters) -> bool,
) -> ([Counters; 2], [Option<u64>; 2]) {
    let mut server = server(instances, work, address);
    let mut driver = driver(instances, work, address, server.ports());
    wait(|| {
        assert_eq!((driver.failure(), server.failure()), (None, None));
        enough(&driver.counters())
    });
    driver.stop();
    server.stop();
    let latencies = [&mut driver, &mut server]
        .map(|job| job.take_latencies().map(|histogram| histogram.count()));
    ([driver.counters(), server.counters()], latencies)
}

#[test]
fn every_datagram_that_was_sent_came_or_was_counted_as_dropped() {
    for (instances, segments, address) in [
        (1, 1, LOOPBACK),
        (3, 1, LOOPBACK),
        (1, 16, LOOPBACK),
        (2, 16, IpAddr::V6(Ipv6Addr::LOCALHOST)),
    ] {
        let work = udp(100, None, segments);
        // The kernel counts a super-packet that has no room once, and its datagrams if it had to cut it.
        for (work, each) in [(work.clone(), segments), (without_gro(work), 1)] {
            let ([sent, came], latencies) = exchange(instances, &work, address, |counters| {
                counters.sent_packets > 5000
            });
            let dropped = came.receiver_dropped_packets * u64::from(each);
            assert_eq!(sent.sent_packets, came.received_packets + dropped);
            assert_eq!(sent.sent_packets % u64::from(segments), 0);
            assert_eq!(sent.sent_bytes, sent.sent_packets * 100);
            assert_eq!(came.received_bytes, came.received_packets * 100);
            assert_eq!((came.duplicate_packets, came.foreign_packets), (0, 0));
            assert_eq!(came.corrupt_packets, 0);
            assert_eq!(sent.due_packets, 0);
            assert_eq!(latencies, [None, None]);
        }
    }
}

#[test]
fn paced_datagrams_are_due_sent_and_timed() {
    for (rate_pps, segments) in [(2000.0, 1), (20_000.0, 10)] {
        let work = udp(1000, Some(rate_pps), segments);
        let ([sent, came], latencies) =
            exchange(2, &work, LOOPBACK, |counters| counters.sent_packets >= 300);
        assert!(sent.due_packets >= sent.sent_packets + sent.refused_packets);
        // Super-packets are due and sent whole.
        let each = u64::from(segments);
        assert_eq!((sent.due_packets % each, sent.sent_packets % each), (0, 0));
        assert_eq!(
            came.received_packets + came.receiver_dropped_packets * each,
            sent.sent_packets
        );
        assert_eq!(latencies, [None, Some(came.received_packets)]);
    }
}

#[test]
fn strange_repeated_and_late_datagrams_are_told_apart() {
    let mut server = server(1, &udp(20, None, 1), LOOPBACK);
    let socket = UdpSocket::bind((LOOPBACK, 0)).unwrap();
    socket.connect((LOOPBACK, server.ports()[0])).unwrap();
    let send = |stream, number, bytes: usize| {
        let header = Header {
            stream,
            number,
            intended_ns: 0,
        };
        let mut datagram = header.bytes().to_vec();
        datagram.resize(bytes, 0);
        socket.send(&datagram).unwrap();
    };
    for number in [0, 2, 1, 1, 3] {
        send(0, number, 20);
    }
    send(1, 4, 20);
    send(0, 4, 19);
    send(0, 4, 21);
    socket.send(&[0; 20]).unwrap();
    wait(|| server.counters().corrupt_packets == 3);
    server.stop();
    let counters = server.counters();
    assert_eq!(counters.received_packets, 4);
    assert_eq!(counters.received_bytes, 80);
    assert_eq!(counters.foreign_packets, 1);
    assert_eq!(counters.reordered_packets, 1);
    assert_eq!(counters.duplicate_packets, 1);
}

#[test]
fn transactions_of_one_and_of_many_instances_complete() {
    for (instances, request, response) in [(1, 1, 1), (1, 64, 1400), (40, 200, 3)] {
        let work = udp_rr(request, response);
        let ([driven, served], latencies) = exchange(instances, &work, LOOPBACK, |counters| {
            counters.transactions >= 500
        });
        assert_eq!(latencies, [Some(driven.transactions), None]);
        assert_eq!(driven.received_packets, driven.transactions);
        assert_eq!(
            driven.received_bytes,
            driven.transactions * u64::from(response)
        );
        assert!(served.transactions >= driven.transactions);
        assert_eq!(
            served.received_bytes,
            served.transactions * u64::from(request)
        );
        assert_eq!((driven.foreign_packets, served.foreign_packets), (0, 0));
    }
}

/// A server that loses the first request and answers the second twice, with a stranger's response between.
#[test]
fn a_lost_request_is_sent_again_and_late_responses_are_duplicates() {
    let server = UdpSocket::bind((LOOPBACK, 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    let mut driver = driver(1, &udp_rr(10, 5), LOOPBACK, vec![port]);
    let mut request = [0; 11];
    let mut receive = || {
        let (bytes, from) = server.recv_from(&mut request).unwrap();
        assert_eq!(bytes, 10);
        (
            u32::from_le_bytes([request[0], request[1], request[2], request[3]]),
            from,
        )
    };
    assert_eq!(receive().0, 0);
    let (number, from) = receive();
    assert_eq!(number, 0);
    server.send_to(&[0; 6], from).unwrap();
    server.send_to(&[0; 5], from).unwrap();
    server.send_to(&[0; 5], from).unwrap();
    // It may be sent a third time before the response is there.
    while receive().0 == 0 {}
    wait(|| driver.counters().duplicate_packets == 1);
    driver.stop();
    let counters = driver.counters();
    assert_eq!(counters.transactions, 1);
    assert_eq!(counters.foreign_packets, 1);
    assert!(counters.timeouts >= 1);
    assert!(counters.sent_packets >= counters.transactions + counters.timeouts);
}

#[test]
fn a_driver_without_a_server_fails_and_says_what_to_do() {
    let port = {
        let socket = UdpSocket::bind((LOOPBACK, 0)).unwrap();
        socket.local_addr().unwrap().port()
    };
    for work in [udp(100, None, 1), udp(100, Some(1000.0), 1), udp_rr(1, 1)] {
        let mut driver = driver(1, &work, LOOPBACK, vec![port]);
        wait(|| driver.failure().is_some());
        let reason = driver.failure().unwrap();
        assert!(
            reason.contains("prepare the serving side first"),
            "{reason}"
        );
        assert!(reason.contains(&port.to_string()), "{reason}");
        driver.stop();
    }
}

#[test]
fn orders_that_make_no_sense_are_refused() {
    let serve = Role::Serve { address: LOOPBACK };
    let drive = |ports| Role::Drive {
        from: LOOPBACK,
        to: LOOPBACK,
        ports,
    };
    let other_family = Role::Drive {
        from: LOOPBACK,
        to: IpAddr::V6(Ipv6Addr::LOCALHOST),
        ports: vec![9],
    };
    let frames = Role::ServeFrames {
        devices: vec!["lo".into()],
    };
    for (work, role, word) in [
        (udp(15, None, 1), &serve, "payload_bytes"),
        (udp(65508, None, 1), &serve, "payload_bytes"),
        (udp(100, None, 0), &serve, "segments"),
        (udp(100, None, 65), &serve, "segments"),
        (udp(2000, None, 64), &serve, "payload_bytes times segments"),
        (udp(100, Some(0.0), 1), &serve, "rate_pps"),
        (udp(100, Some(f64::NAN), 1), &serve, "rate_pps"),
        (udp_rr(0, 1), &serve, "request_bytes"),
        (udp_rr(1, 65508), &serve, "response_bytes"),
        (udp(100, None, 1), &drive(vec![]), "ports"),
        (udp(100, None, 1), &drive(vec![0]), "ports"),
        (udp_rr(1, 1), &drive(vec![1, 2]), "ports"),
        (udp_rr(1, 1), &other_family, "same family"),
        (udp_rr(1, 1), &frames, "serve_frames"),
    ] {
        let Err(error) = prepare(1, &work, role) else {
            panic!("{work:?} {role:?}");
        };
        assert!(error.to_string().contains(word), "{error}");
    }
}
