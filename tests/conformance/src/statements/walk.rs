//! A packet's way over the whole fabric: hosts on the reference executor, the physical network between them, and
//! machines that answer questions. One walk is one statement's: at its beginning nobody knows anything.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use overlane_model::{CompileError, Fabric, Name, SwitchId, Tables, Verdict};
use overlane_pipeline::{Entry, Host, Outcome, Output, Packet, State};
use overlane_wire::Mac;

use super::station::{Heard, Place, Request, Station, heard};
use crate::case::Machine;
use crate::reference;

/// More hooks than any statement's packets meet, questions and copies included.
const MOST_HOOKS: usize = 1000;
const MILLISECOND: u64 = 1_000_000;

/// A packet at a hook, for the other executor.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When.
    pub now_ns: u64,
    /// Where.
    pub entry: Entry,
    /// What.
    pub packet: Packet,
    /// What became of it on the reference executor.
    pub outcome: Outcome,
}

/// All hosts of a fabric, compiled once.
pub(super) struct Hosts<'f> {
    pub(super) fabric: &'f Fabric,
    pub(super) tables: BTreeMap<Name, Tables>,
    hosts: BTreeMap<Name, Host>,
}

impl<'f> Hosts<'f> {
    pub(super) fn new(fabric: &'f Fabric) -> Result<Self, CompileError> {
        let mut tables = BTreeMap::new();
        for name in fabric.hosts().keys() {
            tables.insert(name.clone(), fabric.compile(name.as_str())?);
        }
        let hosts = tables.iter();
        let hosts = hosts.map(|(name, it)| (name.clone(), reference::host(it, Machine::default())));
        Ok(Self {
            fabric,
            hosts: hosts.collect(),
            tables,
        })
    }
}

/// Where somebody was seen on a VLAN of the underlay.
#[derive(Clone, PartialEq, Eq)]
enum Plug {
    Host(Name),
    Station(usize),
}

/// What enters somewhere next.
enum Event {
    Hook(Name, Entry, Packet),
    /// A frame is on a VLAN of the underlay.
    Vlan(Plug, u16, Packet),
    Station(usize, Packet),
}

/// What a station got: who, the tag of the frame, and what it says.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub(super) station: usize,
    pub(super) heard: Heard,
}

/// What became of one packet, and of all that it caused.
#[derive(Default)]
pub(super) struct Way {
    pub(super) arrivals: Vec<Arrival>,
    /// Where something ended: host and verdict.
    pub(super) ends: Vec<(Name, Verdict)>,
}

/// The fabric while one statement is proved.
pub(super) struct Walk<'a, 'f> {
    hosts: &'a Hosts<'f>,
    stations: &'a [Station],
    states: BTreeMap<Name, State>,
    /// Who knows whose MAC.
    known: BTreeMap<(usize, IpAddr), Mac>,
    /// What the physical switches have learned.
    learned: BTreeMap<(u16, Mac), Plug>,
    /// What guests of a transparent switch put before their frames.
    guest_tag: Option<u16>,
    now_ns: u64,
    pub(super) seen: BTreeMap<Name, Vec<Seen>>,
}

impl<'a, 'f> Walk<'a, 'f> {
    pub(super) fn new(
        hosts: &'a Hosts<'f>,
        stations: &'a [Station],
        guest_tag: Option<u16>,
    ) -> Self {
        Self {
            hosts,
            stations,
            states: BTreeMap::new(),
            known: BTreeMap::new(),
            learned: BTreeMap::new(),
            guest_tag,
            now_ns: MILLISECOND,
            seen: BTreeMap::new(),
        }
    }

    pub(super) fn wait(&mut self, seconds: u64) {
        self.now_ns += seconds * 1000 * MILLISECOND;
    }

    /// A station's MAC for its next hop, asked for if need be. `None`: nobody answers.
    pub(super) fn resolve(
        &mut self,
        station: usize,
        asking: IpAddr,
        target: IpAddr,
    ) -> Option<Mac> {
        if let Some(group) = group_mac(target) {
            return Some(group);
        }
        let station = self.speaker(station);
        if !self.known.contains_key(&(station, target)) {
            let question = self.stations[station].question(asking, target, self.tag(station));
            self.send(station, question);
        }
        self.known.get(&(station, target)).copied()
    }

    /// A station sends a request to a MAC.
    pub(super) fn request(&mut self, station: usize, request: Request, mac: Mac) -> Way {
        let speaker = self.speaker(station);
        let packet = self.stations[speaker].request(request, mac, self.tag(speaker));
        self.send(speaker, packet)
    }

