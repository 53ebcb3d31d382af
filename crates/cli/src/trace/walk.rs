//! The way of a packet through the whole fabric: what the reference executor says at the first hook, and
//! then, for everything that leaves it, at the next one. Remote hosts are compiled from the same file.
//! Decides nothing itself; [`render`](super::render) and [`json`](super::json) show it.

use std::collections::{BTreeMap, btree_map};
use std::net::IpAddr;
use std::time::Duration;

use overlane_model::{CompileError, DeviceName, Fabric, Host, Name, SwitchId, Verdict, VlanId};
use overlane_pipeline::{self as pipeline, Entry, Outcome, Output, Packet, State, Step};
use overlane_wire::Mac;

/// More hooks than any packet meets: the port, the segmenter, the other host.
const MOST_HOPS: u32 = 8;

/// The stage that tells the sender of a dropped packet.
const ANSWER: &str = "answer";

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
}

/// A packet at one hook, and what became of it there and behind.
pub(crate) struct Hop {
    pub(crate) host: Name,
    pub(crate) entry: Entry,
    pub(crate) packet: Packet,
    pub(crate) outcome: Outcome,
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
        }
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
        let (host, state) = match self.hosts.entry(name.clone()) {
            btree_map::Entry::Occupied(known) => known.into_mut(),
            btree_map::Entry::Vacant(new) => {
                let tables = self.fabric.compile(name.as_str())?;
                let host = pipeline::Host::new(tables, self.underlay_mtu);
                let host = legs(self.fabric, name).fold(host, |host, (device, mac)| {
                    host.with_leg(device, mac, ETHERNET_MTU)
                });
                new.insert((host, State::new()))
            }
        };
        let now_ns = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        let outcome = host.run(state, now_ns, &entry, &packet);
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
            then,
            count: 1,
        })
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
