//! Stage path_mtu: an ICMP error about a tunnel packet of ours that was too large for the underlay (RFC 1191, RFC 8201)
//! becomes the path MTU of its remote. Whoever sends it, it is believed only of what we could have sent. Behind
//! `vtep_check`; the host gets it too.
//!
//! ```text
//! | Ethernet: 14 | IP: 20, 40 | ICMP: 8, MTU | our IP header: 20, 40 | our UDP: 8 | our tunnel header: 8, or less |
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use overlane_model::{Encapsulation, Remote, SwitchId, Tables};
use overlane_wire::checksum::Sum;
use overlane_wire::ip::protocol;
use overlane_wire::{EtherType, Vni, ethernet, ipv4, ipv6, udp};

use crate::lib::bytes::{array, be16, be32};
use crate::lib::context::Context;
use crate::lib::explain::Found;
use crate::lib::ip::is_of_one_host;
use crate::lib::path_mtu::{known, now_s};
use crate::lib::state::PathMtu;

const STAGE: &str = "path_mtu";
/// RFC 1191 section 6.3, RFC 8201 section 4.
const AGE_S: u64 = 600;
const ICMP_LEN: usize = 8;
/// Of an ICMP message: with its IPv6 header 1280 bytes.
const MOST_LEN: usize = 1240;
const TOO_BIG_4: [u8; 2] = [3, 4];
const TOO_BIG_6: u8 = 2;
/// RFC 791.
const LEAST_MTU_4: u32 = 68;
/// RFC 8200 section 5.
const LEAST_MTU_6: u32 = 1280;
const DONT_FRAGMENT: u16 = 0x4000;
const FRAGMENT: u16 = 0x3fff;
/// Of a tunnel header, without options.
const TUNNEL_LEN: usize = 8;
const VXLAN_FLAGS: u8 = 0x08;

/// An ICMP error that says "too big".
struct TooBig<'a> {
    from: IpAddr,
    mtu: u32,
    /// From the IP header on.
    quoted: &'a [u8],
}

/// Who gets too large packets, and how large the quoted one was.
struct Quoted<'a> {
    to: IpAddr,
    len: usize,
    /// From the UDP header on.
    udp: &'a [u8],
    udp_len: usize,
}

/// Of a packet that is the host's.
pub(crate) fn path_mtu(cx: &mut Context<'_>) {
    let bytes = &cx.entered.bytes;
    let found = match cx.host.tables().vtep {
        IpAddr::V4(vtep) => error_4(bytes, vtep)
            .and_then(|error| Some((quoted_4(error.quoted, vtep)?, error.from, error.mtu))),
        IpAddr::V6(vtep) => error_6(bytes, vtep)
            .and_then(|error| Some((quoted_6(error.quoted, vtep)?, error.from, error.mtu))),
    };
    let Some((quoted, hop, mtu)) = found else {
        return;
    };
    let remote = cx.host.remote(quoted.to);
    if let Some(remote) = remote.filter(|_| could_be_ours(cx, &quoted, mtu)) {
        note(cx, remote, mtu, hop);
    }
}

/// A lower one stays while it counts.
fn note(cx: &mut Context<'_>, remote: &Remote, mtu: u32, hop: IpAddr) {
    let (name, addr) = (&remote.name, remote.addr);
    if let Some(lower) = known(cx, addr).filter(|known| known.mtu < mtu) {
        return cx.step(STAGE, || {
            let (lower, from) = (lower.mtu, lower.hop);
            let text = format!(
                "{hop} says that the path to host {name} takes {mtu} bytes: it takes {lower}, {from} said"
            );
            Found::by_host(text, name)
        });
    }
    let until_s = now_s(cx) + AGE_S;
    let known = PathMtu { mtu, until_s, hop };
    cx.state.path_mtus.insert(addr, known);
    cx.step(STAGE, || {
        let text = format!(
            "{hop} says that the path to host {name} takes {mtu} bytes: so it is for {AGE_S} seconds"
        );
        Found::by_host(text, name)
    });
}

fn error_4(bytes: &[u8], vtep: Ipv4Addr) -> Option<TooBig<'_>> {
    let header: [u8; ipv4::LEN] = array(bytes, ethernet::LEN)?;
    let header_len = usize::from(header.first()? & 0xf) * 4;
    let total_len = usize::from(be16(&header, 2)?);
    let is_ours = be16(bytes, 12)? == EtherType::IPV4.get()
        && header.first()? >> 4 == 4
        && header_len >= ipv4::LEN
        && be16(&header, 6)? & FRAGMENT == 0
        && *header.get(9)? == protocol::ICMP
        && address_4(&header, 16)? == vtep
        && is_of_one_host(address_4(&header, 12)?.into());
    let at = ethernet::LEN + header_len;
    let is_header_right = Sum::new().bytes(bytes.get(ethernet::LEN..at)?).verifies();
    let message = message(bytes, at, total_len.checked_sub(header_len)?, ipv4::LEN)?;
    let is_right = Sum::new().bytes(message).verifies();
    let mtu = u32::from(be16(message, 6)?);
    let says_so = array(message, 0)? == TOO_BIG_4 && mtu >= LEAST_MTU_4;
    (is_ours && is_header_right && is_right && says_so).then_some(TooBig {
        from: address_4(&header, 12)?.into(),
        mtu,
        quoted: message.get(ICMP_LEN..)?,
    })
}

