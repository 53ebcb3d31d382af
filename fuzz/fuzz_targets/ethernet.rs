//! Ethernet with VLAN tags: what parses is emitted byte for byte.

#![no_main]

use libfuzzer_sys::fuzz_target;
use overlane_wire::{Emit, ethernet};

fuzz_target!(|bytes: &[u8]| {
    let Ok(view) = ethernet::View::new_checked(bytes) else {
        assert!(bytes.len() < ethernet::LEN + ethernet::MAX_TAGS * ethernet::TAG_LEN);
        return;
    };
    let header = ethernet::Header::parse(&view).to_bytes();
    assert_eq!(header.len(), view.header_len());
    assert_eq!([&header, view.payload()].concat(), bytes);
});
