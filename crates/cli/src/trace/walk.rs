//! The way of a packet through the whole fabric: what the reference executor says at the first hook, and
//! then, for everything that leaves it, at the next one. Remote hosts are compiled from the same file.
//! Decides nothing itself, but takes it for granted that neighbours answer the routers that ask for them;
//! [`render`](super::render) and [`json`](super::json) show it.

use std::collections::{BTreeMap, btree_map};
use std::net::IpAddr;
use std::time::Duration;

use overlane_model::{CompileError, DeviceName, Fabric, Host, Name, SwitchId, Verdict, VlanId};
use overlane_pipeline::{
    self as pipeline, Entry, NeighbourId, Outcome, Output, Packet, RouterSide, State, Step,
};
use overlane_wire::Mac;

use super::machine::Lack;
use super::neighbour::{Answerer, Assumed};

/// More hooks than any packet meets: the port, the segmenter, the other host.
const MOST_HOPS: u32 = 8;

/// The stage that tells the sender of a dropped packet.
const ANSWER: &str = "answer";

/// A state with more connections is not copied before each packet: that would take ever longer.
const MOST_COPIED: usize = 1024;

/// NEIGH-7.
const FULL: &str = "it is one neighbour more than may be found there.";

/// Of a leg; the file does not say it.
const ETHERNET_MTU: u32 = 1500;

/// The legs of a host, each with its router's MAC in place of its own, which the file does not say.
fn legs<'f>(fabric: &'f Fabric, host: &Name) -> impl Iterator<Item = (&'f DeviceName, Mac)> {
    fabric.routers().values().filter_map(move |router| {
        let (at, device) = router.leg()?;
        (at == host).then_some((device, router.mac))
    })
}

/// All hosts of a fabric, each with what it has learned so far.
pub(crate) struct Network<'f> {
    fabric: &'f Fabric,
    underlay_mtu: u32,
    hosts: BTreeMap<Name, (pipeline::Host, State)>,
    /// What hosts lack that are applied on this machine.
    lacks: BTreeMap<Name, Lack>,
}

/// What became of a packet at one hook.
struct Fate {
    outcome: Outcome,
    assumed: Vec<Assumed>,
    not_known: Option<String>,
}

/// Who answered before answers again.
fn answer_probe(state: &mut State, id: NeighbourId, now_ns: u64) {
    if let Some(known) = state.found().get(&id).copied() {
        state.neighbour_answers(id, known.mac, known.key, now_ns);
    }
}

/// A packet at one hook, and what became of it there and behind.
pub(crate) struct Hop {
    pub(crate) host: Name,
    pub(crate) entry: Entry,
    pub(crate) packet: Packet,
    pub(crate) outcome: Outcome,
    /// For whom a router asked first, and the answers that were taken for granted.
    pub(crate) assumed: Vec<Assumed>,
    /// Where no answer was taken for granted: what is not known, and what helps.
    pub(crate) not_known: Option<String>,
    /// For each output of the outcome, what became of it.
    pub(crate) then: Vec<Vec<Self>>,
    /// Packets that fared the same: segments.
    pub(crate) count: usize,
}

impl<'f> Network<'f> {
    pub(crate) fn new(fabric: &'f Fabric, underlay_mtu: u32) -> Self {
        Self {
            fabric,
            underlay_mtu,
            hosts: BTreeMap::new(),
            lacks: BTreeMap::new(),
        }
    }

    /// A line for each host that lacked a device which a packet may have met.
    pub(crate) fn notes(&self, hop: &Hop) -> Vec<String> {
        let notes = self
            .lacks
            .iter()
            .filter_map(|(host, lack)| lack.note(host, hop));
        notes.collect()
    }

    /// Follows a packet from a hook of a host to everywhere it gets.
    pub(crate) fn follow(
        &mut self,
        host: &Name,
        at: Duration,
        entry: Entry,
        packet: Packet,
    ) -> Result<Hop, CompileError> {
        self.hop(host, at, entry, packet, MOST_HOPS)
    }

    fn hop(
        &mut self,
        name: &Name,
        at: Duration,
        entry: Entry,
        packet: Packet,
        hops: u32,
    ) -> Result<Hop, CompileError> {
        let now_ns = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        let Fate {
            outcome,
            assumed,
            not_known,
        } = self.decide(name, now_ns, &entry, &packet)?;
        let mut then = Vec::new();
        for output in &outcome.outputs {
            then.push(match hops.checked_sub(1) {
                Some(hops) => self.next(name, at, &entry, output, hops)?,
                None => Vec::new(),
            });
        }
        Ok(Hop {
            host: name.clone(),
            entry,
            packet,
            outcome,
            assumed,
            not_known,
            then,
            count: 1,
        })
    }

