//! Capture files of each kind and byte order, whole and broken.

use proptest::prelude::*;

use super::*;

/// Numbers in one byte order.
struct Writer {
    bytes: Vec<u8>,
    big_endian: bool,
}

impl Writer {
    fn new(big_endian: bool) -> Self {
        let bytes = Vec::new();
        Self { bytes, big_endian }
    }

    fn u16(&mut self, value: u16) -> &mut Self {
        let bytes = if self.big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        };
        self.raw(&bytes)
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        let bytes = if self.big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        };
        self.raw(&bytes)
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend(bytes);
        self
    }

    /// A pcapng block.
    fn block(&mut self, kind: u32, body: &[u8]) -> &mut Self {
        let padded = body.len().next_multiple_of(4);
        let length = u32::try_from(padded + 12).unwrap();
        self.u32(kind).u32(length).raw(body);
        self.raw(&vec![0; padded - body.len()]).u32(length)
    }
}

fn classic(magic: u32, big_endian: bool, link_type: u32) -> Writer {
    let mut file = Writer::new(big_endian);
    file.u32(magic)
        .u16(2)
        .u16(4)
        .u32(0)
        .u32(0)
        .u32(65_535)
        .u32(link_type);
    file
}

fn whole(frames: &[Captured]) -> Capture {
    let frames = frames.to_vec();
    Capture { frames, cut: None }
}

fn frame(at: Duration, bytes: &[u8], length: u32) -> Captured {
    let bytes = bytes.to_vec();
    Captured { at, bytes, length }
}

#[test]
fn pcap_in_both_orders_and_resolutions() {
    for big_endian in [false, true] {
        for (magic, fraction) in [(0xa1b2_c3d4, 500_000), (0xa1b2_3c4d, 500_000_000)] {
            let mut file = classic(magic, big_endian, 1);
            file.u32(1000).u32(fraction).u32(3).u32(3).raw(b"abc");
            file.u32(1002).u32(0).u32(2).u32(1500).raw(b"de");
            let expected = [
                frame(Duration::ZERO, b"abc", 3),
                frame(Duration::from_millis(1500), b"de", 1500),
            ];
            assert_eq!(parse(&file.bytes).unwrap(), whole(&expected));
            for end in 0..file.bytes.len() {
                let found = parse(&file.bytes[..end]);
                if end < 24 {
                    assert!(found.is_err(), "{end}");
                    continue;
                }
                // What is whole is there, and a file may end after any packet.
                let (packets, at) = if end < 43 { (0, 24) } else { (1, 43) };
                let cut = (end > at).then_some(Cut { packets, at, end });
                let frames = expected[..packets].to_vec();
                assert_eq!(found.unwrap(), Capture { frames, cut }, "{end}");
            }
        }
    }
}

/// A section with one interface of this resolution (a raw `if_tsresol`).
fn section(big_endian: bool, link_type: u16, resolution: Option<u8>) -> Writer {
    let mut file = Writer::new(big_endian);
    let mut body = Writer::new(big_endian);
    body.u32(0x1a2b_3c4d).u16(1).u16(0).raw(&[0xff; 8]);
    file.block(0x0a0d_0d0a, &body.bytes);
    let mut body = Writer::new(big_endian);
    body.u16(link_type).u16(0).u32(0);
    if let Some(resolution) = resolution {
        // Another option first, whose value is padded.
        body.u16(2)
            .u16(3)
            .raw(b"eth\0")
            .u16(9)
            .u16(1)
            .raw(&[resolution, 0, 0, 0]);
        body.u16(0).u16(0);
    }
    file.block(1, &body.bytes);
    file
}

fn enhanced_block(file: &mut Writer, interface: u32, ticks: u64, bytes: &[u8], length: u32) {
    let mut body = Writer::new(file.big_endian);
    body.u32(interface)
        .u32((ticks >> 32) as u32)
        .u32(ticks as u32);
    body.u32(u32::try_from(bytes.len()).unwrap())
        .u32(length)
        .raw(bytes);
    file.block(6, &body.bytes);
}

#[test]
fn pcapng_in_both_orders_and_resolutions() {
    for big_endian in [false, true] {
        for (resolution, second) in [
            (None, 1_000_000),
            (Some(9), 1_000_000_000),
            (Some(0x8a), 1024),
        ] {
            let mut file = section(big_endian, 1, resolution);
            enhanced_block(&mut file, 0, 5_000 * second, b"abcde", 5);
            file.block(5, b"statistics, passed over");
            enhanced_block(&mut file, 0, 5_001 * second + second / 2, b"f", 99);
            let expected = [
                frame(Duration::ZERO, b"abcde", 5),
                frame(Duration::from_millis(1500), b"f", 99),
            ];
            assert_eq!(parse(&file.bytes).unwrap(), whole(&expected));
        }
    }
}

