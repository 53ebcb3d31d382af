//! `overlane mtu --watch`: finds where packets vanish on the way to a remote because they are too large and nobody says
//! so (RFC 8899), and tells the data path what fits. The data path tells the guests.
//!
//! Every interval each remote is checked with the size that is used now, and with larger ones. If the first fails, a
//! search finds what fits. What is found stands in the map `path_mtus`, where it ages if nobody watches any more.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use overlane_ebpf::abi::{Addr, PathMtu, Settings};
use overlane_ebpf::maps::MapSet;
use overlane_ebpf::{path_mtus, preflight};
use serde::Serialize;

use super::probe::{self, COMMON, Check, Checked, Outcome, Prober};
use crate::HostError;
use crate::lib::clock::Clock;
use crate::lib::signals::Signals;
use crate::observe::{self, PATH_MTU_SECONDS};
use crate::state::State;

/// What fits may be more again, at none of the sizes that are tried each time: RFC 8899 section 5.1.1,
/// PMTU_RAISE_TIMER, so that what is known never ends before.
const SEARCH_AGAIN: Duration = Duration::from_secs(300);
/// What is known is written anew when so many of its seconds are gone.
const REFRESH_S: u32 = 30;

/// What happened to the way to a remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Happened {
    /// Less fits than before.
    Lowered,
    /// More fits than before.
    Raised,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// When, in ns since 1970 (UTC).
    pub time_unix_ns: u64,
    /// What.
    pub event: Happened,
    /// The remote's name.
    pub remote: String,
    /// Its tunnel end point.
    pub address: IpAddr,
    /// The largest outer IP packet that gets there, from now on.
    pub mtu: u16,
    /// What was sent before.
    pub before: u16,
    /// MTU of the own uplink.
    pub uplink_mtu: u16,
    /// Who said so by ICMP; none: nobody.
    pub hop: Option<IpAddr>,
}

/// Why there is nothing more to watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// SIGINT, SIGTERM or SIGHUP.
    Signal,
    /// The host was removed, or another version took over.
    HostGone,
}

/// What an interval brought.
#[derive(Debug)]
pub enum Step {
    /// These changes, maybe none.
    Events(Vec<Event>),
    /// There is no uplink, or it lacks the host's address: the first interval that finds it so says it.
    NoUplink(String),
    /// The end.
    End(End),
}

/// The host as an interval finds it.
enum Renewed {
    There,
    NoUplink,
    HostGone,
}

/// Watches the ways of one host.
#[derive(Debug)]
pub struct Watch {
    view: View,
    signals: Signals,
    interval: Duration,
    next: Instant,
    searched: BTreeMap<IpAddr, Instant>,
    has_uplink: bool,
}

/// The host as it was applied last.
#[derive(Debug)]
struct View {
    state: State,
    maps: MapSet,
    settings: Settings,
    prober: Prober,
}

/// What to do about a remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Nothing,
    /// What is known still holds.
    Refresh,
    /// All that the uplink takes fits again.
    Forget,
    Search,
}

/// The way to a remote, as the data path sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Way {
    address: IpAddr,
    /// What is known and live.
    entry: Option<PathMtu>,
    uplink_mtu: u16,
}

impl Watch {
    /// Begins.
    ///
    /// Blocks the signals that end a program for the calling thread: they end [`step`](Self::step).
    pub fn open(host: &str, interval: Duration) -> Result<Self, HostError> {
        preflight::check_rights()?;
        let view = View::open(observe::state_of(host)?)?;
        Ok(Self {
            view,
            signals: Signals::take_over()?,
            interval,
            next: Instant::now(),
            searched: BTreeMap::new(),
            has_uplink: true,
        })
    }

    /// The host's remotes, as they are applied: names and tunnel end points.
    pub fn remotes(&self) -> Vec<(String, IpAddr)> {
        let remotes = self.view.state.tables.remotes.iter();
        remotes.map(|it| (it.name.to_string(), it.addr)).collect()
    }

