//! A packet in words, header by header, and the outer header of a tunnel packet as values. Names of
//! ports stand beside their keys where the fabric knows them.

use std::net::IpAddr;

use overlane_model::{Encapsulation, Fabric, Name, SwitchId};
use overlane_pipeline::Packet;
use overlane_wire::ethernet::Tag;
use overlane_wire::packet::{Header, TunnelPorts, walk};
use overlane_wire::{Ecn, Egress, IpVersion, OvnOption, Vni, arp, icmp, nd, tcp};
use serde::Serialize;

/// A packet, in words.
#[derive(Debug, Serialize)]
pub(crate) struct Seen {
    /// Of the frame without the tag beside it.
    pub(crate) bytes: usize,
    /// Payload of each segment of a super-packet.
    pub(crate) gso_size: Option<u16>,
    pub(crate) segments: u32,
    pub(crate) vlan: Option<u16>,
    pub(crate) outer: Option<Outer>,
    /// Outermost first.
    pub(crate) headers: Vec<String>,
    pub(crate) hex: String,
}

/// The outer header of a tunnel packet.
#[derive(Debug, Serialize)]
pub(crate) struct Outer {
    pub(crate) encapsulation: &'static str,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) source_port: u16,
    pub(crate) port: u16,
    pub(crate) dscp: u8,
    pub(crate) ecn: &'static str,
    pub(crate) vni: u32,
    /// Geneve: the logical port it is from; 0 if that is not said.
    pub(crate) from_key: Option<u16>,
    /// Geneve: the logical port it is for; 0x8000 and above: a group.
    pub(crate) to_key: Option<u16>,
}

/// A packet of this fabric in words.
pub(crate) fn packet(fabric: &Fabric, packet: &Packet) -> Seen {
    let tunnel = fabric.tunnel();
    // The other encapsulation gets a port that no packet of ours has.
    let ports = match tunnel.encapsulation {
        Encapsulation::Vxlan => TunnelPorts {
            vxlan: tunnel.port,
            geneve: 0,
        },
        Encapsulation::Geneve => TunnelPorts {
            vxlan: 0,
            geneve: tunnel.port,
        },
    };
    let walked = walk(&packet.bytes, ports);
    let mut headers = Vec::new();
    if let Some(Tag { service, tag }) = packet.tag {
        let kind = if service { "802.1ad" } else { "802.1Q" };
        headers.push(format!("{kind} tag {}, priority {}", tag.vid(), tag.pcp()));
    }
    for header in &walked.headers {
        headers.push(words(fabric, header));
    }
    if let Some(error) = &walked.error {
        headers.push(format!("then: {error}"));
    } else if !walked.payload.is_empty() {
        headers.push(format!("{} bytes", walked.payload.len()));
    }
    Seen {
        bytes: packet.bytes.len(),
        gso_size: packet.gso.map(|gso| gso.size),
        segments: packet.gso.map_or(1, |gso| gso.segments),
        vlan: packet.tag.map(|tag| tag.tag.vid()),
        outer: outer(&walked.headers),
        headers,
        hex: hex(&packet.bytes),
    }
}

fn outer(headers: &[Header<'_>]) -> Option<Outer> {
    let [_, ip, Header::Udp(udp), tunnel, ..] = headers else {
        return None;
    };
    let (source, destination, dscp, ecn) = match ip {
        Header::Ipv4(ip) => (
            ip.source().into(),
            ip.destination().into(),
            ip.dscp(),
            ip.ecn(),
        ),
        Header::Ipv6(ip) => (
            ip.source().into(),
            ip.destination().into(),
            ip.dscp(),
            ip.ecn(),
        ),
        _ => return None,
    };
    let (encapsulation, vni, option) = match tunnel {
        Header::Vxlan(view) => (Encapsulation::Vxlan, view.vni(), None),
        Header::Geneve(view) => (Encapsulation::Geneve, view.vni(), ovn(view)),
        _ => return None,
    };
    Some(Outer {
        encapsulation: encapsulation.name(),
        source,
        destination,
        source_port: udp.source(),
        port: udp.destination(),
        dscp,
        ecn: ecn_name(ecn),
        vni,
        from_key: option.map(|option| option.ingress.map_or(0, |key| key.get())),
        to_key: option.map(|option| option.egress.get()),
    })
}

fn ovn(view: &overlane_wire::geneve::View<'_>) -> Option<OvnOption> {
    let options = view.options();
    let option = options.iter().find(|option| option.is_ovn())?;
    OvnOption::parse(&option).ok()
}

fn words(fabric: &Fabric, header: &Header<'_>) -> String {
    match header {
        Header::Ethernet(view) => {
            let mut text = format!("{} → {}", view.source(), view.destination());
            for tag in view.tags().as_slice() {
                text.push_str(&format!(", VLAN {}", tag.tag.vid()));
            }
            format!("{text}, type {}", view.ethertype())
        }
        Header::Arp(view) => arp_words(view),
        Header::Ipv4(view) => {
            let text = format!(
                "{} → {}, TTL {}",
                view.source(),
                view.destination(),
                view.ttl()
            );
            marks(text, view.dscp(), view.ecn())
        }
        Header::Ipv6(view) => {
            let hops = view.hop_limit();
            let text = format!(
                "{} → {}, hop limit {hops}",
                view.source(),
                view.destination()
            );
            marks(text, view.dscp(), view.ecn())
        }
        Header::Udp(view) => format!("UDP {} → {}", view.source(), view.destination()),
        Header::Tcp(view) => format!(
            "TCP {} → {} [{}]",
            view.source(),
            view.destination(),
            flags(view.flags())
        ),
        Header::Icmp(view) => icmp_words(view),
        Header::Nd(view) => nd_words(view.message()),
        Header::Vxlan(view) => format!("VXLAN, VNI {}", view.vni()),
        Header::Geneve(view) => {
            let keys =
                ovn(view).map_or_else(String::new, |option| keys(fabric, view.vni(), option));
            format!("Geneve, VNI {}{keys}", view.vni())
        }
    }
}

/// What is not usual is said.
fn marks(mut text: String, dscp: u8, ecn: Ecn) -> String {
    if dscp != 0 {
        text.push_str(&format!(", DSCP {dscp}"));
    }
    if ecn != Ecn::NotEct {
        text.push_str(&format!(", {}", ecn_name(ecn)));
    }
    text
}

fn ecn_name(ecn: Ecn) -> &'static str {
    match ecn {
        Ecn::NotEct => "Not-ECT",
        Ecn::Ect0 => "ECT(0)",
        Ecn::Ect1 => "ECT(1)",
        Ecn::Ce => "CE",
    }
}