    /// What becomes of a packet at one hook. Where a router asks first, it comes once more behind the answer, and that
    /// it came before leaves nothing; in a large state it is a packet that was sent again.
    fn decide(
        &mut self,
        name: &Name,
        now_ns: u64,
        entry: &Entry,
        packet: &Packet,
    ) -> Result<Fate, CompileError> {
        let fabric = self.fabric;
        let mut assumed = Vec::new();
        let (outcome, not_known) = loop {
            let (host, state) = self.host(name)?;
            let may_ask = !host.tables().routers.is_empty();
            let is_small = state.connections().len() <= MOST_COPIED;
            let before = (may_ask && is_small).then(|| state.clone());
            let outcome = host.run(state, now_ns, entry, packet);
            let Some(id) = outcome.asked else {
                break (outcome, None);
            };
            if !matches!(outcome.verdict, Verdict::Resolving | Verdict::NoNeighbour) {
                answer_probe(state, id, now_ns);
                break (outcome, None);
            }
            // Once each: else a fault of ours would never end.
            if assumed.iter().any(|it: &Assumed| it.addr == id.1) {
                break (outcome, None);
            }
            let answerer = match Answerer::of(fabric, id) {
                Ok(answerer) => answerer,
                Err(why) => break (outcome, Some(why)),
            };
            if let Some(before) = before {
                *state = before;
            }
            if !self.hear(name, id, answerer, now_ns) {
                break (outcome, Some(format!("whether {} answers: {FULL}", id.1)));
            }
            assumed.push(Assumed {
                question: outcome.steps.into_iter().next_back(),
                addr: id.1,
                mac: answerer.mac(),
                port: answerer.port().map(|port| port.name.clone()),
            });
        };
        let mut outcome = outcome;
        if let (Some(lack), Some((host, _))) = (self.lacks.get(name), self.hosts.get(name)) {
            lack.judge(host, entry, &mut outcome);
        }
        Ok(Fate {
            outcome,
            assumed,
            not_known,
        })
    }

    /// Hosts hear an answer (NEIGH-8). False where the one that asks has no room for it.
    fn hear(&mut self, asks: &Name, id: NeighbourId, answerer: Answerer<'_>, now_ns: u64) -> bool {
        let port = answerer.port();
        let is_for_all = port.is_some() && matches!(id.0, RouterSide::Switch(SwitchId::Vni(_)));
        let mut has_room = false;
        for (name, (_, state)) in &mut self.hosts {
            if name == asks || is_for_all {
                let here = port.filter(|port| port.host == *name);
                let key = here.map_or(0, |port| port.key.get());
                let is_noted = state.neighbour_answers(id, answerer.mac(), key, now_ns);
                has_room |= is_noted && name == asks;
            }
        }
        has_room
    }

    /// A host by its name, with its state.
    fn host(&mut self, name: &Name) -> Result<&mut (pipeline::Host, State), CompileError> {
        match self.hosts.entry(name.clone()) {
            btree_map::Entry::Occupied(known) => Ok(known.into_mut()),
            btree_map::Entry::Vacant(new) => {
                let mut tables = self.fabric.compile(name.as_str())?;
                let lack = Lack::of(&tables);
                lack.take_legs(&mut tables);
                let state = lack.state();
                self.lacks.insert(name.clone(), lack);
                let host = pipeline::Host::new(tables, self.underlay_mtu);
                let host = legs(self.fabric, name).fold(host, |host, (device, mac)| {
                    host.with_leg(device, mac, ETHERNET_MTU)
                });
                Ok(new.insert((host, state)))
            }
        }
    }

    /// Where an output enters next.
    fn next(
        &mut self,
        from: &Name,
        at: Duration,
        entry: &Entry,
        output: &Output,
        hops: u32,
    ) -> Result<Vec<Hop>, CompileError> {
        match output {
            Output::Port { .. } | Output::Host { .. } | Output::Leg { .. } => Ok(Vec::new()),
            Output::Segmenter { packet } => match entry {
                Entry::Port(device) => self.segments(from, at, device, packet, hops),
                // What comes out of it leaves.
                Entry::Segmenter(_) | Entry::Underlay | Entry::Leg(_) => Ok(Vec::new()),
            },
            Output::Underlay { remote, packet } => {
                let hosts = match remote {
                    Some(remote) => self.host_of(*remote).into_iter().collect(),
                    None => self.hosts_behind_vlan(from, packet),
                };
                let hop = |name| self.hop(name, at, Entry::Underlay, packet.clone(), hops);
                hosts.into_iter().map(hop).collect()
            }
        }
    }

