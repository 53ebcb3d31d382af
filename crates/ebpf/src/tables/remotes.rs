//! Remotes with the templates of their outer headers, and the settings, as map entries.

use std::net::IpAddr;

use overlane_model::{Dscp, Encapsulation, Tables};

use super::numbering::Numbering;
use super::{Contents, Devices, Table, flags, put, read};
use crate::EbpfError;
use crate::abi;

/// Remotes.
pub(super) fn remotes(
    tables: &Tables,
    current: &Contents,
    contents: &mut Contents,
) -> Result<(), EbpfError> {
    let mut numbering = Numbering::keep(remote_numbers(current));
    for remote in &tables.remotes {
        let (len, limit) = (remote.header.len(), abi::MAX_TEMPLATE);
        if len > limit {
            return Err(EbpfError::Template {
                remote: remote.addr,
                len,
                limit,
            });
        }
        let addr = abi::Addr::from(remote.addr);
        let mut header = [0; abi::MAX_TEMPLATE];
        header[..len].copy_from_slice(&remote.header);
        let value = abi::Remote {
            header_len: len as u16,
            ip_csum: if remote.addr.is_ipv4() {
                ipv4_sum(&header)
            } else {
                0
            },
            counters: numbering.number(addr),
            header,
        };
        put(contents, Table::Remotes, &addr, &value);
    }
    Ok(())
}

/// Which remote may send into which switch.
pub(super) fn origins(tables: &Tables, contents: &mut Contents) {
    for origin in &tables.origins {
        let key = abi::OriginKey {
            switch_id: origin.switch.number(),
            remote: origin.remote.into(),
        };
        let value = flags([(origin.has_ports, abi::ORIGIN_HAS_PORTS)]);
        put(contents, Table::Origins, &key, &value);
    }
}

/// The number of each remote's counters.
pub(crate) fn remote_numbers(contents: &Contents) -> impl Iterator<Item = (abi::Addr, u32)> {
    let remotes = read::<abi::Addr, abi::Remote>(contents, Table::Remotes);
    remotes.map(|(addr, remote)| (addr, remote.counters))
}

/// What holds for the host.
pub(super) fn settings(tables: &Tables, devices: &Devices) -> abi::Settings {
    let tunnel = &tables.tunnel;
    let (vteps, vteps_mask) = vteps(tables);
    abi::Settings {
        vtep: tables.vtep.into(),
        netns_cookie: devices.netns_cookie,
        uplink_ifindex: devices.uplink_ifindex,
        segmenter_ifindex: devices.segmenter_ifindex,
        segmenter_out_ifindex: devices.segmenter_out_ifindex,
        unmarker_ifindex: devices.unmarker_ifindex,
        coalescer_ifindex: devices.coalescer_ifindex,
        underlay_mtu: devices.underlay_mtu,
        hash_seed: tunnel.hash_seed,
        secret: devices.secret,
        cookie_key: devices.cookie_key,
        tunnel_port: tunnel.port,
        source_port_min: *tunnel.source_ports.start(),
        source_port_max: *tunnel.source_ports.end(),
        encapsulation: match tunnel.encapsulation {
            Encapsulation::Vxlan => abi::ENCAPSULATION_VXLAN,
            Encapsulation::Geneve => abi::ENCAPSULATION_GENEVE,
        },
        family: if matches!(tables.vtep, IpAddr::V4(_)) {
            4
        } else {
            6
        },
        strict: tunnel.strict.into(),
        dscp: match tunnel.dscp {
            Dscp::Fixed(dscp) => dscp,
            Dscp::Copy => 0,
        },
        copy_dscp: (tunnel.dscp == Dscp::Copy).into(),
        port_shared: devices.port_shared.into(),
        rules_version: tables.firewall.version,
        connection_places: tables.connections,
        pad: 0,
        vteps,
        vteps_mask,
    }
}

/// The smallest network that has all VTEPs of the fabric, and its mask: most addresses are not in it, and need
/// no look-up.
fn vteps(tables: &Tables) -> (abi::Addr, abi::Addr) {
    let bits = |addr: IpAddr| u128::from_be_bytes(abi::Addr::from(addr).bytes);
    let own = bits(tables.vtep);
    let remotes = tables.remotes.iter().map(|remote| bits(remote.addr) ^ own);
    let differing = remotes.fold(0, |all, one| all | one);
    let mask = u128::MAX
        .checked_shl(128 - differing.leading_zeros())
        .unwrap_or(0);
    let addr = |bits: u128| abi::Addr {
        bytes: bits.to_be_bytes(),
    };
    (addr(own & mask), addr(mask))
}

/// The one's complement sum (RFC 1071) of the template's IPv4 header, over words as they lie in memory:
/// the data path adds the length in network order and inverts.
pub(super) fn ipv4_sum(header: &[u8; abi::MAX_TEMPLATE]) -> u16 {
    let words = header[14..34].as_chunks::<2>().0;
    let mut sum: u32 = words
        .iter()
        .map(|word| u32::from(u16::from_ne_bytes(*word)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
