//! When to look which sizes get to the remotes: every interval, and at once when something on the way out changes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use overlane_net::Event as Change;

use super::{Duty, Event};
use crate::lib::paths;
use crate::mtu::probe::{Checked, ProbedWay};
use crate::mtu::way::{Decision, Way};

/// Why there is nothing more to watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// SIGINT, SIGTERM or SIGHUP.
    Signal,
    /// The host was removed, or another version took over.
    HostGone,
}

/// What fits may be more again, at none of the sizes that are tried each time: RFC 8899 section 5.1.1,
/// PMTU_RAISE_TIMER, so that what is known never ends before.
const SEARCH_AGAIN: Duration = Duration::from_secs(300);
/// From one look to the next, however much changes.
const PAUSE: Duration = Duration::from_millis(100);

/// Watches the ways of one host.
#[derive(Debug)]
pub(crate) struct WatchMtu {
    files: Vec<PathBuf>,
    interval: Duration,
    next: Instant,
    /// When the last look was over.
    looked: Instant,
    /// As the last look found it: name and index. No index: it is not there.
    uplink: (String, Option<u32>),
    has_uplink: bool,
    /// The remotes, and when they were searched.
    remotes: BTreeMap<IpAddr, Option<Instant>>,
    end: Option<End>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Action {
    /// Check all ways.
    Look,
    /// Find what fits.
    Search(Vec<Way>),
    /// Write what is known of a way anew, before it is too old to count.
    Refresh(Way),
    /// So much fits from now on.
    Take(Way, ProbedWay),
    SayNoUplink,
}

/// What a look, or a search, came to.
#[derive(Debug)]
pub(crate) enum Looked {
    HostGone,
    /// There is none, or it has no address.
    NoUplink,
    Checked {
        uplink: (String, u32),
        ways: Vec<(Way, Checked)>,
        /// By the clock of the data path.
        now_s: u32,
    },
    /// The size, and the hop that says so; none where nobody answered.
    Found(Vec<(Way, Option<ProbedWay>)>),
}

impl WatchMtu {
    pub(crate) fn new(host: &str, interval: Duration, now: Instant) -> Self {
        Self {
            files: vec![paths::state(host)],
            interval,
            next: now,
            looked: now,
            uplink: (String::new(), None),
            has_uplink: true,
            remotes: BTreeMap::new(),
            end: None,
        }
    }

    /// Why it is over.
    pub(crate) const fn end(&self) -> Option<End> {
        self.end
    }

    /// Whether the way to a remote may be another one now.
    fn concerns(&mut self, change: &Change) -> bool {
        let (name_of_uplink, of_uplink) = &mut self.uplink;
        match change {
            Change::Everything => true,
            Change::Link {
                index, name, gone, ..
            } => {
                let was_it = *of_uplink == Some(*index);
                if name == name_of_uplink {
                    *of_uplink = (!gone).then_some(*index);
                }
                was_it || name == name_of_uplink
            }
            Change::Address { index, .. } => of_uplink.is_none_or(|of_uplink| of_uplink == *index),
            Change::Route {
                destination: (address, len),
                index,
                ..
            } => {
                let net = IpNet::new(*address, *len).ok();
                let leads_to = |remote| net.is_some_and(|net| net.contains(remote));
                let is_by_uplink = index.is_some() && index == of_uplink;
                is_by_uplink || self.remotes.keys().any(leads_to)
            }
            Change::Neighbour { .. } => false,
        }
    }

    fn decide(&mut self, ways: &[(Way, Checked)], now_s: u32, now: Instant) -> Vec<Action> {
        let before = std::mem::take(&mut self.remotes);
        let (mut actions, mut search) = (Vec::new(), Vec::new());
        for (way, checked) in ways {
            let searched = before.get(&way.address).copied().flatten();
            self.remotes.insert(way.address, searched);
            let is_due = searched.is_some_and(|at| now.duration_since(at) >= SEARCH_AGAIN);
            match way.decide(checked, is_due, now_s) {
                Decision::Nothing => {}
                Decision::Refresh => actions.push(Action::Refresh(*way)),
                Decision::Forget => {
                    let (mtu, hop) = (way.uplink_mtu, None);
                    actions.push(Action::Take(*way, ProbedWay { mtu, hop }));
                }
                Decision::Search => search.push(*way),
            }
        }
        if !search.is_empty() {
            actions.push(Action::Search(search));
        }
        actions
    }
}

impl Duty for WatchMtu {
    type Action = Action;
    type Outcome = Looked;

