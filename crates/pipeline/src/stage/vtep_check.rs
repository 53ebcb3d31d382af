//! Stage vtep_check: is this a tunnel packet for us, whole, from a VTEP of the fabric? What is not stays with
//! the host (`to_host`). The first stage of a frame without a tag on the uplink; then `tunnel`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use overlane_model::Verdict;
use overlane_wire::checksum::Sum;
use overlane_wire::ip::protocol;
use overlane_wire::{Ecn, EtherType, ethernet, ipv4, ipv6, udp};

use crate::lib::bytes::{array, be16};
use crate::lib::context::{Context, Stage};
use crate::lib::explain::Found;
use crate::lib::outer::Outer;

const STAGE: &str = "vtep_check";
const FRAGMENT_LEN: usize = 8;

/// What both families say about a packet to our tunnel port.
struct Header {
    source: IpAddr,
    ecn: Ecn,
    is_fragment: bool,
    /// IPv4 only, and only headers without options are looked at.
    bad_checksum: bool,
    udp_at: usize,
    udp_len: usize,
    /// From the UDP header on, as the IP header says; `None`: shorter than itself.
    payload_len: Option<usize>,
}

pub(crate) fn vtep_check<'a>(cx: &mut Context<'a>) -> Stage<Outer<'a>> {
    let bytes = &cx.entered.bytes;
    let found = match cx.host.tables().vtep {
        IpAddr::V4(vtep) => read_ipv4(cx, bytes, vtep),
        IpAddr::V6(vtep) => read_ipv6(cx, bytes, vtep),
    };
    let Some(header) = found else {
        return cx.end(STAGE, Verdict::ToHost, || {
            let (vtep, port) = (cx.host.tables().vtep, cx.host.tables().tunnel.port);
            format!("not a packet to UDP port {port} of {vtep}")
        });
    };
    let source = header.source;
    let remote = cx.host.remote(source);
    if remote.is_none() && cx.host.shares_port() {
        return cx.end(STAGE, Verdict::ToHost, || {
            let port = cx.host.tables().tunnel.port;
            format!("{source} is not of the fabric, and another device has UDP port {port} too")
        });
    }
    check(cx, &header)?;
    let Some(remote) = remote else {
        return cx.end(STAGE, Verdict::UnknownVtep, || {
            format!("{source} is no tunnel end point of the fabric")
        });
    };
    cx.step(STAGE, || {
        Found::by_host(
            format!("from host {} ({source})", remote.name),
            &remote.name,
        )
    });
    Stage::Continue(Outer {
        remote,
        ecn: header.ecn,
        tunnel_at: header.udp_at + udp::LEN,
        end: header.udp_at + header.udp_len,
    })
}

/// What a packet for us must not have wrong.
fn check(cx: &mut Context<'_>, header: &Header) -> Stage {
    let source = header.source;
    if header.is_fragment {
        return cx.end(STAGE, Verdict::OuterFragment, || {
            format!("a fragment of a tunnel packet from {source}: an MTU on the way is too small")
        });
    }
    if header.bad_checksum {
        return cx.end(STAGE, Verdict::OuterIpCsum, || {
            format!("the header checksum of a tunnel packet from {source} is wrong")
        });
    }
    let (udp_len, len) = (header.udp_len, cx.entered.bytes.len());
    let is_whole = (udp::LEN..=len.saturating_sub(header.udp_at)).contains(&udp_len);
    if header.payload_len != Some(udp_len) || !is_whole {
        return cx.end(STAGE, Verdict::OuterLength, || {
            let room = len - header.udp_at;
            match header.payload_len {
                Some(ip) => format!("UDP says {udp_len} bytes, IP {ip}, and {room} are there"),
                None => "the outer IP packet ends in its header".to_owned(),
            }
        });
    }
    Stage::Continue(())
}

fn read_ipv4(cx: &Context<'_>, bytes: &[u8], vtep: Ipv4Addr) -> Option<Header> {
    if be16(bytes, 12)? != EtherType::IPV4.get() {
        return None;
    }
    let header: [u8; ipv4::LEN] = array(bytes, ethernet::LEN)?;
    let [
        version_ihl,
        traffic_class,
        l0,
        l1,
        _,
        _,
        f0,
        f1,
        _,
        protocol,
        _,
        _,
        addresses @ ..,
    ] = header;
    let [s0, s1, s2, s3, destination @ ..] = addresses;
    let header_len = usize::from(version_ihl & 0xf) * 4;
    let fragment = u16::from_be_bytes([f0, f1]);
    if version_ihl >> 4 != 4
        || header_len < ipv4::LEN
        || protocol != protocol::UDP
        || fragment & 0x1fff != 0
        || Ipv4Addr::from(destination) != vtep
    {
        return None;
    }
    let total_len = usize::from(u16::from_be_bytes([l0, l1]));
    let udp_at = ethernet::LEN + header_len;
    Some(Header {
        source: [s0, s1, s2, s3].into(),
        ecn: Ecn::from_bits(traffic_class),
        is_fragment: fragment & 0x2000 != 0,
        bad_checksum: header_len == ipv4::LEN && !Sum::new().bytes(&header).verifies(),
        udp_at,
        udp_len: udp_len(cx, bytes, udp_at)?,
        payload_len: total_len.checked_sub(header_len),
    })
}

/// UDP right behind the header, or in a first fragment of it.
fn read_ipv6(cx: &Context<'_>, bytes: &[u8], vtep: Ipv6Addr) -> Option<Header> {
    if be16(bytes, 12)? != EtherType::IPV6.get() {
        return None;
    }
    let header: [u8; ipv6::LEN] = array(bytes, ethernet::LEN)?;
    let [v0, v1, _, _, l0, l1, next, ..] = header;
    let destination = array::<16>(&header, 24).map(Ipv6Addr::from);
    if v0 >> 4 != 6 || destination != Some(vtep) {
        return None;
    }
    let mut udp_at = ethernet::LEN + ipv6::LEN;
    if next == protocol::FRAGMENT {
        let [next, _, o0, o1, ..] = array::<FRAGMENT_LEN>(bytes, udp_at)?;
        if next != protocol::UDP || u16::from_be_bytes([o0, o1]) & 0xfff8 != 0 {
            return None;
        }
        udp_at += FRAGMENT_LEN;
    } else if next != protocol::UDP {
        return None;
    }
    Some(Header {
        source: array::<16>(&header, 8).map(Ipv6Addr::from)?.into(),
        ecn: Ecn::from_bits(v1 >> 4),
        is_fragment: next == protocol::FRAGMENT,
        bad_checksum: false,
        udp_at,
        udp_len: udp_len(cx, bytes, udp_at)?,
        payload_len: Some(usize::from(u16::from_be_bytes([l0, l1]))),
    })
}

/// The length field of a UDP header that is there, and for our tunnel port.
fn udp_len(cx: &Context<'_>, bytes: &[u8], at: usize) -> Option<usize> {
    let [_, _, p0, p1, l0, l1, ..] = array::<{ udp::LEN }>(bytes, at)?;
    let is_ours = u16::from_be_bytes([p0, p1]) == cx.host.tables().tunnel.port;
    is_ours.then(|| u16::from_be_bytes([l0, l1]).into())
}
