//! One round of size probes to one remote: some sizes at once, each on several flows, and again what is not answered.
//! Pure: who drives it sends, waits and hands in what comes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;

/// The underlay may have several paths and choose one by the flow's hash: each size is tried on so many flows.
pub const FLOWS: usize = 4;
/// Where nothing is lost.
const TRIES: u32 = 3;
/// Where much is lost.
const MOST_TRIES: u32 = 20;
/// How probable it may be that all tries of one probe are lost by chance.
const DOUBT: f64 = 1e-5;

/// Which way a size is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// A long probe, a short answer.
    There,
    /// A short probe, a long answer.
    Back,
}

/// One probe to send. Sizes are those of outer IP packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Which packet has the size.
    pub way: Way,
    /// The size.
    pub size: u16,
    /// On which flow.
    pub flow: usize,
    /// Comes back in the answer.
    pub id: u32,
}

/// What an answer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Of the outer IP packet, as it came here.
    pub len: u16,
    /// MTU of the other's uplink.
    pub uplink_mtu: u16,
    /// What the other knows of the way back, if it is less.
    pub path_mtu: Option<u16>,
    /// Who told it that, by ICMP.
    pub hop: Option<IpAddr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Open,
    Answered,
    /// Somebody on the way said that it is too long. Anybody can say so: an answer counts more.
    Refused,
    /// The other cannot send such a long answer.
    Short,
}

#[derive(Debug)]
struct Slot {
    way: Way,
    size: u16,
    flow: usize,
    fate: Fate,
    sent: u32,
}

/// How many probes that can be answered were not.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losses {
    sent: u32,
    lost: u32,
}

impl Losses {
    pub(super) const fn plus(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            lost: self.lost + other.lost,
        }
    }

    pub(super) const fn any(self) -> bool {
        self.lost > 0
    }

    /// After so many tries it is no chance that nothing came back.
    pub(super) fn tries(self) -> u32 {
        if !self.any() {
            return TRIES;
        }
        let share = f64::from(self.lost + 1) / f64::from(self.sent + 1);
        let enough = (DOUBT.ln() / share.min(0.9).ln()).ceil();
        (enough as u32).clamp(TRIES, MOST_TRIES)
    }
}

/// The round.
#[derive(Debug)]
pub(super) struct Round {
    slots: Vec<Slot>,
    ids: BTreeMap<u32, usize>,
    tries: u32,
}

impl Round {
    /// Tries these sizes on these flows.
    pub(super) fn new(sizes: &[(Way, u16)], flows: &[usize]) -> Self {
        let slot = |(way, size): (Way, u16), flow: usize| Slot {
            way,
            size,
            flow,
            fate: Fate::Open,
            sent: 0,
        };
        // The flows of a size follow one another: who paces does not send one flow after the other.
        let slots = sizes
            .iter()
            .flat_map(|one| flows.iter().map(|flow| slot(*one, *flow)));
        Self {
            slots: slots.collect(),
            ids: BTreeMap::new(),
            tries: 0,
        }
    }

    /// What to send now. Each has an id of its own.
    pub(super) fn probes(&mut self, next_id: &mut u32) -> Vec<Probe> {
        self.tries += 1;
        let mut probes = Vec::new();
        for (at, slot) in self.slots.iter_mut().enumerate() {
            if slot.fate != Fate::Open {
                continue;
            }
            slot.sent += 1;
            self.ids.insert(*next_id, at);
            probes.push(Probe {
                way: slot.way,
                size: slot.size,
                flow: slot.flow,
                id: *next_id,
            });
            *next_id = next_id.wrapping_add(1);
        }
        probes
    }

    /// An answer that comes late counts too. False: it is of no probe of this round.
    pub(super) fn answered(&mut self, id: u32, answer: &Answer) -> bool {
        let slot = self.ids.get(&id).and_then(|at| self.slots.get_mut(*at));
        let Some(slot) = slot else {
            return false;
        };
        // The other's uplink may not take what was asked for: then it answers with a short packet.
        let is_short = slot.way == Way::Back && answer.len < slot.size;
        if slot.fate != Fate::Answered {
            slot.fate = if is_short {
                Fate::Short
            } else {
                Fate::Answered
            };
        }
        true
    }

    /// Somebody on the way there said that a packet of this size is too long.
    pub(super) fn refused(&mut self, flow: usize, size: u16) {
        let is_it = |slot: &&mut Slot| (slot.way, slot.size, slot.flow) == (Way::There, size, flow);
        if let Some(slot) = self.slots.iter_mut().find(is_it)
            && slot.fate == Fate::Open
        {
            slot.fate = Fate::Refused;
        }
    }

    /// Whether another try may bring more.
    pub(super) fn is_open(&self) -> bool {
        self.slots.iter().any(|slot| slot.fate == Fate::Open)
    }

    /// Whether something can still come of this try.
    pub(super) fn waits(&self) -> bool {
        let waits = |slot: &Slot| match slot.fate {
            Fate::Open => true,
            Fate::Refused => slot.sent == self.tries,
            Fate::Answered | Fate::Short => false,
        };
        self.slots.iter().any(waits)
    }

