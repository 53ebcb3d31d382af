//! The path proof: before a cell is measured, a capture shows that its packets travel as declared.
//! Numbers of a path that is not the one in the table would be worse than none.

use crate::capture::Capture;
use crate::error::LabError;
use crate::frames::{self, Frame, Tunnel};
use crate::session::Session;
use crate::topology::{GUEST1_ADDRESS, GUEST2_ADDRESS, Topology, UPLINK, VLAN, VNI};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// What the burst of the proof sends.
const BURST: usize = 256 * 1024;
const PORT: u16 = 5202;
/// A userspace switch learns and resolves with the first packets, and loses them.
const CONNECT: Duration = Duration::from_secs(10);
const TRANSFER: Duration = Duration::from_secs(10);

/// How the guests' packets have to look on the underlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// There is no underlay: the guests' own cable.
    NoUnderlay,
    /// As the guests sent them.
    Plain,
    /// With an 802.1Q tag of the laboratory's VLAN, in no tunnel.
    Vlan,
    /// VXLAN with the VNI of the laboratory.
    Vxlan,
    /// Geneve with the VNI of the laboratory; with `ovn` OVN's option too.
    Geneve { ovn: bool },
}

impl Expected {
    /// Is this how a guest's packet has to look?
    fn is_form_of(self, frame: &Frame) -> bool {
        match (self, frame.vlan, frame.tunnel) {
            (Self::Plain, None, None) => true,
            (Self::Vlan, Some(vlan), None) => vlan == VLAN,
            (Self::Vxlan, None, Some(Tunnel::Vxlan { vni })) => vni == VNI,
            (Self::Geneve { ovn }, None, Some(Tunnel::Geneve { vni, ovn: option })) => {
                vni == VNI && option.is_some() == ovn
            }
            _ => false,
        }
    }
}

/// What was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    pub(crate) holds: bool,
    pub(crate) detail: String,
}

/// Sends a burst between the guests and looks at the wire meanwhile.
pub(crate) fn prove(
    session: &Session,
    topology: &Topology,
    expected: Expected,
) -> Result<Proof, LabError> {
    let (node, device) = topology.wire();
    let before = node.netlink.link(device)?.stats;
    let capture = match &topology.hosts {
        Some([host1, _]) => Some(Capture::open(host1, UPLINK)?),
        None => None,
    };
    burst(session, topology)?;
    let Some(capture) = capture else {
        let after = node.netlink.link(device)?.stats;
        let bytes = after.tx_bytes.saturating_sub(before.tx_bytes);
        let detail = format!(
            "one cable, no underlay: {bytes} bytes left guest1 on it for {BURST} bytes of payload"
        );
        return Ok(Proof {
            holds: expected == Expected::NoUnderlay && bytes >= BURST as u64,
            detail,
        });
    };
    let mut counts = Counts::default();
    capture.drain(|bytes| {
        if let Some(frame) = frames::read(bytes) {
            counts.add(expected, &frame);
        }
    })?;
    Ok(counts.judge(expected))
}

/// TCP from guest1 to guest2, payload there and an answer back.
fn burst(session: &Session, topology: &Topology) -> Result<(), LabError> {
    let failed =
        |action: &str| LabError::system(&format!("path proof of {}: {action}", topology.backend));
    let address = (GUEST2_ADDRESS, PORT);
    let listener = topology.guest2.netns.run(|| TcpListener::bind(address))?;
    let listener = listener.map_err(failed("listening in guest2"))?;
    let end = Instant::now() + CONNECT;
    let mut sender = loop {
        let attempt = Duration::from_millis(1500);
        let connected = topology
            .guest1
            .netns
            .run(|| TcpStream::connect_timeout(&address.into(), attempt))?;
        match connected {
            Ok(stream) => break stream,
            Err(error) if Instant::now() >= end => {
                return Err(failed("no connection from guest1 to guest2")(error));
            }
            Err(_) => session.interrupts.wait(Duration::from_millis(50))?,
        }
    };
    let (mut receiver, _) = listener.accept().map_err(failed("accepting"))?;
    for stream in [&sender, &receiver] {
        stream
            .set_read_timeout(Some(TRANSFER))
            .and_then(|()| stream.set_write_timeout(Some(TRANSFER)))
            .map_err(failed("setting time limits"))?;
    }
    let sent = std::thread::spawn(move || -> std::io::Result<()> {
        sender.write_all(&vec![0x5a; BURST])?;
        sender.read_exact(&mut [0; 4])
    });
    let mut payload = vec![0; BURST];
    receiver
        .read_exact(&mut payload)
        .and_then(|()| receiver.write_all(b"done"))
        .map_err(failed("no payload from guest1 to guest2"))?;
    let answered = sent
        .join()
        .unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into()));
    answered.map_err(failed("no answer from guest2 to guest1"))
}

/// What was seen of the guests' packets, by direction.
#[derive(Debug, Default)]
struct Counts {
    there: u64,
    back: u64,
    /// The guests' packets in any other form.
    otherwise: u64,
    example: Option<Frame>,
    ovn: Option<(u16, u16)>,
}

