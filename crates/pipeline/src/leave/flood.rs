//! Leave by flooding: broadcast, multicast and, on switches that say so, unknown unicast. One copy for each port
//! of this host but the source, then, of what came from a port, one for each remote that has ports of the switch
//! (ingress replication, RFC 7348 section 4.2), or on a VLAN one out of the uplink.

use std::net::IpAddr;
use std::ops::ControlFlow;

use overlane_model::{Direction, FloodMember, Hook, Remote, SwitchId, SwitchTable, Verdict};

use crate::leave::encap::{self, Ids};
use crate::leave::segmenter::segment;
use crate::leave::{port, vlan_out};
use crate::lib::context::{Context, RemoteCount, Stage};
use crate::lib::explain::Found;
use crate::lib::frame::Frame;
use crate::lib::limit::Limited;
use crate::lib::neighbour::is_for_routers;
use crate::lib::outer::GROUP_KEY;
use crate::lib::path_mtu;
use crate::lib::state::LimitOf;
use crate::stage::firewall;

const STAGE: &str = "flood";

pub(crate) fn flood(
    cx: &mut Context<'_>,
    frame: &Frame<'_>,
    switch: &SwitchTable,
    source_key: u16,
) -> Stage<Verdict> {
    let is_for_routers = cx.source_port().is_some() && is_for_routers(frame);
    let routers = match is_for_routers {
        true => cx.host.tables().routing_remotes(switch),
        false => Vec::new(),
    };
    check_limit(cx, switch, routers.len())?;
    let is_from_underlay = cx.is_from_underlay();
    let is_on_vlan = matches!(switch.id, SwitchId::Vlan(_));
    let is_whole = frame.gso.is_some() && !(is_on_vlan && vlan_out::is_measurable(frame));
    if is_whole && !is_from_underlay {
        return segment(cx, || "a flooded super-packet is segmented first");
    }
    let (ports, lost) = to_ports(cx, frame, switch);
    let others = match switch.id {
        // The sender replicated to every other host.
        _ if is_from_underlay => 0,
        SwitchId::Vni(_) => {
            let remotes = remotes(switch).chain(routers);
            to_remotes(cx, frame, switch.id, remotes, source_key)?
        }
        SwitchId::Vlan(vlan) => {
            vlan_out::send(cx, STAGE, frame, vlan)?;
            1
        }
    };
    lost?;
    explain(cx, switch, ports, others);
    Stage::Continue(Verdict::Flood)
}

/// An answer to a router, for the other hosts that may route into the switch.
pub(crate) fn to_hosts(
    cx: &mut Context<'_>,
    frame: &Frame<'_>,
    switch: &SwitchTable,
    source_key: u16,
) -> Stage<Verdict> {
    let routers = cx.host.tables().routing_remotes(switch);
    check_limit(cx, switch, routers.len())?;
    let remotes = remotes(switch).chain(routers);
    let others = to_remotes(cx, frame, switch.id, remotes, source_key)?;
    cx.step(STAGE, || {
        let (name, others) = (&switch.name, of_many(others, "host"));
        Found::by_switch(format!("copied to {others} of switch {name}"), name)
    });
    Stage::Continue(Verdict::ToRouter)
}

/// A router's question to everybody. No firewall is asked, and no limit.
pub(crate) fn of_router(
    cx: &mut Context<'_>,
    frame: &Frame<'_>,
    switch: &SwitchTable,
    source_key: u16,
) -> Stage {
    for member in &switch.flood {
        if let FloodMember::Local(at) = member
            && let Some(port) = cx.host.port_at(at)
            && !cx.state.gone.contains(&at.device)
        {
            port::deliver(cx, frame, port);
        }
    }
    match switch.id {
        SwitchId::Vni(_) => {
            to_remotes(cx, frame, switch.id, remotes(switch), source_key).map_continue(drop)
        }
        SwitchId::Vlan(vlan) => vlan_out::send(cx, STAGE, frame, vlan),
    }
}

/// With ports of the switch.
fn remotes(switch: &SwitchTable) -> impl Iterator<Item = IpAddr> {
    let members = switch.flood.iter();
    members.filter_map(|member| match member {
        FloodMember::Remote(remote) => Some(*remote),
        FloodMember::Local(_) => None,
    })
}

