//! A look at one way, again and again: does the size that is used still get there, and a larger one? Pure.

use std::net::IpAddr;

use super::round::{Answer, FLOWS, Probe, Round, Way};
use super::search::Inquiry;

/// RFC 8899 section 5.1.2: MAX_PROBES.
const TRIES: u32 = 3;

/// The check.
#[derive(Debug)]
pub struct Check {
    least: u16,
    current: u16,
    larger: Vec<u16>,
    round: Round,
    next_id: u32,
}

/// What it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checked {
    /// The shortest packets get there, and answers back.
    pub is_alive: bool,
    /// So do those of the size that is used, on each flow that is alive.
    pub passes: bool,
    /// The largest of the larger ones that does.
    pub larger: Option<u16>,
}

impl Check {
    /// Of the size that is used now, and of others that are larger.
    pub fn new(least: u16, current: u16, larger: &[u16], first_id: u32) -> Self {
        let flows: Vec<usize> = (0..FLOWS).collect();
        let mut sizes = vec![(Way::There, least)];
        if current > least {
            sizes.push((Way::There, current));
        }
        sizes.extend(larger.iter().map(|size| (Way::There, *size)));
        Self {
            least,
            current,
            larger: larger.to_vec(),
            round: Round::new(&sizes, &flows),
            next_id: first_id,
        }
    }
}

impl Inquiry for Check {
    type Outcome = Checked;

    fn probes(&mut self) -> Vec<Probe> {
        self.round.probes(&mut self.next_id)
    }

    fn answered(&mut self, id: u32, answer: &Answer) -> bool {
        self.round.answered(id, answer)
    }

    fn refused(&mut self, flow: usize, size: u16, _mtu: u16, _hop: IpAddr) {
        self.round.refused(flow, size);
    }

    fn waits(&self) -> bool {
        self.round.waits()
    }

    fn end_try(&mut self) -> Option<Checked> {
        if self.round.is_open() && self.round.tries() < TRIES {
            return None;
        }
        let flows = self.round.flows_of(Way::There, self.least);
        let passes = |size: u16| {
            let answered = self.round.flows_of(Way::There, size);
            flows.iter().all(|flow| answered.contains(flow))
        };
        let larger = self.larger.iter().copied().filter(|size| passes(*size));
        Some(Checked {
            is_alive: !flows.is_empty(),
            passes: passes(self.current),
            larger: larger.max().filter(|_| !flows.is_empty()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: Answer = Answer {
        len: 86,
        uplink_mtu: 1500,
        path_mtu: None,
        hop: None,
    };

    /// The check of a path that carries `mtu` on its flows, but nothing on those that are dead.
    fn check(mtu: u16, current: u16, dead: &[usize]) -> (Checked, u32) {
        let mut check = Check::new(86, current, &[1450, 1500], 7);
        for tries in 1.. {
            for probe in check.probes() {
                if probe.size <= mtu && !dead.contains(&probe.flow) {
                    assert!(check.answered(probe.id, &ANSWER));
                }
            }
            if let Some(checked) = check.end_try() {
                return (checked, tries);
            }
        }
        unreachable!()
    }

    #[test]
    fn what_is_used_fails_after_three_tries() {
        let checked = |is_alive, passes, larger| Checked {
            is_alive,
            passes,
            larger,
        };
        assert_eq!(check(1500, 1400, &[]), (checked(true, true, Some(1500)), 1));
        assert_eq!(check(1450, 1400, &[]), (checked(true, true, Some(1450)), 3));
        assert_eq!(check(1400, 1400, &[]), (checked(true, true, None), 3));
        assert_eq!(check(1399, 1400, &[]), (checked(true, false, None), 3));
    }

    #[test]
    fn flows_that_carry_nothing_do_not_count() {
        let (checked, _) = check(1400, 1400, &[1, 2]);
        assert!(checked.is_alive && checked.passes);
        let (checked, _) = check(1500, 1400, &[0, 1, 2, 3]);
        assert!(!checked.is_alive && checked.larger.is_none());
    }
}
