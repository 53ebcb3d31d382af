//! Writes pcapng (draft-ietf-opsawg-pcapng), which Wireshark and tshark read: one section, an interface
//! for each place where packets are seen, and each packet with what became of it as a comment.
//!
//! ```text
//!   block:  type u32 │ length u32 │ body, padded to 4 │ length u32
//!   option: code u16 │ length u16 │ value, padded to 4          … and code 0, length 0 at the end
//! ```
//!
//! Little-endian; the section header's magic number says so.

use std::collections::BTreeMap;
use std::io::{self, Write};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const MAGIC: u32 = 0x1a2b_3c4d;
const LINKTYPE_ETHERNET: u16 = 1;

const OPT_END: u16 = 0;
const OPT_COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
/// Time stamps count 10⁻⁹ s.
const NANOSECONDS: u8 = 9;
const EPB_FLAGS: u16 = 2;

/// A packet to write.
pub(crate) struct Record<'a> {
    /// Where it was seen.
    pub(crate) interface: &'a str,
    /// In ns since 1970 (UTC).
    pub(crate) time_unix_ns: u64,
    /// Left the host's path (else it entered).
    pub(crate) outbound: bool,
    /// Its length before it was cut.
    pub(crate) len: u32,
    /// The bytes that were kept.
    pub(crate) bytes: &'a [u8],
    /// For the reader.
    pub(crate) comment: &'a str,
}

/// A capture file in the making.
pub(crate) struct Writer<W> {
    out: W,
    interfaces: BTreeMap<String, u32>,
    snap: u32,
}

impl<W: Write> Writer<W> {
    /// Begins the file. `snap`: bytes that are kept of each packet.
    pub(crate) fn new(out: W, snap: u32, program: &str) -> io::Result<Self> {
        let mut writer = Self {
            out,
            interfaces: BTreeMap::new(),
            snap,
        };
        let mut body = Vec::new();
        body.extend(MAGIC.to_le_bytes());
        body.extend(1u16.to_le_bytes()); // major version
        body.extend(0u16.to_le_bytes());
        body.extend((-1i64).to_le_bytes()); // length of the section: not known
        option(&mut body, SHB_USERAPPL, program.as_bytes());
        end_of_options(&mut body);
        writer.block(SECTION_HEADER, &body)?;
        Ok(writer)
    }

    /// Writes one packet, and its interface before it when it is new.
    pub(crate) fn write(&mut self, record: &Record<'_>) -> io::Result<()> {
        let interface = self.interface(record.interface)?;
        let captured = u32::try_from(record.bytes.len()).unwrap_or(u32::MAX);
        let mut body = Vec::with_capacity(record.bytes.len() + record.comment.len() + 48);
        body.extend(interface.to_le_bytes());
        body.extend(((record.time_unix_ns >> 32) as u32).to_le_bytes());
        body.extend((record.time_unix_ns as u32).to_le_bytes());
        body.extend(captured.to_le_bytes());
        body.extend(record.len.max(captured).to_le_bytes());
        body.extend(record.bytes);
        pad(&mut body);
        let direction: u32 = if record.outbound { 2 } else { 1 };
        option(&mut body, EPB_FLAGS, &direction.to_le_bytes());
        option(&mut body, OPT_COMMENT, record.comment.as_bytes());
        end_of_options(&mut body);
        self.block(ENHANCED_PACKET, &body)
    }

    /// Hands everything to the reader.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn interface(&mut self, name: &str) -> io::Result<u32> {
        if let Some(&number) = self.interfaces.get(name) {
            return Ok(number);
        }
        let mut body = Vec::new();
        body.extend(LINKTYPE_ETHERNET.to_le_bytes());
        body.extend(0u16.to_le_bytes()); // reserved
        // A tag that is put back makes a packet longer than what was asked for.
        body.extend((self.snap + 4).to_le_bytes());
        option(&mut body, IF_NAME, name.as_bytes());
        option(&mut body, IF_TSRESOL, &[NANOSECONDS]);
        end_of_options(&mut body);
        self.block(INTERFACE_DESCRIPTION, &body)?;
        let number = u32::try_from(self.interfaces.len()).unwrap_or(u32::MAX);
        self.interfaces.insert(name.to_owned(), number);
        Ok(number)
    }

    fn block(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        let len = u32::try_from(body.len() + 12).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&len.to_le_bytes())?;
        self.out.write_all(body)?;
        self.out.write_all(&len.to_le_bytes())
    }
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    // The length has 16 bits; our comments stay far below.
    let value = value.get(..0xffff).unwrap_or(value);
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    pad(body);
}

