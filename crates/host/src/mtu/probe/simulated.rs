//! The search against simulated paths.

use std::net::IpAddr;

use super::search::LONGEST_ANSWER;
use super::*;

const LEAST: u16 = 86;
const HOP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 18, 0, 254));
const FAR_HOP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 18, 0, 253));

/// Numbers that look random, the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    fn between(&mut self, low: u16, high: u16) -> u16 {
        low + (self.next() % u64::from(high - low + 1)) as u16
    }
}

/// Both ways between two uplinks.
#[derive(Debug, Clone)]
struct Path {
    uplinks: [u16; 2],
    /// Of each flow.
    there: [u16; FLOWS],
    back: [u16; FLOWS],
    /// Hops tell.
    icmp: bool,
    /// Packets lost by chance, of 100 each way.
    loss: u64,
    is_silent: bool,
    /// Packets overtake each other.
    reorders: bool,
}

impl Path {
    fn of(uplink: u16, there: u16, back: u16) -> Self {
        Self {
            uplinks: [uplink; 2],
            there: [there; FLOWS],
            back: [back; FLOWS],
            icmp: false,
            loss: 0,
            is_silent: false,
            reorders: true,
        }
    }

    /// Runs a search to its end; says how many tries it took.
    fn search(&self, both: bool, random: &mut Random) -> (Outcome, u32) {
        let limits = Limits {
            least: LEAST,
            uplink_mtu: self.uplinks[0],
            both,
        };
        let mut search = Search::new(limits, random.next() as u32);
        let mut known_back = None;
        for tries in 1..2000 {
            let mut probes = search.probes();
            if self.reorders {
                probes.sort_by_cached_key(|_| random.next());
            }
            assert!(
                probes.len() <= (2 * 8 + 1) * FLOWS,
                "{} at once",
                probes.len()
            );
            for probe in probes {
                self.carry(&probe, &mut search, &mut known_back, random);
            }
            if let Some(outcome) = search.end_try() {
                return (outcome, tries);
            }
        }
        panic!("the search does not end: {search:?}");
    }

    fn carry(
        &self,
        probe: &Probe,
        search: &mut Search,
        known_back: &mut Option<u16>,
        random: &mut Random,
    ) {
        let (there, wanted) = match probe.way {
            Way::There => (probe.size, LEAST),
            Way::Back => (LEAST, probe.size),
        };
        assert!(there <= self.uplinks[0], "longer than the own uplink");
        if self.is_silent || random.percent(self.loss) {
            return;
        }
        if there > self.there[probe.flow] {
            if self.icmp && !random.percent(self.loss) {
                search.refused(probe.flow, there, self.there[probe.flow], HOP);
            }
            return;
        }
        let len = if wanted > self.uplinks[1] {
            LEAST
        } else {
            wanted
        };
        let answer = Answer {
            len,
            uplink_mtu: self.uplinks[1],
            path_mtu: *known_back,
            hop: known_back.map(|_| FAR_HOP),
        };
        if len > self.back[probe.flow] {
            let lower = known_back.is_none_or(|known| self.back[probe.flow] < known);
            if self.icmp && lower {
                *known_back = Some(self.back[probe.flow]);
            }
            return;
        }
        if !random.percent(self.loss) {
            assert!(search.answered(probe.id, &answer));
        }
    }

    fn expected(&self, both: bool) -> Outcome {
        let found = |most: u16, flows: [u16; FLOWS], hop: IpAddr| {
            let path = flows.into_iter().min().unwrap();
            Found {
                mtu: path.min(most),
                most,
                hop: (self.icmp && path < most).then_some(hop),
            }
        };
        Outcome::Heard {
            flows: FLOWS,
            there: found(self.uplinks[0], self.there, HOP),
            back: both.then(|| found(self.uplinks[1].min(LONGEST_ANSWER), self.back, FAR_HOP)),
            uplink_mtu: self.uplinks[1],
        }
    }
}