    /// Each segment of a super-packet; neighbours that fared the same are one hop.
    fn segments(
        &mut self,
        host: &Name,
        at: Duration,
        device: &DeviceName,
        packet: &Packet,
        hops: u32,
    ) -> Result<Vec<Hop>, CompileError> {
        let mut all: Vec<Hop> = Vec::new();
        for segment in packet.segments() {
            let entry = Entry::Segmenter(device.clone());
            let hop = self.hop(host, at, entry, segment, hops)?;
            match all.last_mut() {
                Some(last) if last.fared_like(&hop) => last.count += 1,
                _ => all.push(hop),
            }
        }
        Ok(all)
    }

    fn host_of(&self, vtep: IpAddr) -> Option<&'f Name> {
        let fabric = self.fabric;
        let mut hosts = fabric.hosts().values();
        hosts
            .find(|host| host.underlay == vtep)
            .map(|host| &host.name)
    }

    /// Who gets a plain frame: a group's every host of the VLAN; a station's the host it is on. For
    /// anybody else the physical network knows.
    fn hosts_behind_vlan(&self, from: &Name, packet: &Packet) -> Vec<&'f Name> {
        let fabric = self.fabric;
        let vlan = packet.tag.map(|tag| u32::from(tag.tag.vid()));
        let Some(Ok(vlan)) = vlan.map(VlanId::new) else {
            return Vec::new();
        };
        let of_vlan = |name: &Name| {
            let switch = fabric.switches().get(name);
            switch.is_some_and(|switch| switch.id == SwitchId::Vlan(vlan))
        };
        let Some(destination) = packet.bytes.first_chunk::<6>().copied().map(Mac::new) else {
            return Vec::new();
        };
        let has_receiver = |host: &Host| {
            let mut ports = fabric.ports().values();
            ports.any(|port| {
                port.host == host.name
                    && of_vlan(&port.switch)
                    && (destination.is_group() || port.mac == destination)
            })
        };
        // Of a router's MAC, its acting host.
        let acts = |host: &Host| {
            let mut routers = fabric.routers().values();
            routers.any(|router| {
                let mut interfaces = router.interfaces.iter();
                router.mac == destination
                    && interfaces.any(|interface| of_vlan(&interface.switch))
                    && fabric.acting_host(router) == Some(host)
            })
        };
        let others = fabric.hosts().values().filter(|host| host.name != *from);
        others
            .filter(|host| has_receiver(host) || acts(host))
            .map(|host| &host.name)
            .collect()
    }
}

impl Hop {
    /// The hook at which it was decided what becomes of the packet: the first that dropped it or one
    /// of its copies; else the last on its way, and for a flooded packet the one that flooded it.
    pub(crate) fn end(&self) -> &Self {
        let ends: Vec<&Self> = self.then.iter().flatten().map(Self::end).collect();
        let dropped = ends.iter().find(|hop| hop.outcome.verdict.is_drop());
        match (dropped, self.outcome.verdict) {
            (_, verdict) if verdict.is_drop() => self,
            (Some(dropped), _) => dropped,
            (None, Verdict::Flood) => self,
            (None, _) => ends.last().copied().unwrap_or(self),
        }
    }

    /// The last thing that was found out about the packet; telling its sender comes after that.
    pub(crate) fn reason(&self) -> Option<&Step> {
        let steps = &self.outcome.steps;
        let is_drop = self.outcome.verdict.is_drop();
        let mut from_the_end = steps.iter().rev();
        from_the_end.find(|step| !(is_drop && step.stage == ANSWER))
    }

    /// Every port that got something, with its host, each once.
    pub(crate) fn receivers(&self) -> Vec<(&Name, &Name)> {
        let mut found = Vec::new();
        self.gather(&mut found);
        found
    }

    fn gather<'h>(&'h self, found: &mut Vec<(&'h Name, &'h Name)>) {
        for output in &self.outcome.outputs {
            if let Output::Port { port, .. } = output
                && !found.contains(&(&self.host, port))
            {
                found.push((&self.host, port));
            }
        }
        for hop in self.then.iter().flatten() {
            hop.gather(found);
        }
    }

    /// The same verdict at the same hosts, all the way.
    fn fared_like(&self, other: &Self) -> bool {
        let (mine, theirs) = (&self.then, &other.then);
        self.host == other.host
            && self.outcome.verdict == other.outcome.verdict
            && mine.len() == theirs.len()
            && mine.iter().zip(theirs).all(|(mine, theirs)| {
                mine.len() == theirs.len()
                    && mine
                        .iter()
                        .zip(theirs)
                        .all(|(mine, theirs)| mine.fared_like(theirs))
            })
    }
}
