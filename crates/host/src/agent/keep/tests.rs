use super::*;
use crate::live::events;

const STATE: &str = "/run/overlane/h1.json";

fn interest() -> Interest {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    Interest {
        indices: BTreeMap::from([("eth1".to_owned(), 2), ("v1".to_owned(), 11)]),
        ports: names(&["v1", "v2"]),
        others: names(&["eth1", "ovl-seg0"]),
        next_hops: BTreeSet::from([[198, 18, 0, 2].into()]),
        remotes: vec![[198, 18, 0, 2].into()],
        files: BTreeSet::from(["/etc/overlane/fabric.yaml".into()]),
        state: STATE.into(),
    }
}

/// A duty whose first pass, read and look are done, and the time since then.
struct Played {
    keep: Keep,
    begin: Instant,
}

impl Played {
    fn new() -> Self {
        let begin = Instant::now();
        let mut keep = Keep::new(interest(), None, begin);
        let first = keep.on(&Event::Started, begin);
        assert_eq!(first, [Action::Pass, Action::Read]);
        let passed = Passed {
            interest: interest(),
            ..Passed::default()
        };
        assert_eq!(keep.done(Outcome::Passed(passed), begin), []);
        let files = interest().files;
        assert_eq!(
            keep.done(Outcome::Files(files), begin),
            [Action::Look],
            "people want to know of the first pass"
        );
        Self { keep, begin }
    }

    fn at(&self, ms: u64) -> Instant {
        self.begin + Duration::from_millis(ms)
    }

    fn hear(&mut self, ms: u64, event: Event) -> Vec<Action> {
        let now = self.at(ms);
        self.keep.on(&event, now)
    }

    /// When the next pass is due, in milliseconds.
    fn pass_at(&self) -> Option<u64> {
        let at = self.keep.pass_at?;
        u64::try_from((at - self.begin).as_millis()).ok()
    }
}

fn link(name: &str, index: u32) -> Change {
    events::link(index, name, false)
}

fn gone(name: &str, index: u32) -> Change {
    events::link(index, name, true)
}

#[test]
fn a_restarted_container_takes_one_pass_and_waits_for_nothing() {
    let mut played = Played::new();
    played.hear(1000, Event::Network(gone("v1", 11)));
    assert_eq!(played.pass_at(), Some(1100), "it may come back");
    played.hear(1020, Event::Network(link("v1", 12)));
    assert_eq!(played.pass_at(), Some(1024));
    assert!(played.hear(1023, Event::Timer).is_empty());
    assert!(played.hear(1024, Event::Timer).contains(&Action::Pass));
    // The same device goes up, gets an alias, a neighbour: nothing that a pass depends on.
    played.hear(1030, Event::Network(link("v1", 12)));
    played.hear(1031, Event::Network(link("veth-of-somebody", 13)));
    assert_eq!(played.pass_at(), None);
    // One that stays away is missed.
    played.hear(2000, Event::Network(gone("v1", 12)));
    assert!(played.hear(2100, Event::Timer).contains(&Action::Pass));
}

#[test]
fn a_name_that_another_device_has_by_now_is_not_gone() {
    let mut played = Played::new();
    played.hear(10, Event::Network(link("v1", 12)));
    played.hear(14, Event::Timer);
    // The end of the first life is told late.
    played.hear(20, Event::Network(gone("v1", 11)));
    assert_eq!(played.pass_at(), None);
    // It gets another name: its port has lost it.
    played.hear(30, Event::Network(link("other", 12)));
    assert_eq!(played.pass_at(), Some(130));
}

#[test]
fn many_devices_at_once_take_few_passes() {
    let mut played = Played::new();
    played.keep.interest.ports = (0..1000).map(|number| format!("m{number}")).collect();
    let mut passes = 0;
    // One each millisecond, and each pass takes as long as it takes for 100 of them.
    for number in 0..1000 {
        let name = format!("m{number}");
        let actions = played.hear(number, Event::Network(link(&name, 100 + number as u32)));
        passes += actions.iter().filter(|it| **it == Action::Pass).count();
    }
    passes += usize::from(played.pass_at().is_some());
    assert!(passes <= 3, "{passes}");
}

#[test]
fn the_uplink_counts_in_all_and_others_do_not() {
    let concerns = |change: Change| {
        let mut played = Played::new();
        played.hear(0, Event::Network(change));
        played.pass_at().is_some()
    };
    let address = |index, address: &str| Change::Address {
        index,
        address: address.parse().unwrap(),
        gone: true,
    };
    let route = |to: [u8; 4], len, index| Change::Route {
        destination: (to.into(), len),
        index,
        gone: true,
    };
    let neighbour = |index, last: u8, gone| Change::Neighbour {
        index,
        address: [198, 18, 0, last].into(),
        gone,
    };
    assert!(concerns(Change::Everything));
    assert!(concerns(link("eth1", 2)) && !concerns(link("eth0", 1)));
    assert!(concerns(address(7, "198.18.0.1")));
    assert!(concerns(address(2, "fe80::1")) && !concerns(address(11, "fe80::1")));
    assert!(concerns(route([198, 18, 0, 0], 24, Some(7))));
    assert!(concerns(route([198, 19, 0, 0], 24, Some(2))));
    assert!(!concerns(route([198, 19, 0, 0], 24, Some(7))));
    assert!(concerns(neighbour(2, 2, true)) && !concerns(neighbour(2, 2, false)));
    assert!(!concerns(neighbour(2, 3, true)) && !concerns(neighbour(11, 2, true)));
}

