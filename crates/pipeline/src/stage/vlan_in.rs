//! Stage vlan_in: the switch that a tagged frame on the uplink enters; any other stays with the host. Then `parse`.

use overlane_model::{SwitchId, SwitchTable, Verdict, VlanId};
use overlane_wire::ethernet::Tag;

use crate::lib::context::{Context, Stage};
use crate::lib::explain::Found;

const STAGE: &str = "vlan_in";

pub(crate) fn vlan_in<'a>(cx: &mut Context<'a>, tag: Tag) -> Stage<&'a SwitchTable> {
    let vid = tag.tag.vid();
    let vlan = VlanId::new(vid.into()).ok().filter(|_| !tag.service);
    let Some(switch) = vlan.and_then(|vlan| cx.host.switch(SwitchId::Vlan(vlan))) else {
        return cx.end(STAGE, Verdict::ToHost, || {
            format!("no switch of this host is bound to VLAN {vid}")
        });
    };
    cx.step(STAGE, || {
        let name = &switch.name;
        Found::by_switch(format!("VLAN {vid} is switch {name}"), name)
    });
    Stage::Continue(switch)
}
