//! Stage flood: broadcast, multicast and, on switches that say so, unknown unicast. One copy for each port
//! of this host but the source, then one for each remote that has ports of the switch (ingress
//! replication, RFC 7348 section 4.2), or on a VLAN one out of the uplink. After `l2_lookup` or `ids`.

use std::net::IpAddr;
use std::ops::ControlFlow;

use overlane_model::{Direction, FloodMember, PortTable, SwitchId, SwitchTable, Verdict};

use crate::context::{Context, RemoteCount, Stage};
use crate::explain::Found;
use crate::parse::Frame;
use crate::port::Source;
use crate::{acl, encap, to_port, vlan};

const STAGE: &str = "flood";
/// Destination key of a flooded frame.
pub(crate) const GROUP_KEY: u16 = 0x8000;

pub(crate) fn from_port(
    cx: &mut Context<'_>,
    source: &Source<'_>,
    frame: &Frame<'_>,
) -> Stage<Verdict> {
    let is_on_vlan = matches!(source.switch.id, SwitchId::Vlan(_));
    if frame.gso.is_some() && !(is_on_vlan && vlan::is_measurable(frame)) {
        return encap::segment(cx, || "a flooded super-packet is segmented first");
    }
    let ports = to_ports(cx, source.switch, Some(source.port), frame);
    let remotes = match source.switch.id {
        SwitchId::Vni(_) => to_remotes(cx, source, frame)?,
        SwitchId::Vlan(vlan) => {
            vlan::send(cx, STAGE, frame, vlan)?;
            1
        }
    };
    explain(cx, source.switch, ports, remotes);
    Stage::Continue(Verdict::Flood)
}

/// Only ports of this host: the sender replicated to every other host.
pub(crate) fn from_underlay(
    cx: &mut Context<'_>,
    switch: &SwitchTable,
    frame: &Frame<'_>,
) -> Stage<Verdict> {
    let ports = to_ports(cx, switch, None, frame);
    explain(cx, switch, ports, 0);
    Stage::Continue(Verdict::Flood)
}

fn to_ports(
    cx: &mut Context<'_>,
    switch: &SwitchTable,
    but: Option<&PortTable>,
    frame: &Frame<'_>,
) -> usize {
    let but = but.map(|port| &port.attachment);
    let mut copies = 0;
    for member in &switch.flood {
        let FloodMember::Local(at) = member else {
            continue;
        };
        let Some(port) = cx.host.port_at(at).filter(|_| Some(at) != but) else {
            continue;
        };
        // Each copy is judged for its own port; of one that is stopped nobody is told.
        let judged = acl::firewall(cx, Direction::ToPort, port, frame, None);
        if judged.is_continue() {
            to_port::deliver(cx, frame, port);
            copies += 1;
        }
    }
    copies
}

/// The outer headers come in the order of their length, so what is too large for one is too large for
/// those after it, and none of them counts it.
fn to_remotes(cx: &mut Context<'_>, source: &Source<'_>, frame: &Frame<'_>) -> Stage<usize> {
    let host = cx.host;
    let (mut copies, mut last_reason) = (0, None);
    for remote in remotes(source.switch) {
        if let Some(known) = host.remote(remote)
            && let ControlFlow::Break(reason) =
                encap::check_mtu(cx, STAGE, known, frame, frame.len())
        {
            last_reason = Some(reason);
            break;
        }
        match copy(cx, source, frame, remote) {
            ControlFlow::Continue(()) => copies += 1,
            ControlFlow::Break(reason) => last_reason = Some(reason),
        }
    }
    match last_reason {
        Some(reason) => Stage::Break(reason),
        None => Stage::Continue(copies),
    }
}

fn remotes(switch: &SwitchTable) -> impl Iterator<Item = IpAddr> {
    switch.flood.iter().filter_map(|member| match member {
        FloodMember::Local(_) => None,
        FloodMember::Remote(remote) => Some(*remote),
    })
}

fn copy(cx: &mut Context<'_>, source: &Source<'_>, frame: &Frame<'_>, remote: IpAddr) -> Stage {
    let Some(known) = cx.host.remote(remote) else {
        return encap::unknown_remote(cx, remote);
    };
    encap::send(cx, source, frame, known, GROUP_KEY);
    cx.count_remote(RemoteCount::To, remote);
    Stage::Continue(())
}

fn explain(cx: &mut Context<'_>, switch: &SwitchTable, ports: usize, others: usize) {
    cx.step(STAGE, || {
        let (name, id) = (&switch.name, switch.id);
        let others = match id {
            SwitchId::Vni(_) => of_many(others, "host"),
            SwitchId::Vlan(_) if others > 0 => "the uplink".to_owned(),
            SwitchId::Vlan(_) => "nobody else".to_owned(),
        };
        let ports = of_many(ports, "port");
        let text = format!("copied to {ports} of switch {name} here and to {others}");
        Found::by_switch(text, name)
    });
}

fn of_many(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} other {what}{plural}")
}
