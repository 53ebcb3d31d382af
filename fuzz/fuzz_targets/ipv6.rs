//! IPv6 with extension headers: what parses is emitted byte for byte, and the walk over the
//! extension headers covers exactly their bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use overlane_wire::ipv6_extension::Extensions;
use overlane_wire::{Emit, ipv6};

fuzz_target!(|bytes: &[u8]| {
    let Ok(view) = ipv6::View::new_checked(bytes) else {
        return;
    };
    let header = ipv6::Header::parse(&view).to_bytes();
    assert_eq!(header, bytes[..view.header_len()]);
    let total = ipv6::LEN + usize::from(view.payload_len());
    assert_eq!(view.header_len() + view.payload().len(), total);

    let chain = view.extensions();
    let walked: Vec<u8> = chain
        .iter()
        .flat_map(|extension| extension.bytes.to_vec())
        .collect();
    assert_eq!(walked, chain.bytes());
    let last = chain
        .iter()
        .last()
        .map_or(chain.first(), |extension| extension.next_header);
    assert_eq!(last, view.protocol());
    assert_eq!(Extensions::new(chain.first(), chain.bytes()), Ok(chain));
});