fn keys(fabric: &Fabric, vni: u32, option: OvnOption) -> String {
    let of = |key: u16| {
        let is_here = |switch: &Name| {
            let switch = fabric.switches().get(switch);
            switch.is_some_and(|switch| Vni::new(vni).map(SwitchId::Vni) == Ok(switch.id))
        };
        let mut ports = fabric.ports().values();
        let port = ports.find(|port| port.key.get() == key && is_here(&port.switch));
        let mut routers = fabric.routers().values();
        let router = routers.find(|router| {
            let mut interfaces = router.interfaces.iter();
            interfaces.any(|interface| interface.key.get() == key && is_here(&interface.switch))
        });
        match (port, router) {
            (Some(port), _) => format!("{key} ({})", port.name),
            (None, Some(router)) => format!("{key} (router {})", router.name),
            (None, None) => key.to_string(),
        }
    };
    let from = option
        .ingress
        .map_or_else(|| "0 (not said)".to_owned(), |key| of(key.get()));
    let to = match option.egress {
        Egress::Group(group) => format!("0x{group:04x} (flood)"),
        other if other.get() == 0 => "0 (by MAC)".to_owned(),
        other => of(other.get()),
    };
    format!(", from key {from} to key {to}")
}

fn arp_words(view: &arp::View<'_>) -> String {
    let (sender, target) = (view.sender(), view.target());
    let mac = view.sender_mac();
    match view.operation() {
        arp::Operation::Request => format!("ARP: who has {target}? {sender} at {mac} asks"),
        arp::Operation::Reply => format!("ARP: {sender} is at {mac}, for {target}"),
        arp::Operation::Other(number) => format!("ARP operation {number}"),
    }
}

fn icmp_words(view: &icmp::View<'_>) -> String {
    let name = match view.version() {
        IpVersion::V4 => "ICMP",
        IpVersion::V6 => "ICMPv6",
    };
    match view.message() {
        icmp::Message::EchoRequest { .. } => format!("{name} echo request"),
        icmp::Message::EchoReply { .. } => format!("{name} echo reply"),
        _ => format!("{name} type {} code {}", view.kind(), view.code()),
    }
}

fn nd_words(message: nd::Message) -> String {
    match message {
        nd::Message::RouterSolicitation => "router solicitation".to_owned(),
        nd::Message::RouterAdvertisement { .. } => "router advertisement".to_owned(),
        nd::Message::NeighbourSolicitation { target } => {
            format!("neighbour solicitation for {target}")
        }
        nd::Message::NeighbourAdvertisement { target, .. } => {
            format!("neighbour advertisement of {target}")
        }
    }
}

fn flags(flags: tcp::Flags) -> String {
    let letters = [
        (tcp::Flags::FIN, 'F'),
        (tcp::Flags::SYN, 'S'),
        (tcp::Flags::RST, 'R'),
        (tcp::Flags::PSH, 'P'),
        (tcp::Flags::ACK, 'A'),
        (tcp::Flags::URG, 'U'),
        (tcp::Flags::ECE, 'E'),
        (tcp::Flags::CWR, 'C'),
    ];
    let set = letters.iter().filter(|(flag, _)| flags.contains(*flag));
    set.map(|(_, letter)| letter).collect()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
