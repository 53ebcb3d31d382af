//! What a cell's workload means for the agents: sizes, rates, socket buffers, and which side each agent plays.

use crate::error::LabError;
use crate::topology::Pair;
use overlane_analysis::record::{CellKey, Encapsulation, Family, FarEnd, Test, Workload};
use overlane_analysis::study::limits::{
    ETHERNET_BYTES, FCS_BYTES, UDP_BYTES, ip_bytes, largest_frame_bytes, smallest_frame_bytes,
};
use overlane_traffic::message::{Direction, FRAME_PORT, Lane, Role, Work};
use std::fs;

/// A request of udp_rr without a response is sent again after this: long against any round trip over a virtual cable,
/// short against a sample.
const TIMEOUT_MS: u32 = 200;
/// Socket buffers of numbered packets, as far as the machine allows: a receiver that waits some milliseconds for its
/// CPU is not to lose what the network carried.
const PACKET_BUFFER_BYTES: u32 = 4 << 20;

/// Datagrams of a super-packet, as QUIC and VPN programs send them.
const SUPER_PACKET_DATAGRAMS: u32 = 40;
/// Their bytes together: below the 64 kB of a packet, with room for what an overlay puts in front.
const SUPER_PACKET_BYTES: u32 = 64_000;

/// How many datagrams of so many bytes a super-packet holds.
pub(super) fn super_packet_datagrams(bytes: u32) -> u32 {
    (SUPER_PACKET_BYTES / bytes.max(1)).clamp(1, SUPER_PACKET_DATAGRAMS)
}

/// UDP payload of a frame of `frame_bytes` with its FCS (RFC 2544 §9.1).
fn payload_bytes(frame_bytes: u32, family: Family, mtu: u32) -> Result<u32, LabError> {
    let (least, most) = (smallest_frame_bytes(family), largest_frame_bytes(mtu));
    if !(least..=most).contains(&frame_bytes) {
        return Err(LabError::Unable {
            reason: format!(
                "frames of {frame_bytes} bytes cannot be sent: with these addresses and a guest MTU of {mtu} they \
                 can have {least} to {most}, FCS included"
            ),
        });
    }
    Ok(frame_bytes - ETHERNET_BYTES - ip_bytes(family) - UDP_BYTES - FCS_BYTES)
}

/// What the agents of a cell do; `rate_pps` is for each pair of guests, of packets only.
pub(super) fn work(cell: &CellKey, rate_pps: Option<f64>) -> Result<Work, LabError> {
    let Workload {
        test,
        bytes,
        buffer_bytes,
        rate_mbps,
        ..
    } = cell.group.workload;
    let stream = |direction| Work::TcpStream {
        message_bytes: bytes,
        buffer_bytes: Some(buffer_bytes.unwrap_or_else(stream_buffer_bytes)),
        congestion: congestion(),
        direction,
        rate_mbps: rate_mbps.map(f64::from),
    };
    let setting = cell.group.setting;
    Ok(match test {
        Test::Migration => {
            return Err(LabError::Unable {
                reason: "machines move without the traffic tool".to_owned(),
            });
        }
        Test::TcpStream => stream(Direction::Forward),
        Test::TcpReverse => stream(Direction::Reverse),
        Test::TcpBidirec => stream(Direction::Both),
        Test::TcpRr => Work::TcpRr {
            request_bytes: bytes,
            response_bytes: bytes,
            buffer_bytes,
            congestion: congestion(),
        },
        Test::TcpCrr => Work::TcpCrr {
            request_bytes: bytes,
            response_bytes: bytes,
        },
        Test::UdpRr => Work::UdpRr {
            request_bytes: bytes,
            response_bytes: bytes,
            timeout_ms: TIMEOUT_MS,
        },
        Test::UdpStream => Work::Udp {
            payload_bytes: payload_bytes(bytes, setting.inner, cell.mtu())?,
            rate_pps,
            segments: 1,
            gro: true,
            buffer_bytes: Some(buffer_bytes.unwrap_or(PACKET_BUFFER_BYTES)),
        },
        Test::UdpGsoStream => Work::Udp {
            payload_bytes: bytes,
            rate_pps,
            segments: super_packet_datagrams(bytes),
            gro: true,
            buffer_bytes: Some(buffer_bytes.unwrap_or(PACKET_BUFFER_BYTES)),
        },
        Test::FrameStream => {
            payload_bytes(bytes, setting.inner, cell.mtu())?;
            Work::Frames {
                frame_bytes: bytes,
                rate_pps,
            }
        }
    })
}

