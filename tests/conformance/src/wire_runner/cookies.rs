//! Cookies in greetings: those of a case are of its own time and of no secret, those on a wire of the real host.

use std::io;

use overlane_ebpf::abi::Settings;
use overlane_ebpf::maps::MapSet;
use overlane_ebpf::tables::Table;
use overlane_model::{Tables, cookie};
use overlane_pipeline::Packet;
use overlane_wire::{EtherType, ethernet, ipv4, ipv6};
use zerocopy::FromBytes;

use super::{WireError, io_error, sys};

/// What every greeting has behind its Ethernet header.
const MAGIC: [u8; 4] = *b"OVL\x01";
const EPOCH_NS: u64 = 1 << 36;

type Cookie = [u8; cookie::LEN];

/// Of every remote.
pub(super) struct Cookies {
    /// In the case and on the wire, now.
    now: Vec<(Cookie, Cookie)>,
    /// An answer may come when the next epoch has begun.
    next: Vec<(Cookie, Cookie)>,
}

impl Cookies {
    /// At the time of the case.
    pub(super) fn of(maps: &MapSet, tables: &Tables, case_ns: u64) -> Result<Self, WireError> {
        let settings = maps.entries(Table::Settings)?;
        let settings = settings.values().next();
        let settings = settings.and_then(|value| Settings::read_from_bytes(value).ok());
        let settings = settings
            .ok_or_else(|| io_error("read the settings")(io::ErrorKind::InvalidData.into()))?;
        let real = cookie::Key {
            secret: settings.secret,
            words: settings.cookie_key,
        };
        let now_ns = sys::now_ns().map_err(io_error("read the clock"))?;
        let pairs = |real_ns| {
            let remotes = tables.remotes.iter();
            let pair = remotes.map(|remote| {
                let of_case = cookie::cookie(cookie::Key::default(), remote.addr, case_ns);
                (of_case, cookie::cookie(real, remote.addr, real_ns))
            });
            pair.collect()
        };
        Ok(Self {
            now: pairs(now_ns),
            next: pairs(now_ns + EPOCH_NS),
        })
    }

    /// A packet of the case, to be sent.
    pub(super) fn as_on_wire(&self, bytes: &mut [u8]) {
        for (of_case, real) in &self.now {
            replace(bytes, of_case, real);
        }
    }

    /// What came out, as the case has it.
    pub(super) fn as_in_case(&self, packet: &mut Packet) {
        for (of_case, real) in self.now.iter().chain(&self.next) {
            replace(&mut packet.bytes, real, of_case);
        }
    }
}

/// Whether a UDP checksum covers what would be replaced.
pub(super) fn have_checksum(bytes: &[u8]) -> bool {
    let at = match super::frame::be16(bytes, ethernet::LEN - 2).map(EtherType) {
        Some(EtherType::IPV4) => ethernet::LEN + ipv4::LEN + 6,
        _ => ethernet::LEN + ipv6::LEN + 6,
    };
    is_greeting(bytes) && super::frame::be16(bytes, at) != Some(0)
}

fn is_greeting(bytes: &[u8]) -> bool {
    bytes.windows(MAGIC.len()).any(|window| window == MAGIC)
}

fn replace(bytes: &mut [u8], from: &Cookie, to: &Cookie) {
    if !is_greeting(bytes) {
        return;
    }
    for at in 0..(bytes.len() + 1).saturating_sub(cookie::LEN) {
        if let Some(place) = bytes.get_mut(at..at + cookie::LEN)
            && place == from
        {
            place.copy_from_slice(to);
        }
    }
}
