//! What greetings and probes begin with: a tunnel header with VNI 0, and a frame that no bridge forwards. And what frames to
//! peers begin with: a tunnel header without options.

use overlane_ebpf::abi;
use overlane_model::Encapsulation;
use overlane_wire::Vni;

const VXLAN: [u8; 8] = [0x08, 0, 0, 0, 0, 0, 0, 0];
const GENEVE: [u8; 8] = [0, 0, 0x65, 0x58, 0, 0, 0, 0];
/// No bridge forwards this group address. The source is a local one.
pub(crate) const ETHERNET: [u8; 14] = [
    0x01, 0x80, 0xc2, 0, 0, 0x0f, 0x02, 0, 0, 0, 0, 0x01, 0x88, 0xb5,
];

/// The tunnel header of a frame in a switch.
pub(crate) fn in_switch(encapsulation: Encapsulation, vni: Vni) -> [u8; 8] {
    let mut header = match encapsulation {
        Encapsulation::Vxlan => VXLAN,
        Encapsulation::Geneve => GENEVE,
    };
    let [_, a, b, c] = vni.get().to_be_bytes();
    header[4..7].copy_from_slice(&[a, b, c]);
    header
}

/// The tunnel header, by the data path's number of the encapsulation.
pub(crate) const fn header(encapsulation: u8) -> [u8; 8] {
    match encapsulation {
        abi::ENCAPSULATION_VXLAN => VXLAN,
        _ => GENEVE,
    }
}
