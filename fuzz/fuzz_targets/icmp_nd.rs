//! ICMP, ICMPv6 and neighbour discovery: a value that was parsed is the same after being emitted
//! and parsed again; where nothing is reserved or ignored, so are the bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use overlane_wire::{Emit, IpVersion, icmp, nd};

fuzz_target!(|bytes: &[u8]| {
    for version in [IpVersion::V4, IpVersion::V6] {
        let Ok(view) = icmp::View::new_checked(version, bytes) else {
            continue;
        };
        let header = icmp::Header::parse(&view);
        let emitted = header.to_bytes();
        let again = icmp::View::new_checked(version, &emitted).expect("our own header");
        assert_eq!(icmp::Header::parse(&again), header);
        // Errors have unused bytes.
        if !header.message.is_error() {
            assert_eq!(emitted, bytes[..icmp::LEN]);
        }
    }
    if let Ok(view) = nd::View::new_checked(bytes) {
        let message = nd::Header::parse(&view);
        let emitted = message.to_bytes();
        let again = nd::View::new_checked(&emitted).expect("our own message");
        assert_eq!(nd::Header::parse(&again), message);
        assert!(!again.has_reserved_bits());
        if !view.has_reserved_bits() {
            assert_eq!(emitted, bytes);
        }
        let lengths: usize = view.options().iter().map(|option| option.emit_len()).sum();
        assert_eq!(lengths, view.options().bytes().len());
    }
});
