//! The way of a packet, hook by hook, as in `bpf/tc.bpf.c`: every stage in the order in which a packet meets it
//! (`docs/semantics.md`, the first table). The stages of where it came from decide where it goes; routers follow, and
//! `leave` carries it out.

use std::ops::ControlFlow;

use overlane_model::{DeviceName, Direction, Hook, SwitchTable, Verdict};
use overlane_wire::ethernet::Tag;

use crate::leave::{ask, leave, mss, port as leave_to_port, reply};
use crate::lib::context::{Context, Sender, Stage};
use crate::lib::destination::{Departure, Destination, Ingress};
use crate::lib::frame::Frame;
use crate::lib::host::Host;
use crate::lib::outcome::{Outcome, Output};
use crate::lib::outer::{Outer, Tunnel};
use crate::lib::packet::{Entry, Packet};
use crate::lib::source::{Source, Taken};
use crate::lib::state::{LearnedPlace, State};
use crate::lib::tell::Answer;
use crate::stage::{
    arp_nd, decap, ecn, firewall, greeting, ids, l2_lookup, learn, leg_in, nat, neighbour, origin,
    parse, path_mtu, port, port_security, route, tunnel, vlan_in, vtep_check,
};

impl Host {
    /// Decides what becomes of a packet, and explains each stage's part in it.
    ///
    /// `now_ns` is any clock that does not go back. Every packet gets exactly one verdict, and no bytes
    /// make this panic. Not decided here is what only the kernel knows: `encap_failed`, `decap_failed`
    /// and `not_configured`, kinds of super-packets that it refuses under a second header, whether it
    /// has marked a packet as encapsulated already, and the way of an encapsulated packet through the
    /// segmenter to be received anew.
    pub fn run(&self, state: &mut State, now_ns: u64, entry: &Entry, packet: &Packet) -> Outcome {
        self.walk(state, now_ns, entry, packet, true)
    }

    /// The same without the explanation, many times as fast.
    pub fn decide(
        &self,
        state: &mut State,
        now_ns: u64,
        entry: &Entry,
        packet: &Packet,
    ) -> Outcome {
        self.walk(state, now_ns, entry, packet, false)
    }

    fn walk(
        &self,
        state: &mut State,
        now_ns: u64,
        entry: &Entry,
        packet: &Packet,
        explain: bool,
    ) -> Outcome {
        let mut cx = Context::new(self, state, now_ns, of(entry), packet, explain);
        let verdict = run(&mut cx, entry);
        cx.finish(verdict)
    }
}

/// Where a packet that enters there is seen.
fn of(entry: &Entry) -> Hook {
    match entry {
        Entry::Port(_) => Hook::FromPort,
        Entry::Segmenter(_) => Hook::FromSegmenter,
        Entry::Underlay => Hook::FromUnderlay,
        Entry::Leg(_) => Hook::FromLeg,
    }
}

/// All stages of a packet, to its verdict.
fn run(cx: &mut Context<'_>, entry: &Entry) -> Verdict {
    let ended = match (entry, cx.entered.tag) {
        _ if has_left(cx, entry) => left(cx, entry),
        (Entry::Port(device) | Entry::Segmenter(device), _) => from_port(cx, device),
        (Entry::Underlay, Some(tag)) if !tag.is_priority() => from_vlan(cx, tag),
        (Entry::Underlay, _) => from_tunnel(cx),
        (Entry::Leg(device), _) => from_leg(cx, device),
    };
    let (ControlFlow::Continue(verdict) | ControlFlow::Break(verdict)) = ended;
    // What is none of ours goes to the host's stack.
    if verdict == Verdict::ToHost {
        let packet = cx.entered.clone();
        cx.send(Output::Host { packet });
    }
    verdict
}

/// Whether the device of the hook has left the namespace, and took the program along.
fn has_left(cx: &Context<'_>, entry: &Entry) -> bool {
    match entry {
        Entry::Port(device) | Entry::Leg(device) => cx.state.gone.contains(device),
        Entry::Underlay => cx.state.gone.contains(&cx.host.tables().uplink),
        Entry::Segmenter(_) => false,
    }
}

