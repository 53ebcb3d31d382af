//! The tables of one host, indexed for lookup, and the way of a packet through the stages: the one
//! place that knows their order (`docs/semantics.md`, the first table).

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::ops::ControlFlow;

use overlane_model::{
    Attachment, DeviceName, FdbEntry, Hook, Neighbour, PortTable, Remote, SwitchId, SwitchTable,
    Tables, Verdict, VlanId,
};
use overlane_wire::Mac;

use crate::context::{Context, RemoteCount, Stage};
use crate::l2_lookup::Destination;
use crate::parse::{Frame, mapped};
use crate::port::Source;
use crate::state::LearnedPlace;
use crate::{
    Entry, Outcome, Output, Packet, State, arp_nd, decap, ecn, encap, flood, ids, l2_lookup, learn,
    parse, port, port_security, to_port, tunnel, vlan, vtep_check,
};

/// One host: its tables, and the MTU of its uplink. What an index points to is in the tables.
#[derive(Clone, Debug)]
pub struct Host {
    tables: Tables,
    underlay_mtu: u32,
    devices: HashMap<DeviceName, BTreeMap<Option<VlanId>, usize>>,
    port_keys: HashMap<(SwitchId, u16), usize>,
    switches: HashMap<SwitchId, usize>,
    fdb: HashMap<(SwitchId, Mac), usize>,
    neighbours: HashMap<(SwitchId, Ipv6Addr), usize>,
    remotes: HashMap<IpAddr, usize>,
}

impl Host {
    /// Indexes the tables. `underlay_mtu` is the largest IP packet that the uplink sends.
    pub fn new(tables: Tables, underlay_mtu: u32) -> Self {
        let mut devices: HashMap<_, BTreeMap<_, _>> = HashMap::new();
        for (i, port) in tables.ports.iter().enumerate() {
            let Attachment { device, vlan } = &port.attachment;
            devices.entry(device.clone()).or_default().insert(*vlan, i);
        }
        Self {
            underlay_mtu,
            devices,
            port_keys: index(&tables.ports, |port| (port.switch, port.key.get())),
            switches: index(&tables.switches, |switch| switch.id),
            fdb: index(&tables.fdb, |entry| (entry.switch, entry.mac)),
            neighbours: index(&tables.neighbours, |n| (n.switch, mapped(n.addr))),
            remotes: index(&tables.remotes, |remote| remote.addr),
            tables,
        }
    }

    /// What it was made of.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The largest IP packet that the uplink sends.
    pub fn underlay_mtu(&self) -> u32 {
        self.underlay_mtu
    }

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
        let hook = match entry {
            Entry::Port(_) => Hook::FromPort,
            Entry::Segmenter(_) => Hook::FromSegmenter,
            Entry::Underlay => Hook::FromUnderlay,
        };
        let mut cx = Context::new(self, state, now_ns, hook, packet, explain);
        let verdict = match entry {
            Entry::Port(device) | Entry::Segmenter(device) => from_port(&mut cx, device),
            Entry::Underlay => from_underlay(&mut cx),
        };
        cx.finish(verdict)
    }

    pub(crate) fn device(&self, device: &DeviceName) -> Option<Device<'_>> {
        let ports = self.devices.get(device)?;
        Some(Device { host: self, ports })
    }

    pub(crate) fn port_at(&self, at: &Attachment) -> Option<&PortTable> {
        self.device(&at.device)?.port(at.vlan)
    }

    pub(crate) fn port_of_key(&self, switch: SwitchId, key: u16) -> Option<&PortTable> {
        self.tables.ports.get(*self.port_keys.get(&(switch, key))?)
    }

    pub(crate) fn switch(&self, id: SwitchId) -> Option<&SwitchTable> {
        self.tables.switches.get(*self.switches.get(&id)?)
    }

    pub(crate) fn fdb_entry(&self, switch: SwitchId, mac: Mac) -> Option<&FdbEntry> {
        self.tables.fdb.get(*self.fdb.get(&(switch, mac))?)
    }

    /// Whose an address is. IPv4 in the form `::ffff:a.b.c.d` is nobody's: that is no address on a link.
    pub(crate) fn neighbour(&self, switch: SwitchId, addr: IpAddr) -> Option<&Neighbour> {
        if matches!(addr, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()) {
            return None;
        }
        let index = *self.neighbours.get(&(switch, mapped(addr)))?;
        self.tables.neighbours.get(index)
    }

    pub(crate) fn remote(&self, addr: IpAddr) -> Option<&Remote> {
        self.tables.remotes.get(*self.remotes.get(&addr)?)
    }
}

/// A device with ports.
#[derive(Clone, Copy)]
pub(crate) struct Device<'a> {
    host: &'a Host,
    ports: &'a BTreeMap<Option<VlanId>, usize>,
}

