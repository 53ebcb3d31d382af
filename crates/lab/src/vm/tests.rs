//! Machines that boot, move, and fail to. They need root, QEMU and a kernel, and a minute or two: `scripts/vm-tests` runs them.

use super::*;
use crate::topology::Node;
use nix::sys::signal::{Signal, kill};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::{Pid, geteuid};
use overlane_net::Netlink;
use overlane_net::tap::Tap;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One session at a time: a run holds the machine.
static MACHINE: Mutex<()> = Mutex::new(());
/// An emulated machine, beside other tests.
const UP: Duration = Duration::from_secs(120);
const MIGRATED: Duration = Duration::from_secs(40);
const MIB: u64 = 1 << 20;

/// Two hosts with two links, a bridge on each and a cable between the bridges, and somebody at the first bridge.
struct World {
    images: Images,
    hosts: [Node; 2],
    peer: Node,
    // Goes last.
    session: Session,
    _guard: MutexGuard<'static, ()>,
}

fn node(session: &Session, place: &str, cpus: &[usize]) -> Node {
    let netns = session.create_netns(&format!("vm-{place}")).unwrap();
    Node {
        place: place.to_owned(),
        netlink: Netlink::in_netns(&netns).unwrap(),
        netns,
        cpus: cpus.to_vec(),
    }
}

fn cable(a: (&Node, &str), b: (&Node, &str)) {
    a.0.netlink.add_veth(a.1, "far", Some(&b.0.netns)).unwrap();
    b.0.netlink.rename("far", b.1).unwrap();
    for (node, device) in [a, b] {
        node.netlink.set_up(device).unwrap();
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

impl World {
    /// `None`: said, and skipped.
    fn make() -> Option<Self> {
        let guard = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
        let session = session()?;
        if let Some(missing) = missing(&session, None).unwrap() {
            panic!("{missing}");
        }
        let images = Images::prepare(&session, None).unwrap();
        let cpus = [session.cpus.host1.clone(), session.cpus.host2.clone()];
        let hosts = [
            node(&session, "host1", &cpus[0]),
            node(&session, "host2", &cpus[1]),
        ];
        let [one, two] = &hosts;
        for (device, network) in [("link1", "198.18.1"), ("link2", "198.18.2")] {
            cable((one, device), (two, device));
            for (number, host) in hosts.iter().enumerate() {
                let own = address(&format!("{network}.{}", number + 1));
                host.netlink.add_address(device, own, 24).unwrap();
            }
        }
        let peer = node(&session, "peer", &[]);
        hosts
            .iter()
            .for_each(|host| host.netlink.add_bridge("br0").unwrap());
        cable((one, "trunk"), (two, "trunk"));
        cable((one, "port0"), (&peer, "eth0"));
        peer.netlink
            .add_address("eth0", address("198.19.1.9"), 24)
            .unwrap();
        for host in &hosts {
            host.netlink.set_up("br0").unwrap();
            host.netlink.set_master("trunk", "br0").unwrap();
        }
        one.netlink.set_master("port0", "br0").unwrap();
        Some(Self {
            images,
            hosts,
            peer,
            session,
            _guard: guard,
        })
    }

    fn spec(&self, number: u8) -> Spec {
        Spec {
            name: format!("vm{number}"),
            memory_mib: 256,
            mac: [2, 0, 0, 0, 1, number],
            address: Ipv4Addr::new(198, 19, 1, number),
            prefix: 24,
            mtu: 1500,
            tap: format!("tap{number}"),
        }
    }

    fn tap(&self, host: usize, spec: &Spec) {
        let host = &self.hosts[host];
        let make = || Tap::create(&spec.tap, true)?.set_persist(true);
        host.netns.run(make).unwrap().unwrap();
        host.netlink.set_up(&spec.tap).unwrap();
        host.netlink.set_master(&spec.tap, "br0").unwrap();
    }

    fn boot(&self, number: u8) -> Machine {
        let spec = self.spec(number);
        self.tap(0, &spec);
        let begun = Instant::now();
        let machine = Machine::boot(&self.session, &self.images, &spec, &self.hosts[0]).unwrap();
        machine.wait_up(&self.session, UP).unwrap();
        eprintln!(
            "{} is up after {:?}, {}",
            machine.name,
            begun.elapsed(),
            self.images.accelerator
        );
        machine
    }

    fn incoming(&self, number: u8) -> Machine {
        self.incoming_at(1, number)
    }

    fn incoming_at(&self, host: usize, number: u8) -> Machine {
        let spec = self.spec(number);
        if self.hosts[host].netlink.link(&spec.tap).is_err() {
            self.tap(host, &spec);
        }
        Machine::incoming(&self.session, &self.images, &spec, &self.hosts[host]).unwrap()
    }

    fn begin<'a>(
        &'a self,
        source: &'a Machine,
        destination: &'a Machine,
        options: Options,
    ) -> Migration<'a> {
        Migration::begin(&self.session, source, destination, options).unwrap()
    }

    /// Looks after migrations until all have ended, and switches each over when it is ready.
    fn finish(&self, migrations: &mut [Migration<'_>]) -> Vec<Progress> {
        let end = Instant::now() + MIGRATED;
        loop {
            assert!(Instant::now() < end, "no end of it");
            let mut ended = Vec::new();
            for migration in &mut *migrations {
                match migration.poll().unwrap() {
                    Progress::Running => {}
                    Progress::ReadyToSwitch => migration.switch().unwrap(),
                    progress => ended.push(progress),
                }
            }
            if ended.len() == migrations.len() {
                return ended;
            }
            self.session
                .interrupts
                .wait(Duration::from_millis(5))
                .unwrap();
        }
    }

    /// One datagram there and back; the guest is found within the time that a switch needs to learn.
    fn reaches(&self, number: u8) -> bool {
        let ask = || {
            let socket = UdpSocket::bind("198.19.1.9:0").unwrap();
            socket
                .set_read_timeout(Some(Duration::from_millis(500)))
                .unwrap();
            (0..20_u64).any(|sequence| {
                let _ = socket.send_to(
                    &sequence.to_be_bytes(),
                    (Ipv4Addr::new(198, 19, 1, number), 7),
                );
                socket.recv(&mut [0; 64]).is_ok()
            })
        };
        self.peer.netns.run(ask).unwrap()
    }

    fn sent_bytes(&self, device: &str) -> u64 {
        let read = || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let text = self.hosts[0].netns.run(read).unwrap();
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(device)?.strip_prefix(':'))
            .unwrap();
        line.split_ascii_whitespace()
            .nth(8)
            .unwrap()
            .parse()
            .unwrap()
    }
}

