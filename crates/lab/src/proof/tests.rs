//! Tests of the path proof on frames as captures have them.

use super::flow::Counts;
use super::*;
use crate::proof::frames::tests::{A, B, GENEVE, VXLAN, ip, tagged, tunnelled};
use overlane_analysis::record::Setting;
use std::net::IpAddr;

const VLAN: u16 = 100;

fn flow(network: u32, mark: Option<u16>) -> Flow {
    Flow {
        names: ["guest1", "guest2"].map(str::to_owned),
        networks: [Network::of(&Setting::default(), network); 2],
        tag: None,
        mark,
        sender: A,
        receiver: B,
        hidden: None,
        counts: Counts::default(),
    }
}

fn judge_all(expected: Expected, mut flows: Vec<Flow>, frames: &[Vec<u8>]) -> Proof {
    for frame in frames.iter().filter_map(|bytes| frames::read(bytes)) {
        for flow in &mut flows {
            flow.add(expected, &frame);
        }
    }
    super::judge("host1's uplink", expected, &flows)
}

fn judge(expected: Expected, frames: &[Vec<u8>]) -> Proof {
    judge_all(expected, vec![flow(0, None)], frames)
}

#[test]
fn both_directions_have_to_be_as_declared() {
    let (there, back) = (ip(A, B, 6, &[]), ip(B, A, 6, &[]));
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
    let (there, back) = (ip(A, B, 6, &[]), ip(B, A, 6, &[]));
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
    let foreign = ip([198, 18, 0, 1].into(), [198, 18, 0, 2].into(), 1, &[]);
    assert!(judge(Expected::Vxlan, &[good, vec![foreign]].concat()).holds);
}

#[test]
fn another_vlan_or_a_tag_around_a_tunnel_breaks_the_proof() {
    let (there, back) = (ip(A, B, 6, &[]), ip(B, A, 6, &[]));
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

#[test]
fn a_tag_within_a_tunnel_breaks_the_proof() {
    let (there, back) = (ip(A, B, 6, &[]), ip(B, A, 6, &[]));
    let frames = [
        tunnelled(4789, &VXLAN, &tagged(3, &there)),
        tunnelled(4789, &VXLAN, &back),
    ];
    assert!(!judge(Expected::Vxlan, &frames).holds);
}

#[test]
fn each_network_of_a_trunk_has_its_own_number() {
    let udp = |from, to, network| {
        let port = probe::mark(network).to_be_bytes();
        ip(from, to, 17, &[port[0], port[1], 0, 9, 0, 8, 0, 0])
    };
    let both = |first: u8, second: u8| {
        let of =
            |network, vni| [(A, B), (B, A)].map(|(from, to)| vxlan(vni, &udp(from, to, network)));
        [of(0, first), of(1, second)].concat()
    };
    let flows = || {
        [0, 1]
            .map(|index| flow(index, Some(probe::mark(index))))
            .into()
    };
    assert!(judge_all(Expected::Vxlan, flows(), &both(0x89, 0x8a)).holds);
    let proof = judge_all(Expected::Vxlan, flows(), &both(0x89, 0x89));
    assert!(!proof.holds, "one number for two networks");
    assert!(proof.detail.contains("in another form"), "{proof:?}");
    assert!(
        !judge_all(Expected::Vxlan, flows(), &both(0x89, 0x8a)[..2]).holds,
        "one is missing"
    );
}

/// VNIs 5001 and 5002 end in 0x89 and 0x8a.
fn vxlan(vni: u8, inner: &[u8]) -> Vec<u8> {
    let mut header = VXLAN;
    header[6] = vni;
    tunnelled(4789, &header, inner)
}

#[test]
fn routed_packets_are_in_the_network_of_their_destination() {
    let routed = || Flow {
        networks: [1, 0].map(|index| Network::of(&Setting::default(), index)),
        ..flow(0, None)
    };
    let (there, back) = (ip(A, B, 6, &[]), ip(B, A, 6, &[]));
    let good = [vxlan(0x8a, &there), vxlan(0x89, &back)];
    let proof = judge_all(Expected::Vxlan, vec![routed()], &good);
    assert!(proof.holds, "{proof:?}");
    assert!(
        proof.detail.contains("VNI 5002 and 1 from guest2") && proof.detail.contains("VNI 5001;"),
        "{proof:?}"
    );
    // Bridged, or routed behind the tunnel only.
    for bad in [
        [vxlan(0x89, &there), vxlan(0x89, &back)],
        [vxlan(0x8a, &there), vxlan(0x8a, &back)],
    ] {
        assert!(!judge_all(Expected::Vxlan, vec![routed()], &bad).holds);
    }
}

#[test]
fn behind_nat_nobody_sees_the_guests_address() {
    let outside: IpAddr = [198, 18, 120, 254].into();
    let translated = || Flow {
        sender: outside,
        hidden: Some(A),
        ..flow(0, None)
    };
    let judge = |frames: &[Vec<u8>]| judge_all(Expected::Plain, vec![translated()], frames);
    let good = [ip(outside, B, 6, &[]), ip(B, outside, 6, &[])];
    assert!(judge(&good).holds);
    for leak in [
        ip(A, B, 6, &[]),
        ip(B, A, 6, &[]),
        tunnelled(4789, &VXLAN, &ip(A, B, 6, &[])),
    ] {
        let proof = judge(&[&good[..], &[leak]].concat());
        assert!(
            !proof.holds && proof.detail.contains("1 in another form"),
            "{proof:?}"
        );
    }
    let tunnel = [tunnelled(4789, &VXLAN, &good[0]), good[1].clone()];
    assert!(!judge(&tunnel).holds, "the leg is in no tunnel");
}
