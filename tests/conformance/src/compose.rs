//! Layers → packet. The innermost layer is written first: each header knows what follows it, so
//! lengths, types and checksums can be computed, unless the layer says what stands there instead.

mod icmp;
mod ip;
mod link;
mod transport;
mod tunnel;

pub(crate) use transport::letters;

use std::net::IpAddr;

use overlane_pipeline::{Gso, GsoKind, Packet};
use thiserror::Error;

use crate::layers::{GsoName, GsoSpec, Layer};

/// Why layers are no packet.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("layer {}: {message}", index + 1)]
pub struct ComposeError {
    /// Which layer, from 0.
    pub index: usize,
    /// What is wrong with it.
    pub message: String,
}

/// Experiments: what a payload without a header of its own is called.
pub(crate) const ETHERTYPE_EXPERIMENT: u16 = 0x88b5;
pub(crate) const PROTOCOL_EXPERIMENT: u8 = 253;

/// A layer with those around it.
struct Place<'a> {
    /// The layers before it, outermost first.
    outer: &'a [Layer],
    /// The next layer.
    next: Option<&'a Layer>,
    /// The bytes of all that follows.
    payload: &'a [u8],
}

/// The packet of some layers.
pub fn compose(layers: &[Layer]) -> Result<Packet, ComposeError> {
    let fail = |index, message: &str| ComposeError {
        index,
        message: message.to_owned(),
    };
    let headers = layers.iter().position(is_trailer).unwrap_or(layers.len());
    let mut packet = Packet::new(Vec::new());
    let mut innermost_payload = None;
    for (index, layer) in layers[..headers].iter().enumerate().rev() {
        if let Layer::Tag(tag) = layer {
            if index > 0 {
                return Err(fail(
                    index,
                    "only the first layer can be the tag beside the bytes",
                ));
            }
            packet.tag = Some(link::beside(tag).map_err(|message| fail(index, &message))?);
            continue;
        }
        if matches!(layer, Layer::Tcp(_) | Layer::Udp(_)) {
            innermost_payload.get_or_insert(packet.bytes.len());
        }
        let place = Place {
            outer: &layers[..index],
            next: layers[..headers].get(index + 1),
            payload: &packet.bytes,
        };
        let head = head(layer, &place).map_err(|message| fail(index, &message))?;
        packet.bytes.splice(0..0, head);
    }
    for (index, layer) in layers.iter().enumerate().skip(headers) {
        match layer {
            Layer::Pad(size) if *size >= packet.bytes.len() => packet.bytes.resize(*size, 0),
            Layer::Cut(size) if *size <= packet.bytes.len() => packet.bytes.truncate(*size),
            Layer::Gso(spec) => {
                let gso = gso(spec, innermost_payload.unwrap_or(packet.bytes.len()));
                packet.gso = Some(gso.ok_or_else(|| fail(index, "kind and size must be given"))?);
            }
            Layer::Pad(_) => return Err(fail(index, "the packet is longer than that already")),
            Layer::Cut(_) => return Err(fail(index, "the packet is not that long")),
            _ => return Err(fail(index, "no layer can stand behind pad, cut or gso")),
        }
    }
    Ok(packet)
}

const fn is_trailer(layer: &Layer) -> bool {
    matches!(layer, Layer::Pad(_) | Layer::Cut(_) | Layer::Gso(_))
}

fn gso(spec: &GsoSpec, payload: usize) -> Option<Gso> {
    let size = spec.size.filter(|&size| size > 0)?;
    Some(Gso {
        kind: match spec.kind? {
            GsoName::Tcp => GsoKind::Tcp,
            GsoName::Udp => GsoKind::Udp,
            GsoName::Sctp => GsoKind::Sctp,
        },
        size,
        segments: spec
            .segments
            .unwrap_or_else(|| payload.div_ceil(usize::from(size)) as u32),
    })
}

