//! Time-outs of translations that are shorter than the RFCs ask of a NAT: connections are lost that both ends believe
//! in.

use crate::decode::RouterDraft;
use crate::diagnostic::Sink;
use crate::render::printable;
use crate::tables::Timeouts;

/// The least that is asked for, in seconds, and where; in the order of [`Timeouts::NAMES`].
const FLOORS: [Option<(u32, &str)>; 9] = [
    Some((240, "RFC 5382 REQ-5")),
    Some((7440, "RFC 5382 REQ-5")),
    Some((240, "RFC 5382 REQ-5")),
    Some((240, "RFC 7857 section 2.2")),
    Some((120, "RFC 4787 REQ-5")),
    Some((120, "RFC 4787 REQ-5")),
    Some((60, "RFC 5508 REQ-2")),
    None,
    None,
];

pub(super) fn timeouts(routers: &[RouterDraft<'_>], sink: &mut Sink) {
    for router in routers {
        let Some(gateway) = &router.gateway else {
            continue;
        };
        let said = gateway.timeouts.0.into_iter().zip(FLOORS);
        for ((said, floor), name) in said.zip(Timeouts::NAMES) {
            let (Some(said), Some((floor, rfc))) = (said, floor) else {
                continue;
            };
            if said.value < floor {
                let message = format!(
                    "`{name}` of router `{}` is {} s: {rfc} asks a NAT for {floor} s or more",
                    printable(router.name.text),
                    said.value
                );
                let help = format!("write {floor} or more, or leave it out");
                sink.warn(said.at, message, &help, None);
            }
        }
    }
}
