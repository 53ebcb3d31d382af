//! Why the firewall does otherwise than the end of a connection, or than Linux.

use super::Stage::*;
use super::end_point::Does;
use super::{Effect, Row};
use crate::wall::*;

/// Who does otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Other {
    /// The end that gets the packet: RFC 9293 and RFC 5961.
    End,
    Linux,
}

pub(super) struct Class {
    pub(super) name: &'static str,
    pub(super) other: Other,
    /// One sentence.
    pub(super) why: &'static str,
    /// Of a row that differs; of several classes the first counts.
    pub(super) holds: fn(&Row) -> bool,
}

/// The differences in which an end would have acted on what is dropped.
pub(super) const MAY_BE_DROPPED: [&str; 3] = [
    "broken flags",
    "an acknowledgment before the handshake is over",
    "a listener that listens again",
];

/// Those in which a packet that its end does not believe changes a state.
pub(super) const MAY_BE_BELIEVED: [&str; 5] = [
    "a beginning",
    "a second answer",
    "known by its acknowledgment",
    "a reset at the FIN",
    "a reset after the end",
];

const SYN_ACK: u8 = SYN | ACK;
const FIN_ACK: u8 = FIN | ACK;

/// Linux lets a packet pass and thinks nothing of it.
fn is_ignored_by_linux(row: &Row) -> bool {
    row.linux_passes && row.linux_effect == Effect::Nothing
}

fn is_unheeded(row: &Row) -> bool {
    row.passes && row.effect == Effect::Nothing
}

