//! MSS clamping: the opening segment of a TCP connection gets a maximum segment size (RFC 9293 section 3.7.1) that fits
//! its way, where a switch or a router on it says so. Right before `leave`; answers and what is flooded stay as they are.

use std::net::IpAddr;

use overlane_model::{Encapsulation, SwitchId};
use overlane_wire::checksum::update;
use overlane_wire::geneve_option::OvnOption;
use overlane_wire::ip::protocol;
use overlane_wire::tcp::Flags;
use overlane_wire::{ethernet, geneve, ipv4, ipv6, tcp, udp, vxlan};

use crate::leave::encap;
use crate::lib::bytes::{array, be16, put16};
use crate::lib::context::{Context, Sender};
use crate::lib::destination::{Departure, Destination};
use crate::lib::frame::Frame;
use crate::lib::path_mtu;

const STAGE: &str = "mss";
const CHECKSUM: usize = 16;

/// Where the option's value stands in a frame, and what it is.
struct Mss {
    tcp_at: usize,
    at: usize,
    value: u16,
}

pub(crate) fn mss(cx: &mut Context<'_>, departure: &mut Departure<'_, '_>) {
    let frame = &departure.frame;
    let clamps = match departure.destination {
        // Several get it, each by a way of its own.
        Destination::Flood(_) | Destination::Hosts(_) => false,
        _ => cx.clamps_mss || clamps_there(cx, &departure.destination),
    };
    let Some(mss) = find(frame).filter(|_| clamps) else {
        return;
    };
    let ways = [way_out(cx, departure), way_back(cx, frame)];
    let Some(mtu) = ways.into_iter().flatten().min() else {
        return;
    };
    let most = mtu.saturating_sub(headers_len(frame));
    let most = u16::try_from(most).unwrap_or(u16::MAX);
    // Nothing fits a link that is shorter than the headers.
    if most == 0 || mss.value <= most {
        return;
    }
    lower(departure.frame.to_mut().bytes.to_mut(), &mss, most);
    cx.step(STAGE, || {
        let old = mss.value;
        format!("the MSS becomes {most} instead of {old}: the way takes IP packets of {mtu} bytes")
    });
}

/// The switch that it leaves in.
fn clamps_there(cx: &Context<'_>, destination: &Destination<'_>) -> bool {
    let id = match *destination {
        Destination::Port(port) => port.switch,
        Destination::Remote { vni, .. } => SwitchId::Vni(vni),
        Destination::Vlan(vlan) => SwitchId::Vlan(vlan),
        _ => return false,
    };
    cx.host.switch(id).is_some_and(|switch| switch.mss_clamp)
}

/// The largest IP packet that the way out takes.
fn way_out(cx: &Context<'_>, departure: &Departure<'_, '_>) -> Option<usize> {
    match departure.destination {
        Destination::Remote { remote, .. } => {
            let headers = encap::headers_len(cx.host.remote(remote)?, &departure.frame);
            let largest = path_mtu::largest(cx, remote, &departure.frame, headers);
            Some(largest.mtu.saturating_sub(headers))
        }
        Destination::Vlan(_) => Some(cx.host.underlay_mtu() as usize),
        Destination::Leg { device, .. } => Some(cx.host.leg(device)?.1.mtu as usize),
        _ => None,
    }
}

/// The same of the way that the answers take.
fn way_back(cx: &Context<'_>, frame: &Frame<'_>) -> Option<usize> {
    match (cx.sender?, cx.remote) {
        (Sender::Port(_), _) => None,
        (Sender::Leg(router), _) => Some(cx.host.leg(router.leg()?)?.1.mtu as usize),
        (Sender::Underlay(_), Some(remote)) => {
            let headers = longest_headers_len(cx);
            let largest = path_mtu::largest(cx, remote, frame, headers);
            Some(largest.mtu.saturating_sub(headers))
        }
        (Sender::Underlay(_), None) => Some(cx.host.underlay_mtu() as usize),
    }
}

/// Of a tunnel packet, before its inner IP header; the remote may send with an option or without.
fn longest_headers_len(cx: &Context<'_>) -> usize {
    let tables = cx.host.tables();
    let ip = match tables.vtep {
        IpAddr::V4(_) => ipv4::LEN,
        IpAddr::V6(_) => ipv6::LEN,
    };
    let tunnel = match tables.tunnel.encapsulation {
        Encapsulation::Vxlan => vxlan::LEN,
        Encapsulation::Geneve => geneve::BASE_LEN + OvnOption::LEN,
    };
    ip + udp::LEN + tunnel + ethernet::LEN
}