    pub(super) const fn tries(&self) -> u32 {
        self.tries
    }

    /// Flows on which something was answered.
    pub(super) fn flows(&self) -> Vec<usize> {
        let answered = |flow: &usize| {
            let mut slots = self.slots.iter().filter(|slot| slot.flow == *flow);
            slots.any(|slot| slot.fate == Fate::Answered)
        };
        (0..FLOWS).filter(answered).collect()
    }

    /// The sizes of one way.
    pub(super) fn sizes(&self, way: Way) -> impl Iterator<Item = u16> {
        let mut sizes: Vec<u16> = (self.slots.iter())
            .filter(|slot| slot.way == way)
            .map(|slot| slot.size)
            .collect();
        sizes.dedup();
        sizes.into_iter()
    }

    /// Flows on which the size got through.
    pub(super) fn flows_of(&self, way: Way, size: u16) -> Vec<usize> {
        let answered = self
            .of(way, size)
            .filter(|slot| slot.fate == Fate::Answered);
        answered.map(|slot| slot.flow).collect()
    }

    /// Whether the size got through on every flow of the round.
    pub(super) fn passes(&self, way: Way, size: u16) -> bool {
        let mut slots = self.of(way, size).peekable();
        slots.peek().is_some() && slots.all(|slot| slot.fate == Fate::Answered)
    }

    /// Whether somebody said that it is too long.
    pub(super) fn is_refused(&self, way: Way, size: u16) -> bool {
        self.of(way, size)
            .any(|slot| matches!(slot.fate, Fate::Refused | Fate::Short))
    }

    fn of(&self, way: Way, size: u16) -> impl Iterator<Item = &Slot> {
        let is_it = move |slot: &&Slot| (slot.way, slot.size) == (way, size);
        self.slots.iter().filter(is_it)
    }

    /// Of what was answered in the end.
    pub(super) fn losses(&self) -> Losses {
        let answered = self
            .slots
            .iter()
            .filter(|slot| slot.fate == Fate::Answered && slot.sent > 0);
        answered.fold(Losses::default(), |all, slot| {
            all.plus(Losses {
                sent: slot.sent,
                lost: slot.sent - 1,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Answer = Answer {
        len: 86,
        uplink_mtu: 1500,
        path_mtu: None,
        hop: None,
    };

    #[test]
    fn a_size_passes_when_each_flow_was_answered_once() {
        let mut round = Round::new(&[(Way::There, 1400), (Way::Back, 1500)], &[0, 1]);
        let mut next = u32::MAX - 1;
        let first = round.probes(&mut next);
        assert_eq!(first.len(), 4);
        // Ids wrap.
        assert_eq!((first[1].id, first[2].id), (u32::MAX, 0));
        assert!(round.answered(first[0].id, &SHORT));
        assert!(!round.passes(Way::There, 1400));
        let second = round.probes(&mut next);
        assert_eq!(second.len(), 3);
        // The answer to the first try comes late.
        assert!(round.answered(first[1].id, &SHORT));
        assert!(round.passes(Way::There, 1400) && round.is_open());
        assert_eq!(round.losses().tries(), MOST_TRIES.min(17));
        // An answer that is shorter than it should be says no.
        round.answered(second[1].id, &SHORT);
        round.answered(second[2].id, &Answer { len: 1500, ..SHORT });
        assert!(!round.passes(Way::Back, 1500) && round.is_refused(Way::Back, 1500));
        assert!(!round.is_open() && !round.answered(4711, &SHORT));
    }

    #[test]
    fn who_is_refused_is_not_asked_again() {
        let mut round = Round::new(&[(Way::There, 1500), (Way::Back, 1500)], &[0, 3]);
        let mut next = 0;
        round.probes(&mut next);
        round.refused(3, 1500);
        round.refused(2, 1500);
        let again = round.probes(&mut next);
        assert_eq!(again.len(), 3);
        assert!(round.is_refused(Way::There, 1500) && !round.is_refused(Way::Back, 1500));
        assert_eq!(round.flows(), [0; 0]);
        again
            .iter()
            .for_each(|probe| round.refused(probe.flow, probe.size));
        assert!(round.is_open() && round.waits());
    }

    #[test]
    fn an_answer_counts_more_than_what_anybody_may_say() {
        let mut round = Round::new(&[(Way::There, 1500)], &[0]);
        let first = round.probes(&mut 0);
        round.refused(0, 1500);
        assert!(!round.is_open() && round.waits());
        assert!(round.answered(first[0].id, &SHORT));
        assert!(!round.waits() && round.passes(Way::There, 1500));
    }

    #[test]
    fn what_is_lost_by_chance_is_tried_more_often() {
        let tries = |lost, sent| Losses { sent, lost }.tries();
        assert_eq!(tries(0, 4), 3);
        assert_eq!(tries(1, 200), 3);
        assert_eq!(tries(10, 100), 6);
        assert_eq!(tries(51, 100), 18);
        assert_eq!(tries(99, 100), 20);
    }
}
