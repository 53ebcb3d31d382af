//! Size probes and their answers as bytes (`struct size_probe` in `bpf/lib/outer.h`), and the ICMP errors about them.
//!
//! ```text
//!   outer IP | UDP | VXLAN or Geneve, VNI 0 | Ethernet | "OVL" 1, kind, answer_len, id, … | cookie | zeros
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use overlane_ebpf::abi;
use overlane_model::cookie;
use overlane_net::Instruction;
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::round::Answer;
use crate::lib::greeting::{ETHERNET, header};

const PROBE: u8 = 3;
const ANSWER: u8 = 4;
const ETH_LEN: usize = 14;
const UDP_LEN: usize = 8;
const TUNNEL_LEN: usize = 8;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMP6: u8 = 58;
/// Of a frame: an answer, or an error with all that it must quote of a probe.
const SNAP: u32 = 256;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct SizeProbe {
    eth: [u8; ETH_LEN],
    magic: [u8; 4],
    kind: u8,
    pad: u8,
    answer_len: U16,
    id: U32,
    came_len: U16,
    uplink_mtu: U16,
    path_mtu: U16,
    pad2: U16,
    hop: [u8; 16],
}

/// The tunnels of one host, as the data path has them.
#[derive(Debug, Clone)]
pub(super) struct Tunnels {
    pub(super) vtep: IpAddr,
    pub(super) port: u16,
    pub(super) encapsulation: u8,
}

/// Something that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    Answer {
        from: IpAddr,
        id: u32,
        answer: Answer,
        /// Of who answers; `None`: there was no room for it.
        cookie: Option<[u8; cookie::LEN]>,
    },
    /// A packet to a remote was too long for somebody.
    TooBig {
        to: IpAddr,
        source_port: u16,
        size: u16,
        mtu: u16,
        hop: IpAddr,
    },
}

/// An IP packet, of which a part may be cut off.
struct Ip<'b> {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    len: u16,
    payload: &'b [u8],
}

impl Tunnels {
    /// The shortest probe that has room for a cookie, and the shortest answer, as outer IP packets.
    pub(super) const fn least(&self) -> u16 {
        (self.ip_len() + UDP_LEN + TUNNEL_LEN + size_of::<SizeProbe>() + cookie::LEN) as u16
    }

    const fn ip_len(&self) -> usize {
        if self.vtep.is_ipv4() { 20 } else { 40 }
    }

    /// The UDP payload of a probe that is an outer IP packet of `size` bytes, and wants an answer of `answer_len`. It is
    /// longer than the probe only if the other knows the cookie, which it gave.
    pub(super) fn probe(
        &self,
        size: u16,
        answer_len: u16,
        id: u32,
        cookie: [u8; cookie::LEN],
    ) -> Vec<u8> {
        let probe = SizeProbe {
            eth: ETHERNET,
            magic: *b"OVL\x01",
            kind: PROBE,
            pad: 0,
            answer_len: answer_len.into(),
            id: id.into(),
            came_len: 0.into(),
            uplink_mtu: 0.into(),
            path_mtu: 0.into(),
            pad2: 0.into(),
            hop: [0; 16],
        };
        let mut payload = header(self.encapsulation).to_vec();
        payload.extend(probe.as_bytes());
        payload.extend(cookie);
        payload.resize(usize::from(size) - self.ip_len() - UDP_LEN, 0);
        payload
    }

    /// Of what comes, the kernel hands over answers, greetings and ICMP errors about the size of packets.
    pub(super) fn filter(&self) -> Vec<Instruction> {
        let (ethertype, protocol_at, icmp, icmp_type) = if self.vtep.is_ipv4() {
            (IPV4, ETH_LEN + 9, ICMP, 3)
        } else {
            (IPV6, ETH_LEN + 6, ICMP6, 2)
        };
        // X becomes the length of the IP header.
        let ip_len = if self.vtep.is_ipv4() {
            step(LDX_MSH, 0, 0, ETH_LEN as u32)
        } else {
            step(LDX_IMM, 0, 0, 40)
        };
        let at = |offset: usize| (ETH_LEN + offset) as u32;
        vec![
            step(LD_HALF, 0, 0, 12),
            step(JEQ, 0, 12, ethertype.into()),
            ip_len,
            step(LD_BYTE, 0, 0, protocol_at as u32),
            step(JEQ, 2, 0, UDP.into()),
            step(JEQ, 6, 0, icmp.into()),
            step(RET, 0, 0, 0),
            // To the tunnel's port, VNI 0.
            step(LD_HALF_X, 0, 0, at(2)),
            step(JEQ, 0, 5, self.port.into()),
            step(LD_WORD_X, 0, 0, at(UDP_LEN + 4)),
            step(AND, 0, 0, 0xffff_ff00),
            step(JEQ, 3, 2, 0),
            step(LD_BYTE_X, 0, 0, at(0)),
            step(JEQ, 1, 0, icmp_type),
            step(RET, 0, 0, 0),
            step(RET, 0, 0, SNAP),
        ]
    }