    /// Waits for the next interval, and looks at all ways.
    pub fn step(&mut self) -> Result<Step, HostError> {
        if self.sleep()? {
            return Ok(Step::End(End::Signal));
        }
        self.next = Instant::now() + self.interval;
        let had_uplink = self.has_uplink;
        let renewed = self.view.renew()?;
        self.has_uplink = !matches!(renewed, Renewed::NoUplink);
        match renewed {
            Renewed::There => {}
            Renewed::NoUplink if had_uplink => {
                return Ok(Step::NoUplink(self.view.state.tables.uplink.to_string()));
            }
            Renewed::NoUplink => return Ok(Step::Events(Vec::new())),
            Renewed::HostGone => return Ok(Step::End(End::HostGone)),
        }
        let ways = self.view.ways()?;
        let stop = Some(self.signals.as_fd());
        let prober = &self.view.prober;
        let check = |way: &Way| (way.address, way.check(prober.least()));
        let checked = prober.ask(ways.iter().map(check).collect(), stop)?;
        let (mut events, mut search) = (Vec::new(), Vec::new());
        for (way, told) in ways.iter().zip(checked) {
            let Some(checked) = told.outcome else {
                continue;
            };
            let searched = self.searched.get(&way.address);
            let is_due = searched.is_some_and(|at| at.elapsed() >= SEARCH_AGAIN);
            match way.decide(&checked, is_due) {
                Decision::Nothing => {}
                Decision::Refresh => self.view.set(way.address, way.current().into())?,
                Decision::Forget => events.extend(self.view.take(way, way.uplink_mtu, None)?),
                Decision::Search => search.push(*way),
            }
        }
        let addresses: Vec<IpAddr> = search.iter().map(|way| way.address).collect();
        let found = prober.search(&addresses, false, stop)?;
        for (way, told) in search.iter().zip(found) {
            self.searched.insert(way.address, Instant::now());
            if let Some(Outcome::Heard { there, .. }) = told.outcome {
                events.extend(self.view.take(way, there.mtu, there.hop)?);
            }
        }
        Ok(Step::Events(events))
    }

    /// True: a signal came.
    fn sleep(&self) -> Result<bool, HostError> {
        loop {
            let left = self.next.saturating_duration_since(Instant::now());
            let timeout = left.as_micros().div_ceil(1000);
            let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
            let mut signals = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            match poll(&mut signals, timeout) {
                Ok(0) if Instant::now() >= self.next => return Ok(false),
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return Ok(true),
                Err(errno) => return Err(HostError::system("wait for signals")(errno)),
            }
        }
    }
}

/// The uplink is there again, and nobody has given it its address yet.
fn is_without_address(error: &HostError) -> bool {
    let missing = Errno::EADDRNOTAVAIL as i32;
    matches!(error, HostError::Net(error) if error.errno() == Some(missing))
}

impl View {
    fn open(state: State) -> Result<Self, HostError> {
        let maps = observe::maps(&state)?;
        let settings = probe::settings(&maps)?;
        let open = |netlink: &_| Prober::open(&state, &settings, netlink);
        let prober = observe::in_namespace(&state, open)?.ok_or_else(|| probe::gone(&state))?;
        Ok(Self {
            state,
            maps,
            settings,
            prober,
        })
    }

    /// Takes over what an `apply` has changed. Of a host that is gone, or not for this version, nothing is left.
    fn renew(&mut self) -> Result<Renewed, HostError> {
        let Some(state) = State::read(&self.state.host)? else {
            return Ok(Renewed::HostGone);
        };
        let uplink = observe::in_namespace(&state, |netlink| {
            Ok(netlink.link(state.tables.uplink.as_str())?.index)
        });
        let is_same = uplink.is_ok_and(|index| index == Some(self.prober.ifindex()));
        let settings = probe::settings(&self.maps);
        let is_same = is_same && settings.is_ok_and(|settings| settings == self.settings);
        if is_same && state == self.state {
            return Ok(Renewed::There);
        }
        // An `apply` is at work, or the uplink is being made anew: what there was is looked at once more.
        if state.in_progress {
            return Ok(Renewed::There);
        }
        match Self::open(state) {
            Ok(view) => *self = view,
            Err(HostError::OtherVersion(_) | HostError::NoNamespace(_)) => {
                return Ok(Renewed::HostGone);
            }
            Err(error) if error.is_device_gone() || is_without_address(&error) => {
                return Ok(Renewed::NoUplink);
            }
            Err(error) => return Err(error),
        }
        Ok(Renewed::There)
    }

    fn ways(&self) -> Result<Vec<Way>, HostError> {
        let known = path_mtus::all(&self.maps)?;
        let now_s = Clock::now()?.monotonic_s();
        let uplink_mtu = u16::try_from(self.settings.underlay_mtu).unwrap_or(u16::MAX);
        let way = |address: IpAddr| {
            let entry = known.get(&address).copied();
            Way {
                address,
                entry: entry.filter(|entry| path_mtus::is_live(entry, now_s)),
                uplink_mtu,
            }
        };
        let remotes = self.state.tables.remotes.iter();
        Ok(remotes.map(|it| way(it.addr)).collect())
    }

    fn set(&self, remote: IpAddr, mtu: u32) -> Result<(), HostError> {
        let now_s = Clock::now()?.monotonic_s();
        path_mtus::set(&self.maps, remote, mtu, now_s + PATH_MTU_SECONDS)?;
        Ok(())
    }

