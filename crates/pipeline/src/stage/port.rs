//! Stage port: which logical port a packet comes from. The first stage of a device; then `parse`.

use overlane_model::{DeviceName, Verdict, VlanId};
use overlane_wire::ethernet::Tag;

use crate::lib::context::{Context, Stage};
use crate::lib::explain::Found;
use crate::lib::source::Source;

const STAGE: &str = "port";

pub(crate) fn port<'a>(cx: &mut Context<'a>, device: &DeviceName) -> Stage<Source<'a>> {
    let tag = cx.entered.tag;
    let Some(found) = cx.host.device(device) else {
        return cx.end(STAGE, Verdict::NoPort, || {
            format!(
                "{device} is no device of a port on host {}",
                cx.host.tables().host
            )
        });
    };
    let trunk = tag.and_then(trunk_vlan);
    let tagged = trunk.and_then(|vlan| found.port(Some(vlan)));
    let Some(port) = tagged.or_else(|| found.port(None)) else {
        return cx.end(STAGE, Verdict::NoPort, || no_port(device, tag));
    };
    let Some(switch) = cx.host.switch(port.switch) else {
        return cx.end(STAGE, Verdict::UnknownSwitch, || {
            let text = format!("the switch of port {} is not on this host", port.name);
            Found::by_port(text, &port.name)
        });
    };
    cx.step(STAGE, || {
        let (name, at) = (&port.name, &port.attachment);
        let text = format!(
            "device {at} is port {name} of switch {} ({})",
            switch.name, switch.id
        );
        Found::by_port(text, name)
    });
    Stage::Continue(Source {
        port,
        switch,
        guest_tag: tag.filter(|_| tagged.is_none()),
    })
}

/// A service tag (802.1ad) belongs to no trunk, and priority tags (VLAN 0) are untagged frames.
fn trunk_vlan(tag: Tag) -> Option<VlanId> {
    let vlan = VlanId::new(tag.tag.vid().into()).ok();
    vlan.filter(|_| !tag.service)
}

fn no_port(device: &DeviceName, tag: Option<Tag>) -> String {
    match tag {
        Some(tag) => format!(
            "{device} has no port for tag {} and none for frames without a tag of a trunk",
            tag.tag.vid()
        ),
        None => format!("{device} has only ports with a tag, and the frame has none"),
    }
}
