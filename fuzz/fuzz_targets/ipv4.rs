//! IPv4: a header with the right checksum is emitted byte for byte, any other with its checksum
//! corrected and its reserved flag cleared.

#![no_main]

use libfuzzer_sys::fuzz_target;
use overlane_wire::{Emit, ipv4};

fuzz_target!(|bytes: &[u8]| {
    let Ok(view) = ipv4::View::new_checked(bytes) else {
        return;
    };
    let header = ipv4::Header::parse(&view);
    let emitted = header.to_bytes();
    assert_eq!(emitted.len(), view.header_len());
    assert_eq!(
        view.header_len() + view.payload().len(),
        usize::from(view.total_len())
    );

    // 0 and 0xffff both verify where the sum of the other words is 0xffff or 0.
    let plain = view.checksum_is_right() && !matches!(view.checksum(), 0 | 0xffff);
    if plain && !view.has_reserved_bits() {
        assert_eq!(emitted, bytes[..emitted.len()]);
    }

    let packet = [&emitted, view.payload()].concat();
    let again = ipv4::View::new_checked(&packet).expect("our own header");
    assert!(again.checksum_is_right() && !again.has_reserved_bits());
    assert_eq!(ipv4::Header::parse(&again), header);
    assert_eq!(again.payload(), view.payload());
});
