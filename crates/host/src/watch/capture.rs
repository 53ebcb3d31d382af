//! Live packets of one host, for `overlane capture` and `overlane show drops --follow`.
//!
//! ```text
//!   Session::open ── lock, map `capture` ──► programs ── ring `events` ──► Session::next ──► Packet
//!   Session dropped ── map `capture` off, lock gone
//! ```
//!
//! The programs know numbers; names are put to them here, from the state file. One session at a time
//! per host, as the ring has one reader. A session that was killed leaves the map switched on, which
//! costs time per packet and nothing else; whoever comes next ([`recover`]) switches it off.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use overlane_ebpf::abi::{self, Event};
use overlane_ebpf::events::{self, Events};
use overlane_ebpf::maps::MapSet;
use overlane_model::{Encapsulation, Hook, PortTable, Verdict};
use overlane_wire::EtherType;
use overlane_wire::ethernet::{TAG_LEN, Tag};
use overlane_wire::packet::TunnelPorts;

use crate::lib::clock::Clock;
use crate::lib::lock::Lock;
use crate::lib::paths;
use crate::lib::signals::Signals;
pub use crate::lib::wait::End;
use crate::lib::wait::{LOOK, wait};
use crate::state::State;
use crate::{HostError, observe};

/// Which packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// All that reach a hook.
    All,
    /// Those that are dropped.
    Drops,
    /// Those of the logical port or remote with this name.
    Named(&'a str),
}

/// Whether a packet is shown as it came or as it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The bytes that reached the hook.
    Entered,
    /// The bytes that left, when they are others: encapsulated, decapsulated, tagged, answered.
    Left,
}

impl Phase {
    /// `entered` or `left`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Entered => "entered",
            Self::Left => "left",
        }
    }
}

/// One packet at one moment of its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// When the hook saw it, in ns since 1970 (UTC).
    pub time_unix_ns: u64,
    /// Where.
    pub hook: Hook,
    /// Whether these are the bytes as they came or as they went.
    pub phase: Phase,
    /// What became of it.
    pub verdict: Verdict,
    /// Its logical switch.
    pub switch: Option<String>,
    /// The logical port it came from.
    pub from_port: Option<String>,
    /// The logical port it goes to.
    pub to_port: Option<String>,
    /// The other host, of a tunnel packet.
    pub remote: Option<String>,
    /// What it crossed, for people: `from_port a1`, `to_underlay eth1`.
    pub interface: String,
    /// Length of the frame, with the tag the kernel kept beside it.
    pub len: u32,
    /// What it is worth on a wire.
    pub segments: u32,
    /// The first bytes of the frame, its tag put back.
    pub bytes: Vec<u8>,
}

impl Packet {
    /// Whether its first headers may be those of our tunnel (and not a guest's own).
    pub const fn may_be_outer(&self) -> bool {
        match self.phase {
            Phase::Entered => matches!(
                self.hook,
                Hook::FromUnderlay | Hook::FromSegmenter | Hook::FromCoalescer
            ),
            Phase::Left => matches!(self.verdict, Verdict::Encap),
        }
    }
}

/// Captures the packets of one host until dropped.
#[derive(Debug)]
pub struct Session {
    maps: MapSet,
    events: Events,
    names: Names,
    signature: String,
    host: String,
    /// Only packets from or to this address.
    remote: Option<IpAddr>,
    signals: Signals,
    clock: Clock,
    looked: Instant,
    /// What came before the session was asked for belongs to another one.
    since_ns: u64,
    lock: Option<Lock>,
}

impl Session {
    /// Switches the capture on: `snap` bytes of each packet of `target`.
    ///
    /// Blocks the signals that end a program for the calling thread: they end [`wait`](Self::wait).
    pub fn open(host: &str, target: Target<'_>, snap: u32) -> Result<Self, HostError> {
        let state = State::applied(host)?;
        let names = Names::of(&state);
        let wanted = names.find(target, host)?;
        let lock = Lock::of_capture(host)?;
        let maps = observe::maps(&state)?;
        let folder = paths::map_set(host, &state.map_signature);
        let mut events = Events::open(&folder)?;
        let signals = Signals::take_over()?;
        // What a killed session left on would go on filling the ring.
        events::set_capture(&maps, abi::Capture::default())?;
        events.drain();
        let clock = Clock::now()?;
        let mut session = Self {
            maps,
            events,
            names,
            signature: state.map_signature,
            host: host.to_owned(),
            remote: None,
            signals,
            since_ns: clock.monotonic_ns,
            clock,
            looked: Instant::now(),
            lock: Some(lock),
        };
        let snap = snap.min(abi::MAX_SNAP as u32);
        let mut request = abi::Capture {
            snap,
            ..abi::Capture::default()
        };
        match wanted {
            Wanted::All => request.mode = abi::CAPTURE_ALL,
            Wanted::Drops => request.mode = abi::CAPTURE_DROPS,
            Wanted::Port(id) => {
                request.mode = abi::CAPTURE_PORT;
                (request.switch_id, request.key) = id;
            }
            Wanted::Remote(address) => {
                request.mode = abi::CAPTURE_ALL;
                session.remote = Some(address);
            }
        }
        events::set_capture(&session.maps, request)?;
        Ok(session)
    }

