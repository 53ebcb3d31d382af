//! The TCP header as far as a connection's state asks: sequence numbers, flags, window and its scale.

use overlane_wire::tcp;
use overlane_wire::tcp::Flags;

use crate::lib::bytes::{array, be16, be32};

pub(crate) const MAX_SCALE: u8 = 14; // RFC 7323 section 2.3

/// What TCP's state is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    pub(crate) flags: Flags,
    pub(crate) window: u16,
    pub(crate) payload_len: u32,
    /// Of a SYN: its window scale option.
    pub(crate) scale: Option<u8>,
}

impl Segment {
    pub(crate) fn is(&self, flag: Flags) -> bool {
        self.flags.contains(flag)
    }

    /// SYN without ACK: it asks for a new connection.
    pub(crate) fn opens(&self) -> bool {
        self.is(Flags::SYN) && !self.is(Flags::ACK)
    }

    /// The sequence number behind it.
    pub(crate) fn sequence_end(&self) -> u32 {
        let flags = u32::from(self.is(Flags::SYN)) + u32::from(self.is(Flags::FIN));
        self.sequence
            .wrapping_add(self.payload_len)
            .wrapping_add(flags)
    }

    /// `packet` ends with the IP packet. The error says why no connection may see it.
    pub(crate) fn read(packet: &[u8], at: usize) -> Result<Self, &'static str> {
        let header =
            array::<{ tcp::LEN }>(packet, at).ok_or("the packet ends in its TCP header")?;
        let header_len = usize::from(header.get(12).map_or(0, |first| first >> 4)) * 4;
        let options = packet.get(at + tcp::LEN..at + header_len);
        let options = options.ok_or("its TCP header has an impossible length")?;
        let flags = Flags(header.get(13).copied().unwrap_or_default());
        let is = |flag| flags.contains(flag);
        if !is(Flags::SYN) && !is(Flags::ACK) && !is(Flags::RST) {
            return Err("it has none of SYN, ACK and RST");
        }
        if is(Flags::SYN) && (is(Flags::FIN) || is(Flags::RST)) {
            return Err("it has SYN, and FIN or RST");
        }
        Ok(Self {
            sequence: be32(&header, 4).unwrap_or_default(),
            acknowledgment: be32(&header, 8).unwrap_or_default(),
            flags,
            window: be16(&header, 14).unwrap_or_default(),
            payload_len: (packet.len() - at - header_len) as u32,
            scale: is(Flags::SYN).then(|| window_scale(options)).flatten(),
        })
    }
}

/// The last window scale option; a length that cannot be ends the walk.
fn window_scale(options: &[u8]) -> Option<u8> {
    let (mut rest, mut scale) = (options, None);
    loop {
        rest = match rest {
            [] | [0, ..] => return scale,
            [1, rest @ ..] => rest,
            [kind, len, ..] if *len >= 2 => {
                let Some((option, rest)) = rest.split_at_checked((*len).into()) else {
                    return scale;
                };
                if let ([_, _, shift], 3) = (option, kind) {
                    scale = Some((*shift).min(MAX_SCALE));
                }
                rest
            }
            _ => return scale,
        };
    }
}