/// What comes from the segmenter was counted whole.
fn check_limit(cx: &mut Context<'_>, switch: &SwitchTable, routers: usize) -> Stage {
    let Some(port) = cx.source_port().filter(|_| cx.hook == Hook::FromPort) else {
        return Stage::Continue(());
    };
    let members = switch.flood.len() + routers;
    let copies = members as u32 * cx.weight.segments as u32;
    let (of, most) = (
        LimitOf::Port(port.switch, port.key.get()),
        port.limits.flood_in_span(),
    );
    if cx.allows(of, Limited::Flood, copies, most) {
        return Stage::Continue(());
    }
    cx.end(STAGE, Verdict::FloodLimit, || {
        let (name, flood) = (&port.name, port.limits.flood);
        Found::by_port(
            format!("port {name} floods more than {flood} copies in a second"),
            name,
        )
    })
}

/// How many copies, and why another one could not be sent.
fn to_ports(cx: &mut Context<'_>, frame: &Frame<'_>, switch: &SwitchTable) -> (usize, Stage) {
    let source = cx.source_port().map(|port| &port.attachment);
    let (mut copies, mut lost) = (0, Stage::Continue(()));
    for member in &switch.flood {
        let FloodMember::Local(at) = member else {
            continue;
        };
        let Some(port) = cx.host.port_at(at).filter(|_| Some(at) != source) else {
            continue;
        };
        if let gone @ Stage::Break(_) = cx.check_device(STAGE, &at.device) {
            lost = gone;
            continue;
        }
        // Each copy is judged for its own port; of one that is stopped nobody is told.
        if firewall::firewall(cx, Direction::ToPort, port, frame).is_break() {
            continue;
        }
        if port::is_too_long(cx, frame) {
            lost = Stage::Break(Verdict::PktTooBig);
            continue;
        }
        port::deliver(cx, frame, port);
        copies += 1;
    }
    (copies, lost)
}

/// The outer headers come in the order of their length, so what the uplink does not take for one it does not take for
/// those after it, and none of them counts it. Then the sender is told, if no copy has left.
fn to_remotes(
    cx: &mut Context<'_>,
    frame: &Frame<'_>,
    switch: SwitchId,
    remotes: impl Iterator<Item = IpAddr>,
    source: u16,
) -> Stage<usize> {
    let SwitchId::Vni(vni) = switch else {
        return Stage::Continue(0);
    };
    let dest = GROUP_KEY;
    let (mut copies, mut last_reason) = (0, None);
    for remote in remotes {
        let known = encap::known_remote(cx, remote);
        if let ControlFlow::Continue(known) = known
            && let Some(refused) =
                encap::too_big(path_mtu::of_uplink(cx), known, frame, frame.len())
        {
            if copies == 0 {
                cx.tell_too_big(refused.room);
            }
            return refused.end(cx, STAGE);
        }
        let ended = match known {
            ControlFlow::Continue(known) => copy(cx, frame, known, Ids { vni, source, dest }),
            ControlFlow::Break(reason) => ControlFlow::Break(reason),
        };
        match ended {
            ControlFlow::Continue(()) => copies += 1,
            ControlFlow::Break(reason) => last_reason = Some(reason),
        }
    }
    match last_reason {
        Some(reason) => Stage::Break(reason),
        None => Stage::Continue(copies),
    }
}

/// What only the path to this remote does not take, this remote alone counts, and nobody is told.
fn copy(cx: &mut Context<'_>, frame: &Frame<'_>, remote: &Remote, ids: Ids) -> Stage {
    let headers = encap::headers_len(remote, frame);
    let largest = path_mtu::largest(cx, remote.addr, frame, headers);
    if let Some(refused) = encap::too_big(largest, remote, frame, frame.len()) {
        cx.count_remote(RemoteCount::Dropped, remote.addr);
        return refused.end(cx, STAGE);
    }
    if let ControlFlow::Break(reason) = cx.check_device(STAGE, &cx.host.tables().uplink) {
        cx.count_remote(RemoteCount::Dropped, remote.addr);
        return Stage::Break(reason);
    }
    encap::send(cx, frame, remote, ids);
    cx.count_remote(RemoteCount::To, remote.addr);
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