    /// A station answers a request by the way that leads there from it.
    pub(super) fn answer(&mut self, station: usize, request: Request) -> Way {
        let next_hop = self.next_hop(station, request.source);
        let Some(mac) = self.resolve(station, request.destination, next_hop) else {
            return Way::default();
        };
        let speaker = self.speaker(station);
        let packet = self.stations[speaker].answer(request, mac, self.tag(speaker));
        self.send(speaker, packet)
    }

    /// Whom a station asks for to reach an address: itself where it is in the station's network, else a router.
    pub(super) fn next_hop(&self, station: usize, to: IpAddr) -> IpAddr {
        let speaker = &self.stations[self.speaker(station)];
        if let Some(gateway) = speaker.gateway.filter(|it| it.is_ipv4() == to.is_ipv4()) {
            return if speaker.is_near(to) { to } else { gateway };
        }
        let fabric = self.hosts.fabric;
        let mut networks: Vec<&ipnet::IpNet> = Vec::new();
        for router in fabric.routers().values() {
            match &speaker.place {
                Place::Leg(leg) if *leg == router.name => {
                    networks.extend(router.gateway.iter().flat_map(|it| &it.addresses));
                }
                place => {
                    let interfaces = router.interfaces.iter();
                    let here = interfaces.filter(|it| self.switch_of(place) == Some(&it.switch));
                    networks.extend(here.flat_map(|it| &it.addresses));
                }
            }
        }
        if networks.iter().any(|network| network.contains(&to)) {
            return to;
        }
        let routers = networks.iter().map(|network| network.addr());
        let mut of_family = routers.filter(|router| router.is_ipv4() == to.is_ipv4());
        of_family.next().unwrap_or(to)
    }