    /// What a frame says; none: it is something else, or not for this host.
    pub(super) fn read(&self, frame: &[u8]) -> Option<Heard> {
        let ip = self.ip(frame.get(ETH_LEN..)?)?;
        if ip.destination != self.vtep {
            return None;
        }
        match ip.protocol {
            UDP => self.answer(&ip),
            ICMP if self.vtep.is_ipv4() => self.too_big(&ip),
            ICMP6 if self.vtep.is_ipv6() => self.too_big(&ip),
            _ => None,
        }
    }

    fn answer(&self, ip: &Ip<'_>) -> Option<Heard> {
        if half(ip.payload, 2)? != self.port {
            return None;
        }
        let probe = ip.payload.get(UDP_LEN + TUNNEL_LEN..)?;
        let (probe, rest) = SizeProbe::read_from_prefix(probe).ok()?;
        if (probe.magic, probe.kind) != (*b"OVL\x01", ANSWER) {
            return None;
        }
        let hop = abi::Addr { bytes: probe.hop };
        let path_mtu = probe.path_mtu.get();
        Some(Heard::Answer {
            from: ip.source,
            id: probe.id.get(),
            answer: Answer {
                len: ip.len,
                uplink_mtu: probe.uplink_mtu.get(),
                path_mtu: (path_mtu != 0).then_some(path_mtu),
                hop: (hop != abi::Addr::default()).then(|| hop.into()),
            },
            cookie: rest.first_chunk().copied(),
        })
    }

    /// An error quotes the packet that it is about.
    fn too_big(&self, error: &Ip<'_>) -> Option<Heard> {
        let message = error.payload;
        let mtu = match (self.vtep, message.get(..2)?) {
            (IpAddr::V4(_), [3, 4]) => half(message, 6)?,
            (IpAddr::V6(_), [2, _]) => {
                u16::try_from(u32::from(half(message, 4)?) << 16 | u32::from(half(message, 6)?))
                    .ok()?
            }
            _ => return None,
        };
        let quoted = self.ip(message.get(8..)?)?;
        let is_ours = quoted.source == self.vtep
            && quoted.protocol == UDP
            && half(quoted.payload, 2)? == self.port;
        is_ours.then_some(Heard::TooBig {
            to: quoted.destination,
            source_port: half(quoted.payload, 0)?,
            size: quoted.len,
            mtu,
            hop: error.source,
        })
    }

    fn ip<'b>(&self, bytes: &'b [u8]) -> Option<Ip<'b>> {
        let version = bytes.first()? >> 4;
        match (self.vtep, version) {
            (IpAddr::V4(_), 4) => Some(Ip {
                source: Ipv4Addr::from(bytes.get(12..16)?.as_array::<4>().copied()?).into(),
                destination: Ipv4Addr::from(bytes.get(16..20)?.as_array::<4>().copied()?).into(),
                protocol: *bytes.get(9)?,
                len: half(bytes, 2)?,
                payload: bytes.get(usize::from(bytes.first()? & 15) * 4..)?,
            }),
            (IpAddr::V6(_), 6) => Some(Ip {
                source: Ipv6Addr::from(bytes.get(8..24)?.as_array::<16>().copied()?).into(),
                destination: Ipv6Addr::from(bytes.get(24..40)?.as_array::<16>().copied()?).into(),
                protocol: *bytes.get(6)?,
                len: half(bytes, 4)?.saturating_add(40),
                payload: bytes.get(40..)?,
            }),
            _ => None,
        }
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from(bytes[0]) << 8 | u16::from(bytes[1]))
}

// Classic BPF (linux/bpf_common.h). `_X` is relative to X.
const LD_HALF: u16 = 0x28;
const LD_BYTE: u16 = 0x30;
const LD_WORD_X: u16 = 0x40;
const LD_HALF_X: u16 = 0x48;
const LD_BYTE_X: u16 = 0x50;
const LDX_MSH: u16 = 0xb1;
const LDX_IMM: u16 = 0x01;
const AND: u16 = 0x54;
const JEQ: u16 = 0x15;
const RET: u16 = 0x06;

