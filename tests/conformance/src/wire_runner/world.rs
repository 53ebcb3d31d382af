//! One host of a fabric in a network namespace of its own, with the real programs, and all its ends in our
//! hands. Everything is gone when it is dropped.
//!
//! ```text
//!   namespace "guests"         namespace "host"                         this process
//!   g0 ── packet socket ══ v0 ┐
//!   g1 ── packet socket ══ v1 ┼ from_port … from_underlay │ uplink (TAP) ── file
//!                             └ ovl-seg0 ── packet socket (from: segmenter)
//! ```
//!
//! The uplink is a TAP and not a veth, because a TAP takes tunnel packets that are super-packets (virtio 1.3,
//! `UDP_TUNNEL_GSO`), which packet sockets cannot describe. Devices are quiet: no addresses but the VTEP's, no
//! IPv6 where it is not needed, and the remotes' neighbours are static.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use overlane_ebpf::DataPath;
use overlane_ebpf::abilities;
use overlane_ebpf::connections;
use overlane_ebpf::counters::{self, Counters};
use overlane_ebpf::learned;
use overlane_ebpf::maps::MapSet;
use overlane_ebpf::neighbours;
use overlane_host::{ApplyRequest, RemoveRequest, apply, paths, remove};
use overlane_model::{DeviceName, Name, Tables};
use overlane_net::netns::{self, Netns};
use overlane_net::tap::Tap;
use overlane_net::{Netlink, sysctl};
use overlane_pipeline::{Entry, Packet};
use overlane_wire::EtherType;
use overlane_wire::ethernet::Tag;
use overlane_wire::ip::protocol;

use super::cookies::Cookies;
use super::expected::Place;
use super::frame::{self, SOCKET_HEADER_LEN, TAP_HEADER_LEN, ToSend};
use super::sys::{self, PacketOption};
use super::{WireError, io_error};

/// Guests may send what they like: what is too large for the underlay is for the programs to say.
const GUEST_MTU: u32 = 65_535;
/// BIG TCP: the kernel's own limits (include/linux/netdevice.h).
const GSO_MAX_SEGS: u32 = 65_535;
const GSO_MAX_SIZE: u32 = 8 * 65_535;
/// More than any packet.
const BUFFER_LEN: usize = 1 << 18;
/// Of all names; behind it the process and a number.
const PREFIX: &str = "ovlwire";
const ETH_P_ALL: u16 = 3;
const ETH_P_802_3: u16 = 1;
const ETH_P_802_2: u16 = 4;

pub(super) struct World {
    // Dropped first: while namespaces and devices are still there.
    cleanup: Cleanup,
    host: Netns,
    outside: Netns,
    tables: Tables,
    tap: Tap,
    mtus: Mtus,
    uplink_ifindex: u32,
    uplink_mac: [u8; 6],
    /// Those of former tables stay.
    neighbours: BTreeMap<IpAddr, [u8; 6]>,
    /// Those of former tables stay: nothing may come out there.
    guests: BTreeMap<DeviceName, Guest>,
    segmenter: Segmenter,
    /// By type of packet; kept, for closing one takes the kernel tens of milliseconds.
    host_stack: BTreeMap<u16, OwnedFd>,
    maps: MapSet,
}

/// A device of a port, and the socket at its far end.
struct Guest {
    ifindex: u32,
    socket: OwnedFd,
}

/// The way into the segmenter.
struct Segmenter {
    ifindex: u32,
    socket: OwnedFd,
}

/// Takes away the hosts of runs that were killed.
pub(super) fn remove_left_over() -> Result<(), WireError> {
    for name in netns::list()? {
        let ours = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once('-'));
        let is_dead = |pid: &str| {
            let pid: Result<u32, _> = pid.parse();
            pid.is_ok_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
        };
        if let Some((pid, rest)) = ours
            && let Some((number, _)) = rest.split_once('-')
            && is_dead(pid)
        {
            drop(Cleanup {
                id: format!("{PREFIX}{pid}-{number}"),
            });
        }
    }
    Ok(())
}

/// Names of what exists outside of this process.
struct Cleanup {
    id: String,
}

impl Cleanup {
    fn host(&self) -> String {
        self.id.clone()
    }

    fn netns(&self, which: &str) -> String {
        format!("{}-{which}", self.id)
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        let _ = remove(&RemoveRequest::new(&self.host()));
        for which in ["host", "guests"] {
            let _ = netns::delete(&self.netns(which));
        }
    }
}

/// Of devices.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Mtus {
    pub(super) uplink: u32,
    /// The host's end of each port.
    pub(super) port: u32,
}

