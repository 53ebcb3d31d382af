//! Stage decap: what is left without the outer header. `parse` has seen the inner frame alone already, and
//! taken a tag out of it; here a short one gets what the kernel demands. After `ids`; then `to_port` or
//! `flood`.

use overlane_wire::{ethernet, ipv4};

use crate::lib::context::Context;
use crate::lib::frame::Frame;

/// The kernel leaves at least an IPv4 header's length behind the Ethernet header
/// (net/core/filter.c, `bpf_skb_adjust_room`). Ethernet's own minimum is 60.
const MIN_LEN: usize = ethernet::LEN + ipv4::LEN;

pub(crate) fn decap(cx: &mut Context<'_>, frame: &mut Frame<'_>) {
    let len = frame.len();
    if len < MIN_LEN {
        frame.bytes.to_mut().resize(MIN_LEN, 0);
        cx.step("decap", || {
            format!("the frame of {len} bytes is padded to {MIN_LEN}")
        });
    } else {
        cx.step("decap", || "the outer header is removed");
    }
}
