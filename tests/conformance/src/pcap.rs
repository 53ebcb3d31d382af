//! A case's packets as a capture file, for Wireshark and tshark: each as it entered, then as it left.
//! pcapng (draft-ietf-opsawg-pcapng): every place a packet enters or leaves by is an interface with its name,
//! and what entered has its verdict as a comment. The same case always gives the same bytes.

use overlane_pipeline::{Entry, Packet};

use crate::case::{Case, Step};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const LINK_ETHERNET: u16 = 1;

const OPTION_COMMENT: u16 = 1;
const OPTION_INTERFACE_NAME: u16 = 2;
const OPTION_RESOLUTION: u16 = 9;
const NANOSECONDS: u8 = 9;

/// The file's bytes.
pub fn pcap(case: &Case) -> Vec<u8> {
    let mut file = File::default();
    let mut header = BYTE_ORDER.to_le_bytes().to_vec();
    header.extend(1u16.to_le_bytes()); // version 1.0
    header.extend(0u16.to_le_bytes());
    header.extend(u64::MAX.to_le_bytes()); // length of the section: not given
    option(&mut header, OPTION_COMMENT, case.title.as_bytes());
    file.block(SECTION_HEADER, header);
    for step in &case.steps {
        let comment = format!("verdict: {}", step.verdict);
        file.packet(
            &format!("in: {}", entrance(step)),
            step,
            &step.packet,
            &comment,
        );
        for left in &step.out {
            file.packet(&format!("out: {}", left.to), step, &left.packet, "");
        }
    }
    file.bytes
}

fn entrance(step: &Step) -> String {
    match &step.entry {
        Entry::Port(device) => format!("device {device}"),
        Entry::Segmenter(device) => format!("segmenter, of device {device}"),
        Entry::Underlay => "underlay".into(),
        Entry::Leg(device) => format!("leg {device}"),
    }
}

#[derive(Default)]
struct File {
    bytes: Vec<u8>,
    interfaces: Vec<String>,
}

impl File {
    fn interface(&mut self, name: &str) -> u32 {
        let known = self.interfaces.iter().position(|known| known == name);
        let index = known.unwrap_or(self.interfaces.len());
        if known.is_none() {
            self.interfaces.push(name.to_owned());
            let mut body = LINK_ETHERNET.to_le_bytes().to_vec();
            body.extend([0; 2]);
            body.extend(0u32.to_le_bytes()); // no limit on captured bytes
            option(&mut body, OPTION_INTERFACE_NAME, name.as_bytes());
            option(&mut body, OPTION_RESOLUTION, &[NANOSECONDS]);
            self.block(INTERFACE, body);
        }
        index as u32
    }

    fn packet(&mut self, interface: &str, step: &Step, packet: &Packet, comment: &str) {
        let interface = self.interface(interface);
        // A capture has the tag where a wire has it.
        let tagged = packet.tag.and_then(|tag| tag.insert(&packet.bytes));
        let bytes = tagged.as_deref().unwrap_or(&packet.bytes);
        let (high, low) = ((step.now_ns >> 32) as u32, step.now_ns as u32);
        let length = bytes.len() as u32;
        let mut body = Vec::new();
        for word in [interface, high, low, length, length] {
            body.extend(word.to_le_bytes());
        }
        body.extend(bytes);
        body.resize(body.len().next_multiple_of(4), 0);
        if !comment.is_empty() {
            option(&mut body, OPTION_COMMENT, comment.as_bytes());
        }
        self.block(ENHANCED_PACKET, body);
    }

    fn block(&mut self, kind: u32, mut body: Vec<u8>) {
        body.resize(body.len().next_multiple_of(4), 0);
        let length = (body.len() as u32 + 12).to_le_bytes();
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend(length);
        self.bytes.extend(body);
        self.bytes.extend(length);
    }
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}
