//! What stands behind the IP header, as far as the firewall and translation ask: the two ends of a packet,
//! TCP's numbers (`segment.rs`), an ICMP message and the packet that an ICMP error quotes. Never beyond
//! the end of the IP packet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use overlane_wire::ip::protocol;
use overlane_wire::{ipv4, ipv6, tcp, udp};

use crate::lib::bytes::{array, be16, byte};
use crate::lib::extensions::Chain;
use crate::lib::frame::Frame;
use crate::lib::ip::{Fragment, Ip, is_extension};
use crate::lib::segment::Segment;
use crate::lib::sound::unsound;

/// Of an ICMP message, and of what an ICMP error quotes behind the IP header.
const ICMP_LEN: usize = 8;
const SCTP_LEN: usize = 12;

/// A packet's transport header.
#[derive(Clone, Debug)]
pub(crate) struct L4 {
    pub(crate) ends: Ends,
    /// Of a TCP packet, as long as it is here; else why it is none that may pass.
    tcp: Option<Result<Segment, &'static str>>,
    /// Type and code of an ICMP message.
    pub(crate) icmp: Option<(u8, u8)>,
    /// Of an ICMP error.
    pub(crate) quoted: Option<Quoted>,
    /// Nobody sees how long its datagram is.
    pub(crate) is_first_fragment: bool,
    /// Why the end that gets it would discard it.
    pub(crate) unsound: Option<&'static str>,
}

/// Both ends of a packet, in its own direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ends {
    pub(crate) protocol: u8,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) marks: Marks,
}

/// What tells apart packets of one protocol between two addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Marks {
    /// Nothing: a fragment that shows none, another protocol, ports that both are 0.
    None,
    /// TCP, UDP, SCTP.
    Ports { source: u16, destination: u16 },
    /// An ICMP request or its reply.
    Query {
        /// Type of the request.
        request: u8,
        is_request: bool,
        identifier: u16,
    },
    /// Any other ICMP message: it belongs to no connection.
    Message,
}

/// The packet that an ICMP error is about. Places are from the start of the frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quoted {
    /// Of a later fragment without marks: its first one has them.
    pub(crate) ends: Ends,
    pub(crate) ip_at: usize,
    pub(crate) l4_at: usize,
    pub(crate) fragment: Option<Fragment>,
}

impl Quoted {
    /// One without a transport header.
    pub(crate) fn is_later_fragment(&self) -> bool {
        self.fragment.is_some_and(|fragment| !fragment.is_first())
    }
}

impl L4 {
    /// A first fragment has its header; a later one has none.
    pub(crate) fn read(frame: &Frame<'_>, ip: &Ip) -> Self {
        let shows = !ip.is_later_fragment() && !ip.is_hidden();
        let packet = frame.bytes.get(..ip.end).unwrap_or(&frame.bytes);
        let is_v6 = ip.source.is_ipv6();
        let kind = match shows {
            true => Kind::of(ip.protocol, is_v6),
            false => Kind::Other,
        };
        let icmp = match kind {
            Kind::Icmp => read_icmp(packet, ip.l4_at),
            _ => None,
        };
        let is_error = icmp.is_some_and(|(kind, _)| is_icmp_error(is_v6, kind));
        let quote = || read_quoted(packet, ip.l4_at + ICMP_LEN, is_v6);
        Self {
            ends: Ends {
                protocol: ip.protocol,
                source: ip.source,
                destination: ip.destination,
                marks: match kind {
                    Kind::Ports if frame.has_ports_inside(ip) => {
                        Marks::ports(&frame.bytes, ip.l4_at)
                    }
                    Kind::Ports | Kind::Other => Marks::None,
                    Kind::Icmp => Marks::icmp(packet, ip.l4_at, is_v6),
                },
            },
            tcp: (ip.protocol == protocol::TCP && shows).then(|| Segment::read(packet, ip.l4_at)),
            icmp,
            quoted: if is_error { quote() } else { None },
            is_first_fragment: shows && ip.is_fragment(),
            unsound: unsound(frame, ip),
        }
    }

    /// Why no connection may see the packet, of a broken TCP header.
    pub(crate) fn broken(&self) -> Option<&'static str> {
        self.tcp.as_ref().and_then(|tcp| tcp.err())
    }

    /// Of a packet whose connection has windows.
    pub(crate) fn segment(&self) -> Option<&Segment> {
        match self.ends.marks {
            Marks::Ports { .. } => self.tcp.as_ref()?.as_ref().ok(),
            _ => None,
        }
    }
}

/// Of a protocol whose header tells its packets apart: TCP, UDP, SCTP, ICMP.
pub(crate) fn has_marks(protocol: u8, is_v6: bool) -> bool {
    Kind::of(protocol, is_v6) != Kind::Other
}

/// What the transport header has at least; 0: of none that is known. `None`: the IP packet ends before it is over.
pub(crate) fn least_transport_len(frame: &Frame<'_>, ip: &Ip) -> Option<usize> {
    let len = match (Kind::of(ip.protocol, ip.source.is_ipv6()), ip.protocol) {
        (Kind::Ports, protocol::TCP) => tcp::LEN,
        (Kind::Ports, protocol::UDP) => udp::LEN,
        (Kind::Ports, _) => SCTP_LEN,
        (Kind::Icmp, _) => ICMP_LEN,
        (Kind::Other, _) => 0,
    };
    Some(len).filter(|len| ends_inside(frame, ip, *len))
}