    /// Waits until there may be packets to take (`None`), or until something ended the session. A hang-up
    /// of `reader` does that too.
    pub fn wait(
        &mut self,
        until: Option<Instant>,
        reader: Option<BorrowedFd<'_>>,
    ) -> Result<Option<End>, HostError> {
        let now = Instant::now();
        if until.is_some_and(|until| now >= until) {
            return Ok(Some(End::Time));
        }
        if now >= self.looked + LOOK && !self.look()? {
            return Ok(Some(End::HostGone));
        }
        wait(
            [self.events.as_fd(), self.signals.as_fd()],
            reader,
            until,
            self.looked + LOOK,
        )
    }

    /// The next packet that waits.
    #[expect(clippy::should_implement_trait, reason = "more may come after None")]
    pub fn next(&mut self) -> Option<Packet> {
        loop {
            let (names, clock) = (&self.names, &self.clock);
            let (since, only) = (self.since_ns, self.remote);
            let taken = self.events.next(|event, bytes| {
                let ours = event.time >= since && names.concerns(only, bytes);
                ours.then(|| names.packet(&event, bytes, clock)).flatten()
            })?;
            if taken.is_some() {
                return taken;
            }
        }
    }

    /// Switches the capture off; what waits can still be taken. Returns how many packets were lost because
    /// nobody took them in time.
    pub fn stop(&mut self) -> Result<u64, HostError> {
        let lost = events::capture(&self.maps)?.lost;
        events::set_capture(&self.maps, abi::Capture::default())?;
        Ok(lost)
    }

    /// UDP ports behind which our tunnel header is found; none in a packet that has no outer header of ours.
    pub fn outer_ports(&self, packet: &Packet) -> Option<TunnelPorts> {
        let ports = match packet.hook {
            // As `bpf/stage/coalesce.h` writes it.
            Hook::FromCoalescer => TunnelPorts::default(),
            _ => self.names.tunnel_ports,
        };
        packet.may_be_outer().then_some(ports)
    }

    /// Takes over what an `apply` has changed. False when the maps of this session are nobody's any more.
    fn look(&mut self) -> Result<bool, HostError> {
        self.looked = Instant::now();
        self.clock = Clock::now()?;
        let Some(state) = State::read(&self.host)? else {
            return Ok(false);
        };
        if state.map_signature != self.signature {
            return Ok(false);
        }
        self.names = Names::of(&state);
        Ok(true)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A failure leaves it to the next one, as a kill would.
        if self.stop().is_ok()
            && let Some(lock) = self.lock.take()
        {
            lock.remove_file();
        }
    }
}

/// Switches off what a killed session left on. Says whether there was something.
pub fn recover(host: &str) -> Result<bool, HostError> {
    if !paths::capture_lock(host).exists() {
        return Ok(false);
    }
    recover_in(host, &observe::maps(&State::applied(host)?)?)
}

