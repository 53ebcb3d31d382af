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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::case::{cases_folder, load_all};

    /// A packet of a file: interface, nanoseconds, bytes, comment.
    type Seen = (String, u64, Vec<u8>, String);

    fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    fn half(bytes: &[u8], at: usize) -> u16 {
        u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
    }

    /// The value of an option, of those that end a block.
    fn find(mut options: &[u8], code: u16) -> Option<Vec<u8>> {
        while !options.is_empty() {
            let length = usize::from(half(options, 2));
            if half(options, 0) == code {
                return Some(options[4..4 + length].to_vec());
            }
            options = &options[4 + length.next_multiple_of(4)..];
        }
        None
    }

    fn find_text(options: &[u8], code: u16) -> String {
        String::from_utf8(find(options, code).unwrap_or_default()).unwrap()
    }

    /// The title and the packets, by the draft and not by what is written above.
    fn read(mut file: &[u8]) -> (String, Vec<Seen>) {
        let (mut title, mut interfaces, mut packets) = (None, Vec::new(), Vec::new());
        while !file.is_empty() {
            let length = word(file, 4) as usize;
            assert_eq!((length % 4, word(file, length - 4) as usize), (0, length));
            let body = &file[8..length - 4];
            match word(file, 0) {
                0x0a0d_0d0a => {
                    assert_eq!(
                        (word(body, 0), half(body, 4), half(body, 6)),
                        (0x1a2b_3c4d, 1, 0)
                    );
                    assert_eq!((title.is_none(), &body[8..16]), (true, &[0xff; 8][..]));
                    title = Some(find_text(&body[16..], 1));
                }
                1 => {
                    assert_eq!(
                        (half(body, 0), word(body, 4)),
                        (1, 0),
                        "Ethernet, whole packets"
                    );
                    assert_eq!(find(&body[8..], 9), Some(vec![9]), "nanoseconds");
                    interfaces.push(find_text(&body[8..], 2));
                }
                6 => {
                    let size = word(body, 12) as usize;
                    assert_eq!(word(body, 16) as usize, size);
                    let (bytes, rest) = body[20..].split_at(size.next_multiple_of(4));
                    packets.push((
                        interfaces[word(body, 0) as usize].clone(),
                        u64::from(word(body, 4)) << 32 | u64::from(word(body, 8)),
                        bytes[..size].to_vec(),
                        find_text(rest, 1),
                    ));
                }
                other => panic!("a block {other}"),
            }
            file = &file[length..];
        }
        (title.unwrap(), packets)
    }

    const CASE: &str = r#"title: a broadcast from a trunk, much later
rules: [FLOOD-1]
fabric:
  version: 1
  hosts: { h1: { underlay: 198.18.0.1, uplink: eth1 } }
  switches: { blue: { vni: 5001 } }
  ports:
    a1: { switch: blue, host: h1, device: v0, mac: "02:00:00:00:00:01", vlan: 10 }
    b1: { switch: blue, host: h1, device: v1, mac: "02:00:00:00:00:02" }
packets:
  - at: 10.5
    from: port a1
    packet:
      - tag: { id: 10, pcp: 3 }
      - eth: { src: "02:00:00:00:00:01", dst: "ff:ff:ff:ff:ff:ff" }
      - payload: { text: hello }
    verdict: flood
    out:
      - to: port b1
        packet:
          - eth: { src: "02:00:00:00:00:01", dst: "ff:ff:ff:ff:ff:ff", type: 0x88b5 }
          - payload: { text: hello }
"#;

    #[test]
    fn a_capture_has_the_packets_of_a_case() {
        let case = Case::parse(Path::new("flood/some-case.yaml"), CASE).unwrap();
        let (title, packets) = read(&pcap(&case));
        assert_eq!(title, "a broadcast from a trunk, much later");
        let addresses = b"\xff\xff\xff\xff\xff\xff\x02\0\0\0\0\x01";
        let tagged = [&addresses[..], b"\x81\x00\x60\x0a\x88\xb5hello"].concat();
        let plain = [&addresses[..], b"\x88\xb5hello"].concat();
        let (entered, left) = ("in: device v0".to_owned(), "out: port b1".to_owned());
        assert_eq!(
            packets,
            [
                (entered, 10_500_000_000, tagged, "verdict: flood".to_owned()),
                (left, 10_500_000_000, plain, String::new()),
            ]
        );
    }

    #[test]
    fn the_capture_of_every_golden_case_can_be_read() {
        for case in load_all(&cases_folder()).unwrap_or_else(|error| panic!("{error}")) {
            let (title, packets) = read(&pcap(&case));
            let mut packets = packets.into_iter();
            assert_eq!(title, case.title, "{}", case.name);
            for step in &case.steps {
                let out = step.out.iter().map(|left| &left.packet);
                for packet in [&step.packet].into_iter().chain(out) {
                    let (_, time, bytes, _) = packets.next().unwrap();
                    let tag_length = packet.tag.map_or(0, |_| 4);
                    let (addresses, rest) = packet.bytes.split_at(packet.bytes.len().min(12));
                    let right = bytes.starts_with(addresses)
                        && bytes.ends_with(rest)
                        && bytes.len() == packet.bytes.len() + tag_length;
                    assert!(right && time == step.now_ns, "{}", case.name);
                }
            }
            assert_eq!(packets.next(), None, "{}", case.name);
        }
    }
}