    fn on(&mut self, event: &Event, now: Instant) -> Vec<Action> {
        let is_soon = match event {
            Event::Signal => {
                self.end = Some(End::Signal);
                return Vec::new();
            }
            Event::File(_) => true,
            Event::Network(change) => self.concerns(change),
            Event::Started | Event::Ruleset | Event::Mounts | Event::Call | Event::Timer => false,
        };
        if is_soon {
            self.next = self.next.min(now.max(self.looked + PAUSE));
        }
        if now < self.next {
            return Vec::new();
        }
        self.next = now + self.interval;
        vec![Action::Look]
    }

    fn done(&mut self, looked: Looked, now: Instant) -> Vec<Action> {
        self.looked = now;
        match looked {
            Looked::HostGone => {
                self.end = Some(End::HostGone);
                Vec::new()
            }
            Looked::NoUplink => {
                let had_uplink = std::mem::take(&mut self.has_uplink);
                let say = had_uplink.then_some(Action::SayNoUplink);
                say.into_iter().collect()
            }
            Looked::Checked {
                uplink: (name, index),
                ways,
                now_s,
            } => {
                self.has_uplink = true;
                self.uplink = (name, Some(index));
                self.decide(&ways, now_s, now)
            }
            Looked::Found(found) => {
                let mut actions = Vec::new();
                for (way, found) in found {
                    self.remotes.insert(way.address, Some(now));
                    actions.extend(found.map(|found| Action::Take(way, found)));
                }
                actions
            }
        }
    }

    fn wakes_at(&self) -> Option<Instant> {
        Some(self.next)
    }

    fn files(&self) -> Vec<PathBuf> {
        self.files.clone()
    }

    fn is_over(&self) -> bool {
        self.end.is_some()
    }
}

#[cfg(test)]
mod tests {
    use overlane_ebpf::abi::{Addr, PathMtu};

    use super::*;
    use crate::live::events::link;

    const INTERVAL: Duration = Duration::from_secs(2);
    const NOW_S: u32 = 1000;
    const UPLINK: u32 = 7;

    fn remote(last: u8) -> IpAddr {
        [198, 18, 2, last].into()
    }

    fn way(last: u8, mtu: Option<u32>) -> Way {
        let entry = |mtu| PathMtu {
            mtu,
            until: NOW_S + 600,
            hop: Addr::default(),
        };
        Way {
            address: remote(last),
            entry: mtu.map(entry),
            uplink_mtu: 1500,
        }
    }

    fn checked(passes: bool, larger: Option<u16>) -> Checked {
        Checked {
            is_alive: true,
            passes,
            larger,
        }
    }

    fn looked(ways: Vec<(Way, Checked)>) -> Looked {
        Looked::Checked {
            uplink: ("eth1".into(), UPLINK),
            ways,
            now_s: NOW_S,
        }
    }

    /// After a first look at a remote, whose packets pass.
    fn watch(begin: Instant) -> WatchMtu {
        let mut watch = WatchMtu::new("h1", INTERVAL, begin);
        assert_eq!(watch.on(&Event::Started, begin), [Action::Look]);
        let fine = (way(1, None), checked(true, None));
        assert_eq!(watch.done(looked(vec![fine]), begin), []);
        watch
    }

    fn route(destination: ([u8; 4], u8), index: Option<u32>) -> Change {
        Change::Route {
            destination: (destination.0.into(), destination.1),
            index,
            gone: false,
        }
    }

    fn address(index: u32) -> Change {
        Change::Address {
            index,
            address: remote(9),
            gone: false,
        }
    }

    #[test]
    fn it_looks_every_interval() {
        let begin = Instant::now();
        let mut watch = watch(begin);
        assert_eq!(watch.wakes_at(), Some(begin + INTERVAL));
        assert_eq!(watch.on(&Event::Timer, begin + INTERVAL / 2), []);
        assert_eq!(watch.on(&Event::Timer, begin + INTERVAL), [Action::Look]);
        assert_eq!(watch.wakes_at(), Some(begin + 2 * INTERVAL));
    }