impl<'a> Device<'a> {
    /// The port of this tag, or of none.
    pub(crate) fn port(&self, vlan: Option<VlanId>) -> Option<&'a PortTable> {
        self.host.tables.ports.get(*self.ports.get(&vlan)?)
    }
}

fn index<T, K: Eq + std::hash::Hash>(items: &[T], key: impl Fn(&T) -> K) -> HashMap<K, usize> {
    let entries = items.iter().enumerate();
    entries.map(|(i, item)| (key(item), i)).collect()
}

/// Hooks `from_port` and `from_segmenter`.
fn from_port(cx: &mut Context<'_>, device: &DeviceName) -> Verdict {
    let source = match port::port(cx, device) {
        ControlFlow::Continue(source) => source,
        ControlFlow::Break(verdict) => return verdict,
    };
    let parsed = parse::parse(cx, source.switch, &cx.entered.bytes, source.guest_tag);
    // The segments of a super-packet were counted with it.
    if cx.hook == Hook::FromPort {
        cx.count_from_port(source.port);
    }
    let verdict = match parsed {
        ControlFlow::Continue(frame) => ended(from_port_parsed(cx, &source, &frame)),
        ControlFlow::Break(verdict) => verdict,
    };
    if verdict.is_drop() {
        cx.count_port_dropped(source.port);
    }
    verdict
}

fn from_port_parsed<'a>(
    cx: &mut Context<'a>,
    source: &Source<'a>,
    frame: &Frame<'a>,
) -> Stage<Verdict> {
    port_security::port_security(cx, source, frame)?;
    learn::from_port(cx, source, frame)?;
    arp_nd::arp_nd(cx, source, frame)?;
    match l2_lookup::from_port(cx, source, frame)? {
        Destination::Flood => flood::from_port(cx, source, frame),
        Destination::Port(port) => to_port::to_port(cx, frame, port),
        Destination::Remote { remote, key } => {
            let ended = ended(encap::encap(cx, source, frame, remote, key));
            match ended {
                Verdict::Segment => {}
                verdict if verdict.is_drop() => cx.count_remote(RemoteCount::Dropped, remote),
                _ => cx.count_remote(RemoteCount::To, remote),
            }
            Stage::Continue(ended)
        }
        Destination::Uplink(vlan) => vlan::vlan_out(cx, frame, vlan),
    }
}

/// Hook `from_underlay`.
fn from_underlay(cx: &mut Context<'_>) -> Verdict {
    let verdict = match cx.entered.tag {
        Some(tag) => ended(from_vlan(cx, tag)),
        None => ended(from_tunnel(cx)),
    };
    if verdict == Verdict::ToHost {
        let packet = cx.entered.clone();
        cx.send(Output::Host { packet });
    }
    verdict
}

fn from_vlan(cx: &mut Context<'_>, tag: overlane_wire::ethernet::Tag) -> Stage<Verdict> {
    let switch = vlan::vlan_in(cx, tag)?;
    let frame = parse::parse(cx, switch, &cx.entered.bytes, None)?;
    learn::from_underlay(cx, switch, &frame, LearnedPlace::Vlan, 0);
    match l2_lookup::from_underlay(cx, switch, &frame)? {
        Some(port) => to_port::to_port(cx, &frame, port),
        None => flood::from_underlay(cx, switch, &frame),
    }
}

fn from_tunnel(cx: &mut Context<'_>) -> Stage<Verdict> {
    let outer = vtep_check::vtep_check(cx)?;
    let verdict = ended(behind_outer(cx, &outer));
    let which = match verdict.is_drop() {
        true => RemoteCount::Dropped,
        false => RemoteCount::From,
    };
    cx.count_remote(which, outer.remote.addr);
    Stage::Continue(verdict)
}

fn behind_outer<'a>(cx: &mut Context<'a>, outer: &vtep_check::Outer<'a>) -> Stage<Verdict> {
    let tunnel = tunnel::tunnel(cx, outer)?;
    cx.weight.offset = tunnel.inner_at;
    let inner = cx.entered.bytes.get(tunnel.inner_at..outer.end);
    let mut frame = parse::parse(cx, tunnel.switch, inner.unwrap_or_default(), None)?;
    ecn::ecn(cx, outer.ecn, &mut frame)?;
    let remote = LearnedPlace::Remote(outer.remote.addr);
    learn::from_underlay(cx, tunnel.switch, &frame, remote, tunnel.source_key);
    let port = ids::ids(cx, &tunnel, &frame)?;
    decap::decap(cx, &mut frame);
    match port {
        Some(port) => to_port::to_port(cx, &frame, port),
        None => flood::from_underlay(cx, tunnel.switch, &frame),
    }
}

/// A way that ended, wherever it did.
fn ended(stage: Stage<Verdict>) -> Verdict {
    match stage {
        ControlFlow::Continue(verdict) | ControlFlow::Break(verdict) => verdict,
    }
}