#[test]
fn a_pcapng_that_is_cut_anywhere_has_what_is_whole() {
    for big_endian in [false, true] {
        let mut file = section(big_endian, 1, None);
        let mut ends = vec![28, file.bytes.len()];
        for bytes in [&b"abcde"[..], b"f"] {
            enhanced_block(&mut file, 0, 0, bytes, 5);
            ends.push(file.bytes.len());
        }
        for end in 0..file.bytes.len() {
            let found = parse(&file.bytes[..end]);
            if end < 28 {
                let error = found.unwrap_err();
                assert!(
                    error.contains(if end == 0 { "empty" } else { "cut" }),
                    "{end}: {error}"
                );
                continue;
            }
            let found = found.unwrap();
            let at = *ends.iter().rfind(|at| **at <= end).unwrap();
            let packets = usize::from(end >= ends[2]);
            assert_eq!(found.frames.len(), packets, "{end}");
            let cut = (end > at).then_some(Cut { packets, at, end });
            assert_eq!(found.cut, cut, "{end}");
        }
    }
    let cut = Cut {
        packets: 1,
        at: 43,
        end: 50,
    };
    assert_eq!(
        cut.to_string(),
        "it is cut in packet 2: that begins at byte 43, and the file ends at byte 50; 1 before it are whole"
    );
}

#[test]
fn a_length_that_cannot_be_is_no_cut() {
    let mut file = classic(0xa1b2_c3d4, false, 1);
    file.u32(0).u32(0).u32(MAX_KEPT + 1).u32(1).raw(b"a");
    assert_eq!(
        parse(&file.bytes).unwrap_err(),
        "packet 1 of the capture is broken"
    );
    let mut file = section(false, 1, None);
    enhanced_block(&mut file, 0, 0, b"a", 1);
    file.u32(6).u32(MAX_BLOCK + 4).raw(&[0; 20]);
    assert_eq!(
        parse(&file.bytes).unwrap_err(),
        "packet 2 of the capture is broken"
    );
}

#[test]
fn pcapng_with_simple_packets_and_a_second_section_of_the_other_order() {
    let mut file = section(false, 1, None);
    let mut body = Writer::new(false);
    body.u32(3).raw(b"abc\0");
    file.block(3, &body.bytes);
    let mut second = section(true, 1, None);
    enhanced_block(&mut second, 0, 7, b"de", 2);
    file.raw(&second.bytes);
    let found = parse(&file.bytes).unwrap().frames;
    assert_eq!(found[0], frame(Duration::ZERO, b"abc", 3));
    assert_eq!(found[1].bytes, b"de");
}

#[test]
fn what_is_no_capture_says_why() {
    assert_eq!(parse(b"").unwrap_err(), "not a capture: it is empty");
    assert_eq!(
        parse(b"version: 1").unwrap_err(),
        "not a capture: neither pcap nor pcapng"
    );
    let wlan = classic(0xa1b2_c3d4, false, 105);
    assert_eq!(
        parse(&wlan.bytes).unwrap_err(),
        "frames of link type 105, not Ethernet (1)"
    );
    let mut wlan = section(true, 105, None);
    assert!(
        parse(&wlan.bytes).unwrap().frames.is_empty(),
        "an interface alone is no harm"
    );
    enhanced_block(&mut wlan, 0, 0, b"a", 1);
    assert_eq!(
        parse(&wlan.bytes).unwrap_err(),
        "frames of link type 105, not Ethernet (1)"
    );
    let mut file = section(false, 1, None);
    enhanced_block(&mut file, 1, 0, b"a", 1);
    assert_eq!(
        parse(&file.bytes).unwrap_err(),
        "a packet of interface 1, of which there is none"
    );
    let mut file = section(false, 1, None);
    file.u32(6).u32(11).raw(&[0; 20]);
    assert_eq!(
        parse(&file.bytes).unwrap_err(),
        "packet 1 of the capture is broken"
    );
    let error = read(Path::new("/nonexistent/x.pcap")).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cannot read /nonexistent/x.pcap")
    );
}

proptest! {
    #[test]
    fn noise_never_panics(
        magic in prop::sample::select(&[
            [0xa1, 0xb2, 0xc3, 0xd4], [0x4d, 0x3c, 0xb2, 0xa1], [0x0a, 0x0d, 0x0d, 0x0a], [0, 0, 0, 0],
        ][..]),
        rest in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = parse(&[&magic[..], &rest].concat());
    }

    #[test]
    fn a_changed_byte_never_panics(at in 0_usize..200, value: u8, big_endian: bool) {
        let mut file = section(big_endian, 1, Some(6));
        enhanced_block(&mut file, 0, 1, b"abcdefgh", 8);
        let at = at % file.bytes.len();
        file.bytes[at] = value;
        let _ = parse(&file.bytes);
    }
}