impl World {
    /// Builds the host under a name of its own and applies its tables.
    pub(super) fn build(
        number: u32,
        tables: &Tables,
        mtus: Mtus,
        data_path: &DataPath,
    ) -> Result<Self, WireError> {
        let cleanup = Cleanup {
            id: format!("{PREFIX}{}-{number}", std::process::id()),
        };
        let host = quiet_netns(&cleanup.netns("host"))?;
        let outside = quiet_netns(&cleanup.netns("guests"))?;
        let netlink = Netlink::in_netns(&host)?;
        let tap = uplink(&host, &netlink, tables, mtus.uplink)?;
        let (mut neighbours, mut guests) = (BTreeMap::new(), BTreeMap::new());
        add_neighbours(&netlink, tables, &mut neighbours)?;
        add_guests(&netlink, &outside, (tables, mtus.port), &mut guests)?;
        apply_to(&cleanup, tables)?;
        let folder = paths::map_set(&cleanup.host(), data_path.signature());
        let maps = MapSet::open(&folder, data_path.layouts())?;
        let maps = maps.ok_or_else(|| io_error("open the maps")(io::ErrorKind::NotFound.into()))?;
        let uplink = netlink.link(tables.uplink.as_str())?;
        let world = Self {
            cleanup,
            tables: tables.clone(),
            tap,
            mtus,
            uplink_ifindex: uplink.index,
            uplink_mac: uplink.mac,
            neighbours,
            guests,
            segmenter: Segmenter::open(&host, netlink.link(paths::SEGMENTER)?.index)?,
            host_stack: BTreeMap::new(),
            maps,
            host,
            outside,
        };
        world.drop_announcements()?;
        Ok(world)
    }

    /// What `apply` has announced is no packet of a case.
    fn drop_announcements(&self) -> Result<(), WireError> {
        self.receive(Duration::ZERO, &mut BTreeMap::new())
    }

    /// Whether [other tables](Self::change) can be applied to this host.
    pub(super) fn can_take(&self, tables: &Tables, mtus: Mtus) -> bool {
        mtus == self.mtus && tables.vtep == self.tables.vtep && tables.uplink == self.tables.uplink
    }

    /// Applies other tables to the host. Its programs stay: the verifier takes longer than all the rest.
    pub(super) fn change(&mut self, tables: &Tables) -> Result<(), WireError> {
        self.forget()?;
        if *tables == self.tables {
            return Ok(());
        }
        let netlink = Netlink::in_netns(&self.host)?;
        add_neighbours(&netlink, tables, &mut self.neighbours)?;
        add_guests(
            &netlink,
            &self.outside,
            (tables, self.mtus.port),
            &mut self.guests,
        )?;
        apply_to(&self.cleanup, tables)?;
        let segmenter = netlink.link(paths::SEGMENTER)?.index;
        if segmenter != self.segmenter.ifindex {
            self.segmenter = Segmenter::open(&self.host, segmenter)?;
        }
        self.tables = tables.clone();
        self.drop_announcements()
    }

    /// Everything that was counted.
    pub(super) fn counters(&self) -> Result<Counters, WireError> {
        Ok(counters::read(&self.maps)?)
    }

    /// Those of its remotes, at a time of a case.
    pub(super) fn cookies(&self, case_ns: u64) -> Result<Cookies, WireError> {
        Cookies::of(&self.maps, &self.tables, case_ns)
    }

    /// The next case has connections of its own, has learned and found nothing, and has remotes that have said nothing.
    fn forget(&self) -> Result<(), WireError> {
        learned::forget(&self.maps)?;
        neighbours::forget(&self.maps)?;
        abilities::forget(&self.maps)?;
        Ok(connections::forget(&self.maps)?)
    }

    /// Lets a packet enter.
    pub(super) fn send(&self, entry: &Entry, packet: &ToSend) -> Result<(), WireError> {
        let sent = match entry {
            Entry::Underlay => {
                (&self.tap).write(&[&packet.header.tap_bytes()[..], &packet.bytes].concat())
            }
            Entry::Port(device) => self
                .guest(device)
                .and_then(|guest| write(&guest.socket, packet)),
            Entry::Segmenter(device) => self.send_into_segmenter(device, packet),
            Entry::Leg(_) => Err(io::ErrorKind::Unsupported.into()),
        };
        sent.map(drop).map_err(io_error("send"))
    }

    /// From now on what the host's own stack gets of such packets comes out too. The sockets are behind the hook,
    /// for each asks for one type of packet only (net/core/dev.c, `__netif_receive_skb_core`).
    pub(super) fn listen_as_host(&mut self, packet: &Packet) -> Result<(), WireError> {
        let kind = kind_to_kernel(&packet.bytes);
        if self.host_stack.contains_key(&kind) {
            return Ok(());
        }
        let open = || {
            let socket = sys::packet_socket()?;
            sys::set(&socket, PacketOption::IgnoreOutgoing)?;
            sys::set(&socket, PacketOption::VnetHeader)?;
            sys::bind(&socket, self.uplink_ifindex, kind)?;
            Ok(socket)
        };
        let socket = self
            .host
            .run(open)?
            .map_err(io_error("listen on the uplink"))?;
        self.host_stack.insert(kind, socket);
        Ok(())
    }