    /// Takes over what is known of a way now.
    fn take(&self, way: &Way, mtu: u16, hop: Option<IpAddr>) -> Result<Option<Event>, HostError> {
        if mtu >= way.uplink_mtu {
            path_mtus::forget(&self.maps, way.address)?;
        } else {
            let known = path_mtus::all(&self.maps)?;
            let is_told =
                |entry: &PathMtu| entry.mtu == u32::from(mtu) && entry.hop != Addr::default();
            // The data path has heard the same answer to the probes, and knows who told it.
            if !known.get(&way.address).is_some_and(is_told) {
                self.set(way.address, mtu.into())?;
            }
        }
        let before = way.current();
        let event = match mtu.cmp(&before) {
            Ordering::Less => Happened::Lowered,
            Ordering::Equal => return Ok(None),
            Ordering::Greater => Happened::Raised,
        };
        let mut remotes = self.state.tables.remotes.iter();
        let name = remotes.find(|it| it.addr == way.address);
        Ok(Some(Event {
            time_unix_ns: Clock::now()?.unix_ns,
            event,
            remote: name.map(|it| it.name.to_string()).unwrap_or_default(),
            address: way.address,
            mtu,
            before,
            uplink_mtu: way.uplink_mtu,
            hop,
        }))
    }
}

impl Way {
    /// The size that is used.
    fn current(&self) -> u16 {
        let known = self.entry.and_then(|entry| u16::try_from(entry.mtu).ok());
        known.map_or(self.uplink_mtu, |mtu| mtu.min(self.uplink_mtu))
    }

    /// The uplink's MTU, and the next common size: a link that is better again mostly has one of them.
    fn check(&self, least: u16) -> Check {
        let current = self.current().max(least);
        let mut larger = Vec::new();
        if current < self.uplink_mtu {
            larger.push(self.uplink_mtu);
            let between = |size: &u16| (current + 1..self.uplink_mtu).contains(size);
            larger.extend(COMMON.into_iter().filter(between).min());
        }
        Check::new(least, current, &larger, probe::first_id())
    }

    fn decide(&self, checked: &Checked, is_due: bool) -> Decision {
        if !checked.is_alive {
            // Nothing gets there at all, or nobody answers there: no size helps.
            return Decision::Nothing;
        }
        let Some(entry) = self.entry else {
            return match checked.passes {
                true => Decision::Nothing,
                false => Decision::Search,
            };
        };
        match checked.larger {
            Some(size) if size >= self.uplink_mtu => Decision::Forget,
            Some(_) => Decision::Search,
            None if !checked.passes || is_due => Decision::Search,
            None if entry.hop == Addr::default() => self.refresh(&entry),
            None => Decision::Nothing,
        }
    }

    /// What a hop said, it says again when it is asked again; what probes found lasts as long as they find it.
    fn refresh(&self, entry: &PathMtu) -> Decision {
        let now_s = Clock::now().map_or(0, |clock| clock.monotonic_s());
        let left = entry.until.saturating_sub(now_s);
        if left + REFRESH_S <= PATH_MTU_SECONDS {
            Decision::Refresh
        } else {
            Decision::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(mtu: Option<u32>, hop: Option<IpAddr>) -> Way {
        let entry = |mtu| PathMtu {
            mtu,
            until: Clock::now().unwrap().monotonic_s() + 300,
            hop: hop.map(Addr::from).unwrap_or_default(),
        };
        Way {
            address: [198, 18, 0, 2].into(),
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

    #[test]
    fn a_size_that_fails_is_searched_and_a_remote_that_is_silent_is_left_alone() {
        let (free, known) = (way(None, None), way(Some(1400), None));
        assert_eq!(free.decide(&checked(true, None), true), Decision::Nothing);
        assert_eq!(free.decide(&checked(false, None), false), Decision::Search);
        assert_eq!(known.decide(&checked(false, None), false), Decision::Search);
        let silent = Checked {
            is_alive: false,
            ..checked(false, None)
        };
        assert_eq!(free.decide(&silent, true), Decision::Nothing);
        assert_eq!(known.decide(&silent, true), Decision::Nothing);
    }

    #[test]
    fn what_is_known_lasts_until_more_fits() {
        let known = way(Some(1400), None);
        assert_eq!(known.current(), 1400);
        assert_eq!(known.decide(&checked(true, None), false), Decision::Refresh);
        assert_eq!(known.decide(&checked(true, None), true), Decision::Search);
        assert_eq!(
            known.decide(&checked(true, Some(1450)), false),
            Decision::Search
        );
        assert_eq!(
            known.decide(&checked(true, Some(1500)), false),
            Decision::Forget
        );
        // Who said it says it again.
        let told = way(Some(1400), Some([198, 18, 0, 254].into()));
        assert_eq!(told.decide(&checked(true, None), false), Decision::Nothing);
    }

    #[test]
    fn no_size_is_larger_than_the_uplinks() {
        assert_eq!(way(Some(9000), None).current(), 1500);
    }
}