/// The same for one who has the maps open.
pub(crate) fn recover_in(host: &str, maps: &MapSet) -> Result<bool, HostError> {
    if !paths::capture_lock(host).exists() {
        return Ok(false);
    }
    let lock = match Lock::of_capture(host) {
        Ok(lock) => lock,
        Err(HostError::Capturing { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    let was_on = events::capture(maps)?.mode != abi::CAPTURE_OFF;
    events::set_capture(maps, abi::Capture::default())?;
    lock.remove_file();
    Ok(was_on)
}

/// A target as the data path knows it.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    All,
    Drops,
    /// Switch and key.
    Port((u32, u32)),
    Remote(IpAddr),
}

/// Numbers of the data path → names of the fabric.
#[derive(Debug)]
struct Names {
    /// By switch and key.
    ports: BTreeMap<(u32, u32), String>,
    switches: BTreeMap<u32, String>,
    remotes: BTreeMap<IpAddr, String>,
    uplink: String,
    tunnel_ports: TunnelPorts,
}

impl Names {
    fn of(state: &State) -> Self {
        let tables = &state.tables;
        let port = |port: &PortTable| {
            let zone = (port.switch.number(), u32::from(port.key.get()));
            (zone, port.name.to_string())
        };
        Self {
            ports: tables.ports.iter().map(port).collect(),
            switches: (tables.switches.iter())
                .map(|switch| (switch.id.number(), switch.name.to_string()))
                .collect(),
            remotes: (tables.remotes.iter())
                .map(|remote| (remote.addr, remote.name.to_string()))
                .collect(),
            uplink: tables.uplink.to_string(),
            tunnel_ports: tunnel_ports(tables.tunnel.encapsulation, tables.tunnel.port),
        }
    }

    fn find(&self, target: Target<'_>, host: &str) -> Result<Wanted, HostError> {
        let name = match target {
            Target::All => return Ok(Wanted::All),
            Target::Drops => return Ok(Wanted::Drops),
            Target::Named(name) => name,
        };
        if let Some((&id, _)) = self.ports.iter().find(|(_, port)| *port == name) {
            return Ok(Wanted::Port(id));
        }
        let remote = self.remotes.iter().find(|(_, remote)| *remote == name);
        if let Some((&address, _)) = remote {
            return Ok(Wanted::Remote(address));
        }
        Err(HostError::NoPortOrRemote {
            host: host.to_owned(),
            name: name.to_owned(),
            known: self
                .ports
                .values()
                .chain(self.remotes.values())
                .cloned()
                .collect(),
        })
    }

    fn concerns(&self, only: Option<IpAddr>, bytes: &[u8]) -> bool {
        only.is_none_or(|remote| outer_addresses(bytes).is_some_and(|ends| ends.contains(&remote)))
    }

    /// None for numbers this program does not know: another version wrote them.
    fn packet(&self, event: &Event, bytes: &[u8], clock: &Clock) -> Option<Packet> {
        let hook = *Hook::ALL.get(usize::from(event.hook))?;
        let verdict = Verdict::from_number(event.verdict.into())?;
        let phase = match event.phase {
            abi::EVENT_ENTERED => Phase::Entered,
            abi::EVENT_LEFT => Phase::Left,
            _ => return None,
        };
        let port = |key: u16| {
            let name = self.ports.get(&(event.switch_id, key.into()));
            name.cloned()
        };
        let mut packet = Packet {
            time_unix_ns: clock.unix_ns(event.time),
            hook,
            phase,
            verdict,
            switch: self.switches.get(&event.switch_id).cloned(),
            from_port: port(event.source_key),
            to_port: port(event.dest_key),
            remote: None,
            interface: String::new(),
            len: event.len,
            segments: event.segments,
            bytes: bytes.to_vec(),
        };
        if packet.may_be_outer() {
            let ends = outer_addresses(bytes);
            let name = ends.and_then(|ends| ends.iter().find_map(|end| self.remotes.get(end)));
            packet.remote = name.cloned();
        }
        packet.interface = self.interface(&packet, event.ifindex);
        put_tag_back(&mut packet, event);
        Some(packet)
    }

    fn interface(&self, packet: &Packet, ifindex: u32) -> String {
        let or_index = |name: &Option<String>| match name {
            Some(name) => name.clone(),
            None => format!("#{ifindex}"),
        };
        let (way, where_) = match (packet.phase, packet.hook, packet.verdict) {
            (Phase::Entered, Hook::FromPort, _) => ("from_port", or_index(&packet.from_port)),
            (Phase::Entered, Hook::FromUnderlay, _) => ("from_underlay", self.uplink.clone()),
            (Phase::Entered, hook, _) => return hook.name().to_owned(),
            (Phase::Left, _, Verdict::Encap | Verdict::VlanOut) => {
                ("to_underlay", self.uplink.clone())
            }
            (Phase::Left, _, Verdict::LegOut) => ("to_leg", String::new()),
            (Phase::Left, _, Verdict::Answer) => ("to_port", or_index(&packet.from_port)),
            (Phase::Left, ..) => ("to_port", packet.to_port.clone().unwrap_or_default()),
        };
        format!("{way} {where_}").trim_end().to_owned()
    }
}

/// The kernel keeps the outermost tag beside the bytes.
fn put_tag_back(packet: &mut Packet, event: &Event) {
    let tag = Tag::of(EtherType(u16::from_be(event.vlan_proto)), event.vlan_tci);
    if let Some(bytes) = tag.and_then(|tag| tag.insert(&packet.bytes)) {
        packet.bytes = bytes;
        packet.len += TAG_LEN as u32;
    }
}

/// A port that only one of the two headers is looked for behind.
fn tunnel_ports(encapsulation: Encapsulation, port: u16) -> TunnelPorts {
    match encapsulation {
        Encapsulation::Geneve => TunnelPorts {
            geneve: port,
            vxlan: 0,
        },
        Encapsulation::Vxlan => TunnelPorts {
            vxlan: port,
            geneve: 0,
        },
    }
}

/// Source and destination of the first IP header.
fn outer_addresses(frame: &[u8]) -> Option<[IpAddr; 2]> {
    fn v4(bytes: &[u8]) -> Option<IpAddr> {
        Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into())
    }
    fn v6(bytes: &[u8]) -> Option<IpAddr> {
        Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into())
    }
    match frame.get(12..14)? {
        [0x08, 0x00] => Some([v4(frame.get(26..30)?)?, v4(frame.get(30..34)?)?]),
        [0x86, 0xdd] => Some([v6(frame.get(22..38)?)?, v6(frame.get(38..54)?)?]),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