    /// Everything that has come out, once nothing has for `quiet`.
    pub(super) fn receive(
        &self,
        quiet: Duration,
        into: &mut BTreeMap<Place, Vec<Packet>>,
    ) -> Result<(), WireError> {
        let mut buffer = vec![0; BUFFER_LEN];
        loop {
            let guests = self
                .guests
                .iter()
                .map(|(device, guest)| (Place::Guest(device.clone()), &guest.socket));
            let sockets: Vec<_> = guests
                .chain(self.host_stack.values().map(|socket| (Place::Host, socket)))
                .collect();
            let files = sockets.iter().map(|(_, socket)| socket.as_fd());
            let files: Vec<BorrowedFd<'_>> = [self.tap.as_fd()].into_iter().chain(files).collect();
            let ready = sys::wait(&files, quiet).map_err(io_error("poll"))?;
            if !ready.contains(&true) {
                return Ok(());
            }
            if ready.first() == Some(&true) {
                let packet = self.receive_from_wire(&mut buffer)?;
                into.entry(Place::Wire).or_default().extend(packet);
            }
            for ((place, socket), _) in sockets
                .into_iter()
                .zip(&ready[1..])
                .filter(|(_, ready)| **ready)
            {
                let packet = receive_from(socket, &mut buffer)?;
                let segments = packet.iter().flat_map(Packet::segments);
                into.entry(place).or_default().extend(segments);
            }
        }
    }

    fn receive_from_wire(&self, buffer: &mut [u8]) -> Result<Option<Packet>, WireError> {
        let len = (&self.tap)
            .read(buffer)
            .map_err(io_error("read the uplink"))?;
        let packet = frame::received(&buffer[..len], TAP_HEADER_LEN, None);
        Ok(packet
            .map(frame::untagged)
            .and_then(|packet| self.without_outer_addresses(packet)))
    }

    /// The outer addresses that the kernel filled in become zero, where they are right. `None`: what the host's
    /// own stack has to say, like ICMP errors, and what `apply` asks remotes.
    fn without_outer_addresses(&self, mut packet: Packet) -> Option<Packet> {
        let (to, from) = (packet.bytes.first_chunk::<6>()?, packet.bytes.get(6..12)?);
        if *from != self.uplink_mac {
            return Some(packet);
        }
        let ip = frame::ip(&packet.bytes, 0).filter(|ip| ip.protocol == protocol::UDP)?;
        if frame::be16(&packet.bytes, ip.l4_at + 2) != Some(self.tables.tunnel.port) {
            return None;
        }
        if packet.bytes.ends_with(b"OVL\x01\x01\x03\0\0") {
            return None;
        }
        if self.neighbours.get(&ip.destination) == Some(to) {
            packet.bytes[..12].fill(0);
        }
        Some(packet)
    }