impl Counts {
    fn add(&mut self, expected: Expected, frame: &Frame) {
        if let Some(Tunnel::Geneve { ovn, .. }) = frame.tunnel {
            self.ovn = self.ovn.or(ovn);
        }
        match (
            expected.is_form_of(frame),
            (frame.source, frame.destination),
        ) {
            (true, (GUEST1_ADDRESS, GUEST2_ADDRESS)) => self.there += 1,
            (true, (GUEST2_ADDRESS, GUEST1_ADDRESS)) => self.back += 1,
            (false, (GUEST1_ADDRESS, GUEST2_ADDRESS) | (GUEST2_ADDRESS, GUEST1_ADDRESS)) => {
                self.otherwise += 1;
                self.example.get_or_insert_with(|| frame.clone());
            }
            _ => {}
        }
    }

    fn judge(&self, expected: Expected) -> Proof {
        let Self {
            there,
            back,
            otherwise,
            ..
        } = self;
        let form = match expected {
            Expected::NoUnderlay => "on no underlay".to_owned(),
            Expected::Plain => "plain, in no tunnel".to_owned(),
            Expected::Vlan => format!("with an 802.1Q tag, VLAN {VLAN}, in no tunnel"),
            Expected::Vxlan => format!("in VXLAN (UDP 4789, I flag), VNI {VNI}"),
            Expected::Geneve { ovn: false } => format!("in Geneve (UDP 6081), VNI {VNI}"),
            Expected::Geneve { ovn: true } => {
                let ports = self
                    .ovn
                    .map_or(String::new(), |(from, to)| format!(" {from} to {to}"));
                format!("in Geneve (UDP 6081), VNI {VNI}, with OVN's option (logical ports{ports})")
            }
        };
        let holds = *there > 0 && *back > 0 && *otherwise == 0 && expected != Expected::NoUnderlay;
        let mut detail = format!(
            "captured on host1's uplink: {there} packets from guest1 and {back} from guest2 {form}"
        );
        if *otherwise > 0 {
            let example = self
                .example
                .as_ref()
                .map_or(String::new(), |frame| format!(", the first: {frame:?}"));
            detail += &format!("; {otherwise} in another form{example}");
        } else {
            detail += "; none in another form";
        }
        Proof { holds, detail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::tests::{A, B, GENEVE, VXLAN, ipv4, tagged, tunnelled};

    fn judge(expected: Expected, frames: &[Vec<u8>]) -> Proof {
        let mut counts = Counts::default();
        for frame in frames.iter().filter_map(|bytes| frames::read(bytes)) {
            counts.add(expected, &frame);
        }
        counts.judge(expected)
    }

    #[test]
    fn both_directions_have_to_be_as_declared() {
        let (there, back) = (ipv4(A, B, 6, &[]), ipv4(B, A, 6, &[]));
        let vxlan = [
            tunnelled(4789, &VXLAN, &there),
            tunnelled(4789, &VXLAN, &back),
        ];
        let geneve = [
            tunnelled(6081, &GENEVE, &there),
            tunnelled(6081, &GENEVE, &back),
        ];
        let plain = [there.clone(), back.clone()];
        let vlan = [tagged(VLAN, &there), tagged(VLAN, &back)];
        let ovn = Expected::Geneve { ovn: true };
        for (expected, frames) in [
            (Expected::Vxlan, &vxlan),
            (ovn, &geneve),
            (Expected::Plain, &plain),
            (Expected::Vlan, &vlan),
        ] {
            let proof = judge(expected, frames);
            assert!(proof.holds, "{proof:?}");
            assert!(!judge(expected, &frames[..1]).holds, "one direction only");
        }
        assert!(!judge(Expected::Plain, &vxlan).holds);
        assert!(!judge(Expected::Plain, &vlan).holds && !judge(Expected::Vlan, &plain).holds);
        assert!(!judge(Expected::Vlan, &vxlan).holds && !judge(Expected::Vxlan, &vlan).holds);
        assert!(!judge(Expected::Vxlan, &geneve).holds);
        assert!(!judge(Expected::Geneve { ovn: false }, &geneve).holds);
    }

    #[test]
    fn a_single_leak_or_a_wrong_vni_breaks_the_proof() {
        let (there, back) = (ipv4(A, B, 6, &[]), ipv4(B, A, 6, &[]));
        let good = vec![
            tunnelled(4789, &VXLAN, &there),
            tunnelled(4789, &VXLAN, &back),
        ];
        let mut other_vni = VXLAN;
        other_vni[6] ^= 1;
        for bad in [there.clone(), tunnelled(4789, &other_vni, &there)] {
            let proof = judge(Expected::Vxlan, &[good.clone(), vec![bad]].concat());
            assert!(
                !proof.holds && proof.detail.contains("1 in another form"),
                "{proof:?}"
            );
        }
        // Somebody else's packets prove and disturb nothing.
        let foreign = ipv4([198, 18, 0, 1].into(), [198, 18, 0, 2].into(), 1, &[]);
        assert!(judge(Expected::Vxlan, &[good, vec![foreign]].concat()).holds);
    }

    #[test]
    fn another_vlan_or_a_tag_around_a_tunnel_breaks_the_proof() {
        let (there, back) = (ipv4(A, B, 6, &[]), ipv4(B, A, 6, &[]));
        let good = vec![tagged(VLAN, &there), tagged(VLAN, &back)];
        let tunnel = tunnelled(4789, &VXLAN, &there);
        for bad in [tagged(VLAN + 1, &there), tagged(VLAN, &tunnel), there] {
            let proof = judge(Expected::Vlan, &[good.clone(), vec![bad]].concat());
            assert!(
                !proof.holds && proof.detail.contains("1 in another form"),
                "{proof:?}"
            );
        }
    }
}
