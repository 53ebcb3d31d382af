//! A packet in one line, outer headers first, in the manner of `tcpdump`:
//! `IP 198.18.0.1.51234 > 198.18.0.2.6081: Geneve, vni 5001, port 1 > 2 | IP 198.18.100.1 > …`.

use std::net::IpAddr;

use overlane_wire::packet::Header;
use overlane_wire::tcp::Flags;
use overlane_wire::{Egress, OvnOption, arp, ethernet, geneve, icmp, ipv4, ipv6, nd, tcp};

use super::frame::Headers;

/// One line. With `macs` it has the Ethernet addresses of the (inner) frame.
pub(crate) fn line(headers: &Headers<'_>, macs: bool) -> String {
    let mut text = String::new();
    let mut rest = headers.all.as_slice();
    while let Some((part, after)) = frame(rest, macs) {
        if !text.is_empty() {
            text.push_str(" | ");
        }
        text.push_str(&part);
        rest = after;
    }
    if headers.cut {
        text.push_str(" [cut]");
    }
    if let Some(error) = &headers.error {
        text.push_str(&format!(" [{error}]"));
    }
    text.trim_start().to_owned()
}

/// The part of one frame, and the headers of the frame inside it.
fn frame<'a, 'b>(headers: &'b [Header<'a>], macs: bool) -> Option<(String, &'b [Header<'a>])> {
    let (Header::Ethernet(view), rest) = headers.split_first()? else {
        return None;
    };
    let tunnel = headers
        .iter()
        .position(|header| matches!(header, Header::Vxlan(_) | Header::Geneve(_)));
    let mut text = String::new();
    // An outer frame's addresses say nothing about the overlay (and are zero until it is sent).
    if macs && tunnel.is_none() {
        text.push_str(&format!("{} > {}, ", view.source(), view.destination()));
    }
    for tag in view.tags().as_slice() {
        text.push_str(&format!("vlan {}, ", tag.tag.vid()));
    }
    text.push_str(&network(view, rest, macs));
    let after = tunnel.map_or(&[][..], |at| headers.get(at + 1..).unwrap_or_default());
    Some((text, after))
}

fn network(ethernet: &ethernet::View<'_>, rest: &[Header<'_>], macs: bool) -> String {
    match rest {
        [Header::Arp(view), ..] => arp(view),
        [Header::Ipv4(view), rest @ ..] => {
            let (from, to) = (view.source().into(), view.destination().into());
            let about = transport(rest).unwrap_or_else(|| bare_v4(view));
            format!("IP {}", between(from, to, rest, &about))
        }
        [Header::Ipv6(view), rest @ ..] => {
            let (from, to) = (view.source().into(), view.destination().into());
            let about = transport(rest).unwrap_or_else(|| bare_v6(view));
            format!("IP6 {}", between(from, to, rest, &about))
        }
        _ => {
            let size = ethernet.payload().len();
            let ends = format!("{} > {}, ", ethernet.source(), ethernet.destination());
            let ends = if macs { "" } else { &ends };
            format!("{ends}type {}, length {size}", ethernet.ethertype())
        }
    }
}

