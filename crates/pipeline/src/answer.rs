//! Answers to the sender of a packet that goes no further: ICMP errors (RFC 792, RFC 4443), TCP resets
//! (RFC 9293), echo replies, and the replies of `arp_nd`. An answer leaves as an output and is no packet of
//! its own: it counts nowhere. It is about the packet as it was before `route` and `nat` changed it.
//!
//! ```text
//! | Ethernet: the packet's | IP: TTL 64 | ICMP: 8 | the packet from its IP header on: |
//! | addresses, exchanged   |            |         | at most 548, IPv6 1232            |
//! ```

use std::net::IpAddr;

use overlane_model::{SwitchId, SwitchTable};
use overlane_wire::{Mac, ethernet};

use crate::context::Context;
use crate::flow_hash::Flow;
use crate::l2_lookup::{self, Location};
use crate::parse::{Frame, Ip};
use crate::port::Source;
use crate::to_port::tag_of;
use crate::{Output, Packet, encap, vlan};

mod behind_router;
mod message;

/// Most answers in [`WINDOW_NS`].
const MOST: u32 = 100;
const WINDOW_NS: u64 = 100_000_000;

/// What the sender is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// TCP is reset.
    Reset,
    /// An ICMP error.
    Icmp {
        /// Type and code over IPv4.
        v4: (u8, u8),
        /// Type and code over IPv6.
        v6: (u8, u8),
        /// Bytes 4 to 8 of the message.
        rest: u32,
    },
}

impl Answer {
    /// No route to the destination.
    pub(crate) const NO_ROUTE: Self = Self::icmp((3, 0), (1, 0));
    /// The next hop does not answer.
    pub(crate) const NO_NEIGHBOUR: Self = Self::icmp((3, 1), (1, 3));
    /// Nobody listens at the port.
    pub(crate) const PORT_UNREACHABLE: Self = Self::icmp((3, 3), (1, 4));
    /// Administratively prohibited.
    pub(crate) const PROHIBITED: Self = Self::icmp((3, 13), (1, 1));
    /// The last router that the packet may pass.
    pub(crate) const TTL_EXCEEDED: Self = Self::icmp((11, 0), (3, 0));

    /// Larger than `mtu`, the largest IP packet that would pass (RFC 1191, RFC 8201).
    pub(crate) fn too_big(mtu: usize) -> Self {
        let rest = mtu.min(u16::MAX.into()) as u32;
        Self::Icmp {
            v4: (3, 4),
            v6: (2, 0),
            rest,
        }
    }

    const fn icmp(v4: (u8, u8), v6: (u8, u8)) -> Self {
        Self::Icmp { v4, v6, rest: 0 }
    }
}

/// Whom an answer goes to.
#[derive(Clone, Copy)]
pub(crate) struct Back<'a> {
    /// The packet before `route` and `nat` changed it: what an answer quotes and whom it goes to.
    pub(crate) about: &'a Frame<'a>,
    /// Where it came from.
    pub(crate) to: BackTo<'a>,
}

