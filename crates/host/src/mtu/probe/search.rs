//! The search for the largest packet that gets to a remote, and the largest that comes back. Pure: who drives it sends
//! what [`Inquiry::probes`] says, hands in what comes, and says when the time of a try is over.
//!
//! ```text
//!   contact (short both ways) ──► rounds: some sizes of each way at once, the gap narrows ──► both ends are neighbours
//!        │ nothing comes back                                                                  │ packets were lost
//!        ▼                                                                                     ▼
//!     no answer                                                               the size that failed is tried once more
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::round::{Answer, FLOWS, Losses, Probe, Round, Way};

/// Sizes of one way in one round.
const SIZES: usize = 8;
/// Where a path ends is mostly one of these; the most common first.
pub(in crate::mtu) const COMMON: [u16; 13] = [
    1500, 1400, 1450, 1280, 1492, 1480, 1472, 9000, 1420, 1200, 8950, 4470, 1430,
];
/// One flow was answered, another was not: chance, or a path that carries nothing?
const ASK_OTHERS: u32 = 12;
/// Of a search that nothing ends: the gap narrows in each.
const ROUNDS: u32 = 60;

/// Something that is found out by probes to one remote.
pub trait Inquiry {
    /// What is found out.
    type Outcome;
    /// Begins a try: what to send.
    fn probes(&mut self) -> Vec<Probe>;
    /// An answer has come. False: it is of no probe of this inquiry.
    fn answered(&mut self, id: u32, answer: &Answer) -> bool;
    /// A hop said that the probe of this size on this flow is too long, and what would fit.
    fn refused(&mut self, flow: usize, size: u16, mtu: u16, hop: IpAddr);
    /// Whether the try waits for something.
    fn waits(&self) -> bool;
    /// Ends the try: all that it waited for has come, or its time is over.
    fn end_try(&mut self) -> Option<Self::Outcome>;
}

/// The longest answer that the data path can write: the kernel makes no packet longer there (`SKB_MAX_ALLOC`).
pub(super) const LONGEST_ANSWER: u16 = 16_000;

/// What a search is about.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The shortest probe.
    pub least: u16,
    /// MTU of the own uplink.
    pub uplink_mtu: u16,
    /// Whether the way back is searched too.
    pub both: bool,
}

/// What was found out of one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The largest outer IP packet that passes.
    pub mtu: u16,
    /// MTU of the sender's uplink: more was not tried.
    pub most: u16,
    /// Who said by ICMP that no more passes; none: nobody.
    pub hop: Option<IpAddr>,
}

/// What was found out of one remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing comes back.
    Silent,
    /// Something does.
    Heard {
        /// On so many of [`FLOWS`] flows.
        flows: usize,
        /// The way there.
        there: Found,
        /// The way back, where it was searched.
        back: Option<Found>,
        /// MTU of the other's uplink.
        uplink_mtu: u16,
    },
}

/// The search.
#[derive(Debug)]
pub struct Search {
    limits: Limits,
    round: Round,
    step: Step,
    flows: Vec<usize>,
    uplink_mtu: u16,
    sides: Vec<Side>,
    losses: Losses,
    rounds: u32,
    next_id: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Contact,
    Narrow,
}

/// One way.
#[derive(Debug)]
struct Side {
    way: Way,
    most: u16,
    /// The largest size that passed.
    low: u16,
    /// Sizes that did not pass; those that are said to be too long are surely so.
    failed: BTreeMap<u16, Sure>,
    /// What hops said would fit.
    said: BTreeMap<u16, IpAddr>,
    is_first: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sure {
    Yes,
    No,
}

impl Search {
    /// Begins one. Ids count up from `first_id`.
    pub fn new(limits: Limits, first_id: u32) -> Self {
        let all: Vec<usize> = (0..FLOWS).collect();
        let mut sides = vec![Side::new(Way::There, limits.least, limits.uplink_mtu)];
        if limits.both {
            sides.push(Side::new(Way::Back, limits.least, limits.uplink_mtu));
        }
        Self {
            limits,
            round: Round::new(&[(Way::There, limits.least)], &all),
            step: Step::Contact,
            flows: Vec::new(),
            uplink_mtu: 0,
            sides,
            losses: Losses::default(),
            rounds: 0,
            next_id: first_id,
        }
    }

    fn side(&mut self, way: Way) -> Option<&mut Side> {
        self.sides.iter_mut().find(|side| side.way == way)
    }

    /// The first contact: some flows may be answered later than others.
    fn contact(&mut self) -> Option<Outcome> {
        let losses = self.round.losses();
        let flows = self.round.flows();
        let enough = if flows.is_empty() {
            losses.tries()
        } else {
            losses.tries().max(ASK_OTHERS)
        };
        if self.round.is_open() && self.round.tries() < enough {
            return None;
        }
        if flows.is_empty() {
            return Some(Outcome::Silent);
        }
        self.losses = losses;
        self.flows = flows;
        let uplink_mtu = self.uplink_mtu;
        if let Some(back) = self.side(Way::Back) {
            back.most = uplink_mtu.min(LONGEST_ANSWER).max(back.low);
        }
        self.step = Step::Narrow;
        self.next_round()
    }

    fn narrow(&mut self) -> Option<Outcome> {
        let losses = self.losses.plus(self.round.losses());
        if self.round.is_open() && self.round.tries() < losses.tries() {
            return None;
        }
        self.losses = losses;
        for side in &mut self.sides {
            side.learn(&self.round);
        }
        self.next_round()
    }

