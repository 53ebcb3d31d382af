//! The whole TCP machine, packet by packet: every state × who sends × every combination of flags × every kind of
//! sequence number and acknowledgment. What the firewall does with each is compared with what the end does that gets
//! the packet ([`end_point`]), and with what Linux's conntrack does ([`linux`]). Wherever they differ, the difference
//! is of one of the [`CLASSES`], which say why.

mod differences;
mod end_point;
mod linux;

use std::collections::BTreeSet;

use overlane_model::Verdict;
use overlane_pipeline::{Connection, ConnectionState, State};

use crate::wall::*;
use differences::{CLASSES, MAY_BE_BELIEVED, MAY_BE_DROPPED, Other};
use end_point::{Does, EndPoint, EndState};
use linux::{Linux, LinuxState};

/// Both ends offer it, always.
const WINDOW: u32 = 1000;
/// The sequence numbers of their SYNs.
const LOCAL_SYN: u32 = 999_999;
const PEER_SYN: u32 = 4_999_999;

/// How far a connection is that `Local` has begun. All that passed has arrived.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stage {
    Nothing,
    /// The peer has answered, but the answer has not come by.
    SynSent,
    SynAnswered,
    Established,
    FinSent,
    FinAcknowledged,
    BothClosed,
    ClosedByReset,
    Adopted,
    PickedUp,
}
use Stage::*;

impl Stage {
    const ALL: [Self; 10] = [
        Nothing,
        SynSent,
        SynAnswered,
        Established,
        FinSent,
        FinAcknowledged,
        BothClosed,
        ClosedByReset,
        Adopted,
        PickedUp,
    ];

    /// What passes until then.
    fn packets(self) -> Vec<(End, Tcp)> {
        let (local, peer) = (LOCAL_SYN + 1, PEER_SYN + 1);
        let life = [
            (Local, segment(SYN, LOCAL_SYN, 0)),
            (Peer, segment(SYN | ACK, PEER_SYN, local)),
            (Local, segment(ACK, local, peer)),
            (Local, segment(FIN | ACK, local, peer)),
            (Peer, segment(ACK, peer, local + 1)),
            (Peer, segment(FIN | ACK, peer, local + 1)),
            (Local, segment(ACK, local + 1, peer + 1)),
        ];
        let number = match self {
            Nothing => 0,
            SynSent => 1,
            SynAnswered => 2,
            Established | PickedUp => 3,
            FinSent => 4,
            FinAcknowledged => 5,
            BothClosed => 7,
            ClosedByReset => {
                return [&life[..3], &[(Local, segment(RST | ACK, local, peer))]].concat();
            }
            Adopted => return vec![life[2], (Peer, segment(ACK, peer, local))],
        };
        life[..number].to_vec()
    }

    /// The ends, `Local` and `Peer`.
    fn ends(self) -> (EndPoint, EndPoint) {
        use EndState as E;
        let (local_state, peer_state) = match self {
            // The peer's port waits for connections, and does so again when one is over.
            Nothing | ClosedByReset => (E::Closed, E::Listen),
            SynSent => (E::SynSent, E::SynReceived),
            SynAnswered => (E::Established, E::SynReceived),
            Established | Adopted | PickedUp => (E::Established, E::Established),
            FinSent => (E::FinWait1, E::CloseWait),
            FinAcknowledged => (E::FinWait2, E::CloseWait),
            BothClosed => (E::TimeWait, E::Listen),
        };
        let (local, peer) = (self.next(Local), self.next(Peer));
        let (local_open, peer_open) = (LOCAL_SYN + 1, PEER_SYN + 1);
        let local_acknowledged = match self {
            Nothing | SynSent => LOCAL_SYN,
            FinSent => local_open,
            _ => local,
        };
        let peer_acknowledged = match self {
            Nothing | SynSent | SynAnswered => PEER_SYN,
            _ => peer,
        };
        let end = |state, unacknowledged, next, received| EndPoint {
            state,
            unacknowledged,
            next,
            received,
        };
        (
            end(local_state, local_acknowledged, local, peer),
            end(peer_state, peer_acknowledged, peer.max(peer_open), local),
        )
    }