    #[test]
    fn it_looks_at_once_when_the_way_out_changes() {
        let begin = Instant::now();
        let later = begin + INTERVAL / 2;
        let neighbour = Change::Neighbour {
            index: UPLINK,
            address: remote(1),
            gone: false,
        };
        for (change, looks) in [
            (Change::Everything, true),
            (link(UPLINK, "eth1", false), true),
            (link(UPLINK, "eth1", true), true),
            (link(UPLINK, "renamed", false), true),
            (link(8, "eth1", false), true),
            (link(8, "tap0", false), false),
            (address(UPLINK), true),
            (address(8), false),
            (route(([0, 0, 0, 0], 0), Some(8)), true),
            (route(([198, 18, 2, 0], 24), None), true),
            (route(([198, 18, 3, 0], 24), Some(8)), false),
            (route(([198, 18, 3, 0], 24), None), false),
            (route(([198, 18, 3, 0], 24), Some(UPLINK)), true),
            (neighbour, false),
        ] {
            let actions = watch(begin).on(&Event::Network(change.clone()), later);
            assert_eq!(actions == [Action::Look], looks, "{change:?}");
        }
        let file = Event::File("/run/overlane/h1.json".into());
        assert_eq!(watch(begin).on(&file, later), [Action::Look]);
    }

    #[test]
    fn a_storm_of_changes_makes_ten_looks_a_second() {
        let begin = Instant::now();
        let mut watch = watch(begin);
        let mut looks = 0;
        for ms in 0..1000 {
            let now = begin + Duration::from_millis(ms);
            let everything = Event::Network(Change::Everything);
            for action in watch.on(&everything, now) {
                assert_eq!(action, Action::Look);
                watch.done(looked(Vec::new()), now);
                looks += 1;
            }
        }
        assert_eq!(looks, 9);
    }

    #[test]
    fn an_uplink_that_is_gone_is_named_once_and_awaited() {
        let begin = Instant::now();
        let mut watch = watch(begin);
        let later = |ms| begin + Duration::from_millis(ms);
        let gone = Event::Network(link(UPLINK, "eth1", true));
        assert_eq!(watch.on(&gone, later(500)), [Action::Look]);
        assert_eq!(
            watch.done(Looked::NoUplink, later(500)),
            [Action::SayNoUplink]
        );
        let back = Event::Network(link(9, "eth1", false));
        assert_eq!(watch.on(&back, later(1000)), [Action::Look]);
        assert_eq!(watch.done(Looked::NoUplink, later(1000)), []);
        // It has another index now, and gets its address.
        assert_eq!(watch.on(&Event::Network(address(8)), later(1500)), []);
        let has_address = Event::Network(address(9));
        assert_eq!(watch.on(&has_address, later(1500)), [Action::Look]);
        assert_eq!(watch.done(looked(Vec::new()), later(1500)), []);
        assert_eq!(
            watch.done(Looked::NoUplink, later(2000)),
            [Action::SayNoUplink]
        );
    }

    #[test]
    fn what_fails_is_searched_and_what_is_found_is_taken() {
        let begin = Instant::now();
        let mut watch = watch(begin);
        let (free, small, better) = (way(1, None), way(2, Some(1400)), way(3, Some(1400)));
        let ways = vec![
            (free, checked(false, None)),
            (small, checked(false, None)),
            (better, checked(true, Some(1500))),
        ];
        let found = |mtu, hop| ProbedWay { mtu, hop };
        let forget = Action::Take(better, found(1500, None));
        let search = Action::Search(vec![free, small]);
        assert_eq!(watch.done(looked(ways), begin), [forget, search]);
        let told = found(1450, Some(remote(254)));
        let found = vec![(free, Some(told)), (small, None)];
        let take = Action::Take(free, told);
        assert_eq!(watch.done(Looked::Found(found), begin), [take]);

        // More may fit, at a size that no look tries.
        let known = || looked(vec![(small, checked(true, None))]);
        assert_eq!(watch.done(known(), begin + SEARCH_AGAIN / 2), []);
        let again = Action::Search(vec![small]);
        assert_eq!(watch.done(known(), begin + SEARCH_AGAIN), [again]);
    }

    #[test]
    fn it_ends_with_a_signal_or_its_host() {
        let begin = Instant::now();
        let mut by_signal = watch(begin);
        assert_eq!(by_signal.on(&Event::Signal, begin + INTERVAL), []);
        assert_eq!(by_signal.end(), Some(End::Signal));
        let mut with_host = watch(begin);
        assert_eq!(with_host.done(Looked::HostGone, begin), []);
        assert!(with_host.is_over() && with_host.end() == Some(End::HostGone));
    }
}
