//! Capture files, as `tcpdump -w` and Wireshark write them: classic pcap and pcapng, of Ethernet.
//! Only what a trace needs of them: the frames, when they were seen, and whether they are whole.
//!
//! ```text
//! pcap    magic │ version │ 8 unused │ snap │ link type │ (seconds │ fraction │ kept │ length │ frame)…
//! pcapng  (type │ length │ body │ length)…      section header, interfaces, packets, others passed over
//! ```
//! draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use super::error::PacketError;

/// The most that is read of a capture.
const MAX_BYTES: u64 = 64 << 20;
/// No writer keeps more of a frame (libpcap's MAXIMUM_SNAPLEN), and no block of pcapng is longer (Wireshark's limit).
const MAX_KEPT: u32 = 256 << 10;
const MAX_BLOCK: u32 = 16 << 20;
/// LINKTYPE_ETHERNET.
const ETHERNET: u32 = 1;

/// A frame of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Captured {
    /// Since the first one.
    pub(crate) at: Duration,
    pub(crate) bytes: Vec<u8>,
    /// Bytes it had; more than there are when the capture cut it.
    pub(crate) length: u32,
}

/// What a capture has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Capture {
    pub(crate) frames: Vec<Captured>,
    /// Where it is cut: whoever wrote it was stopped, or is not done. What stands before that place is whole.
    pub(crate) cut: Option<Cut>,
}

/// A record that goes on behind the end of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Packets before it.
    packets: usize,
    /// Where it begins.
    at: usize,
    /// Bytes of the file.
    end: usize,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packets, at, end } = self;
        let next = packets + 1;
        write!(
            f,
            "it is cut in packet {next}: that begins at byte {at}, and the file ends at byte {end}; {packets} before it are whole"
        )
    }
}

/// Reads a capture file, or standard input for `-`.
pub(crate) fn read(path: &Path) -> Result<Capture, PacketError> {
    let fault = |source| PacketError::ReadCapture {
        path: path.to_owned(),
        source,
    };
    let source = if path == Path::new("-") {
        Path::new("/dev/stdin")
    } else {
        path
    };
    let mut bytes = Vec::new();
    let file = File::open(source).map_err(fault)?;
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(fault)?;
    let captured = if bytes.len() as u64 > MAX_BYTES {
        Err(format!("larger than {MAX_BYTES} bytes"))
    } else {
        parse(&bytes)
    };
    captured.map_err(|why| PacketError::Capture {
        path: path.to_owned(),
        why,
    })
}

/// The frames, their times counted from the first.
fn parse(bytes: &[u8]) -> Result<Capture, String> {
    let magic = bytes.first_chunk::<4>();
    let mut capture = match magic {
        Some([0x0a, 0x0d, 0x0d, 0x0a]) => pcapng(bytes)?,
        Some(magic) => pcap(bytes, *magic)?,
        None if bytes.is_empty() => return Err("not a capture: it is empty".to_owned()),
        None => return Err(HEADER_CUT.to_owned()),
    };
    let frames = &mut capture.frames;
    let first = frames.first().map_or(Duration::ZERO, |frame| frame.at);
    for frame in frames {
        // Clocks are set back at times.
        frame.at = frame.at.saturating_sub(first);
    }
    Ok(capture)
}