/// Where a packet came from.
#[derive(Clone, Copy)]
pub(crate) enum BackTo<'a> {
    /// This port.
    Port(&'a Source<'a>),
    /// This switch, from the underlay.
    Underlay(&'a SwitchTable),
    /// The physical network behind a gateway's leg.
    Leg(&'a overlane_model::DeviceName),
}

/// An answer that is written.
pub(crate) struct Reply {
    /// From the Ethernet header on.
    pub(crate) bytes: Vec<u8>,
    pub(crate) ip: Option<Ip>,
    pub(crate) flow: Flow,
}

/// Tells the sender, unless about such a packet nobody is told, or too many were. `from` is who says it;
/// `None`: the destination of the packet.
pub(crate) fn send(cx: &mut Context<'_>, back: &Back<'_>, from: Option<IpAddr>, answer: Answer) {
    let Some(ip) = back.about.ip else {
        return;
    };
    if !message::may_be_answered(back.about, &ip) {
        return;
    }
    let from = match answer {
        Answer::Reset => ip.destination,
        Answer::Icmp { .. } => from.unwrap_or(ip.destination),
    };
    if answer == Answer::Reset && message::tcp(back.about, &ip).is_none() {
        return;
    }
    if !cx.state.answers.allow(cx.now_ns, MOST, WINDOW_NS) {
        cx.step("answer", || "no answer: this host has sent enough of them");
        return;
    }
    if let Some(reply) = message::write(back.about, &ip, from, answer) {
        cx.step("answer", || match answer {
            Answer::Reset => format!("{} is told: TCP reset", ip.source),
            Answer::Icmp { v4, v6, .. } => {
                let (name, (kind, code)) = match ip.source {
                    IpAddr::V4(_) => ("ICMP", v4),
                    IpAddr::V6(_) => ("ICMPv6", v6),
                };
                format!("{} is told by {from}: {name} {kind}/{code}", ip.source)
            }
        });
        give(cx, back, reply);
    }
}

/// Answers an echo request in place. `None`: it is none, or from somebody who gets no answer.
pub(crate) fn echo(cx: &mut Context<'_>, back: &Back<'_>) -> Option<()> {
    let reply = message::echo_reply(back.about, back.about.ip.as_ref()?)?;
    give(cx, back, reply);
    Some(())
}

/// A fragment, the first or a later one.
pub(crate) fn is_fragment(frame: &Frame<'_>, ip: &Ip) -> bool {
    !message::is_whole(frame, ip, ip.protocol, 0)
}

/// Hands an answer to where the packet came from.
pub(crate) fn give(cx: &mut Context<'_>, back: &Back<'_>, reply: Reply) {
    let packet = |bytes, tag| Packet {
        bytes,
        tag,
        gso: None,
    };
    match back.to {
        BackTo::Port(source) => cx.send(Output::Port {
            port: source.port.name.clone(),
            packet: packet(reply.bytes, cx.entered.tag),
        }),
        BackTo::Leg(device) => cx.send(Output::Leg {
            device: device.clone(),
            next_hop: None,
            packet: packet(reply.bytes, None),
        }),
        BackTo::Underlay(switch) => {
            let _ = into_switch(cx, switch, back.about, reply);
        }
    }
}

/// As if the packet's destination had sent it: where nobody knows its sender in tunnels, or it would not
/// fit, it is not sent.
fn into_switch(
    cx: &mut Context<'_>,
    switch: &SwitchTable,
    about: &Frame<'_>,
    reply: Reply,
) -> Option<()> {
    let seed = cx.host.tables().tunnel.hash_seed;
    let (destination, source) = ethernet_addresses(&reply.bytes)?;
    let frame = Frame {
        tag: about.tag,
        gso: None,
        destination,
        source,
        ethertype: about.ethertype,
        ip: reply.ip,
        segment_len: reply.bytes.len(),
        flow_hash: reply.flow.hash(seed),
        bytes: reply.bytes.into(),
    };
    match l2_lookup::locate(cx, switch, destination) {
        Some(Location::Router(router)) => {
            let way = behind_router::way(cx, switch, router, frame)?;
            leave(cx, way.switch, way.key, &way.frame, way.at)
        }
        at => {
            let key = l2_lookup::key_of(cx, switch, source);
            leave(cx, switch, key, &frame, at)
        }
    }
}

/// `key_of_source`: of who sends it, for the tunnel.
fn leave(
    cx: &mut Context<'_>,
    switch: &SwitchTable,
    key_of_source: u16,
    frame: &Frame<'_>,
    at: Option<Location<'_>>,
) -> Option<()> {
    match (at, switch.id) {
        (Some(Location::Router(_)), _) | (None, SwitchId::Vni(_)) => None,
        (Some(Location::Here(port)), _) => {
            cx.send(Output::Port {
                port: port.name.clone(),
                packet: Packet {
                    bytes: frame.bytes.to_vec(),
                    tag: port.attachment.vlan.map(tag_of).or(frame.tag),
                    gso: None,
                },
            });
            Some(())
        }
        (_, SwitchId::Vlan(vlan)) => vlan::send_if_it_fits(cx, frame, vlan),
        (Some(Location::Remote { remote, key }), SwitchId::Vni(_)) => {
            let origin = encap::Origin {
                switch: switch.id,
                key: key_of_source,
            };
            encap::send_if_it_fits(cx, origin, frame, remote, key)
        }
        // A place of switches on a VLAN only.
        (Some(Location::Vlan), SwitchId::Vni(_)) => None,
    }
}

fn ethernet_addresses(bytes: &[u8]) -> Option<(Mac, Mac)> {
    let header: [u8; ethernet::LEN] = crate::bytes::array(bytes, 0)?;
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, ..] = header;
    let destination = Mac::new([d0, d1, d2, d3, d4, d5]);
    Some((destination, Mac::new([s0, s1, s2, s3, s4, s5])))
}