pub(super) const CLASSES: &[Class] = &[
    Class {
        name: "broken flags",
        other: Other::End,
        why: "No end sends a SYN with FIN or RST, or a packet without SYN, ACK and RST (CT-1), and ends disagree about what these mean.",
        holds: |row| {
            let flags = row.packet.flags;
            let is_none = flags & (SYN | ACK | RST) == 0;
            !row.passes && (is_none || (flags & SYN != 0 && flags & (FIN | RST) != 0))
        },
    },
    Class {
        name: "a beginning",
        other: Other::End,
        why: "The firewall remembers a connection before it knows whether the end that gets the packet has it, or wants it (CT-10, CT-11).",
        holds: |row| row.stage == Nothing && row.effect == Effect::Opening,
    },
    Class {
        name: "an answer to nothing",
        other: Other::End,
        why: "The end would answer a SYN with ACK that nobody asked for with a reset; the firewall drops it (CT-14).",
        holds: |row| row.stage == Nothing && row.is(SYN_ACK) && !row.passes,
    },
    Class {
        name: "out of the windows",
        other: Other::End,
        why: "The end would say what it knows, or reset; the firewall drops the packet, so that a guest neither sees guesses nor answers them (CT-8).",
        holds: |row| !row.passes && matches!(row.end, Does::Challenges | Does::Resets),
    },
    Class {
        name: "an acknowledgment before the handshake is over",
        other: Other::End,
        why: "An end that is established takes acknowledgments that are a window too old, but before the handshake is over nobody has sent any (CT-19).",
        holds: |row| row.stage == SynAnswered && row.from == Peer && !row.passes && row.ack < 0,
    },
    Class {
        name: "a listener that listens again",
        other: Other::End,
        why: "RFC 9293 lets any SYN in its window end a half-open connection, even with a wrong acknowledgment; the firewall drops that one (CT-19).",
        holds: |row| row.stage == SynAnswered && row.is(SYN_ACK) && !row.passes,
    },
    Class {
        name: "a second answer",
        other: Other::End,
        why: "A SYN with ACK and another number may come from a peer that has begun anew; which one counts, the end that began says (CT-37).",
        holds: |row| row.stage == SynAnswered && row.is(SYN_ACK) && row.effect == Effect::Opening,
    },
    Class {
        name: "known by its acknowledgment",
        other: Other::End,
        why: "What is a little too old or too new for the end may still say that the handshake is over or a FIN has arrived, if it acknowledges exactly that (CT-22, CT-24).",
        holds: |row| {
            row.end == Does::Challenges
                && row.ack == 0
                && matches!(row.effect, Effect::Established | Effect::Closing)
        },
    },
    Class {
        name: "a reset at the FIN",
        other: Other::End,
        why: "Until a FIN is acknowledged, nobody but its receiver knows whether it waits for the FIN or for what is behind it; both numbers end the connection (CT-17).",
        holds: |row| row.stage == FinSent && row.is_reset() && row.sequence == -1,
    },
    Class {
        name: "a reset after the end",
        other: Other::End,
        why: "An end that has forgotten the connection ignores its reset; the firewall forgets it sooner, which takes nothing away (CT-17).",
        holds: |row| row.stage == BothClosed && row.is_reset() && row.sequence == 0,
    },
    Class {
        name: "a reset of what is picked up",
        other: Other::End,
        why: "Until the firewall has seen an end anew it does not know for which number its receiver waits, so the connection is left to its time-out (CT-36).",
        holds: |row| row.stage == PickedUp && row.is_reset() && is_unheeded(row),
    },
    Class {
        name: "a reset with FIN",
        other: Other::Linux,
        why: "Linux takes RST with FIN for broken; an end looks at the RST alone (RFC 9293 section 3.10.7).",
        holds: |row| row.is_reset() && row.packet.is(FIN) && row.passes && !row.linux_passes,
    },
    Class {
        name: "missed packets",
        other: Other::Linux,
        why: "Linux does not know that packets of a connection went elsewhere, and holds the others against its old numbers (CT-36).",
        holds: |row| row.stage == PickedUp && row.passes && !(row.is(FIN_ACK) && row.linux_passes),
    },
    Class {
        name: "a SYN of the other end",
        other: Other::Linux,
        why: "Linux drops a SYN of the end that did not begin the connection; here the rules say who may begin one (CT-4).",
        holds: |row| row.is(SYN) && row.passes && !row.linux_passes,
    },
    Class {
        name: "a SYN after the end",
        other: Other::Linux,
        why: "Linux forgets what is over with the next SYN, forged or not; here the other end's answer decides (CT-7, CT-31).",
        holds: |row| row.is(SYN) && is_unheeded(row) && row.linux_effect == Effect::Opening,
    },
    Class {
        name: "an adopted connection",
        other: Other::Linux,
        why: "Linux takes one packet of an unknown connection for an established one, and a FIN for none; here it is established when both ends were seen (CT-22).",
        holds: |row| row.stage == Nothing && row.effect == Effect::Opening,
    },
    Class {
        name: "a FIN that nobody has acknowledged",
        other: Other::Linux,
        why: "Linux closes with the FIN, though its receiver may discard it; here it counts when the other end has acknowledged it (CT-24).",
        holds: |row| {
            let is_fin = row.is(FIN_ACK) && row.linux_effect == Effect::Closing;
            is_fin || (row.stage == FinSent && row.effect == Effect::Closing)
        },
    },
    Class {
        name: "an answer that does not fit",
        other: Other::Linux,
        why: "Linux lets every SYN with ACK of the other end pass unheeded; here it must fit the windows once both ends are known (CT-32).",
        holds: |row| row.is(SYN_ACK) && !row.passes && is_ignored_by_linux(row),
    },
    Class {
        name: "an answer of who began",
        other: Other::Linux,
        why: "Linux drops a SYN with ACK of the end that began; here it passes unheeded if it fits, because its receiver answers it with what it knows (CT-32, CT-35).",
        holds: |row| row.is(SYN_ACK) && row.from == Local && row.passes,
    },
    Class {
        name: "another answer",
        other: Other::Linux,
        why: "Linux holds on to the first number of the other end; here the windows are off until the end that began has chosen one (CT-37).",
        holds: |row| row.is(SYN_ACK) && row.from == Peer && row.effect == Effect::Opening,
    },
    Class {
        name: "a wrong answer",
        other: Other::Linux,
        why: "Linux drops an ACK that does not answer the SYN; here it passes unheeded, because the end that began answers with a reset, which ends what the other end has left (CT-35).",
        holds: |row| {
            row.stage == SynSent && !row.is_reset() && is_unheeded(row) && row.from == Peer
        },
    },
    Class {
        name: "before the answer",
        other: Other::Linux,
        why: "Linux drops what the end that began sends between its SYN and the answer; here it passes unheeded, because the other end knows what it is worth (CT-35).",
        holds: |row| {
            row.stage == SynSent && !row.is_reset() && is_unheeded(row) && row.from == Local
        },
    },
    Class {
        name: "the end of the handshake",
        other: Other::Linux,
        why: "Linux waits for the end that began; here the handshake is over when either end acknowledges the other's SYN exactly (CT-22).",
        holds: |row| {
            row.stage == SynAnswered && row.effect == Effect::Established && row.from == Peer
        },
    },
    Class {
        name: "an old acknowledgment of a SYN",
        other: Other::Linux,
        why: "Linux ends the handshake with an acknowledgment that is up to 66000 too old; here it must be of the SYN (CT-19).",
        holds: |row| {
            row.stage == SynAnswered && !row.passes && row.linux_effect == Effect::Established
        },
    },
    Class {
        name: "a reset of what is over",
        other: Other::Linux,
        why: "Linux believes every reset of a connection that is closing, wherever its number is; here only the exact one, as the ends do (CT-17).",
        holds: |row| {
            let is_over = matches!(
                row.stage,
                FinSent | FinAcknowledged | BothClosed | ClosedByReset
            );
            row.is_reset() && is_over && row.linux_passes
        },
    },
    Class {
        name: "the acknowledgment of a reset",
        other: Other::Linux,
        why: "Linux looks at the acknowledgment of a reset, too; an end that waits for just this number does not (RFC 5961 section 3.2).",
        holds: |row| row.is_reset() && row.sequence == 0 && row.effect == Effect::Over,
    },
    Class {
        name: "a reset that answers a SYN",
        other: Other::Linux,
        why: "Linux wants number 0 in it; an end looks at the acknowledgment alone (RFC 9293 section 3.10.7.3).",
        holds: |row| row.stage == SynSent && row.is_reset() && row.effect == Effect::Over,
    },
    Class {
        name: "a reset in the handshake",
        other: Other::Linux,
        why: "Linux closes what is opening with any reset in the window, and drops the others; here the exact number closes, and others pass unheeded where the end can judge them (CT-32).",
        holds: |row| {
            matches!(row.stage, SynSent | SynAnswered) && row.is_reset() && is_unheeded(row)
        },
    },
    Class {
        name: "an old reset",
        other: Other::Linux,
        why: "Linux drops a reset below what was acknowledged; here it passes unheeded, as what is above does (CT-32).",
        holds: |row| row.is_reset() && is_unheeded(row) && row.sequence < 0 && !row.linux_passes,
    },
    Class {
        name: "too old or a little too far",
        other: Other::Linux,
        why: "Linux lets pass unheeded what is too old, or less than a window too far; here the end is spared it (CT-8).",
        holds: |row| !row.passes && is_ignored_by_linux(row),
    },
];