/// Datagrams that reach a bare tester with a VLAN tag are taken as frames: no socket behind a tag without a VLAN device.
fn arrives_tagged(cell: &CellKey) -> bool {
    let tagged = cell.backend.encapsulation() == Encapsulation::Vlan;
    tagged && cell.group.setting.far_end == FarEnd::Tester
}

/// What the receiving agent does, where that is not what the sending one does.
pub(super) fn served(cell: &CellKey, work: &Work) -> Work {
    match work {
        Work::Udp { segments: 1, .. } if arrives_tagged(cell) => Work::Frames {
            frame_bytes: cell.group.workload.bytes,
            rate_pps: None,
        },
        work => work.clone(),
    }
}

/// The ports that a sender of datagrams goes to: those that the receiver listens on, or that of frames.
pub(super) fn ports(cell: &CellKey, listening: Vec<u16>) -> Vec<u16> {
    let workload = cell.group.workload;
    if workload.test == Test::UdpStream && arrives_tagged(cell) {
        vec![FRAME_PORT; workload.instances as usize]
    } else {
        listening
    }
}

/// The receiving guest's side. It listens before the other one begins.
pub(super) fn serving(cell: &CellKey, pair: &Pair) -> Role {
    let test = cell.group.workload.test;
    if test == Test::FrameStream || (test == Test::UdpStream && arrives_tagged(cell)) {
        let ports = pair.receiver.ports.iter();
        return Role::ServeFrames {
            devices: ports.map(|port| port.device.clone()).collect(),
        };
    }
    Role::Serve {
        address: pair.receiver.address,
    }
}

/// The sending guest's side; it connects in every test, also where the payload travels the other way.
pub(super) fn driving(test: Test, pair: &Pair, ports: Vec<u16>) -> Role {
    let (sender, receiver) = (&pair.sender, &pair.receiver);
    if test == Test::FrameStream {
        let lanes = sender.ports.iter().map(|port| Lane {
            device: port.device.clone(),
            vlans: port.vlans.clone(),
            source_mac: mac(sender.mac),
            destination_mac: mac(sender.next_mac),
            source: sender.address,
            destination: receiver.address,
        });
        return Role::DriveFrames {
            lanes: lanes.collect(),
        };
    }
    Role::Drive {
        from: sender.address,
        to: receiver.address,
        ports,
    }
}

fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

/// Socket buffers of every stream. Without a limit, streams that lose nothing grow until their data no
/// longer fits the CPU's caches, and a virtual cable falls from 27 to 11 Gbit/s, now and then. A
/// machine with the kernel's own limits (208 kB) allows less.
fn stream_buffer_bytes() -> u32 {
    let allowed = ["rmem_max", "wmem_max"].iter().all(|name| {
        let limit = fs::read_to_string(format!("/proc/sys/net/core/{name}"));
        // The kernel doubles what is asked for, within the limit.
        limit.is_ok_and(|text| {
            text.trim()
                .parse::<u64>()
                .is_ok_and(|limit| limit >= 1 << 19)
        })
    });
    if allowed { 1 << 20 } else { 1 << 18 }
}