fn error_6(bytes: &[u8], vtep: Ipv6Addr) -> Option<TooBig<'_>> {
    let header: [u8; ipv6::LEN] = array(bytes, ethernet::LEN)?;
    let from = address_6(&header, 8)?;
    let is_ours = be16(bytes, 12)? == EtherType::IPV6.get()
        && header.first()? >> 4 == 6
        && *header.get(6)? == protocol::ICMPV6
        && address_6(&header, 24)? == vtep
        && is_of_one_host(from.into());
    let (at, len) = (ethernet::LEN + ipv6::LEN, be16(&header, 4)?.into());
    let message = message(bytes, at, len, ipv6::LEN)?;
    let sum = Sum::new().pseudo_header(from.into(), vtep.into(), protocol::ICMPV6, len);
    let is_right = sum.bytes(message).verifies();
    let mtu = be32(message, 4)?;
    let says_so = *message.first()? == TOO_BIG_6 && mtu >= LEAST_MTU_6;
    (is_ours && is_right && says_so).then_some(TooBig {
        from: from.into(),
        mtu,
        quoted: message.get(ICMP_LEN..)?,
    })
}

/// All of it, if it is long enough for the headers that it quotes.
fn message(bytes: &[u8], at: usize, len: usize, quoted_ip_len: usize) -> Option<&[u8]> {
    let least = ICMP_LEN + quoted_ip_len + udp::LEN;
    let fits = (least..=MOST_LEN).contains(&len);
    bytes.get(at..at + len).filter(|_| fits)
}

fn quoted_4(bytes: &[u8], vtep: Ipv4Addr) -> Option<Quoted<'_>> {
    let header: [u8; ipv4::LEN] = array(bytes, 0)?;
    let len = usize::from(be16(&header, 2)?);
    let is_ours = *header.first()? == 0x45
        && be16(&header, 6)? == DONT_FRAGMENT
        && *header.get(9)? == protocol::UDP
        && address_4(&header, 12)? == vtep;
    is_ours.then_some(Quoted {
        to: address_4(&header, 16)?.into(),
        len,
        udp: bytes.get(ipv4::LEN..)?,
        udp_len: len.checked_sub(ipv4::LEN)?,
    })
}

fn quoted_6(bytes: &[u8], vtep: Ipv6Addr) -> Option<Quoted<'_>> {
    let header: [u8; ipv6::LEN] = array(bytes, 0)?;
    let udp_len = usize::from(be16(&header, 4)?);
    let is_ours = header.first()? >> 4 == 6
        && *header.get(6)? == protocol::UDP
        && address_6(&header, 8)? == vtep;
    is_ours.then_some(Quoted {
        to: address_6(&header, 24)?.into(),
        len: ipv6::LEN + udp_len,
        udp: bytes.get(ipv6::LEN..)?,
        udp_len,
    })
}

/// A tunnel packet that did not fit there; on a virtual wire a super-packet, longer than any MTU.
fn could_be_ours(cx: &Context<'_>, quoted: &Quoted<'_>, mtu: u32) -> bool {
    let tables = cx.host.tables();
    let Some([s0, s1, d0, d1, l0, l1, _, _]) = array::<{ udp::LEN }>(quoted.udp, 0) else {
        return false;
    };
    let source = u16::from_be_bytes([s0, s1]);
    let has_ports = tables.tunnel.source_ports.contains(&source)
        && u16::from_be_bytes([d0, d1]) == tables.tunnel.port;
    let has_len = usize::from(u16::from_be_bytes([l0, l1])) == quoted.udp_len
        && quoted.len > mtu as usize
        && mtu < cx.host.underlay_mtu();
    let tunnel = array(quoted.udp, udp::LEN);
    has_ports && has_len && tunnel.is_none_or(|header| is_our_tunnel(cx, tables, header))
}

/// As we write it, of a switch that is here; VNI 0 is that of greetings.
fn is_our_tunnel(cx: &Context<'_>, tables: &Tables, header: [u8; TUNNEL_LEN]) -> bool {
    let [first, _, p0, p1, v0, v1, v2, _] = header;
    let is_ours = match tables.tunnel.encapsulation {
        Encapsulation::Vxlan => first == VXLAN_FLAGS,
        Encapsulation::Geneve => {
            first >> 6 == 0 && EtherType(u16::from_be_bytes([p0, p1])) == EtherType::TEB
        }
    };
    let vni = Vni::new(u32::from_be_bytes([0, v0, v1, v2]));
    is_ours && vni.map_or(true, |vni| cx.host.switch(SwitchId::Vni(vni)).is_some())
}

fn address_4(header: &[u8], at: usize) -> Option<Ipv4Addr> {
    array::<4>(header, at).map(Ipv4Addr::from)
}

fn address_6(header: &[u8], at: usize) -> Option<Ipv6Addr> {
    array::<16>(header, at).map(Ipv6Addr::from)
}
