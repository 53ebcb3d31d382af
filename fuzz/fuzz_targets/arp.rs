//! ARP: what parses is emitted byte for byte, and a reply to it parses.

#![no_main]

use libfuzzer_sys::fuzz_target;
use overlane_wire::{Emit, Mac, arp};

fuzz_target!(|bytes: &[u8]| {
    let Ok(view) = arp::View::new_checked(bytes) else {
        return;
    };
    let packet = arp::Header::parse(&view);
    assert_eq!(packet.to_bytes(), bytes[..arp::LEN]);
    let reply = packet.reply(Mac::BROADCAST).to_bytes();
    let reply = arp::Header::parse(&arp::View::new_checked(&reply).expect("our own reply"));
    assert_eq!((reply.sender, reply.target), (packet.target, packet.sender));
    assert_eq!(
        (reply.sender_mac, reply.target_mac),
        (Mac::BROADCAST, packet.sender_mac)
    );
});