/// Bytes with the byte order of who wrote them.
#[derive(Clone, Copy)]
struct Reader<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        let bytes: [u8; 2] = self.take(2)?.try_into().ok()?;
        Some(if self.big_endian {
            u16::from_be_bytes(bytes)
        } else {
            u16::from_le_bytes(bytes)
        })
    }

    fn u32(&mut self) -> Option<u32> {
        let bytes: [u8; 4] = self.take(4)?.try_into().ok()?;
        Some(if self.big_endian {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        })
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

fn ethernet(link_type: u32) -> Result<(), String> {
    if link_type == ETHERNET {
        Ok(())
    } else {
        Err(format!("frames of link type {link_type}, not Ethernet (1)"))
    }
}

/// There is nothing before it.
const HEADER_CUT: &str = "the header of the capture is cut";

fn pcap(bytes: &[u8], magic: [u8; 4]) -> Result<Capture, String> {
    let (big_endian, nanoseconds) = match u32::from_be_bytes(magic) {
        0xa1b2_c3d4 => (true, false),
        0xd4c3_b2a1 => (false, false),
        0xa1b2_3c4d => (true, true),
        0x4d3c_b2a1 => (false, true),
        _ => return Err("not a capture: neither pcap nor pcapng".to_owned()),
    };
    let mut reader = Reader { bytes, big_endian };
    let header = (reader.take(20), reader.u32());
    let (Some(_), Some(link_type)) = header else {
        return Err(HEADER_CUT.to_owned());
    };
    // The upper bits say whether frames have a checksum at their end (FCS), which is rare.
    ethernet(link_type & 0x0fff_ffff)?;
    let mut capture = Capture::default();
    while !reader.is_empty() {
        let left = reader.bytes.len();
        let header = (|| Some([reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?]))();
        let Some([seconds, fraction, kept, length]) = header else {
            return Ok(capture.cut(bytes.len(), left));
        };
        if kept > MAX_KEPT {
            return Err(capture.broken());
        }
        let Some(frame) = reader.take(kept as usize) else {
            return Ok(capture.cut(bytes.len(), left));
        };
        let nanos = u64::from(fraction) * if nanoseconds { 1 } else { 1000 };
        capture.frames.push(Captured {
            at: Duration::from_secs(seconds.into()) + Duration::from_nanos(nanos),
            bytes: frame.to_vec(),
            length,
        });
    }
    Ok(capture)
}

impl Capture {
    /// Ends in the record that begins so many bytes before the end of the file.
    fn cut(mut self, end: usize, left: usize) -> Self {
        self.cut = Some(Cut {
            packets: self.frames.len(),
            at: end - left,
            end,
        });
        self
    }

    /// A record that makes no sense: nobody knows where the next one begins.
    fn broken(&self) -> String {
        format!("packet {} of the capture is broken", self.frames.len() + 1)
    }
}

/// An interface of a pcapng section.
struct Interface {
    link_type: u32,
    /// Ticks of its clock in a second.
    ticks: u64,
}

fn pcapng(bytes: &[u8]) -> Result<Capture, String> {
    const SECTION: u32 = 0x0a0d_0d0a;
    const INTERFACE: u32 = 1;
    const SIMPLE: u32 = 3;
    const ENHANCED: u32 = 6;
    let mut reader = Reader {
        bytes,
        big_endian: false,
    };
    let mut interfaces = Vec::new();
    let mut capture = Capture::default();
    while !reader.is_empty() {
        let left = reader.bytes.len();
        // Without the section's header there is nothing.
        let cut = |capture: Capture| match left == bytes.len() {
            true => Err(HEADER_CUT.to_owned()),
            false => Ok(capture.cut(bytes.len(), left)),
        };
        let mut ahead = reader;
        let Some(kind) = ahead.u32() else {
            return cut(capture);
        };
        if kind == SECTION {
            // Type and length stand before the mark that tells the byte order.
            reader.big_endian = match reader.bytes.get(8..12) {
                Some([0x1a, 0x2b, 0x3c, 0x4d]) => true,
                Some([0x4d, 0x3c, 0x2b, 0x1a]) => false,
                Some(_) => return Err("not a capture: no byte order".to_owned()),
                None => return cut(capture),
            };
            interfaces.clear();
        }
        let mut ahead = reader;
        let (Some(_), Some(length)) = (ahead.u32(), ahead.u32()) else {
            return cut(capture);
        };
        // Type and both lengths.
        if !(12..=MAX_BLOCK).contains(&length) {
            return Err(capture.broken());
        }
        let length = length as usize;
        let Some(block) = reader.take(length.next_multiple_of(4)) else {
            return cut(capture);
        };
        let body = Reader {
            bytes: &block[8..length - 4],
            big_endian: reader.big_endian,
        };
        let broken = || capture.broken();
        match kind {
            INTERFACE => interfaces.push(interface(body).ok_or_else(broken)?),
            ENHANCED => {
                let frame = enhanced(body, &interfaces).ok_or_else(broken)??;
                capture.frames.push(frame);
            }
            SIMPLE => {
                let frame = simple(body, &interfaces).ok_or_else(broken)??;
                capture.frames.push(frame);
            }
            _ => {}
        }
    }
    Ok(capture)
}

fn interface(mut body: Reader<'_>) -> Option<Interface> {
    const END: u16 = 0;
    const RESOLUTION: u16 = 9;
    let link_type = u32::from(body.u16()?);
    let (_reserved, _snap) = (body.u16()?, body.u32()?);
    let mut ticks = 1_000_000;
    while let (Some(option), Some(length)) = (body.u16(), body.u16()) {
        if option == END {
            break;
        }
        let value = body.take(usize::from(length))?;
        let _padding = body.take(value.len().next_multiple_of(4) - value.len());
        if let (RESOLUTION, [resolution]) = (option, value) {
            let exponent = u32::from(resolution & 0x7f);
            let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
            ticks = base.checked_pow(exponent)?;
        }
    }
    Some(Interface { link_type, ticks })
}

/// An enhanced packet block; `None` if it says that it is longer than it is.
fn enhanced(mut body: Reader<'_>, interfaces: &[Interface]) -> Option<Result<Captured, String>> {
    let interface = usize::try_from(body.u32()?).ok()?;
    let (high, low) = (body.u32()?, body.u32()?);
    let (kept, length) = (body.u32()?, body.u32()?);
    let bytes = body.take(usize::try_from(kept).ok()?)?;
    let Some(interface) = interfaces.get(interface) else {
        return Some(Err(format!(
            "a packet of interface {interface}, of which there is none"
        )));
    };
    let ticks = u64::from(high) << 32 | u64::from(low);
    let fraction =
        u128::from(ticks % interface.ticks) * 1_000_000_000 / u128::from(interface.ticks);
    let at = Duration::from_secs(ticks / interface.ticks)
        + Duration::from_nanos(u64::try_from(fraction).unwrap_or(0));
    Some(ethernet(interface.link_type).map(|()| Captured {
        at,
        bytes: bytes.to_vec(),
        length,
    }))
}

/// A simple packet block: without a time, from the first interface.
fn simple(mut body: Reader<'_>, interfaces: &[Interface]) -> Option<Result<Captured, String>> {
    let length = body.u32()?;
    let kept = body.bytes.len().min(usize::try_from(length).ok()?);
    let Some(interface) = interfaces.first() else {
        return Some(Err("a packet before the interface it is from".to_owned()));
    };
    Some(ethernet(interface.link_type).map(|()| Captured {
        at: Duration::ZERO,
        bytes: body.bytes[..kept].to_vec(),
        length,
    }))
}

#[cfg(test)]
#[path = "pcap_test.rs"]
mod tests;