/// Of segments without options (RFC 6691).
fn headers_len(frame: &Frame<'_>) -> usize {
    tcp::LEN
        + match frame.ip.map(|ip| ip.source) {
            Some(IpAddr::V4(_)) => ipv4::LEN,
            _ => ipv6::LEN,
        }
}

/// Of a plain packet with SYN, in a whole TCP header.
fn find(frame: &Frame<'_>) -> Option<Mss> {
    let ip = frame.ip.filter(|ip| ip.protocol == protocol::TCP)?;
    if ip.is_fragment() || frame.gso.is_some() {
        return None;
    }
    let packet = frame.bytes.get(..ip.end)?;
    let [offset, flags] = array(packet, ip.l4_at + 12)?;
    let header = packet.get(ip.l4_at..ip.l4_at + usize::from(offset >> 4) * 4)?;
    let (at, value) = option(header)?;
    Flags(flags).contains(Flags::SYN).then_some(Mss {
        tcp_at: ip.l4_at,
        at,
        value,
    })
}

/// The first MSS option of a TCP header, which one of an impossible length ends.
fn option(header: &[u8]) -> Option<(usize, u16)> {
    let mut at = tcp::LEN;
    loop {
        at += match header.get(at..)? {
            [1, ..] => 1,
            [2, 4, _, _, ..] => return Some((at + 2, be16(header, at + 2)?)),
            [0 | 2, ..] => return None,
            [_, len, ..] if *len >= 2 => usize::from(*len),
            _ => return None,
        };
    }
}

/// The checksum counts words of the segment: a value at an odd place stands in two of them (RFC 1624).
fn lower(bytes: &mut [u8], mss: &Mss, most: u16) {
    let at = mss.tcp_at + mss.at;
    let sum_at = mss.tcp_at + CHECKSUM;
    let in_words = |value: u16| match mss.at % 2 {
        0 => value,
        _ => value.swap_bytes(),
    };
    let Some(sum) = be16(bytes, sum_at) else {
        return;
    };
    put16(bytes, at, most);
    put16(
        bytes,
        sum_at,
        update(sum, in_words(mss.value), in_words(most)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(options: &[u8]) -> Vec<u8> {
        [&[0; tcp::LEN], options].concat()
    }

    #[test]
    fn the_option_is_found_behind_others() {
        let find = |options: &[u8]| option(&header(options));
        assert_eq!(find(&[2, 4, 5, 180]), Some((22, 1460)));
        assert_eq!(find(&[1, 2, 4, 5, 180, 1, 1, 1]), Some((23, 1460)));
        assert_eq!(find(&[3, 3, 7, 2, 4, 5, 180, 0]), Some((25, 1460)));
        assert_eq!(find(&[0, 0, 0, 0, 2, 4, 5, 180]), None);
    }

    #[test]
    fn a_broken_option_ends_the_walk() {
        let find = |options: &[u8]| option(&header(options));
        assert_eq!(find(&[]), None);
        assert_eq!(find(&[1, 1, 2, 4]), None);
        assert_eq!(find(&[2, 6, 5, 180, 0, 0, 2, 4]), None);
        assert_eq!(find(&[3, 0, 2, 4, 5, 180, 1, 1]), None);
        assert_eq!(find(&[3, 1, 2, 4, 5, 180, 1, 1]), None);
        assert_eq!(find(&[3, 40, 2, 4, 5, 180, 1, 1]), None);
    }

    #[test]
    fn the_checksum_stays_right_at_odd_places() {
        for options in [
            [2, 4, 5, 180, 1, 1, 1, 1],
            [1, 2, 4, 5, 180, 1, 1, 1],
            [1, 1, 1, 2, 4, 5, 180, 1],
        ] {
            let mut bytes = header(&options);
            let checksum = overlane_wire::checksum::checksum(&bytes);
            put16(&mut bytes, CHECKSUM, checksum);
            let found = option(&bytes).map(|(at, value)| Mss {
                tcp_at: 0,
                at,
                value,
            });
            lower(&mut bytes, &found.unwrap_or_else(|| unreachable!()), 1400);
            assert_eq!(option(&bytes).map(|(_, value)| value), Some(1400));
            assert_eq!(overlane_wire::checksum::checksum(&bytes), 0);
        }
    }
}
