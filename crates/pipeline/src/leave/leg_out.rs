//! Leave by a gateway's leg, into the physical network. After `nat`.

use std::net::IpAddr;

use overlane_model::{DeviceName, RouterTable, Verdict};

use crate::lib::context::{Context, Stage};
use crate::lib::explain::Found;
use crate::lib::frame::Frame;
use crate::lib::outcome::Output;

pub(crate) fn leg_out(
    cx: &mut Context<'_>,
    frame: &Frame<'_>,
    router: &RouterTable,
    device: &DeviceName,
    next_hop: Option<IpAddr>,
) -> Stage<Verdict> {
    cx.check_device("leg_out", device)?;
    cx.send(Output::Leg {
        device: device.clone(),
        next_hop,
        packet: frame.packet(None),
    });
    cx.step("leg_out", || {
        let to = next_hop.map_or_else(String::new, |next_hop| format!(" to {next_hop}"));
        Found::by_router(format!("sent out of {device}{to}"), &router.name)
    });
    Stage::Continue(Verdict::LegOut)
}