/// What comes by the uplink or a leg belongs to the namespace that has it now.
fn left(cx: &mut Context<'_>, entry: &Entry) -> Stage<Verdict> {
    match entry {
        Entry::Port(device) | Entry::Segmenter(device) => cx.check_device("port", device)?,
        Entry::Underlay | Entry::Leg(_) => cx.step("hook", || "the device is in another namespace"),
    }
    Stage::Break(Verdict::ToHost)
}

/// Hooks `from_port` and `from_segmenter`.
fn from_port(cx: &mut Context<'_>, device: &DeviceName) -> Stage<Verdict> {
    let source = port::port(cx, device)?;
    cx.came_from(Sender::Port(source.port), source.switch);
    let parsed = parse::parse(cx, Some(source.switch), &cx.entered.bytes, source.guest_tag);
    // The segments of a super-packet were counted with it.
    if cx.hook == Hook::FromPort {
        cx.count_from_port(source.port);
    }
    let frame = parsed?;
    let decided = from_port_stages(cx, &source, &frame);
    let key = source.port.key.get();
    let departure = decided.map_continue(|to| Departure::new(&frame, key, to));
    finish(cx, &frame, departure)
}

fn from_port_stages<'a>(
    cx: &mut Context<'a>,
    source: &Source<'a>,
    frame: &Frame<'_>,
) -> Stage<Destination<'a>> {
    port_security::port_security(cx, source, frame)?;
    learn::from_port(cx, source, frame)?;
    if let Some(destination) = neighbour::from_port(cx, source, frame)? {
        return Stage::Continue(destination);
    }
    arp_nd::arp_nd(cx, source.switch, frame)?;
    firewall::firewall(cx, Direction::FromPort, source.port, frame)?;
    l2_lookup::l2_lookup(cx, source.switch, frame.destination)
}

/// Hook `from_underlay`, of a frame with a tag.
fn from_vlan(cx: &mut Context<'_>, tag: Tag) -> Stage<Verdict> {
    let switch = vlan_in::vlan_in(cx, tag)?;
    cx.came_from(Sender::Underlay(switch), switch);
    let frame = parse::parse(cx, Some(switch), &cx.entered.bytes, None)?;
    let key = origin::from_vlan(cx, switch, &frame)?;
    cx.source_key = key;
    let decided = from_vlan_stages(cx, switch, &frame);
    let departure = decided.map_continue(|to| Departure::new(&frame, key, to));
    finish(cx, &frame, departure)
}

fn from_vlan_stages<'a>(
    cx: &mut Context<'a>,
    switch: &'a SwitchTable,
    frame: &Frame<'_>,
) -> Stage<Destination<'a>> {
    learn::from_underlay(cx, switch, frame, LearnedPlace::Vlan, 0);
    neighbour::from_underlay(cx, switch, frame)?;
    arp_nd::arp_nd(cx, switch, frame)?;
    l2_lookup::l2_lookup(cx, switch, frame.destination)
}

/// Hook `from_underlay`, of any other.
fn from_tunnel(cx: &mut Context<'_>) -> Stage<Verdict> {
    let outer = match vtep_check::vtep_check(cx) {
        ControlFlow::Continue(outer) => outer,
        ControlFlow::Break(verdict) => {
            if verdict == Verdict::ToHost {
                path_mtu::path_mtu(cx);
            }
            return Stage::Break(verdict);
        }
    };
    cx.remote = Some(outer.remote.addr);
    let Some(tunnel) = tunnel::tunnel(cx, &outer)? else {
        return match greeting::greeting(cx, &outer) {
            Some(verdict) => Stage::Break(verdict),
            None => tunnel::vni_zero(cx),
        };
    };
    cx.came_from(Sender::Underlay(tunnel.switch), tunnel.switch);
    cx.weight.offset = tunnel.inner_at;
    let inner = cx.entered.bytes.get(tunnel.inner_at..outer.end);
    let mut frame = parse::parse(cx, Some(tunnel.switch), inner.unwrap_or_default(), None)?;
    ecn::ecn(cx, outer.ecn, &mut frame)?;
    let key = origin::from_tunnel(cx, tunnel.switch, &frame, outer.remote, tunnel.source_key)?;
    cx.source_key = key;
    let decided = from_tunnel_stages(cx, &outer, &tunnel, &frame);
    // A short frame is padded only for those that it goes to as it is.
    match decided {
        Stage::Continue(Destination::Router(_)) | Stage::Break(_) => {}
        Stage::Continue(_) => decap::decap(cx, &mut frame),
    }
    let departure = decided.map_continue(|to| Departure::new(&frame, key, to));
    finish(cx, &frame, departure)
}