pub(super) fn session() -> Option<Session> {
    if !geteuid().is_root() {
        return skip("needs root");
    }
    for _ in 0..1200 {
        // Tests of other files get their turn.
        std::thread::sleep(Duration::from_millis(250));
        match Session::begin() {
            Ok(session) => return Some(session),
            Err(LabError::Busy { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("another run of the laboratory does not end");
}

/// Past the capture of the test harness: a skipped test must be seen.
fn skip<T>(reason: &str) -> Option<T> {
    let _ = writeln!(io::stderr(), "SKIPPED lab virtual machines: {reason}");
    None
}

pub(super) fn options() -> Options {
    Options {
        addresses: vec![address("198.18.1.2")],
        channels: 0,
        postcopy: false,
        bandwidth: 1 << 34,
        downtime: Duration::from_millis(300),
        limit: Duration::from_secs(60),
    }
}

fn completed(progress: &Progress) -> &Figures {
    match progress {
        Progress::Completed(figures) => figures,
        other => panic!("{other:?}"),
    }
}

fn failed(progress: &Progress) -> &Stopped {
    match progress {
        Progress::Failed(stopped) => stopped,
        other => panic!("{other:?}"),
    }
}

fn kill_hard(machine: &Machine) {
    kill(Pid::from_raw(machine.pid().cast_signed()), Signal::SIGKILL).unwrap();
}

#[test]
#[ignore = "boots virtual machines: scripts/vm-tests"]
fn two_machines_move_at_once() {
    let Some(world) = World::make() else { return };
    let session = &world.session;
    let sources = [world.boot(1), world.boot(2)];
    for source in &sources {
        source.dirty(session, 96, 20).unwrap();
    }
    assert!(world.reaches(1) && world.reaches(2));
    let destinations = [world.incoming(1), world.incoming(2)];
    let mut migrations: Vec<_> = sources
        .iter()
        .zip(&destinations)
        .map(|(source, destination)| world.begin(source, destination, options()))
        .collect();
    for progress in world.finish(&mut migrations) {
        let figures = completed(&progress);
        eprintln!("{figures:?}");
        assert!(
            figures.transferred_bytes > 96 * MIB && figures.rounds >= 2,
            "{figures:?}"
        );
        let times = figures.times;
        let order = [
            Some(times.begun),
            times.stopped,
            times.pre_switchover,
            times.switched,
            times.resumed,
        ];
        assert!(order.iter().all(Option::is_some), "{times:?}");
        assert!(
            order.is_sorted() && times.completed >= times.switched,
            "{times:?}"
        );
    }
    for (number, (source, destination)) in (1..).zip(sources.iter().zip(&destinations)) {
        assert_eq!(source.status(session).unwrap(), "postmigrate");
        assert!(destination.is_running(session).unwrap());
        let before = destination.report(session).unwrap();
        assert!(world.reaches(number), "vm{number} at its destination");
        let after = destination.report(session).unwrap();
        eprintln!("{after:?}");
        assert_eq!(after.memory_mib, 96);
        assert!(after.dirtied_mib > before.dirtied_mib && after.udp_received > before.udp_received);
        // A bridge that has not learned where somebody is asks everybody: frames of others are no mistake here.
        assert_eq!((after.udp_duplicates, after.duplicate_frames), (0, 0));
    }
    drop(migrations);
    drop((sources, destinations));
    assert_eq!(world.session.end(), Vec::<String>::new());
}

#[test]
#[ignore = "boots virtual machines: scripts/vm-tests"]
fn a_machine_moves_there_and_back() {
    let Some(world) = World::make() else { return };
    let mut machine = world.boot(1);
    machine.dirty(&world.session, 96, 20).unwrap();
    for round in 1..=4_usize {
        let to = round % 2;
        let destination = world.incoming_at(to, 1);
        let there = Options {
            addresses: vec![address(["198.18.1.1", "198.18.1.2"][to])],
            // Slow enough for several rounds.
            bandwidth: 60 * MIB,
            downtime: Duration::from_millis(60),
            ..options()
        };
        let progress = world.finish(&mut [world.begin(&machine, &destination, there)]);
        let figures = completed(&progress[0]);
        assert!(figures.rounds > 3, "{figures:?}");
        eprintln!(
            "round {round}: {} ms, down {} ms, {} rounds, {} MiB",
            figures.total_ms,
            figures.downtime_ms,
            figures.rounds,
            figures.transferred_bytes / MIB
        );
        machine = destination;
        assert!(world.reaches(1), "in round {round}");
        machine.report(&world.session).unwrap();
    }
}

#[test]
#[ignore = "boots virtual machines: scripts/vm-tests"]
fn channels_share_two_links() {
    let Some(world) = World::make() else { return };
    let source = world.boot(1);
    source.dirty(&world.session, 128, 10).unwrap();
    let destination = world.incoming(1);
    let before = ["link1", "link2"].map(|link| world.sent_bytes(link));
    let both = Options {
        addresses: vec![address("198.18.1.2"), address("198.18.2.2")],
        channels: 4,
        ..options()
    };
    let progress = world.finish(&mut [world.begin(&source, &destination, both)]);
    let figures = completed(&progress[0]);
    let after = ["link1", "link2"].map(|link| world.sent_bytes(link));
    let sent = [after[0] - before[0], after[1] - before[1]];
    eprintln!("{figures:?}; bytes on the links: {sent:?}");
    assert!(sent.iter().sum::<u64>() > 128 * MIB, "{sent:?}");
    let share = sent[0] as f64 / (sent[0] + sent[1]) as f64;
    assert!((0.25..0.75).contains(&share), "{share}");
    assert!(world.reaches(1));
}

#[test]
#[ignore = "boots virtual machines: scripts/vm-tests"]
fn post_copy_is_switched_over_too() {
    let Some(world) = World::make() else { return };
    let source = world.boot(1);
    source.dirty(&world.session, 96, 60).unwrap();
    let destination = world.incoming(1);
    let slow = Options {
        postcopy: true,
        bandwidth: 50 * MIB,
        ..options()
    };
    let mut migration = world.begin(&source, &destination, slow);
    let end = Instant::now() + MIGRATED;
    while !matches!(migration.poll().unwrap(), Progress::ReadyToSwitch) {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(5));
    }
    // It waits for the switch.
    std::thread::sleep(Duration::from_millis(300));
    assert!(matches!(migration.poll().unwrap(), Progress::ReadyToSwitch));
    assert_eq!(destination.status(&world.session).unwrap(), "inmigrate");
    migration.switch().unwrap();
    let progress = world.finish(std::slice::from_mut(&mut migration));
    let figures = completed(&progress[0]);
    eprintln!("{figures:?}");
    assert!(
        figures.times.resumed > figures.times.switched,
        "{figures:?}"
    );
    assert!(figures.postcopy_requests > 0, "{figures:?}");
    assert!(world.reaches(1));
}

#[test]
#[ignore = "boots virtual machines: scripts/vm-tests"]
fn a_guest_outlives_migrations_that_fail() {
    let Some(world) = World::make() else { return };
    let session = &world.session;
    let source = world.boot(1);
    source.dirty(session, 96, 100).unwrap();
    let goes_on = |progress: &Progress, words: &[&str]| {
        let stopped = failed(progress);
        eprintln!("{}", stopped.reason);
        assert_eq!(stopped.guest, Guest::AtSource, "{stopped:?}");
        for word in words {
            assert!(stopped.reason.contains(word), "{word}: {}", stopped.reason);
        }
        let before = source.report(session).unwrap();
        assert!(world.reaches(1));
        assert!(source.report(session).unwrap().dirtied_mib > before.dirtied_mib);
    };

    // It does not converge.
    let destination = world.incoming(1);
    let slow = Options {
        bandwidth: 20 * MIB,
        limit: Duration::from_secs(8),
        ..options()
    };
    let progress = world.finish(&mut [world.begin(&source, &destination, slow.clone())]);
    goes_on(
        &progress[0],
        &["did not converge within 8 s (round ", " MiB left"],
    );
    drop(destination);

    // The destination dies midway.
    let destination = world.incoming(1);
    let mut migration = world.begin(&source, &destination, slow.clone());
    let end = Instant::now() + MIGRATED;
    while !matches!(migration.poll().unwrap(), Progress::Running if migration.last().transferred_bytes > 10 * MIB)
    {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_hard(&destination);
    let progress = world.finish(std::slice::from_mut(&mut migration));
    goes_on(&progress[0], &["vm1 on host2", "signal: 9"]);
    drop(migration);
    drop(destination);

    // The destination is another machine: its state does not fit.
    let mut other = world.spec(1);
    other.memory_mib = 192;
    source.dirty(session, 96, 10).unwrap();
    let destination = Machine::incoming(session, &world.images, &other, &world.hosts[1]).unwrap();
    let progress = world.finish(&mut [world.begin(&source, &destination, options())]);
    goes_on(&progress[0], &["vm1 on host2", "exited with status 1"]);
    drop(destination);

    // It is called off at the last moment.
    let destination = world.incoming(1);
    let mut migration = world.begin(&source, &destination, options());
    let end = Instant::now() + MIGRATED;
    while !matches!(migration.poll().unwrap(), Progress::ReadyToSwitch) {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!source.is_running(session).unwrap());
    migration.cancel("the new place is not ready").unwrap();
    let progress = world.finish(std::slice::from_mut(&mut migration));
    goes_on(&progress[0], &["the new place is not ready"]);
    drop(migration);
    drop(destination);

    // And it can still be moved.
    let destination = world.incoming(1);
    let progress = world.finish(&mut [world.begin(&source, &destination, options())]);
    completed(&progress[0]);
    assert!(world.reaches(1));
}

#[test]
#[ignore = "boots virtual machines: scripts/vm-tests"]
fn a_source_that_dies_is_named() {
    let Some(world) = World::make() else { return };
    let source = world.boot(1);
    let destination = world.incoming(1);
    // A guest without orders waits: what is left is its kernel's clock, and QEMU.
    let used = |pid: i32| {
        let clock = clock_getcpuclockid(Pid::from_raw(pid)).and_then(clock_gettime);
        Duration::from(clock.unwrap())
    };
    let pid = source.pid().cast_signed();
    let before = used(pid);
    std::thread::sleep(Duration::from_secs(2));
    let idle = used(pid) - before;
    eprintln!("idle for 2 s: {idle:?} of CPU time");
    assert!(idle < Duration::from_millis(600), "{idle:?}");
    source.pause(&world.session).unwrap();
    assert_eq!(source.status(&world.session).unwrap(), "paused");
    source.resume(&world.session).unwrap();
    assert!(source.is_running(&world.session).unwrap());
    let slow = Options {
        bandwidth: MIB,
        ..options()
    };
    let mut migration = world.begin(&source, &destination, slow);
    migration.poll().unwrap();
    kill_hard(&source);
    let error = migration.poll().unwrap_err().to_string();
    assert!(
        error.contains("vm1 on host1") && error.contains("signal: 9"),
        "{error}"
    );
    assert!(source.report(&world.session).is_err());
    // What the destination was sent is of no use: it ends by itself.
    ends("the destination", || destination.has_ended());
    let error = destination.look_after().unwrap_err().to_string();
    assert!(
        error.contains("vm1 on host2") && error.contains("status 1"),
        "{error}"
    );
}

/// Set for the process that is to be killed.
const VICTIM: &str = "OVERLANE_TEST_VICTIM";

#[test]
#[ignore = "boots virtual machines: scripts/vm-tests"]
fn no_machine_outlives_its_run() {
    if std::env::var_os(VICTIM).is_some() {
        let Some(world) = World::make() else { return };
        let machine = world.boot(1);
        let _ = writeln!(io::stderr(), "victim has {}", machine.pid());
        std::thread::sleep(Duration::from_secs(600));
        return;
    }
    let Some(world) = World::make() else { return };
    let machine = world.boot(1);
    let pid = machine.pid();
    assert_eq!(world.session.end(), Vec::<String>::new());
    ends(&format!("process {pid}"), || machine.has_ended());
    drop((machine, world._guard));
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "vm::tests::no_machine_outlives_its_run",
            "--nocapture",
        ])
        .env(VICTIM, "1")
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stderr.take().unwrap()).lines();
    let pid: u32 = loop {
        let line = lines.next().unwrap().unwrap();
        if let Some(pid) = line.strip_prefix("victim has ") {
            break pid.parse().unwrap();
        }
    };
    assert!(is_qemu(pid), "process {pid}");
    victim.kill().unwrap();
    victim.wait().unwrap();
    ends(&format!("process {pid}"), || !is_qemu(pid));
    // The next run takes its namespaces away.
    drop(session());
    let left: Vec<_> = overlane_net::netns::list().unwrap();
    assert!(!left.iter().any(|name| name.contains("-vm-")), "{left:?}");
}

/// The threads of a process that was killed end one after another.
fn ends(what: &str, mut has_ended: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !has_ended() {
        assert!(Instant::now() < end, "{what} is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_qemu(pid: u32) -> bool {
    let path = format!("/proc/{pid}/cmdline");
    std::fs::read(path).is_ok_and(|words| words.starts_with(QEMU.as_bytes()))
}

#[test]
#[ignore = "boots virtual machines: scripts/vm-tests"]
fn a_machine_that_cannot_be_is_an_error_with_qemus_words() {
    let Some(world) = World::make() else { return };
    let spec = world.spec(1);
    // Something else has that name.
    let none = Spec {
        tap: "link1".to_owned(),
        ..spec
    };
    let error = Machine::boot(&world.session, &world.images, &none, &world.hosts[0]);
    let error = error.err().unwrap().to_string();
    assert!(
        error.contains("vm1 on host1") && error.contains("status 1"),
        "{error}"
    );
}
