//! The questions by which routers find neighbours: ARP (RFC 826) and neighbour solicitations (RFC 4861 section 7.2.2),
//! in the router's name. Like an answer a question is no packet of its own: it counts nowhere, and no firewall is asked.
//!
//! ```text
//! | Ethernet: 14 | ARP request: 28 |
//! | Ethernet: 14 | IPv6: 40 | solicitation: 24 | source link-layer address: 8 |
//! ```

use std::net::{IpAddr, Ipv6Addr};

use overlane_model::{Side, SwitchTable};
use overlane_wire::checksum::Sum;
use overlane_wire::ip::protocol;
use overlane_wire::nd::{NEIGHBOUR_SOLICITATION, solicited_node};
use overlane_wire::{Emit, EtherType, Mac, arp};

use crate::leave::{flood, leave};
use crate::lib::bytes::put16;
use crate::lib::context::Context;
use crate::lib::destination::{Departure, Destination};
use crate::lib::found::own_beside;
use crate::lib::frame::Frame;
use crate::lib::next_hop::interface_key;
use crate::lib::state::{NeighbourId, RouterSide};
use crate::lib::tell::Request;
use crate::lib::{fdb, headers};

const HOP_LIMIT: u8 = 255;
const SOURCE_MAC: u8 = 1;

/// The packet ended, and its router asks everybody on the side.
pub(crate) fn ask<'a>(cx: &mut Context<'a>, question: &Request<'a>) {
    if question.send(cx).is_some() {
        cx.state.note_question(question.id(), cx.now_ns);
    }
}

/// A copy of the packet becomes a question to the neighbour that it goes to.
pub(crate) fn probe<'a>(cx: &mut Context<'a>, probe: &Request<'a>) {
    let (id, now_ns) = (probe.id(), cx.now_ns);
    cx.asked = Some(id);
    cx.state.ask_again(&id, now_ns);
    cx.as_probe(|cx| {
        let _ = probe.send(cx);
    });
}

impl<'a> Request<'a> {
    /// Whom it is about.
    fn id(&self) -> NeighbourId {
        (RouterSide::of(self.router, self.side), self.addr)
    }

    /// `None`: it was not written.
    fn send(&self, cx: &mut Context<'a>) -> Option<()> {
        let bytes = self.bytes(cx)?;
        let mut frame = Frame::new(bytes.into(), None, None)?;
        cx.in_silence(|cx| {
            if headers::read_flow(cx, &mut frame).is_continue() {
                let _ = self.leave(cx, &frame);
            }
        });
        Some(())
    }

    /// Nowhere, where nobody can know the MAC that it is for.
    fn leave(&self, cx: &mut Context<'a>, frame: &Frame<'_>) -> Option<()> {
        let destination = match (self.side, self.to) {
            (Side::Leg, _) => self.by_leg()?,
            (Side::Switch(id), to) => {
                let switch = cx.host.switch(id)?;
                match to {
                    None => return self.flood(cx, frame, switch),
                    Some(mac) => fdb::receiver(cx, switch, mac)?,
                }
            }
        };
        let departure = Departure::new(frame, self.source_key(), destination);
        leave::leave(cx, &departure).continue_value().map(drop)
    }

    fn flood(
        &self,
        cx: &mut Context<'a>,
        frame: &Frame<'_>,
        switch: &'a SwitchTable,
    ) -> Option<()> {
        let flooded = flood::of_router(cx, frame, switch, self.source_key());
        flooded.continue_value()
    }

    fn by_leg(&self) -> Option<Destination<'a>> {
        Some(Destination::Leg {
            router: self.router,
            device: self.router.leg()?,
            next_hop: None,
        })
    }

    fn source_key(&self) -> u16 {
        match self.side {
            Side::Switch(id) => interface_key(self.router, id),
            Side::Leg => 0,
        }
    }

    fn bytes(&self, cx: &Context<'_>) -> Option<Vec<u8>> {
        let mac = match self.side {
            Side::Switch(_) => self.router.mac,
            Side::Leg => cx.host.leg(self.router.leg()?)?.1.mac,
        };
        match (own_beside(self.router, self.side, self.addr)?, self.addr) {
            (IpAddr::V4(sender), IpAddr::V4(target)) => {
                let request = arp::Header {
                    operation: arp::Operation::Request,
                    sender_mac: mac,
                    sender,
                    target_mac: Mac::ZERO,
                    target,
                };
                let to = self.to.unwrap_or(Mac::BROADCAST);
                let mut bytes = ethernet(to, mac, EtherType::ARP);
                request.emit_to(&mut bytes);
                Some(bytes)
            }
            (IpAddr::V6(own), IpAddr::V6(target)) => Some(self.solicitation(mac, own, target)),
            _ => None,
        }
    }

    fn solicitation(&self, mac: Mac, own: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
        let group = solicited_node(target);
        let (to, destination) = match self.to {
            Some(to) => (to, target),
            None => (Mac::of_ipv6_group(group), group),
        };
        let mut message = vec![NEIGHBOUR_SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
        message.extend(target.octets());
        message.extend([SOURCE_MAC, 1]);
        message.extend(mac.bytes());
        let sum = Sum::new().pseudo_header(
            own.into(),
            destination.into(),
            protocol::ICMPV6,
            message.len(),
        );
        let checksum = sum.bytes(&message).finish();
        put16(&mut message, 2, checksum);
        let mut bytes = ethernet(to, mac, EtherType::IPV6);
        bytes.extend([0x60, 0, 0, 0]);
        bytes.extend((message.len() as u16).to_be_bytes());
        bytes.extend([protocol::ICMPV6, HOP_LIMIT]);
        bytes.extend(own.octets());
        bytes.extend(destination.octets());
        bytes.extend(message);
        bytes
    }
}

fn ethernet(to: Mac, from: Mac, kind: EtherType) -> Vec<u8> {
    let mut bytes = to.bytes().to_vec();
    bytes.extend(from.bytes());
    bytes.extend(kind.get().to_be_bytes());
    bytes
}