#[test]
fn a_file_is_read_when_its_writer_is_done() {
    let mut played = Played::new();
    let file = || Event::File("/etc/overlane/fabric.yaml".into());
    assert_eq!(played.hear(0, file()), []);
    assert_eq!(played.hear(30, file()), []);
    assert_eq!(played.hear(60, Event::Timer), []);
    assert_eq!(played.hear(80, Event::Timer), [Action::Read]);
    let now = played.at(80);
    let then = played.keep.done(Outcome::Wanted, now);
    assert_eq!(then, [Action::Pass, Action::Look]);
    let applied = played.hear(90, Event::File(STATE.into()));
    assert_eq!(applied, [Action::Compare(What::Applied)]);
    assert_eq!(played.hear(95, Event::File("/etc/other".into())), []);
}

#[test]
fn a_pass_that_fails_is_tried_again_later_and_later() {
    let mut played = Played::new();
    let mut ms = 0;
    for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
        let passed = Passed {
            interest: interest(),
            has_failed: true,
            ..Passed::default()
        };
        let now = played.at(ms);
        played.keep.done(Outcome::Passed(passed), now);
        ms += pause * 1000;
        assert_eq!(played.keep.retry_at, Some(played.at(ms)), "after {pause} s");
        played.keep.retry_at = None;
    }
    let now = played.at(ms);
    played.keep.done(Outcome::Passed(Passed::default()), now);
    assert_eq!(played.keep.retry_at, None);
}

#[test]
fn whatever_happens_all_is_looked_at_from_time_to_time() {
    let mut played = Played::new();
    assert!(!played.hear(119_999, Event::Timer).contains(&Action::Pass));
    let all = played.hear(120_000, Event::Timer);
    for action in [Action::Read, Action::Pass, Action::Look] {
        assert!(all.contains(&action), "{all:?}");
    }
    // A host of which that takes a second is looked at after a thousand.
    let now = played.at(121_000);
    assert_eq!(
        played.keep.done(Outcome::Looked { differs: false }, now),
        []
    );
    assert!(!played.hear(1_120_999, Event::Timer).contains(&Action::Pass));
    // A look at something else meanwhile is no full one.
    let now = played.at(1_120_999);
    assert_eq!(
        played.keep.done(Outcome::Looked { differs: false }, now),
        []
    );
    assert!(played.hear(1_121_000, Event::Timer).contains(&Action::Pass));
    let now = played.at(1_121_000);
    let found = Outcome::Looked { differs: true };
    assert_eq!(played.keep.done(found, now), [Action::Pass]);
}

#[test]
fn hooks_are_compared_each_second_and_on_a_large_host_less_often() {
    let mut played = Played::new();
    let compare = Action::Compare(What::Hooks);
    let compared = |ms, differs| Outcome::Hooks {
        took: Duration::from_millis(ms),
        differs,
    };
    assert!(!played.hear(999, Event::Timer).contains(&compare));
    assert!(played.hear(1000, Event::Timer).contains(&compare));
    let now = played.at(1000);
    assert_eq!(played.keep.done(compared(1, true), now), [Action::Pass]);
    assert!(played.hear(2000, Event::Timer).contains(&compare));
    let now = played.at(2000);
    assert_eq!(played.keep.done(compared(30, false), now), []);
    assert!(!played.hear(31_999, Event::Timer).contains(&compare));
    assert!(played.hear(32_000, Event::Timer).contains(&compare));
}

#[test]
fn the_service_manager_hears_of_it_as_often_as_it_wants() {
    let begin = Instant::now();
    let every = Duration::from_secs(10);
    let mut keep = Keep::new(interest(), Some(every), begin);
    keep.on(&Event::Started, begin);
    assert!(keep.on(&Event::Timer, begin).contains(&Action::Beat));
    assert!(keep.wakes_at().is_some_and(|at| at <= begin + every));
    let beats = |keep: &mut Keep, at| keep.on(&Event::Timer, at).contains(&Action::Beat);
    assert!(!beats(&mut keep, begin + every / 2));
    assert!(beats(&mut keep, begin + every));
    keep.on(&Event::Signal, begin);
    assert!(keep.is_over());
}

#[test]
fn a_device_that_is_awaited_elsewhere_is_looked_for() {
    let mut played = Played::new();
    let passed = Passed {
        interest: interest(),
        awaited: 2,
        ..Passed::default()
    };
    let now = played.at(0);
    played.keep.done(Outcome::Passed(passed), now);
    let look = Action::Compare(What::Elsewhere);
    assert!(!played.hear(99, Event::Timer).contains(&look));
    assert!(played.hear(100, Event::Timer).contains(&look));
    assert!(!played.hear(150, Event::Timer).contains(&look));
    played.keep.done(Outcome::Passed(Passed::default()), now);
    assert!(!played.hear(300, Event::Timer).contains(&look));
}