#[test]
fn a_whole_path_is_known_after_two_tries() {
    let mut random = Random(1);
    for uplink in [1280, 1400, 1500, 9000, 9216, u16::MAX] {
        let path = Path::of(uplink, uplink, uplink);
        let (outcome, tries) = path.search(true, &mut random);
        assert_eq!(outcome, path.expected(true));
        assert_eq!(tries, 2, "{uplink}");
    }
}

#[test]
fn a_common_size_with_icmp_is_known_after_a_few_tries() {
    let mut random = Random(2);
    for mtu in [1280, 1400, 1450, 1476, 1492] {
        let mut path = Path::of(1500, mtu, 1500);
        path.icmp = true;
        let (outcome, tries) = path.search(false, &mut random);
        assert_eq!(outcome, path.expected(false));
        assert!(tries <= 3, "{mtu}: {tries}");
    }
}

#[test]
fn who_told_the_other_is_known_though_no_long_answer_comes_after_that() {
    let mut random = Random(10);
    for mtu in [1280, 1400, 1450, 1476, 1492] {
        let mut path = Path::of(1500, mtu, mtu);
        (path.icmp, path.reorders) = (true, false);
        let (outcome, _) = path.search(true, &mut random);
        assert_eq!(outcome, path.expected(true));
    }
}

#[test]
fn any_size_is_found_each_way_with_and_without_icmp() {
    let mut random = Random(3);
    for round in 0..400 {
        let most = [1500, 9000, u16::MAX][round % 3];
        let mut path = Path::of(
            most,
            random.between(LEAST, most),
            random.between(LEAST, most),
        );
        path.icmp = round % 2 == 0;
        let (outcome, tries) = path.search(true, &mut random);
        assert_eq!(outcome, path.expected(true), "{path:?}");
        // Seven rounds of nine parts are more than there are sizes.
        assert!(tries <= 1 + 3 * 8, "{path:?}: {tries}");
    }
}

#[test]
fn packets_that_are_lost_by_chance_change_nothing() {
    let mut random = Random(4);
    for round in 0..400 {
        let mut path = Path::of(1500, random.between(1000, 1500), random.between(1000, 1500));
        path.loss = [1, 5, 15, 30][round % 4];
        let (outcome, _) = path.search(true, &mut random);
        assert_eq!(outcome, path.expected(true), "{path:?}");
    }
}

#[test]
fn loss_beside_icmp_still_names_the_size() {
    let mut random = Random(5);
    for _ in 0..100 {
        let mut path = Path::of(1500, random.between(1000, 1499), 1500);
        (path.icmp, path.loss) = (true, 10);
        let (outcome, _) = path.search(false, &mut random);
        assert_eq!(outcome, path.expected(false), "{path:?}");
    }
}

#[test]
fn one_of_several_paths_may_be_the_smaller_one() {
    let mut random = Random(6);
    for flow in 0..FLOWS {
        for icmp in [false, true] {
            let mut path = Path::of(9000, 9000, 9000);
            path.there[flow] = 1500;
            path.back[(flow + 1) % FLOWS] = 4000;
            path.icmp = icmp;
            let (outcome, _) = path.search(true, &mut random);
            assert_eq!(outcome, path.expected(true));
        }
    }
}

#[test]
fn the_other_uplink_sets_the_end_of_the_way_back() {
    let mut random = Random(7);
    for uplinks in [[1500, 9000], [9000, 1500], [1500, 1400]] {
        let mut path = Path::of(0, 1400, 1500);
        path.uplinks = uplinks;
        let (outcome, _) = path.search(true, &mut random);
        assert_eq!(outcome, path.expected(true));
    }
}

#[test]
fn who_does_not_answer_is_asked_a_few_times() {
    let mut path = Path::of(1500, 1500, 1500);
    path.is_silent = true;
    assert_eq!(path.search(true, &mut Random(8)), (Outcome::Silent, 3));
}

#[test]
fn a_path_that_carries_nothing_leaves_the_others() {
    let mut path = Path::of(1500, 1500, 1500);
    path.there[2] = 0;
    let (outcome, _) = path.search(true, &mut Random(9));
    let Outcome::Heard { flows, there, .. } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!((flows, there.mtu), (FLOWS - 1, 1500));
}