/// The kernel's own default, so that a machine's choice does not bound the figures: BBR paces each
/// stream, which halves the rate of a virtual cable.
fn congestion() -> Option<String> {
    const CUBIC: &str = "cubic";
    let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").ok()?;
    let is_there = known.split_whitespace().any(|name| name == CUBIC);
    is_there.then(|| CUBIC.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use overlane_analysis::record::{BackendName, GroupKey, Setting};
    use overlane_analysis::study::limits;
    use overlane_traffic::message;

    fn cell(test: Test, bytes: u32, setting: Setting) -> CellKey {
        let workload = Workload {
            test,
            bytes,
            instances: 1,
            buffer_bytes: None,
            rate_pps: None,
            rate_mbps: None,
            search: None,
            migration: None,
        };
        GroupKey { workload, setting }.cell(BackendName::Bridge)
    }

    #[test]
    fn studies_and_the_traffic_tool_have_the_same_limits() {
        assert_eq!(limits::MAX_INSTANCES, message::MAX_INSTANCES);
        assert_eq!(limits::MAX_MESSAGE_BYTES, message::MAX_MESSAGE_BYTES);
        assert_eq!(limits::SEQUENCE_BYTES, message::SEQUENCE_BYTES);
    }

    #[test]
    fn frames_have_the_sizes_of_rfc_2544() {
        for (frame, family, payload) in [
            (64, Family::Ipv4, 18),
            (1518, Family::Ipv4, 1472),
            (82, Family::Ipv6, 16),
            (1518, Family::Ipv6, 1452),
        ] {
            assert_eq!(payload_bytes(frame, family, 1500).unwrap(), payload);
        }
        assert_eq!(smallest_frame_bytes(Family::Ipv4), 62);
        assert_eq!(largest_frame_bytes(1500), 1518);
    }

    #[test]
    fn frames_that_cannot_be_are_refused_with_the_limits() {
        let small = payload_bytes(64, Family::Ipv6, 1500).unwrap_err();
        assert!(small.to_string().contains("82 to 1518"), "{small}");
        assert!(payload_bytes(1519, Family::Ipv4, 1500).is_err());
        assert!(payload_bytes(8918, Family::Ipv4, 8900).is_ok());
        let ipv6 = Setting {
            inner: Family::Ipv6,
            ..Setting::default()
        };
        for test in [Test::UdpStream, Test::FrameStream] {
            assert!(work(&cell(test, 64, ipv6), None).is_err());
            assert!(work(&cell(test, 64, Setting::default()), None).is_ok());
        }
    }

    #[test]
    fn streams_have_bounded_buffers_and_transactions_the_kernels() {
        let usual = Setting::default();
        let Work::TcpStream {
            buffer_bytes,
            direction,
            ..
        } = work(&cell(Test::TcpReverse, 1024, usual), None).unwrap()
        else {
            panic!("a stream")
        };
        assert!(buffer_bytes.is_some());
        assert_eq!(direction, Direction::Reverse);
        let Work::TcpRr { buffer_bytes, .. } = work(&cell(Test::TcpRr, 64, usual), None).unwrap()
        else {
            panic!("transactions")
        };
        assert_eq!(buffer_bytes, None);
        let mut asked = cell(Test::TcpStream, 1024, usual);
        asked.group.workload.buffer_bytes = Some(4096);
        let Work::TcpStream { buffer_bytes, .. } = work(&asked, None).unwrap() else {
            panic!("a stream")
        };
        assert_eq!(buffer_bytes, Some(4096));
    }

    #[test]
    fn rates_are_for_packets_alone() {
        for (test, bytes, payload, datagrams) in [
            (Test::UdpStream, 64, 18, 1),
            (Test::UdpGsoStream, 1400, 1400, 40),
            (Test::UdpGsoStream, 8872, 8872, 7),
            (Test::UdpGsoStream, 16, 16, 40),
        ] {
            let cell = cell(test, bytes, Setting::default());
            let Work::Udp {
                payload_bytes,
                rate_pps,
                segments,
                ..
            } = work(&cell, Some(5e4)).unwrap()
            else {
                panic!("packets")
            };
            assert_eq!((payload_bytes, rate_pps), (payload, Some(5e4)));
            assert_eq!(segments, datagrams);
        }
    }
}