fn head(layer: &Layer, place: &Place<'_>) -> Result<Vec<u8>, String> {
    match layer {
        Layer::Eth(eth) => Ok(link::ethernet(eth, place)),
        Layer::Vlan(tag) => link::vlan(tag, place),
        Layer::Arp(arp) => Ok(link::arp(arp, place)),
        Layer::Ip4(ip) => ip::v4(ip, place),
        Layer::Ip6(ip) => Ok(ip::v6(ip, place)),
        Layer::Ext6(extension) => ip::extension(extension, place),
        Layer::Udp(udp) => Ok(transport::udp(udp, place)),
        Layer::Tcp(tcp) => transport::tcp(tcp, place),
        Layer::Icmp4(icmp) => Ok(icmp::v4(icmp, place)),
        Layer::Icmp6(icmp) => Ok(icmp::v6(icmp, place)),
        Layer::Ns(ns) => Ok(icmp::solicitation(ns, place)),
        Layer::Na(na) => icmp::advertisement(na, place),
        Layer::Rs(rs) => Ok(icmp::router_solicitation(rs, place)),
        Layer::Ra(ra) => Ok(icmp::router_advertisement(ra, place)),
        Layer::Redirect(redirect) => Ok(icmp::redirect(redirect, place)),
        Layer::Vxlan(vxlan) => Ok(tunnel::vxlan(vxlan)),
        Layer::Geneve(geneve) => Ok(tunnel::geneve(geneve)),
        Layer::Payload(payload) => {
            let size = 0..payload.size.unwrap_or(0);
            let mut bytes: Vec<u8> = size.map(|at| at as u8).collect();
            bytes.extend(payload.text.iter().flat_map(|text| text.bytes()));
            bytes.extend(payload.hex.iter().flat_map(|hex| &hex.0));
            Ok(bytes)
        }
        Layer::Raw(raw) => Ok(raw.hex.clone().unwrap_or_default().0),
        Layer::Tag(_) | Layer::Pad(_) | Layer::Cut(_) | Layer::Gso(_) => Ok(Vec::new()),
    }
}

impl Place<'_> {
    /// The addresses of the IP header around a layer; both families never.
    fn addresses(&self) -> Option<(IpAddr, IpAddr)> {
        self.outer.iter().rev().find_map(|layer| match layer {
            Layer::Ip4(ip) => Some((
                IpAddr::V4(ip.src.unwrap_or([0; 4].into())),
                IpAddr::V4(ip.dst.unwrap_or([0; 4].into())),
            )),
            Layer::Ip6(ip) => Some((
                IpAddr::V6(ip.src.unwrap_or([0; 16].into())),
                IpAddr::V6(ip.dst.unwrap_or([0; 16].into())),
            )),
            _ => None,
        })
    }

    /// Type of what follows an Ethernet header or a tag.
    fn ethertype(&self) -> u16 {
        match self.next {
            Some(Layer::Vlan(tag)) => tag.tpid.unwrap_or(0x8100),
            Some(Layer::Ip4(_)) => 0x0800,
            Some(Layer::Ip6(_)) => 0x86dd,
            Some(Layer::Arp(_)) => 0x0806,
            _ => ETHERTYPE_EXPERIMENT,
        }
    }

    /// Number of what follows an IP header.
    fn protocol(&self) -> u8 {
        match self.next {
            Some(Layer::Ext6(extension)) => extension
                .kind
                .map_or(PROTOCOL_EXPERIMENT, |kind| kind.number()),
            Some(Layer::Icmp4(_)) => 1,
            Some(Layer::Ip4(_)) => 4,
            Some(Layer::Tcp(_)) => 6,
            Some(Layer::Udp(_)) => 17,
            Some(Layer::Ip6(_)) => 41,
            Some(Layer::Icmp6(_)) => 58,
            Some(layer) if is_nd(layer) => 58,
            _ => PROTOCOL_EXPERIMENT,
        }
    }
}

const fn is_nd(layer: &Layer) -> bool {
    matches!(
        layer,
        Layer::Ns(_) | Layer::Na(_) | Layer::Rs(_) | Layer::Ra(_) | Layer::Redirect(_)
    )
}
