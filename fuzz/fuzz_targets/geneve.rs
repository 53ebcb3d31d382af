//! Geneve: a header is emitted byte for byte, but for reserved bits of the base header and a C bit
//! that disagrees with the options; no unknown critical option gets past the receiver.

#![no_main]

use libfuzzer_sys::fuzz_target;
use overlane_wire::{Emit, ReservedBits, geneve};

fuzz_target!(|bytes: &[u8]| {
    let opened = geneve::receive(bytes, ReservedBits::Ignore);
    let Ok(view) = geneve::View::new_checked(bytes) else {
        assert!(opened.is_err());
        return;
    };
    assert_eq!(
        opened
            .as_ref()
            .map(|(received, _)| *received)
            .map_err(Clone::clone),
        view.receive(ReservedBits::Ignore)
    );
    if let Ok((_, payload)) = opened {
        assert_eq!(payload, view.payload());
    }
    let options = view.options();
    let lengths: usize = options.iter().map(|option| option.emit_len()).sum();
    assert_eq!(lengths, usize::from(bytes[0] & 0x3f) * 4);
    assert_eq!(view.header_len() + view.payload().len(), bytes.len());

    match view.receive(ReservedBits::Ignore) {
        Ok(received) => {
            assert!(
                options
                    .iter()
                    .all(|option| option.is_ovn() || !option.is_critical())
            );
            assert!(!view.control() && received.vni.get() == view.vni());
            assert_eq!(
                received.ovn.is_some(),
                options.iter().any(|option| option.is_ovn())
            );
            if !view.has_reserved_bits() {
                assert_eq!(view.receive(ReservedBits::Refuse), Ok(received));
            }
        }
        Err(_) => assert!(view.receive(ReservedBits::Refuse).is_err()),
    }

    let Ok(header) = geneve::Header::parse(&view) else {
        return;
    };
    let mut expected = bytes[..view.header_len()].to_vec();
    expected[1] &= 0x80;
    expected[1] |= if options.any_critical() { 0x40 } else { 0 };
    expected[7] = 0;
    assert_eq!(header.to_bytes(), expected);
});