fn end_of_options(body: &mut Vec<u8>) {
    body.extend(OPT_END.to_le_bytes());
    body.extend(0u16.to_le_bytes());
}

/// Every part of a body begins at a multiple of four.
fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block as a reader finds it: type and body.
    struct Block {
        kind: u32,
        body: Vec<u8>,
    }

    fn u32_at(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    /// Reads a file the way the draft's section 3.1 says, without our constants.
    fn read(mut file: &[u8]) -> Vec<Block> {
        let mut blocks = Vec::new();
        while !file.is_empty() {
            let len = u32_at(file, 4) as usize;
            assert_eq!(len % 4, 0);
            assert_eq!(u32_at(file, len - 4) as usize, len, "both lengths agree");
            blocks.push(Block {
                kind: u32_at(file, 0),
                body: file[8..len - 4].to_vec(),
            });
            file = &file[len..];
        }
        blocks
    }

    /// Code → value.
    fn options(mut bytes: &[u8]) -> BTreeMap<u16, Vec<u8>> {
        let mut found = BTreeMap::new();
        loop {
            let code = u16::from_le_bytes([bytes[0], bytes[1]]);
            let len = usize::from(u16::from_le_bytes([bytes[2], bytes[3]]));
            if code == 0 {
                assert_eq!((len, bytes.len()), (0, 4), "nothing behind the end");
                return found;
            }
            found.insert(code, bytes[4..4 + len].to_vec());
            bytes = &bytes[4 + len.next_multiple_of(4)..];
        }
    }

    fn record<'a>(interface: &'a str, bytes: &'a [u8]) -> Record<'a> {
        Record {
            interface,
            time_unix_ns: 1_795_250_000_123_456_789,
            outbound: interface.starts_with("to_"),
            len: 60,
            bytes,
            comment: "verdict: encap; port a1",
        }
    }

    #[test]
    fn what_is_written_can_be_read() {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, 96, "overlane 1").unwrap();
        writer
            .write(&record("from_port a1", &[1, 2, 3, 4, 5]))
            .unwrap();
        writer.write(&record("to_underlay eth1", &[6; 60])).unwrap();
        writer.write(&record("from_port a1", &[])).unwrap();
        writer.flush().unwrap();

        let blocks = read(&file);
        let kinds: Vec<u32> = blocks.iter().map(|block| block.kind).collect();
        assert_eq!(kinds, [0x0a0d_0d0a, 1, 6, 1, 6, 6]);

        let section = &blocks[0].body;
        assert_eq!(u32_at(section, 0), 0x1a2b_3c4d);
        assert_eq!(section[4..8], [1, 0, 0, 0]);
        assert_eq!(section[8..16], [0xff; 8]);
        assert_eq!(options(&section[16..])[&4], b"overlane 1");

        let interface = &blocks[1].body;
        assert_eq!(interface[..4], [1, 0, 0, 0]);
        assert_eq!(u32_at(interface, 4), 100);
        assert_eq!(options(&interface[8..])[&2], b"from_port a1");
        assert_eq!(options(&interface[8..])[&9], [9]);

        let packet = &blocks[2].body;
        assert_eq!(u32_at(packet, 0), 0);
        let time = u64::from(u32_at(packet, 4)) << 32 | u64::from(u32_at(packet, 8));
        assert_eq!(time, 1_795_250_000_123_456_789);
        assert_eq!((u32_at(packet, 12), u32_at(packet, 16)), (5, 60));
        assert_eq!(packet[20..28], [1, 2, 3, 4, 5, 0, 0, 0]);
        assert_eq!(options(&packet[28..])[&1], b"verdict: encap; port a1");
        assert_eq!(options(&packet[28..])[&2], 1u32.to_le_bytes());

        let left = &blocks[4].body;
        assert_eq!(u32_at(left, 0), 1);
        assert_eq!(options(&left[80..])[&2], 2u32.to_le_bytes());
        // The interface of the third packet is there already.
        assert_eq!(u32_at(&blocks[5].body, 0), 0);
    }

    #[test]
    fn a_packet_is_never_shorter_than_what_was_kept_of_it() {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, 96, "overlane").unwrap();
        let bytes = [0; 64];
        writer.write(&record("x", &bytes)).unwrap();
        let packet = &read(&file)[2].body;
        assert_eq!((u32_at(packet, 12), u32_at(packet, 16)), (64, 64));
    }
}