    fn switch_of(&self, place: &Place) -> Option<&'f Name> {
        let fabric = self.hosts.fabric;
        match place {
            Place::Port(port) => fabric.ports().get(port).map(|port| &port.switch),
            Place::Vlan(vlan) => {
                let on_it = |id: SwitchId| id.vlan().is_some_and(|it| it.get() == *vlan);
                let mut switches = fabric.switches().values();
                switches.find(|it| on_it(it.id)).map(|it| &it.name)
            }
            Place::Leg(_) | Place::RoutedBy(_) => None,
        }
    }

    /// Whose frames a station's packets are in.
    fn speaker(&self, station: usize) -> usize {
        match &self.stations[station].place {
            Place::RoutedBy(routers) => routers.first().copied().unwrap_or(station),
            _ => station,
        }
    }

    fn tag(&self, station: usize) -> Option<u16> {
        match &self.stations[station].place {
            Place::Port(port) => {
                let port = self.hosts.fabric.ports().get(port)?;
                port.attachment
                    .vlan
                    .map(|vlan| vlan.get())
                    .or(self.guest_tag)
            }
            Place::Vlan(vlan) => Some(*vlan),
            Place::Leg(_) | Place::RoutedBy(_) => None,
        }
    }

    fn send(&mut self, station: usize, packet: Packet) -> Way {
        self.now_ns += MILLISECOND;
        let mut events = VecDeque::from_iter(self.enter(station, packet));
        let mut way = Way::default();
        for _ in 0..MOST_HOOKS {
            match events.pop_front() {
                None => return way,
                Some(Event::Hook(host, entry, packet)) => {
                    self.hook(host, entry, packet, &mut way, &mut events);
                }
                Some(Event::Vlan(from, vlan, packet)) => {
                    self.on_vlan(from, vlan, packet, &mut events);
                }
                Some(Event::Station(station, packet)) => {
                    self.at_station(station, &packet, &mut way, &mut events);
                }
            }
        }
        way
    }

    /// Where a station's frame enters.
    fn enter(&self, station: usize, frame: Packet) -> Option<Event> {
        let fabric = self.hosts.fabric;
        match &self.stations[station].place {
            Place::Port(port) => {
                let port = fabric.ports().get(port)?;
                let entry = Entry::Port(port.attachment.device.clone());
                Some(Event::Hook(port.host.clone(), entry, frame))
            }
            Place::Vlan(vlan) => Some(Event::Vlan(Plug::Station(station), *vlan, frame)),
            Place::Leg(router) => {
                let (host, device) = fabric.routers().get(router)?.leg()?;
                Some(Event::Hook(host.clone(), Entry::Leg(device.clone()), frame))
            }
            Place::RoutedBy(_) => None,
        }
    }

    fn hook(
        &mut self,
        name: Name,
        entry: Entry,
        packet: Packet,
        way: &mut Way,
        events: &mut VecDeque<Event>,
    ) {
        let Some(host) = self.hosts.hosts.get(&name) else {
            return;
        };
        let state = self.states.entry(name.clone()).or_default();
        let outcome = host.run(state, self.now_ns, &entry, &packet);
        way.ends.push((name.clone(), outcome.verdict));
        for output in &outcome.outputs {
            match output {
                Output::Port { port, packet } => {
                    self.to_stations(&Place::Port(port.clone()), packet, events);
                }
                Output::Underlay {
                    remote: Some(vtep),
                    packet,
                } => {
                    let mut hosts = self.hosts.fabric.hosts().values();
                    if let Some(other) = hosts.find(|host| host.underlay == *vtep) {
                        let next = Event::Hook(other.name.clone(), Entry::Underlay, packet.clone());
                        events.push_back(next);
                    }
                }
                Output::Underlay {
                    remote: None,
                    packet,
                } => {
                    if let Some(tag) = packet.tag {
                        let from = Plug::Host(name.clone());
                        events.push_back(Event::Vlan(from, tag.tag.vid(), packet.clone()));
                    }
                }
                Output::Leg { device, packet, .. } => {
                    let mut routers = self.hosts.fabric.routers().values();
                    let router = routers.find(|router| router.leg() == Some((&name, device)));
                    if let Some(router) = router {
                        self.to_stations(&Place::Leg(router.name.clone()), packet, events);
                    }
                }
                Output::Segmenter { .. } | Output::Host { .. } => {}
            }
        }
        self.seen.entry(name).or_default().push(Seen {
            now_ns: self.now_ns,
            entry,
            packet,
            outcome,
        });
    }

    fn to_stations(&self, place: &Place, packet: &Packet, events: &mut VecDeque<Event>) {
        for (index, station) in self.stations.iter().enumerate() {
            if station.place == *place && station.takes(packet) {
                events.push_back(Event::Station(index, packet.clone()));
            }
        }
    }

    /// The physical switches: where a MAC was seen, or everywhere.
    fn on_vlan(&mut self, from: Plug, vlan: u16, packet: Packet, events: &mut VecDeque<Event>) {
        let mac = |at: usize| packet.bytes.get(at..)?.first_chunk().copied().map(Mac::new);
        if let Some(source) = mac(6) {
            self.learned.insert((vlan, source), from.clone());
        }
        let to = mac(0).and_then(|to| self.learned.get(&(vlan, to)));
        let goes_to = |plug: &Plug| *plug != from && to.is_none_or(|to| to == plug);
        for name in self.hosts.hosts.keys() {
            if goes_to(&Plug::Host(name.clone())) {
                events.push_back(Event::Hook(name.clone(), Entry::Underlay, packet.clone()));
            }
        }
        for (index, station) in self.stations.iter().enumerate() {
            let there = station.place == Place::Vlan(vlan) && goes_to(&Plug::Station(index));
            if there && station.takes(&packet) {
                events.push_back(Event::Station(index, packet.clone()));
            }
        }
    }

    /// It answers a question at once, and remembers who has an address.
    fn at_station(
        &mut self,
        index: usize,
        packet: &Packet,
        way: &mut Way,
        events: &mut VecDeque<Event>,
    ) {
        let station = &self.stations[index];
        let heard = heard(packet);
        match heard {
            Heard::Question(target, asking, mac) if station.addresses.contains(&target) => {
                self.known.insert((index, asking), mac);
                let answer = station.has(target, asking, mac, self.tag(index));
                events.extend(self.enter(index, answer));
            }
            Heard::Has(target, mac) => {
                self.known.insert((index, target), mac);
            }
            Heard::Question(..) => {}
            heard => way.arrivals.push(Arrival {
                station: self.end_of(index, &heard),
                heard,
            }),
        }
    }

    /// Who a packet is for that a station took: itself, or somebody behind it.
    fn end_of(&self, index: usize, heard: &Heard) -> usize {
        let to = match heard {
            Heard::Request(request) => request.destination,
            Heard::Answer(request) => request.source,
            Heard::Refusal(address) => *address,
            _ => return index,
        };
        if self.stations[index].addresses.contains(&to) {
            return index;
        }
        let mut stations = self.stations.iter();
        let behind = stations.position(|station| {
            let routed = matches!(&station.place, Place::RoutedBy(by) if by.contains(&index));
            routed && station.addresses.contains(&to)
        });
        behind.unwrap_or(index)
    }
}

fn group_mac(address: IpAddr) -> Option<Mac> {
    match address {
        IpAddr::V4(v4) if v4.is_broadcast() => Some(Mac::BROADCAST),
        IpAddr::V6(v6) if v6.is_multicast() => {
            let [.., a, b, c, d] = v6.octets();
            Some(Mac::new([0x33, 0x33, a, b, c, d]))
        }
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    }
}
