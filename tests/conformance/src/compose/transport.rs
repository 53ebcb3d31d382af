//! UDP and TCP.

use overlane_wire::checksum::update;
use overlane_wire::tcp_option::Options;
use overlane_wire::{Emit, geneve, tcp, udp, vxlan};

use super::Place;
use crate::layers::{Layer, Tcp, Udp};

pub(super) fn udp(udp: &Udp, place: &Place<'_>) -> Vec<u8> {
    let tunnel_port = match place.next {
        Some(Layer::Vxlan(_)) => Some(vxlan::PORT),
        Some(Layer::Geneve(_)) => Some(geneve::PORT),
        _ => None,
    };
    let length = (udp::LEN + place.payload.len()) as u16;
    let header = udp::Header {
        source: udp.src.unwrap_or(0),
        destination: udp.dst.or(tunnel_port).unwrap_or(0),
        length: udp.length.unwrap_or(length),
        checksum: udp.checksum.unwrap_or(0),
    };
    match (place.addresses(), tunnel_port, udp.checksum) {
        (Some((source, destination)), None, None) => {
            header.with_checksum(source, destination, place.payload)
        }
        _ => header,
    }
    .to_bytes()
}

const NOP: u8 = 1;

const LETTERS: [(char, u8); 8] = [
    ('C', 0x80),
    ('E', 0x40),
    ('U', 0x20),
    ('A', 0x10),
    ('P', 0x08),
    ('R', 0x04),
    ('S', 0x02),
    ('F', 0x01),
];

fn flags(text: &str) -> Result<tcp::Flags, String> {
    let bits = text.chars().map(|letter| {
        let found = LETTERS.iter().find(|(known, _)| *known == letter);
        found
            .map(|(_, bit)| *bit)
            .ok_or_else(|| format!("no TCP flag has the letter `{letter}`"))
    });
    bits.collect::<Result<Vec<_>, _>>()
        .map(|bits| tcp::Flags(bits.iter().fold(0, |flags, bit| flags | bit)))
}

/// The letters of some flags.
pub(crate) fn letters(flags: u8) -> String {
    let set = LETTERS.iter().filter(|(_, bit)| flags & bit != 0);
    set.map(|(letter, _)| letter).collect()
}

pub(super) fn tcp(tcp: &Tcp, place: &Place<'_>) -> Result<Vec<u8>, String> {
    let options = tcp.options.clone().unwrap_or_default().0;
    if options.len() > 40 || !options.len().is_multiple_of(4) {
        return Err("options must be a multiple of 4 bytes, at most 40".into());
    }
    // Broken ones are written over good ones.
    let no_options = vec![NOP; options.len()];
    let is_good = Options::new(&options).is_ok();
    let header = tcp::Header {
        source: tcp.src.unwrap_or(0),
        destination: tcp.dst.unwrap_or(0),
        sequence: tcp.seq.unwrap_or(0),
        acknowledgment: tcp.ack.unwrap_or(0),
        flags: flags(tcp.flags.as_deref().unwrap_or("A"))?,
        window: tcp.window.unwrap_or(0xffff),
        checksum: tcp.checksum.unwrap_or(0),
        urgent: tcp.urgent.unwrap_or(0),
        options: Options::new(if is_good { &options } else { &no_options })
            .map_err(|error| error.to_string())?,
    };
    let header = match (place.addresses(), tcp.checksum) {
        (Some((source, destination)), None) => {
            header.with_checksum(source, destination, place.payload)
        }
        _ => header,
    };
    let mut bytes = header.to_bytes();
    if !is_good {
        bytes[tcp::LEN..].copy_from_slice(&options);
    }
    if tcp.checksum.is_none() {
        let (words, _) = options.as_chunks::<2>();
        let sum = u16::from_be_bytes([bytes[16], bytes[17]]);
        let sum = words.iter().filter(|_| !is_good).fold(sum, |sum, word| {
            update(sum, u16::from_be_bytes([NOP; 2]), u16::from_be_bytes(*word))
        });
        bytes[16..18].copy_from_slice(&sum.to_be_bytes());
    }
    if let Some(offset) = tcp.data_offset {
        bytes[12] = offset << 4;
    }
    Ok(bytes)
}
