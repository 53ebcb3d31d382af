//! The outer header towards one remote, written once when the tables are compiled. Per packet the
//! data path only adds what changes: DSCP and ECN, lengths, IPv4 checksum, source port, VNI, option data;
//! here all of these are zero.
//!
//! ```text
//! +--------------+-------------------+-----+------------------------------+
//! | Ethernet: 14 | IPv4: 20, IPv6: 40| UDP | VXLAN: 8, or                 |
//! | zero bytes   | DF, TTL 64        |  8  | Geneve: 8, OVN's option: 8   |
//! +--------------+-------------------+-----+------------------------------+
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use overlane_wire::geneve_option::{OVN_CLASS, OVN_KIND};
use overlane_wire::ip::protocol;
use overlane_wire::ipv6_extension::Extensions;
use overlane_wire::{Ecn, Emit, Vni, ethernet, geneve, geneve_option, ipv4, ipv6, udp, vxlan};

use crate::tables::{Encapsulation, GeneveOptions, Tunnel};

const TTL: u8 = 64;
/// Of the IPv4 header.
const CHECKSUM: Range<usize> = 10..12;
/// Of the VXLAN and the Geneve header alike.
const VNI: Range<usize> = 4..7;

/// The header from `source` to `destination`, which are of one family.
pub(crate) fn outer(
    tunnel: &Tunnel,
    options: GeneveOptions,
    source: IpAddr,
    destination: IpAddr,
) -> Vec<u8> {
    let mut out = vec![0; ethernet::LEN];
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => ipv4(source, destination, &mut out),
        (IpAddr::V6(source), IpAddr::V6(destination)) => ipv6(source, destination, &mut out),
        // The fabric refuses mixed families.
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return Vec::new(),
    }
    udp::Header {
        source: 0,
        destination: tunnel.port,
        length: 0,
        checksum: 0,
    }
    .emit_to(&mut out);
    match tunnel.encapsulation {
        Encapsulation::Vxlan => vxlan(&mut out),
        Encapsulation::Geneve => geneve(options, &mut out),
    }
    out
}

/// DF is set: a VTEP never fragments.
fn ipv4(source: Ipv4Addr, destination: Ipv4Addr, out: &mut Vec<u8>) {
    let header = ipv4::Header {
        dscp: 0,
        ecn: Ecn::NotEct,
        total_len: 0,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: TTL,
        protocol: protocol::UDP,
        source,
        destination,
        options: ipv4::Options::EMPTY,
    };
    emit_blank(&header, CHECKSUM, out);
}

fn ipv6(source: Ipv6Addr, destination: Ipv6Addr, out: &mut Vec<u8>) {
    ipv6::Header {
        dscp: 0,
        ecn: Ecn::NotEct,
        flow_label: 0,
        payload_len: 0,
        hop_limit: TTL,
        source,
        destination,
        extensions: Extensions::none(protocol::UDP),
    }
    .emit_to(out);
}

fn vxlan(out: &mut Vec<u8>) {
    if let Ok(vni) = Vni::new(Vni::MAX) {
        emit_blank(&vxlan::Header { vni }, VNI, out);
    }
}

/// The C bit follows from OVN's option, which is critical.
fn geneve(options: GeneveOptions, out: &mut Vec<u8>) {
    let bytes = match options {
        GeneveOptions::None => Vec::new(),
        GeneveOptions::Ovn => geneve_option::GeneveOption::new(OVN_CLASS, OVN_KIND, &[0; 4])
            .map(|option| option.to_bytes())
            .unwrap_or_default(),
    };
    let options = geneve_option::Options::new(&bytes);
    if let (Ok(options), Ok(vni)) = (options, Vni::new(Vni::MAX)) {
        emit_blank(&geneve::Header::ethernet(vni, options), VNI, out);
    }
}

/// Appends the header and blanks the part that is written per packet.
fn emit_blank(header: &impl Emit, blank: Range<usize>, out: &mut Vec<u8>) {
    let start = out.len();
    header.emit_to(out);
    if let Some(bytes) = out.get_mut(start + blank.start..start + blank.end) {
        bytes.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::Dscp;

    fn template(
        encapsulation: Encapsulation,
        options: GeneveOptions,
        source: &str,
        destination: &str,
    ) -> String {
        let tunnel = Tunnel {
            encapsulation,
            port: encapsulation.default_port(),
            source_ports: Tunnel::SOURCE_PORTS,
            strict: false,
            hash_seed: 0,
            // Not in the template: ECN shares its byte.
            dscp: Dscp::Fixed(46),
        };
        let bytes = outer(
            &tunnel,
            options,
            source.parse().unwrap(),
            destination.parse().unwrap(),
        );
        assert_eq!(bytes[..14], [0; 14]);
        // Longest outer header of the maps: MAX_TEMPLATE in bpf/lib/abi.h.
        assert!(include_str!("../../../bpf/lib/abi.h").contains("#define MAX_TEMPLATE 80"));
        assert!(bytes.len() <= 80);
        bytes[14..]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    const V4: &str = "45000000000040004011 0000 c6120001 c6120002";
    const V6: &str =
        "60000000 0000 11 40 20010002000000000000000000000001 20010002000000000000000000000002";
    const VXLAN: &str = "0000 12b5 0000 0000 08000000 000000 00";
    const PLAIN_GENEVE: &str = "0000 17c1 0000 0000 00 00 6558 000000 00";
    const GENEVE: &str = "0000 17c1 0000 0000 02 40 6558 000000 00 0102 80 01 00000000";

    fn golden(ip: &str, tunnel: &str) -> String {
        format!("{ip}{tunnel}").replace(' ', "")
    }

    #[test]
    fn golden_bytes() {
        let (v4, v6) = (("198.18.0.1", "198.18.0.2"), ("2001:2::1", "2001:2::2"));
        let (vxlan, geneve) = (Encapsulation::Vxlan, Encapsulation::Geneve);
        let (ovn, none) = (GeneveOptions::Ovn, GeneveOptions::None);
        assert_eq!(template(vxlan, ovn, v4.0, v4.1), golden(V4, VXLAN));
        assert_eq!(template(vxlan, ovn, v6.0, v6.1), golden(V6, VXLAN));
        assert_eq!(template(geneve, ovn, v4.0, v4.1), golden(V4, GENEVE));
        assert_eq!(template(geneve, ovn, v6.0, v6.1), golden(V6, GENEVE));
        assert_eq!(template(geneve, none, v4.0, v4.1), golden(V4, PLAIN_GENEVE));
        assert_eq!(template(geneve, none, v6.0, v6.1), golden(V6, PLAIN_GENEVE));
    }

    #[test]
    fn a_finished_header_is_a_tunnel_packet() {
        let (source, destination) = ("198.18.0.1".parse().unwrap(), "198.18.0.2".parse().unwrap());
        let mut tunnel = Tunnel {
            encapsulation: Encapsulation::Geneve,
            port: 7000,
            source_ports: Tunnel::SOURCE_PORTS,
            strict: false,
            hash_seed: 0,
            dscp: Dscp::default(),
        };
        let ovn = GeneveOptions::Ovn;
        let header = outer(&tunnel, ovn, source, destination);
        assert_eq!(header.len(), 14 + 20 + 8 + 16);
        assert_eq!(header[36..38], 7000_u16.to_be_bytes());
        tunnel.encapsulation = Encapsulation::Vxlan;
        assert_eq!(
            outer(&tunnel, ovn, source, destination).len(),
            14 + 20 + 8 + 8
        );
        assert!(outer(&tunnel, ovn, source, "::1".parse().unwrap()).is_empty());
    }
}
