//! Where an answer depends on one thing alone: the comparisons in two places, each with an answer of its own.

use crate::record::{GuestKind, MtuClass, Test};
use crate::results::Compared;
use crate::stats::Verdict;

use super::votes::{Part, Say, Vote, say};
use crate::report::names::counted;

/// What a place is called, by one thing.
type Place = fn(&Compared) -> String;

/// The things that an answer may depend on, in the order in which they are tried.
const PLACES: [Place; 8] = [
    |c| {
        let on = c.a.group.setting.offload;
        format!("with offload {}", if on { "on" } else { "off" })
    },
    |c| match c.a.backend.as_str().split('-').next() {
        Some("overlane") => "with Overlane".to_owned(),
        Some("kernel") => "with the kernel’s own devices".to_owned(),
        Some("ovs") => "with Open vSwitch".to_owned(),
        _ => format!("with {}", c.a.backend),
    },
    |c| match c.a.group.setting.guests {
        GuestKind::Veth => "between containers".to_owned(),
        GuestKind::Tap | GuestKind::Qemu => "between virtual machines".to_owned(),
    },
    |c| {
        let test = c.a.group.workload.test;
        match test {
            test if test.is_transactions() => "for transactions",
            Test::UdpStream | Test::FrameStream => "for packets",
            Test::Migration => "for migrations",
            _ => "for streams",
        }
        .to_owned()
    },
    |c| match c.a.group.setting.mtu_class {
        MtuClass::Standard => "at an MTU of 1500".to_owned(),
        MtuClass::Jumbo => "with jumbo frames".to_owned(),
    },
    |c| format!("with {}", counted(c.a.group.workload.instances, "instance")),
    |c| {
        let moving = c.a.group.workload.migration;
        format!(
            "over {}",
            counted(moving.map_or(1, |moving| moving.links), "link")
        )
    },
    |c| format!("with {}", counted(c.a.group.setting.pairs, "machine")),
];

/// The first thing that has two values here with an answer each, and not the same one.
pub(super) fn split(votes: &[(&Compared, Vote)]) -> Option<[Part; 2]> {
    PLACES.into_iter().find_map(|place| by(votes, place))
}

fn by(votes: &[(&Compared, Vote)], place: Place) -> Option<[Part; 2]> {
    let mut parts: Vec<Part> = Vec::new();
    for (compared, vote) in votes {
        let place = place(compared);
        match parts.iter_mut().find(|part| part.place == place) {
            Some(part) => part.votes.push(*vote),
            None => parts.push(Part {
                place,
                votes: vec![*vote],
            }),
        }
    }
    let parts: [Part; 2] = parts.try_into().ok()?;
    let said = [say(&parts[0].votes), say(&parts[1].votes)];
    let answers = |say: &Say| matches!(say, Say::Leads(_) | Say::Near | Say::Open);
    let decides = |say: &Say| matches!(say, Say::Leads(Verdict::Better | Verdict::Worse));
    let apart = said.iter().all(answers) && said.iter().any(decides) && said[0] != said[1];
    apart.then_some(parts)
}
