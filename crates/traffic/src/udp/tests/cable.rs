//! Super-packets over a cable between two network namespaces of the test's own.
//!
//! ```text
//!  this thread's namespace                 another thread's
//!  driver ─ near 198.18.0.1 ──────────── far 198.18.0.2 ─ server      veth, MTU 1500
//! ```

use std::io::Write as _;
use std::net::IpAddr;
use std::process::Command;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::gettid;

use super::{udp, wait, without_gro};
use crate::job::{Job, prepare};
use crate::message::{Counters, Role, Work};

/// Datagrams as QUIC programs send them, and so many that the whole stays below 64 kB.
const PAYLOAD_BYTES: u32 = 1400;
const SEGMENTS: u32 = 40;

const IPV4: [&str; 2] = ["198.18.0.1", "198.18.0.2"];
const IPV6: [&str; 2] = ["2001:2::1", "2001:2::2"];

/// Runs `ip` or `ethtool` in the calling thread's namespace.
fn run(command: &str) -> String {
    let mut words = command.split(' ');
    let mut program = Command::new(words.next().unwrap());
    let output = program.args(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether the test may go on: in a namespace that ends with its thread.
fn in_own_namespace() -> bool {
    if unshare(CloneFlags::CLONE_NEWNET) == Err(Errno::EPERM) {
        // Past the capture of the test harness: a skipped test must be seen.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED super-packets over a cable: network namespaces need root"
        );
        return false;
    }
    true
}

fn configure(device: &str, side: usize) {
    run(&format!("ip address add {}/24 dev {device}", IPV4[side]));
    run(&format!(
        "ip address add {}/64 dev {device} nodad",
        IPV6[side]
    ));
    run(&format!("ip link set {device} up"));
}

/// Lays the cable; both jobs, the driver not yet told to go.
fn jobs(instances: u32, work: &Work, [near, far]: [&str; 2]) -> [Box<dyn Job>; 2] {
    let [from, to]: [IpAddr; 2] = [near, far].map(|address| address.parse().unwrap());
    let here = gettid();
    let server = thread::scope(|scope| {
        let far_side = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            run(&format!(
                "ip link add far type veth peer name near netns {here}"
            ));
            configure("far", 1);
            // Its sockets keep the namespace when this thread has ended.
            prepare(instances, work, &Role::Serve { address: to }).unwrap()
        });
        far_side.join().unwrap()
    });
    configure("near", 0);
    // What waits for a neighbour's MAC has room for a few super-packets only, and nobody is told of the rest.
    run(&format!("ping -q -c 1 -w 5 {to}"));
    let ports = server.ports();
    let role = Role::Drive { from, to, ports };
    let driver = prepare(instances, work, &role).unwrap();
    [driver, server]
}

/// Sends so many datagrams; the last counters of both sides, and the packets that the near end counted.
fn exchange(jobs: [Box<dyn Job>; 2], enough: u64) -> ([Counters; 2], u64) {
    let [mut driver, mut server] = jobs;
    // Those of neighbour discovery are over by then.
    thread::sleep(Duration::from_millis(50));
    let before = sent_by_device();
    driver.go().unwrap();
    wait(|| {
        assert_eq!((driver.failure(), server.failure()), (None, None));
        driver.counters().sent_packets >= enough
    });
    driver.stop();
    server.stop();
    let packets = sent_by_device() - before;
    ([driver.counters(), server.counters()], packets)
}

fn sent_by_device() -> u64 {
    let shown = run("ip -json -statistics link show dev near");
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    shown[0]["stats64"]["tx"]["packets"].as_u64().unwrap()
}

#[test]
fn every_datagram_of_a_super_packet_is_counted_once() {
    for addresses in [IPV4, IPV6] {
        for instances in [1, 4] {
            let work = udp(PAYLOAD_BYTES, None, SEGMENTS);
            for (work, each) in [(work.clone(), SEGMENTS), (without_gro(work), 1)] {
                if !in_own_namespace() {
                    return;
                }
                let jobs = jobs(instances, &work, addresses);
                let ([sent, came], packets) = exchange(jobs, 40_000);
                // What the cable did not take was told to the sender, what came further was received or had no room.
                let dropped = came.receiver_dropped_packets * u64::from(each);
                assert_eq!(sent.sent_packets, came.received_packets + dropped);
                let bytes = u64::from(PAYLOAD_BYTES);
                assert_eq!(sent.sent_bytes, sent.sent_packets * bytes);
                assert_eq!(came.received_bytes, came.received_packets * bytes);
                // They may overtake each other: a sender that moves to another CPU leaves some in the old one's queue.
                let strange = (
                    came.duplicate_packets,
                    came.corrupt_packets,
                    came.foreign_packets,
                );
                assert_eq!(strange, (0, 0, 0));
                // The device saw them whole; a question for a neighbour may be among them.
                let whole = sent.sent_packets / u64::from(SEGMENTS);
                assert!((whole..=whole + 8).contains(&packets), "{whole} {packets}");
            }
        }
    }
}

#[test]
fn a_device_that_cuts_them_changes_no_count() {
    let work = udp(PAYLOAD_BYTES, Some(20_000.0), SEGMENTS);
    for work in [work.clone(), without_gro(work)] {
        if !in_own_namespace() {
            return;
        }
        let jobs = jobs(1, &work, IPV4);
        run("ethtool -K near tx-udp-segmentation off");
        let ([sent, came], packets) = exchange(jobs, 4000);
        assert!(packets >= sent.sent_packets, "{packets} {sent:?}");
        assert_eq!(sent.due_packets % u64::from(SEGMENTS), 0);
        let dropped = came.receiver_dropped_packets;
        assert_eq!(sent.sent_packets, came.received_packets + dropped);
        let strange = (came.duplicate_packets, came.corrupt_packets);
        assert_eq!(strange, (0, 0));
    }
}

#[test]
fn a_datagram_that_is_too_large_for_the_way_is_refused_with_what_to_do() {
    if !in_own_namespace() {
        return;
    }
    let [mut driver, mut server] = jobs(1, &udp(1473, None, SEGMENTS), IPV4);
    driver.go().unwrap();
    wait(|| driver.failure().is_some());
    let reason = driver.failure().unwrap();
    assert!(reason.contains("from 198.18.0.1:"), "{reason}");
    assert!(
        reason.contains("make `payload_bytes` smaller, or the MTU larger"),
        "{reason}"
    );
    driver.stop();
    server.stop();
}
