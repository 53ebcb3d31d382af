//! Ethernet, VLAN tags and ARP.

use overlane_wire::{Emit, EtherType, Mac, VlanTag, arp, ethernet};

use super::Place;
use crate::layers::{Arp, ArpOp, Eth, Layer, Tag};
use crate::values::MacText;

fn mac(given: Option<MacText>) -> Mac {
    given.unwrap_or_default().0
}

fn control(tag: &Tag) -> Result<VlanTag, String> {
    let (id, pcp) = (tag.id.unwrap_or(0), tag.pcp.unwrap_or(0));
    VlanTag::new(id, pcp, tag.dei.unwrap_or(false)).map_err(|error| error.to_string())
}

/// The tag beside the bytes.
pub(super) fn beside(tag: &Tag) -> Result<ethernet::Tag, String> {
    let service = match tag.tpid {
        None | Some(0x8100) => false,
        Some(0x88a8) => true,
        Some(other) => {
            return Err(format!(
                "the kernel keeps no tag 0x{other:04x} beside the bytes"
            ));
        }
    };
    if tag.kind.is_some() {
        return Err("the type behind a tag beside the bytes is the Ethernet header's".into());
    }
    Ok(ethernet::Tag {
        service,
        tag: control(tag)?,
    })
}

pub(super) fn ethernet(eth: &Eth, place: &Place<'_>) -> Vec<u8> {
    ethernet::Header {
        destination: mac(eth.dst),
        source: mac(eth.src),
        tags: ethernet::Tags::NONE,
        ethertype: EtherType(eth.kind.unwrap_or_else(|| place.ethertype())),
    }
    .to_bytes()
}

/// What announces the tag stands in the header before it.
pub(super) fn vlan(tag: &Tag, place: &Place<'_>) -> Result<Vec<u8>, String> {
    let mut bytes = control(tag)?.tci().to_be_bytes().to_vec();
    bytes.extend(tag.kind.unwrap_or_else(|| place.ethertype()).to_be_bytes());
    Ok(bytes)
}

pub(super) fn arp(arp: &Arp, place: &Place<'_>) -> Vec<u8> {
    let source = place.outer.iter().rev().find_map(|layer| match layer {
        Layer::Eth(eth) => Some(mac(eth.src)),
        _ => None,
    });
    let mut bytes = arp::Header {
        operation: match arp.op {
            None | Some(ArpOp::Request) => arp::Operation::Request,
            Some(ArpOp::Reply) => arp::Operation::Reply,
            Some(ArpOp::Number(number)) => number.into(),
        },
        sender_mac: arp.sha.map_or(source.unwrap_or_default(), |sha| sha.0),
        sender: arp.spa.unwrap_or([0; 4].into()),
        target_mac: mac(arp.tha),
        target: arp.tpa.unwrap_or([0; 4].into()),
    }
    .to_bytes();
    if let Some(kind) = arp.htype {
        bytes[0..2].copy_from_slice(&kind.to_be_bytes());
    }
    if let Some(kind) = arp.ptype {
        bytes[2..4].copy_from_slice(&kind.to_be_bytes());
    }
    bytes[4] = arp.hlen.unwrap_or(bytes[4]);
    bytes[5] = arp.plen.unwrap_or(bytes[5]);
    bytes
}
