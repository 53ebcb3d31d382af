//! Orders to the traffic tool: what is understood is understood the same when it is written again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use overlane_traffic::message::Order;

fuzz_target!(|bytes: &[u8]| {
    let Ok(order) = serde_json::from_slice::<Order>(bytes) else {
        return;
    };
    let written = serde_json::to_vec(&order).expect("an order");
    assert_eq!(serde_json::from_slice::<Order>(&written).expect("our own order"), order);
});
