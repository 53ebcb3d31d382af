//! A packet that somebody got: what an answer has to know of it.

use std::net::IpAddr;

use overlane_wire::Mac;

use super::Place;

/// A packet that somebody got.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    pub(super) place: Place,
    pub(super) source_mac: Mac,
    pub(super) mac: Mac,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) protocol: u8,
    /// From the IP header on.
    pub(super) ip_packet: Vec<u8>,
    /// Behind the IP header, and an IPv6 fragment header.
    pub(super) payload_at: usize,
}

impl Heard {
    /// What is not IP is not answered.
    pub(super) fn read(place: Place, frame: &[u8]) -> Option<Self> {
        let (to, from) = (frame.first_chunk::<6>()?, frame.get(6..12)?);
        let ip = frame.get(14..)?;
        let (source, destination, protocol, payload_at): (IpAddr, IpAddr, u8, usize) =
            match frame.get(12..14)? {
                [8, 0] => (
                    addr::<4>(ip, 12)?.into(),
                    addr::<4>(ip, 16)?.into(),
                    *ip.get(9)?,
                    usize::from(ip.first()? & 15) * 4,
                ),
                [0x86, 0xdd] => (
                    addr::<16>(ip, 8)?.into(),
                    addr::<16>(ip, 24)?.into(),
                    *ip.get(6)?,
                    40,
                ),
                _ => return None,
            };
        Some(Self {
            place,
            source_mac: Mac::new(from.first_chunk().copied()?),
            mac: Mac::new(*to),
            source,
            destination,
            protocol,
            ip_packet: ip.to_vec(),
            payload_at,
        })
    }

    /// Bytes behind the IP header.
    pub(super) fn payload(&self) -> &[u8] {
        self.ip_packet.get(self.payload_at..).unwrap_or_default()
    }

    /// Source and destination port.
    pub(super) fn ports(&self) -> (u16, u16) {
        (self.word(0), self.word(2))
    }

    /// Two bytes behind the IP header.
    pub(super) fn word(&self, at: usize) -> u16 {
        let bytes = self
            .payload()
            .get(at..)
            .and_then(|rest| rest.first_chunk::<2>());
        bytes.map_or(0, |bytes| u16::from_be_bytes(*bytes))
    }

    /// Four bytes behind the IP header.
    pub(super) fn long(&self, at: usize) -> u32 {
        u32::from(self.word(at)) << 16 | u32::from(self.word(at + 2))
    }
}

fn addr<const N: usize>(ip: &[u8], at: usize) -> Option<[u8; N]> {
    ip.get(at..)?.first_chunk().copied()
}