    /// What both ends send next, whatever happened to them in between. Nothing where the connection is over.
    fn goes_on(self) -> Vec<(End, Tcp)> {
        let answer = (Peer, segment(SYN | ACK, PEER_SYN, LOCAL_SYN + 1));
        let (local, peer) = (self.next(Local), PEER_SYN + 1);
        let talk = [
            (Local, segment(ACK, local, peer)),
            (Peer, segment(ACK, peer, local).len(10)),
            (Local, segment(ACK, local, peer + 10)),
        ];
        match self {
            Nothing | BothClosed | ClosedByReset => vec![],
            SynSent => [&[answer], &talk[..]].concat(),
            _ => talk.to_vec(),
        }
    }

    /// The sequence number of the next packet of an end.
    fn next(self, from: End) -> u32 {
        match (from, self) {
            (Local, Nothing) => LOCAL_SYN,
            (Local, FinSent | FinAcknowledged | BothClosed) => LOCAL_SYN + 2,
            (Local, _) => LOCAL_SYN + 1,
            (Peer, Nothing | SynSent) => PEER_SYN,
            (Peer, BothClosed) => PEER_SYN + 2,
            (Peer, _) => PEER_SYN + 1,
        }
    }

    fn firewall(self) -> Wall {
        let mut wall = Wall::new(OPEN, vec![]);
        for (from, packet) in self.packets() {
            assert_eq!(
                wall.tcp(from, packet),
                Verdict::ToPort,
                "{self:?} {packet:?}"
            );
        }
        if self == PickedUp {
            let (_, connection) = wall.connection();
            wall.move_here(&connection);
        }
        wall
    }

    fn linux(self) -> Linux {
        let mut linux = Linux::new();
        for (from, packet) in self.packets() {
            assert!(linux.packet(from, &packet), "{self:?} {packet:?}");
        }
        linux
    }
}

/// Sequence numbers, from the one that is next.
const SEQUENCES: [i32; 10] = [0, 1, 999, 1000, 1001, -1, -1000, -1001, -1011, 1 << 30];
/// Acknowledgments, from all that the other end has sent.
const ACKNOWLEDGMENTS: [i32; 8] = [0, 1, -1, -1000, -1001, -66_000, -66_001, 1 << 30];

/// What became of the connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Effect {
    Nothing,
    Opening,
    Established,
    Closing,
    Over,
}

/// A packet, and what each of the three does with it.
#[derive(Clone, Copy, Debug)]
struct Row {
    stage: Stage,
    from: End,
    packet: Tcp,
    /// Of its numbers, from the exact ones.
    sequence: i32,
    ack: i32,
    end: Does,
    passes: bool,
    effect: Effect,
    linux_passes: bool,
    linux_effect: Effect,
    /// What both ends send next passes.
    goes_on: bool,
}

impl Row {
    fn is_reset(&self) -> bool {
        self.packet.is(RST)
    }

    fn is(&self, flags: u8) -> bool {
        self.packet.flags == flags
    }

    /// The other end would have it otherwise: it acts on what the firewall drops, or would have answered it, or the
    /// firewall believes what it does not.
    fn differs_from_end(&self) -> bool {
        let is_over = matches!(self.stage, BothClosed | ClosedByReset);
        match self.end {
            Does::Accepts => {
                let is_closed = self.effect == Effect::Over;
                !self.passes || (!is_over && self.is_reset() != is_closed)
            }
            Does::Challenges | Does::Resets => !self.passes || self.effect != Effect::Nothing,
            Does::Ignores => self.effect != Effect::Nothing,
        }
    }

    fn differs_from_linux(&self) -> bool {
        (self.passes, self.effect) != (self.linux_passes, self.linux_effect)
    }

    fn differs_from(&self, other: Other) -> bool {
        match other {
            Other::End => self.differs_from_end(),
            Other::Linux => self.differs_from_linux(),
        }
    }
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for stage in Stage::ALL {
        let (mut wall, linux, (local, peer)) = (stage.firewall(), stage.linux(), stage.ends());
        let before = wall.state.clone();
        for (from, receiver) in [(Local, peer), (Peer, local)] {
            for (flags, sequence, ack, len) in packets() {
                let packet = segment(
                    flags,
                    stage.next(from).wrapping_add_signed(sequence),
                    receiver.next.wrapping_add_signed(ack),
                )
                .len(len);
                wall.state = before.clone();
                let passes = wall.tcp(from, packet) == Verdict::ToPort;
                let effect = effect(&before, &wall.state);
                let goes_on = stage.goes_on();
                let goes_on = goes_on
                    .iter()
                    .all(|(from, packet)| wall.tcp(*from, *packet) == Verdict::ToPort);
                let mut linux_after = linux.clone();
                let linux_passes = linux_after.packet(from, &packet);
                rows.push(Row {
                    stage,
                    from,
                    packet,
                    sequence,
                    ack,
                    end: receiver.receive(&packet),
                    passes,
                    effect,
                    linux_passes,
                    linux_effect: linux_effect(linux.state, linux_after.state),
                    goes_on,
                });
            }
        }
    }
    rows
}

