//! Files with the connections of a port that moves: what is understood is written as it was, and understood again; what
//! is refused has a reason.

#![no_main]

use libfuzzer_sys::fuzz_target;
use overlane_model::MovedConnections;

fuzz_target!(|bytes: &[u8]| {
    match MovedConnections::parse(bytes) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(moved) => {
            let written = moved.to_json().expect("a file");
            let again = MovedConnections::parse(&written).expect("our own file");
            assert_eq!(again, moved);
        }
    }
});
