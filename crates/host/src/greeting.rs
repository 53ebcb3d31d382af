//! Greetings: `apply` tells each remote what this host can take, and asks the same. The programs take the answers
//! (`bpf/lib/greeting.h` has the format). Nobody waits for them: until one comes, the remote gets what any can take.

use std::net::{SocketAddr, UdpSocket};

use overlane_ebpf::abi;
use overlane_model::{Encapsulation, Tables};

/// What is sent is not acknowledged, and a packet may be lost.
const TIMES: usize = 2;
const VXLAN: [u8; 8] = [0x08, 0, 0, 0, 0, 0, 0, 0];
const GENEVE: [u8; 8] = [0, 0, 0x65, 0x58, 0, 0, 0, 0];
/// No bridge forwards this group address. The source is a local one.
pub(crate) const ETHERNET: [u8; 14] = [
    0x01, 0x80, 0xc2, 0, 0, 0x0f, 0x02, 0, 0, 0, 0, 0x01, 0x88, 0xb5,
];
const ASK: u8 = 1;
/// Of ports, and of routers.
const WHOLE_UDP: u8 = 1 | 2;

/// Greets each remote from the host's VTEP, in the namespace of this thread. One that cannot be reached is left out.
pub(crate) fn ask(tables: &Tables, takes_whole_udp: bool) {
    let Ok(socket) = UdpSocket::bind((tables.vtep, 0)) else {
        return;
    };
    // Packets wait for next hops that nobody has answered for yet; apply does not.
    if socket.set_nonblocking(true).is_err() {
        return;
    }
    let greeting = greeting(tables.tunnel.encapsulation, takes_whole_udp);
    for remote in &tables.remotes {
        let to = SocketAddr::new(remote.addr, tables.tunnel.port);
        for _ in 0..TIMES {
            let _ = socket.send_to(&greeting, to);
        }
    }
}

/// The tunnel header, by the data path's number of the encapsulation.
pub(crate) const fn header(encapsulation: u8) -> [u8; 8] {
    match encapsulation {
        abi::ENCAPSULATION_VXLAN => VXLAN,
        _ => GENEVE,
    }
}

fn greeting(encapsulation: Encapsulation, takes_whole_udp: bool) -> Vec<u8> {
    let header = header(match encapsulation {
        Encapsulation::Vxlan => abi::ENCAPSULATION_VXLAN,
        Encapsulation::Geneve => abi::ENCAPSULATION_GENEVE,
    });
    let abilities = if takes_whole_udp { WHOLE_UDP } else { 0 };
    let says = [b'O', b'V', b'L', 1, ASK, abilities, 0, 0];
    [&header[..], &ETHERNET, &says].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_is_a_tunnel_packet_with_vni_0() {
        let vxlan = greeting(Encapsulation::Vxlan, true);
        assert_eq!(vxlan[4..7], [0; 3]);
        assert_eq!(vxlan[20..], *b"\x88\xb5OVL\x01\x01\x03\0\0");
        let geneve = greeting(Encapsulation::Geneve, false);
        assert_eq!(geneve[2..7], [0x65, 0x58, 0, 0, 0]);
        assert_eq!(geneve[26..], [ASK, 0, 0, 0]);
    }
}