/// `198.18.100.1.51234 > 198.18.100.2.80: about`
fn between(from: IpAddr, to: IpAddr, rest: &[Header<'_>], about: &str) -> String {
    let ports = match rest.first() {
        Some(Header::Udp(view)) => Some((view.source(), view.destination())),
        Some(Header::Tcp(view)) => Some((view.source(), view.destination())),
        _ => None,
    };
    match ports {
        Some((source, destination)) => format!("{from}.{source} > {to}.{destination}: {about}"),
        None => format!("{from} > {to}: {about}"),
    }
}

fn transport(rest: &[Header<'_>]) -> Option<String> {
    Some(match rest {
        [Header::Udp(_), Header::Vxlan(view), ..] => format!("VXLAN, vni {}", view.vni()),
        [Header::Udp(_), Header::Geneve(view), ..] => geneve(view),
        [Header::Udp(view), ..] => format!("UDP, length {}", view.payload().len()),
        [Header::Tcp(view), ..] => tcp(view),
        [Header::Icmp(view), ..] => icmp(view),
        [Header::Nd(view), ..] => nd(view),
        _ => return None,
    })
}

fn bare_v4(view: &ipv4::View<'_>) -> String {
    if view.is_fragment() {
        let more = if view.more_fragments() { "+" } else { "" };
        // Counted in units of 8 bytes (RFC 791 section 3.1).
        let offset = u32::from(view.fragment_offset()) * 8;
        return format!("protocol {}, fragment at {offset}{more}", view.protocol());
    }
    format!(
        "protocol {}, length {}",
        view.protocol(),
        view.payload().len()
    )
}

fn bare_v6(view: &ipv6::View<'_>) -> String {
    let fragment = if view.is_fragment() { ", fragment" } else { "" };
    let (protocol, size) = (view.protocol(), view.payload().len());
    format!("next header {protocol}{fragment}, length {size}")
}

fn geneve(view: &geneve::View<'_>) -> String {
    let mut text = format!("Geneve, vni {}", view.vni());
    let ovn = (view.options().iter())
        .find(|option| option.is_ovn())
        .and_then(|option| OvnOption::parse(&option).ok());
    if let Some(OvnOption { ingress, egress }) = ovn {
        let from = ingress.map_or_else(|| "?".to_owned(), |key| key.to_string());
        let to = match egress {
            Egress::Unset => "?".to_owned(),
            Egress::Port(key) => key.to_string(),
            Egress::Group(group) => format!("group {group:#06x}"),
        };
        text.push_str(&format!(", port {from} > {to}"));
    }
    text
}

fn tcp(view: &tcp::View<'_>) -> String {
    let flags: String = [
        (Flags::SYN, 'S'),
        (Flags::FIN, 'F'),
        (Flags::RST, 'R'),
        (Flags::PSH, 'P'),
        (Flags::URG, 'U'),
        (Flags::CWR, 'W'),
        (Flags::ECE, 'E'),
        (Flags::ACK, '.'),
    ]
    .into_iter()
    .filter(|(flag, _)| view.flags().contains(*flag))
    .map(|(_, letter)| letter)
    .collect();
    let acknowledged = if view.flags().contains(Flags::ACK) {
        format!(", ack {}", view.acknowledgment())
    } else {
        String::new()
    };
    format!(
        "Flags [{flags}], seq {}{acknowledged}, win {}, length {}",
        view.sequence(),
        view.window(),
        view.payload().len()
    )
}

fn icmp(view: &icmp::View<'_>) -> String {
    use icmp::Message;
    let name = match view.version() {
        overlane_wire::IpVersion::V4 => "ICMP",
        overlane_wire::IpVersion::V6 => "ICMP6",
    };
    let size = icmp::LEN + view.payload().len();
    let about = match view.message() {
        Message::EchoRequest {
            identifier,
            sequence,
        } => {
            format!("echo request, id {identifier}, seq {sequence}")
        }
        Message::EchoReply {
            identifier,
            sequence,
        } => {
            format!("echo reply, id {identifier}, seq {sequence}")
        }
        Message::FragmentationNeeded { mtu } => format!("fragmentation needed, mtu {mtu}"),
        Message::PacketTooBig { mtu } => format!("packet too big, mtu {mtu}"),
        Message::Unreachable { code } => format!("unreachable, code {code}"),
        Message::TimeExceeded { code } => format!("time exceeded, code {code}"),
        Message::ParameterProblem { code, pointer } => {
            format!("parameter problem, code {code}, byte {pointer}")
        }
        Message::Other { kind, code, .. } => format!("type {kind}, code {code}"),
    };
    format!("{name} {about}, length {size}")
}

fn nd(view: &nd::View<'_>) -> String {
    use nd::Message;
    match view.message() {
        Message::RouterSolicitation => "ICMP6 router solicitation".to_owned(),
        Message::RouterAdvertisement { lifetime_s, .. } => {
            format!("ICMP6 router advertisement, lifetime {lifetime_s} s")
        }
        Message::NeighbourSolicitation { target } => {
            format!("ICMP6 neighbour solicitation, who has {target}")
        }
        Message::NeighbourAdvertisement {
            target,
            solicited,
            replace,
            ..
        } => {
            let flags = match (solicited, replace) {
                (true, true) => " [solicited override]",
                (true, false) => " [solicited]",
                (false, true) => " [override]",
                (false, false) => "",
            };
            format!("ICMP6 neighbour advertisement, tgt is {target}{flags}")
        }
    }
}

fn arp(view: &arp::View<'_>) -> String {
    match view.operation() {
        arp::Operation::Request => {
            format!(
                "ARP, Request who-has {} tell {}",
                view.target(),
                view.sender()
            )
        }
        arp::Operation::Reply => {
            format!("ARP, Reply {} is-at {}", view.sender(), view.sender_mac())
        }
        arp::Operation::Other(number) => format!("ARP, operation {number}"),
    }
}