fn from_tunnel_stages<'a>(
    cx: &mut Context<'a>,
    outer: &Outer<'_>,
    tunnel: &Tunnel<'a>,
    frame: &Frame<'_>,
) -> Stage<Destination<'a>> {
    let (switch, remote) = (tunnel.switch, LearnedPlace::Remote(outer.remote.addr));
    learn::from_underlay(cx, switch, frame, remote, tunnel.source_key);
    neighbour::from_underlay(cx, switch, frame)?;
    arp_nd::arp_nd(cx, switch, frame)?;
    let destination = match ids::ids(cx, tunnel, frame)? {
        Some(destination) => destination,
        None => l2_lookup::l2_lookup(cx, switch, frame.destination)?,
    };
    ids::check_copies(cx, frame, destination)?;
    Stage::Continue(destination)
}

/// Hook `from_leg`.
fn from_leg(cx: &mut Context<'_>, device: &DeviceName) -> Stage<Verdict> {
    let (router, taken) = leg_in::leg_in(cx, device)?;
    let Some(taken) = taken else {
        neighbour::overheard_on_leg(cx, router);
        return leg_in::left_to_host(cx, router);
    };
    cx.sender = Some(Sender::Leg(taken.router));
    let frame = parse::parse(cx, None, &cx.entered.bytes, None)?;
    let decided = from_leg_stages(cx, &taken, &frame);
    finish(cx, &frame, decided)
}

fn from_leg_stages<'f, 'a>(
    cx: &mut Context<'a>,
    taken: &Taken<'a>,
    frame: &'f Frame<'a>,
) -> Stage<Departure<'f, 'a>> {
    neighbour::from_leg(cx, taken, frame)?;
    arp_nd::from_leg(cx, taken, frame)?;
    let (router, switch) = (taken.router, None);
    let destination = Destination::Router(Ingress { router, switch });
    let mut departure = Departure::new(frame, 0, destination);
    nat::from_leg(cx, router, &mut departure.frame)?;
    Stage::Continue(departure)
}

/// What was decided is carried out, and the sender told what it is to be told. `came`: the frame before `route` and
/// `nat` changed it.
fn finish<'f, 'a>(
    cx: &mut Context<'a>,
    came: &Frame<'a>,
    decided: Stage<Departure<'f, 'a>>,
) -> Stage<Verdict> {
    let ended = match decided {
        ControlFlow::Continue(departure) => go_on(cx, departure),
        ControlFlow::Break(verdict) => Stage::Break(verdict),
    };
    if ended == Stage::Break(Verdict::FirewallReject) {
        cx.answer = Some(Answer::of_firewall(came));
    }
    if let Some(answer) = cx.answer.take() {
        reply::reply(cx, came, answer);
    }
    if let Some(question) = cx.question.take() {
        ask::ask(cx, &question);
    }
    let (ControlFlow::Continue(verdict) | ControlFlow::Break(verdict)) = ended;
    if verdict.is_drop() {
        nat::forget_begun(cx);
    }
    ended
}

/// Routers follow, and the port that gets the frame.
fn go_on<'a>(cx: &mut Context<'a>, mut departure: Departure<'_, 'a>) -> Stage<Verdict> {
    while let Destination::Router(ingress) = departure.destination {
        if let Some((switch, mac)) = route::route(cx, &mut departure, ingress)? {
            departure.destination = l2_lookup::l2_lookup(cx, switch, mac)?;
        }
    }
    if let Destination::Leg { router, .. } = departure.destination {
        nat::out(cx, router, &mut departure.frame)?;
    }
    if let Destination::Port(port) = departure.destination {
        firewall::firewall(cx, Direction::ToPort, port, &departure.frame)?;
        leave_to_port::check_len(cx, &departure.frame, port)?;
    }
    if let Some(probe) = cx.probe.take() {
        ask::probe(cx, &probe);
    }
    mss::mss(cx, &mut departure);
    leave::leave(cx, &departure)
}