    fn next_round(&mut self) -> Option<Outcome> {
        let lossy = self.losses.any();
        let sizes = |side: &mut Side| -> Vec<(Way, u16)> {
            let way = side.way;
            let sizes = side.sizes(lossy);
            sizes.into_iter().map(|size| (way, size)).collect()
        };
        let mut sizes: Vec<_> = self.sides.iter_mut().flat_map(sizes).collect();
        self.rounds += 1;
        if sizes.is_empty() || self.rounds > ROUNDS {
            return Some(self.outcome());
        }
        if self.limits.both {
            // Its answer always comes, and says what the other was told of the long ones before.
            sizes.push((Way::There, self.limits.least));
        }
        self.round = Round::new(&sizes, &self.flows);
        None
    }

    fn outcome(&self) -> Outcome {
        let found = |way| {
            let side = self.sides.iter().find(|side| side.way == way);
            side.map(Side::found)
        };
        Outcome::Heard {
            flows: self.flows.len(),
            there: found(Way::There).unwrap_or(Found {
                mtu: self.limits.least,
                most: self.limits.uplink_mtu,
                hop: None,
            }),
            back: found(Way::Back),
            uplink_mtu: self.uplink_mtu,
        }
    }
}

impl Inquiry for Search {
    type Outcome = Outcome;

    fn probes(&mut self) -> Vec<Probe> {
        self.round.probes(&mut self.next_id)
    }

    fn answered(&mut self, id: u32, answer: &Answer) -> bool {
        self.uplink_mtu = answer.uplink_mtu;
        if let (Some(mtu), Some(hop)) = (answer.path_mtu, answer.hop)
            && let Some(back) = self.side(Way::Back)
        {
            back.said.insert(mtu, hop);
        }
        self.round.answered(id, answer)
    }

    fn refused(&mut self, flow: usize, size: u16, mtu: u16, hop: IpAddr) {
        if let Some(there) = self.side(Way::There) {
            there.said.insert(mtu, hop);
        }
        self.round.refused(flow, size);
    }

    fn waits(&self) -> bool {
        self.round.waits()
    }

    fn end_try(&mut self) -> Option<Outcome> {
        match self.step {
            Step::Contact => self.contact(),
            Step::Narrow => self.narrow(),
        }
    }
}

impl Side {
    const fn new(way: Way, least: u16, most: u16) -> Self {
        Self {
            way,
            most,
            low: least,
            failed: BTreeMap::new(),
            said: BTreeMap::new(),
            is_first: true,
        }
    }

    /// What a round says of this way. The largest size that passed counts: that a smaller one did not was chance.
    fn learn(&mut self, round: &Round) {
        let tried: Vec<u16> = round.sizes(self.way).collect();
        for size in tried {
            if round.passes(self.way, size) {
                self.low = self.low.max(size);
            } else if round.is_refused(self.way, size) || self.failed.contains_key(&size) {
                self.failed.insert(size, Sure::Yes);
            } else {
                self.failed.insert(size, Sure::No);
            }
        }
        self.failed = self.failed.split_off(&(self.low.saturating_add(1)));
    }

    /// What to try next; nothing when all is known.
    fn sizes(&mut self, lossy: bool) -> Vec<u16> {
        let is_first = std::mem::take(&mut self.is_first);
        if self.low >= self.most {
            return Vec::new();
        }
        let first_failed = self.failed.first_key_value();
        let first_failed = first_failed.map(|(size, sure)| (*size, *sure));
        let last = first_failed.map_or(self.most, |(size, _)| size - 1);
        if last <= self.low {
            return match first_failed {
                Some((size, Sure::No)) if lossy => vec![size],
                _ => Vec::new(),
            };
        }
        let mut sizes = Wanted {
            open: self.low + 1..=last,
            sizes: BTreeSet::new(),
        };
        if first_failed.is_none() {
            sizes.add(self.most);
        }
        for mtu in self.said.keys() {
            sizes.add(*mtu);
            sizes.add(mtu.saturating_add(1));
        }
        if is_first {
            COMMON.iter().for_each(|size| sizes.add(*size));
        } else {
            // It is mostly the size that passed, and seldom one more.
            sizes.add(self.low + 1);
        }
        sizes.spread();
        sizes.sizes.into_iter().collect()
    }

    fn found(&self) -> Found {
        let mtu = self.low.min(self.most);
        Found {
            mtu,
            most: self.most,
            hop: (mtu < self.most)
                .then(|| self.said.get(&mtu).copied())
                .flatten(),
        }
    }
}

/// Sizes of a round.
struct Wanted {
    open: RangeInclusive<u16>,
    sizes: BTreeSet<u16>,
}

impl Wanted {
    /// If it is not known whether it passes, and there is room.
    fn add(&mut self, size: u16) {
        if self.open.contains(&size) && self.sizes.len() < SIZES {
            self.sizes.insert(size);
        }
    }

    /// Fills the round: the largest gap is halved, again and again.
    fn spread(&mut self) {
        while self.sizes.len() < SIZES {
            let mut ends: Vec<u32> = vec![u32::from(*self.open.start()) - 1];
            ends.extend(self.sizes.iter().map(|size| u32::from(*size)));
            ends.push(u32::from(*self.open.end()) + 1);
            let gaps = ends.windows(2).map(|pair| (pair[1] - pair[0], pair[0]));
            match gaps.max() {
                Some((gap, from)) if gap >= 2 => self.sizes.insert((from + gap / 2) as u16),
                _ => break,
            };
        }
    }
}
