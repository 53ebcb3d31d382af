//! Both sides of each TCP job over the loopback device.

use std::io::Write;
use std::net::{IpAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::prepare;
use crate::job::Job;
use crate::message::{Counters, Direction, Role, Work};

const V4: &str = "127.0.0.1";
const V6: &str = "::1";

fn serve(instances: u32, work: &Work, address: &str) -> Box<dyn Job> {
    let address: IpAddr = address.parse().unwrap();
    prepare(instances, work, &Role::Serve { address }).unwrap()
}

fn drive(instances: u32, work: &Work, address: &str, ports: Vec<u16>) -> Box<dyn Job> {
    let to: IpAddr = address.parse().unwrap();
    let role = Role::Drive {
        from: to,
        to,
        ports,
    };
    prepare(instances, work, &role).unwrap()
}

/// A server and a driver that was told to begin.
fn begin(instances: u32, work: &Work, address: &str) -> (Box<dyn Job>, Box<dyn Job>) {
    let server = serve(instances, work, address);
    let mut driver = drive(instances, work, address, server.ports());
    assert_eq!(driver.counters(), Counters::default(), "silent until told");
    driver.go().unwrap();
    (server, driver)
}

/// Waits until the counters say so.
fn wait_for(job: &dyn Job, what: impl Fn(&Counters) -> bool) {
    let begin = Instant::now();
    while !what(&job.counters()) {
        assert_eq!(job.failure(), None);
        assert!(begin.elapsed() < Duration::from_secs(20), "nothing happens");
        sleep(Duration::from_millis(1));
    }
}

fn stream(direction: Direction, message_bytes: u32) -> Work {
    Work::TcpStream {
        message_bytes,
        buffer_bytes: None,
        congestion: None,
        direction,
        rate_mbps: None,
    }
}

fn rr(request_bytes: u32, response_bytes: u32) -> Work {
    Work::TcpRr {
        request_bytes,
        response_bytes,
        buffer_bytes: Some(1 << 16),
        congestion: Some("reno".to_owned()),
    }
}

fn crr(request_bytes: u32, response_bytes: u32) -> Work {
    Work::TcpCrr {
        request_bytes,
        response_bytes,
    }
}

#[test]
fn a_paced_stream_sends_no_more_than_its_rate() {
    let paced = |rate_mbps| {
        let mut work = stream(Direction::Forward, 1 << 14);
        if let Work::TcpStream {
            rate_mbps: rate, ..
        } = &mut work
        {
            *rate = rate_mbps;
        }
        work
    };
    // 80 Mbit/s of two connections: 10 MB a second.
    let began = Instant::now();
    let (mut server, mut driver) = begin(2, &paced(Some(80.0)), V4);
    wait_for(server.as_ref(), |counters| {
        counters.received_bytes >= 2_000_000
    });
    let sent = driver.counters().sent_bytes as f64;
    let took = began.elapsed().as_secs_f64();
    driver.stop();
    server.stop();
    // What is due at once in front, a message of each connection; a slow machine sends less.
    assert!(
        sent <= 10e6 * took + 2.0 * f64::from(1 << 14),
        "{sent} in {took} s"
    );
    for rate in [0.0, -1.0, f64::NAN] {
        let work = paced(Some(rate));
        let role = Role::Serve {
            address: V4.parse().unwrap(),
        };
        let error = prepare(1, &work, &role).err().unwrap().to_string();
        assert!(error.contains("rate_mbps"), "{error}");
    }
}

#[test]
fn every_byte_of_a_stream_is_received_whichever_way_it_goes() {
    for (direction, instances, message_bytes, address) in [
        (Direction::Forward, 1, 1 << 17, V4),
        (Direction::Forward, 3, 1, V6),
        (Direction::Reverse, 2, 1 << 20, V4),
        (Direction::Both, 2, 1 << 14, V6),
    ] {
        let (mut server, mut driver) = begin(instances, &stream(direction, message_bytes), address);
        if direction != Direction::Reverse {
            wait_for(server.as_ref(), |counters| {
                counters.received_bytes > 100_000
            });
        }
        if direction != Direction::Forward {
            wait_for(driver.as_ref(), |counters| {
                counters.received_bytes > 100_000
            });
        }
        let states = driver.stop();
        assert_eq!(server.stop(), [], "TCP_INFO is the driver's");
        let both = usize::from(direction == Direction::Both);
        assert_eq!(states.len(), instances as usize * (1 + both));
        assert!(states.iter().all(|state| state.send_mss_bytes >= 1000));
        assert_eq!((driver.failure(), server.failure()), (None, None));
        let (driver, server) = (driver.counters(), server.counters());
        assert_eq!(driver.sent_bytes, server.received_bytes, "{direction:?}");
        assert_eq!(server.sent_bytes, driver.received_bytes, "{direction:?}");
        assert_eq!(driver.sent_bytes > 0, direction != Direction::Reverse);
        assert_eq!(server.sent_bytes > 0, direction != Direction::Forward);
        assert_eq!((driver.transactions, driver.received_packets), (0, 0));
    }
}

#[test]
fn both_sides_count_the_same_transactions() {
    for (work, instances, address) in [
        (rr(1, 1), 1, V4),
        (rr(64, 1000), 5, V6),
        (rr(1 << 20, 1 << 20), 1, V6),
        (rr(1 << 20, 1 << 20), 3, V4),
        (rr(1, 1), 256, V4),
        (crr(1, 1), 1, V4),
        (crr(100, 1 << 20), 1, V6),
        (crr(1, 1), 7, V6),
        (crr(1 << 20, 1 << 20), 2, V4),
    ] {
        let (mut server, mut driver) = begin(instances, &work, address);
        wait_for(driver.as_ref(), |counters| {
            counters.transactions > 2 * u64::from(instances)
        });
        driver.stop();
        server.stop();
        assert_eq!(
            (driver.failure(), server.failure()),
            (None, None),
            "{work:?}"
        );
        let latency = driver.take_latencies().unwrap();
        assert_eq!(server.take_latencies(), None);
        let (driver, server) = (driver.counters(), server.counters());
        assert_eq!(latency.count(), driver.transactions);
        assert!(latency.min().unwrap() > 100);
        // Connections that the driver had begun when it was told to end may have been answered.
        let most = match work {
            Work::TcpCrr { .. } => driver.transactions + u64::from(instances),
            _ => driver.transactions,
        };
        assert!(
            (driver.transactions..=most).contains(&server.transactions),
            "{driver:?} {server:?}"
        );
        let (request_bytes, response_bytes) = sizes(&work);
        assert_eq!(driver.sent_bytes, driver.transactions * request_bytes);
        assert_eq!(driver.received_bytes, driver.transactions * response_bytes);
        assert_eq!(server.received_bytes, server.transactions * request_bytes);
        assert_eq!(server.sent_bytes, server.transactions * response_bytes);
    }
}

fn sizes(work: &Work) -> (u64, u64) {
    match *work {
        Work::TcpRr {
            request_bytes,
            response_bytes,
            ..
        }
        | Work::TcpCrr {
            request_bytes,
            response_bytes,
        } => (request_bytes.into(), response_bytes.into()),
        _ => unreachable!(),
    }
}

#[test]
fn a_server_that_goes_away_fails_its_driver() {
    for (work, instances) in [
        (stream(Direction::Forward, 1 << 14), 2),
        (stream(Direction::Reverse, 1 << 14), 1),
        (rr(1, 1), 1),
        (rr(1, 1), 4),
        (crr(1, 1), 1),
        (crr(1, 1), 4),
    ] {
        let (server, driver) = begin(instances, &work, V4);
        wait_for(driver.as_ref(), |counters| {
            counters.sent_bytes + counters.received_bytes > 0
        });
        drop(server);
        let begin = Instant::now();
        let reason = loop {
            if let Some(reason) = driver.failure() {
                break reason;
            }
            assert!(begin.elapsed() < Duration::from_secs(10), "{work:?}");
            sleep(Duration::from_millis(1));
        };
        assert!(reason.contains("127.0.0.1:"), "{reason}");
    }
}

#[test]
fn a_driver_that_goes_away_does_not_keep_a_server_from_ending() {
    for work in [stream(Direction::Both, 1 << 14), rr(1, 1), crr(1, 1)] {
        for told in [false, true] {
            let mut server = serve(2, &work, V4);
            let mut driver = drive(2, &work, V4, server.ports());
            if told {
                driver.go().unwrap();
            }
            drop(driver);
            server.stop();
        }
    }
}

#[test]
fn jobs_end_that_never_began() {
    for work in [stream(Direction::Both, 1), rr(1, 1), crr(1, 1)] {
        for instances in [1, 3] {
            serve(instances, &work, V4).stop();
            let mut server = serve(instances, &work, V4);
            // Of three connections one comes, and says nothing.
            let _silent = TcpStream::connect((V4, server.ports()[0])).unwrap();
            server.stop();
            assert_eq!(server.failure(), None);
        }
    }
}

#[test]
fn strangers_do_not_take_the_place_of_a_driver() {
    let work = rr(10, 10);
    let mut server = serve(1, &work, V4);
    for text in ["GET / HTTP/1.1\r\n\r\n", ""] {
        let mut stranger = TcpStream::connect((V4, server.ports()[0])).unwrap();
        stranger.write_all(text.as_bytes()).unwrap();
    }
    let mut driver = drive(1, &work, V4, server.ports());
    // A second driver of the same job is one too many.
    let role = Role::Drive {
        from: V4.parse().unwrap(),
        to: V4.parse().unwrap(),
        ports: server.ports(),
    };
    assert!(prepare(1, &work, &role).is_err());
    driver.go().unwrap();
    wait_for(server.as_ref(), |counters| counters.transactions > 10);
    driver.stop();
    server.stop();
    assert_eq!((driver.failure(), server.failure()), (None, None));
}

#[test]
fn orders_that_make_no_sense_are_refused_with_what_and_where() {
    let drive = |from: &str, to: &str, ports| Role::Drive {
        from: from.parse().unwrap(),
        to: to.parse().unwrap(),
        ports,
    };
    let serve = Role::Serve {
        address: V4.parse().unwrap(),
    };
    let frames = Role::ServeFrames {
        devices: Vec::new(),
    };
    for (work, role, expected) in [
        (
            rr(0, 1),
            &serve,
            "request_bytes is 0; allowed are 1 to 1048576",
        ),
        (crr(1, 1 << 21), &serve, "response_bytes is 2097152"),
        (stream(Direction::Both, 0), &serve, "message_bytes is 0"),
        (rr(1, 1), &frames, "tcp_rr has no side serve_frames"),
        (
            rr(1, 1),
            &drive(V4, V6, vec![1]),
            "from is 127.0.0.1; it must be of the same family",
        ),
        (rr(1, 1), &drive(V4, V4, vec![]), "ports is []"),
        (rr(1, 1), &drive(V4, V4, vec![0]), "ports is [0]"),
        (rr(1, 1), &drive(V4, V4, vec![1, 2]), "ports is [1, 2]"),
        (
            crr(1, 1),
            &drive("198.18.255.254", V4, vec![1]),
            "Cannot assign requested address",
        ),
    ] {
        let error = prepare(1, &work, role).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