const fn step(code: u16, when_true: u8, when_false: u8, k: u32) -> Instruction {
    Instruction {
        code,
        when_true,
        when_false,
        k,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REMOTE: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 2));

    fn tunnels(vtep: &str) -> Tunnels {
        Tunnels {
            vtep: vtep.parse().unwrap(),
            port: 4789,
            encapsulation: abi::ENCAPSULATION_VXLAN,
        }
    }

    /// An IPv4 packet in a frame.
    fn frame(source: [u8; 4], destination: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
        let len = (20 + payload.len()) as u16;
        let mut frame = vec![0; ETH_LEN];
        frame[12] = 8;
        frame.extend([
            0x45,
            0,
            (len >> 8) as u8,
            len as u8,
            0,
            0,
            0x40,
            0,
            64,
            protocol,
            0,
            0,
        ]);
        frame.extend(source);
        frame.extend(destination);
        frame.extend(payload);
        frame
    }

    fn udp(source_port: u16, payload: &[u8]) -> Vec<u8> {
        let ports = [source_port, 4789, (8 + payload.len()) as u16, 0];
        let mut udp: Vec<u8> = ports.iter().flat_map(|word| word.to_be_bytes()).collect();
        udp.extend(payload);
        udp
    }

    #[test]
    fn a_probe_has_the_length_that_it_tries() {
        for (vtep, least, ip) in [("198.18.0.1", 94, 20), ("2001:2::1", 114, 40)] {
            let tunnels = tunnels(vtep);
            assert_eq!(tunnels.least(), least);
            for size in [least, 1500, 9000] {
                let probe = tunnels.probe(size, 1400, 7, *b"mycookie");
                assert_eq!(probe.len() + 8 + ip, usize::from(size));
                assert_eq!(probe[..8], [8, 0, 0, 0, 0, 0, 0, 0]);
                assert_eq!(probe[20..34], *b"\x88\xb5OVL\x01\x03\0\x05\x78\0\0\0\x07");
                assert_eq!(probe[58..66], *b"mycookie");
            }
        }
        let geneve = Tunnels {
            encapsulation: abi::ENCAPSULATION_GENEVE,
            ..tunnels("198.18.0.1")
        };
        let probe = geneve.probe(94, 0, 0, [0; 8]);
        assert_eq!(probe[..8], [0, 0, 0x65, 0x58, 0, 0, 0, 0]);
    }

    #[test]
    fn an_answer_says_what_the_other_knows() {
        let tunnels = tunnels("198.18.0.1");
        let mut payload = tunnels.probe(200, 200, 0x0102_0304, *b"itcookie");
        payload[8 + 18] = ANSWER;
        payload[8 + 26..8 + 32].copy_from_slice(&[0, 86, 5, 220, 5, 120]);
        payload[8 + 34..8 + 50].copy_from_slice(b"\0\0\0\0\0\0\0\0\0\0\xff\xff\xc6\x12\0\xfe");
        let heard = tunnels.read(&frame(
            [198, 18, 0, 2],
            [198, 18, 0, 1],
            UDP,
            &udp(50000, &payload),
        ));
        let answer = Answer {
            len: 200,
            uplink_mtu: 1500,
            path_mtu: Some(1400),
            hop: Some([198, 18, 0, 254].into()),
        };
        let (from, id) = (REMOTE, 0x0102_0304);
        let said = |answer, cookie| {
            Some(Heard::Answer {
                from,
                id,
                answer,
                cookie,
            })
        };
        assert_eq!(heard, said(answer, Some(*b"itcookie")));
        // The shortest answer has no room for a cookie.
        let short = udp(50000, &payload[..58]);
        let heard = tunnels.read(&frame([198, 18, 0, 2], [198, 18, 0, 1], UDP, &short));
        assert_eq!(heard, said(Answer { len: 86, ..answer }, None));
        // A probe is no answer, and one for somebody else is none for us.
        payload[8 + 18] = PROBE;
        let to = |last| {
            frame(
                [198, 18, 0, 2],
                [198, 18, 0, last],
                UDP,
                &udp(50000, &payload),
            )
        };
        assert_eq!(tunnels.read(&to(1)), None);
        payload[8 + 18] = ANSWER;
        let to = |last| {
            frame(
                [198, 18, 0, 2],
                [198, 18, 0, last],
                UDP,
                &udp(50000, &payload),
            )
        };
        assert_eq!(tunnels.read(&to(9)), None);
    }

    #[test]
    fn an_error_names_the_probe_that_it_quotes() {
        let tunnels = tunnels("198.18.0.1");
        let payload = tunnels.probe(1500, 0, 9, [0; 8]);
        let quoted = frame([198, 18, 0, 1], [198, 18, 0, 2], UDP, &udp(50001, &payload));
        let mut message = vec![3, 4, 0, 0, 0, 0, 5, 120];
        message.extend(&quoted[ETH_LEN..ETH_LEN + 28]);
        let error = |message: &[u8]| frame([198, 18, 0, 254], [198, 18, 0, 1], ICMP, message);
        let too_big = Heard::TooBig {
            to: REMOTE,
            source_port: 50001,
            size: 1500,
            mtu: 1400,
            hop: [198, 18, 0, 254].into(),
        };
        assert_eq!(tunnels.read(&error(&message)), Some(too_big));
        message[1] = 1;
        assert_eq!(tunnels.read(&error(&message)), None);
        message[1] = 4;
        assert_eq!(tunnels.read(&error(&message[..30])), None);
    }

    #[test]
    fn any_bytes_are_read() {
        for vtep in ["198.18.0.1", "2001:2::1"] {
            let tunnels = tunnels(vtep);
            let probe = frame(
                [198, 18, 0, 2],
                [198, 18, 0, 1],
                UDP,
                &udp(1, &tunnels.probe(200, 0, 1, [0; 8])),
            );
            for len in 0..probe.len() {
                assert_eq!(tunnels.read(&probe[..len]), None);
            }
        }
    }
}