    fn guest(&self, device: &DeviceName) -> io::Result<&Guest> {
        self.guests
            .get(device)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// With the mark that tells the program which device the packet is from.
    fn send_into_segmenter(&self, device: &DeviceName, packet: &ToSend) -> io::Result<usize> {
        let mark = self.guests.get(device).map_or(0, |guest| guest.ifindex);
        sys::set(&self.segmenter.socket, PacketOption::Mark(mark))?;
        write(&self.segmenter.socket, packet)
    }
}

impl Segmenter {
    fn open(host: &Netns, ifindex: u32) -> Result<Self, WireError> {
        let open = || {
            let socket = sys::packet_socket()?;
            sys::set(&socket, PacketOption::VnetHeader)?;
            sys::bind(&socket, ifindex, 0)?;
            Ok(Self { ifindex, socket })
        };
        host.run(open)?
            .map_err(io_error("open a socket into the segmenter"))
    }
}

/// Under the name that the host has here.
fn apply_to(cleanup: &Cleanup, tables: &Tables) -> Result<(), WireError> {
    let mut named = tables.clone();
    named.host = Name::new(&cleanup.host())
        .map_err(|error| io_error("name the host")(io::Error::other(error)))?;
    let netns = cleanup.netns("host");
    apply(&ApplyRequest {
        netns: Some(&netns),
        ..ApplyRequest::new(&named)
    })?;
    Ok(())
}

fn receive_from(socket: &OwnedFd, buffer: &mut [u8]) -> Result<Option<Packet>, WireError> {
    let received = sys::receive(socket, buffer);
    let (len, tag) = received.map_err(io_error("receive"))?;
    let tag = tag.and_then(|(kind, tci)| Tag::of(EtherType(kind), tci));
    Ok(frame::received(&buffer[..len], SOCKET_HEADER_LEN, tag))
}

fn write(socket: &OwnedFd, packet: &ToSend) -> io::Result<usize> {
    let bytes = [&packet.header.socket_bytes()[..], &packet.bytes].concat();
    std::fs::File::from(socket.try_clone()?).write(&bytes)
}

/// What the kernel calls the type of a frame (net/ethernet/eth.c, `eth_type_trans`).
fn kind_to_kernel(bytes: &[u8]) -> u16 {
    match frame::be16(bytes, 12) {
        Some(kind) if !EtherType(kind).is_length() => kind,
        _ if frame::be16(bytes, 14) == Some(0xffff) => ETH_P_802_3,
        _ => ETH_P_802_2,
    }
}

fn quiet_netns(name: &str) -> Result<Netns, WireError> {
    let netns = Netns::create(name)?;
    sysctl::set(&netns, "net.ipv6.conf.default.disable_ipv6", "1")?;
    Ok(netns)
}

fn uplink(
    host: &Netns,
    netlink: &Netlink,
    tables: &Tables,
    underlay_mtu: u32,
) -> Result<Tap, WireError> {
    let uplink = tables.uplink.as_str();
    let tap = host.run(|| Tap::create(uplink, true))??;
    // What leaves is whole and finished: packets as a wire carries them.
    tap.set_offload(false)?;
    sys::set_tap_header_len(tap.file(), TAP_HEADER_LEN)
        .map_err(io_error("set the TAP's header"))?;
    netlink.set_addr_gen_none(uplink)?;
    netlink.set_mtu(uplink, underlay_mtu)?;
    if tables.vtep.is_ipv6() {
        sysctl::set(host, &format!("net/ipv6/conf/{uplink}/disable_ipv6"), "0")?;
    }
    netlink.set_up(uplink)?;
    netlink.add_address(uplink, tables.vtep, prefix(tables.vtep))?;
    Ok(tap)
}

/// A route and a neighbour for each remote that has none yet.
fn add_neighbours(
    netlink: &Netlink,
    tables: &Tables,
    neighbours: &mut BTreeMap<IpAddr, [u8; 6]>,
) -> Result<(), WireError> {
    let uplink = tables.uplink.as_str();
    for remote in &tables.remotes {
        if neighbours.contains_key(&remote.addr) {
            continue;
        }
        let [high, low] = (neighbours.len() as u16).to_be_bytes();
        let mac = [2, 0xee, 0, 0, high, low];
        netlink.add_route(Some((remote.addr, prefix(remote.addr))), None, uplink)?;
        netlink.add_neighbour(uplink, remote.addr, mac)?;
        neighbours.insert(remote.addr, mac);
    }
    Ok(())
}

/// A veth pair for each device with ports that is not there yet, and the socket at its far end.
fn add_guests(
    netlink: &Netlink,
    outside: &Netns,
    (tables, mtu): (&Tables, u32),
    guests: &mut BTreeMap<DeviceName, Guest>,
) -> Result<(), WireError> {
    let far = Netlink::in_netns(outside)?;
    for port in &tables.ports {
        let device = &port.attachment.device;
        if guests.contains_key(device) {
            continue;
        }
        let end = format!("g{}", guests.len());
        netlink.add_veth(device.as_str(), &end, Some(outside))?;
        let ends = [
            (netlink, device.as_str(), mtu.min(GUEST_MTU)),
            (&far, &end, GUEST_MTU),
        ];
        for (netlink, name, mtu) in ends {
            netlink.set_addr_gen_none(name)?;
            netlink.set_mtu(name, mtu)?;
            netlink.set_gso_limits(name, GSO_MAX_SEGS, GSO_MAX_SIZE)?;
            netlink.set_up(name)?;
        }
        let end = far.link(&end)?.index;
        let socket = outside.run(|| guest_socket(end))?;
        let guest = Guest {
            ifindex: netlink.link(device.as_str())?.index,
            socket: socket.map_err(io_error("open a packet socket"))?,
        };
        guests.insert(device.clone(), guest);
    }
    Ok(())
}

fn guest_socket(ifindex: u32) -> io::Result<OwnedFd> {
    let socket = sys::packet_socket()?;
    for option in [
        PacketOption::VnetHeader,
        PacketOption::Auxdata,
        PacketOption::IgnoreOutgoing,
    ] {
        sys::set(&socket, option)?;
    }
    sys::bind(&socket, ifindex, ETH_P_ALL)?;
    Ok(socket)
}

const fn prefix(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 32 } else { 128 }
}