fn packets() -> Vec<(u8, i32, i32, usize)> {
    let mut packets = Vec::new();
    for bits in 0..16_u8 {
        let flags = (bits & 7) | (bits & 8) << 1;
        for sequence in SEQUENCES {
            for ack in ACKNOWLEDGMENTS {
                if flags & ACK == 0 && ack != 0 {
                    continue;
                }
                packets.extend([0, 10].map(|len| (flags, sequence, ack, len)));
            }
        }
    }
    packets
}

fn only(state: &State) -> Option<&Connection> {
    state.connections().values().next()
}

fn effect(before: &State, after: &State) -> Effect {
    let before = only(before).map(|one| (one.state, one.adopted, one.from_peer, one.begun_ns));
    let after = only(after).map(|one| (one.state, one.adopted, one.from_peer, one.begun_ns));
    match after {
        after if before == after => Effect::Nothing,
        Some((ConnectionState::Opening, ..)) => Effect::Opening,
        Some((ConnectionState::Established, ..)) => Effect::Established,
        Some((ConnectionState::Closing, ..)) => Effect::Closing,
        Some((ConnectionState::Closed, ..)) | None => Effect::Over,
    }
}

fn linux_effect(before: LinuxState, after: LinuxState) -> Effect {
    use LinuxState as L;
    let effect = |state| match state {
        L::SynSent | L::SynSent2 | L::SynReceived => Effect::Opening,
        L::Established => Effect::Established,
        L::FinWait | L::CloseWait | L::LastAck | L::TimeWait => Effect::Closing,
        L::Nothing | L::Close => Effect::Over,
    };
    match effect(before) == effect(after) {
        true => Effect::Nothing,
        false => effect(after),
    }
}

/// The name of the class of each difference.
fn class(row: &Row, other: Other) -> Option<&'static str> {
    let class = CLASSES
        .iter()
        .find(|class| class.other == other && (class.holds)(row));
    class.map(|class| class.name)
}

#[test]
fn every_difference_has_a_class_and_every_class_a_row() {
    let mut found = BTreeSet::new();
    for row in rows() {
        for other in [Other::End, Other::Linux] {
            if row.differs_from(other) {
                let name = class(&row, other);
                assert!(
                    name.is_some(),
                    "{other:?} differs without a reason: {row:?}"
                );
                found.extend(name);
            }
        }
    }
    let all: BTreeSet<_> = CLASSES.iter().map(|class| class.name).collect();
    assert_eq!(all.len(), CLASSES.len(), "two classes have one name");
    assert_eq!(found, all);
}

/// What the firewall drops, no end would have acted on.
#[test]
fn what_an_end_accepts_passes() {
    for row in rows()
        .iter()
        .filter(|row| row.end == Does::Accepts && !row.passes)
    {
        let name = class(row, Other::End);
        assert!(
            name.is_some_and(|name| MAY_BE_DROPPED.contains(&name)),
            "{row:?}"
        );
    }
}

/// A packet that the end does not believe changes no state, and takes nothing away: both ends go on.
#[test]
fn what_no_end_accepts_changes_nothing() {
    for row in rows().iter().filter(|row| row.end != Does::Accepts) {
        assert!(row.goes_on, "{row:?}");
        if row.effect != Effect::Nothing {
            let name = class(row, Other::End);
            assert!(
                name.is_some_and(|name| MAY_BE_BELIEVED.contains(&name)),
                "{row:?}"
            );
        }
    }
}

#[test]
fn the_page_has_each_class() {
    let page = include_str!("../../../../docs/semantics.md");
    let table = page
        .split_once("| difference | to |")
        .unwrap()
        .1
        .split("\n\n")
        .next()
        .unwrap();
    let lines: Vec<_> = table.lines().skip(2).map(str::to_owned).collect();
    let line = |class: &differences::Class| {
        let other = match class.other {
            Other::End => "the RFCs",
            Other::Linux => "Linux",
        };
        format!("| {} | {other} | {} |", class.name, class.why)
    };
    assert_eq!(lines, CLASSES.iter().map(line).collect::<Vec<_>>());
}