/// The same with options of TCP, as long as the header says.
pub(crate) fn transport_len(frame: &Frame<'_>, ip: &Ip) -> Option<usize> {
    let least = least_transport_len(frame, ip)?;
    if ip.protocol != protocol::TCP {
        return Some(least);
    }
    let said = usize::from(byte(&frame.bytes, ip.l4_at + 12)? >> 4) * 4;
    Some(said.max(least)).filter(|len| ends_inside(frame, ip, *len))
}

fn ends_inside(frame: &Frame<'_>, ip: &Ip, len: usize) -> bool {
    ip.l4_at + len <= ip.end.min(frame.len())
}

/// No fragment, and `len` bytes of this protocol's header are inside the IP packet.
pub(crate) fn is_whole(frame: &Frame<'_>, ip: &Ip, protocol: u8, len: usize) -> bool {
    let is_inside = ip.protocol == protocol && ip.l4_at + len <= ip.end.min(frame.len());
    is_inside && !ip.is_fragment()
}

/// What the bytes behind the IP header are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ports,
    Icmp,
    Other,
}

impl Kind {
    fn of(protocol: u8, is_v6: bool) -> Self {
        match protocol {
            protocol::TCP | protocol::UDP | protocol::SCTP => Self::Ports,
            protocol::ICMP if !is_v6 => Self::Icmp,
            protocol::ICMPV6 if is_v6 => Self::Icmp,
            _ => Self::Other,
        }
    }
}

impl Marks {
    /// Ports that are not there are 0.
    fn ports(bytes: &[u8], at: usize) -> Self {
        match (be16(bytes, at), be16(bytes, at + 2)) {
            (Some(0), Some(0)) | (None, _) | (_, None) => Self::None,
            (Some(source), Some(destination)) => Self::Ports {
                source,
                destination,
            },
        }
    }

    fn icmp(packet: &[u8], at: usize, is_v6: bool) -> Self {
        let Some([kind, _, _, _, i0, i1, _, _]) = array::<ICMP_LEN>(packet, at) else {
            return Self::Message;
        };
        let (request, is_request) = match (is_v6, kind) {
            (false, 8) => (8, true),
            (false, 0) => (8, false),
            (false, 13) => (13, true),
            (false, 14) => (13, false),
            (true, 128) => (128, true),
            (true, 129) => (128, false),
            _ => return Self::Message,
        };
        Self::Query {
            request,
            is_request,
            identifier: u16::from_be_bytes([i0, i1]),
        }
    }
}

/// Type and code, of a message with a whole header.
fn read_icmp(packet: &[u8], at: usize) -> Option<(u8, u8)> {
    let [kind, code, ..] = array::<ICMP_LEN>(packet, at)?;
    Some((kind, code))
}

fn is_icmp_error(is_v6: bool, kind: u8) -> bool {
    match is_v6 {
        false => matches!(kind, 3 | 11 | 12),
        true => matches!(kind, 1..=4),
    }
}

/// The headers of a packet, by the rules of one, and 8 bytes behind them.
fn read_quoted(packet: &[u8], ip_at: usize, is_v6: bool) -> Option<Quoted> {
    let mut quoted = match is_v6 {
        false => quoted_ipv4(packet, ip_at)?,
        true => quoted_ipv6(packet, ip_at)?,
    };
    let l4_at = quoted.l4_at;
    array::<ICMP_LEN>(packet, l4_at)?;
    quoted.ends.marks = match Kind::of(quoted.ends.protocol, is_v6) {
        _ if quoted.is_later_fragment() => Marks::None,
        Kind::Ports => Marks::ports(packet, l4_at),
        Kind::Icmp => Marks::icmp(packet, l4_at, is_v6),
        Kind::Other => Marks::None,
    };
    Some(quoted)
}

/// Its marks are not read yet.
fn quoted_ipv4(packet: &[u8], ip_at: usize) -> Option<Quoted> {
    let header = array::<{ ipv4::LEN }>(packet, ip_at)?;
    let first = byte(&header, 0)?;
    let header_len = usize::from(first & 0xf) * 4;
    if first >> 4 != 4 || header_len < ipv4::LEN {
        return None;
    }
    let (protocol, l4_at) = (byte(&header, 9)?, ip_at + header_len);
    Some(Quoted {
        ends: Ends {
            protocol,
            source: Ipv4Addr::from(array::<4>(&header, 12)?).into(),
            destination: Ipv4Addr::from(array::<4>(&header, 16)?).into(),
            marks: Marks::None,
        },
        ip_at,
        l4_at,
        fragment: Fragment::of_ipv4(array(&header, 4)?, protocol, l4_at),
    })
}

/// The same.
fn quoted_ipv6(packet: &[u8], ip_at: usize) -> Option<Quoted> {
    let header = array::<{ ipv6::LEN }>(packet, ip_at)?;
    let chain = Chain::walk(packet, byte(&header, 6)?, ip_at + ipv6::LEN);
    let quoted = Quoted {
        ends: Ends {
            protocol: chain.next,
            source: Ipv6Addr::from(array::<16>(&header, 8)?).into(),
            destination: Ipv6Addr::from(array::<16>(&header, 24)?).into(),
            marks: Marks::None,
        },
        ip_at,
        l4_at: chain.at,
        fragment: chain.fragment,
    };
    let is_hidden = is_extension(chain.next) && !quoted.is_later_fragment();
    (byte(&header, 0)? >> 4 == 6 && !is_hidden).then_some(quoted)
}
