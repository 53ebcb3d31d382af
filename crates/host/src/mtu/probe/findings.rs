//! What is wrong with the ways between hosts, as probes found it.

use overlane_model::mtu;

use super::probed::{Probed, ProbedRemote, ProbedWay};
use super::round::FLOWS;
use super::search::LONGEST_ANSWER;
use crate::mtu::audit::{Finding, Place, Severity};

/// What is wrong, of all that several hosts found, beside what the audit says of them. What two of them found of one way
/// is said once.
pub fn findings(probed: &[Probed]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    let mut add = |finding: Finding| {
        let is_it = |said: &Finding| (&said.host, &said.what) == (&finding.host, &finding.what);
        if !findings.iter().any(is_it) {
            findings.push(finding);
        }
    };
    for host in probed {
        for remote in &host.remotes {
            of_remote(host, remote).into_iter().for_each(&mut add);
            // The audit compares the uplinks of the hosts that it sees.
            if probed.iter().all(|other| other.host != remote.remote) {
                unlike(host, remote).into_iter().for_each(&mut add);
            }
        }
    }
    findings
}

fn wrong(place: Place, host: &str, what: String, says: String, remedy: String) -> Finding {
    Finding {
        host: Some(host.to_owned()),
        what,
        says,
        remedy,
        ..Finding::new(place, Severity::Wrong)
    }
}

fn of_remote(host: &Probed, remote: &ProbedRemote) -> Vec<Finding> {
    let (here, there) = (host.host.as_str(), remote.remote.as_str());
    let (Some(way), Some(uplink_mtu)) = (remote.there, remote.uplink_mtu) else {
        return vec![silence(host, remote)];
    };
    let mut findings = Vec::new();
    if remote.flows < FLOWS {
        findings.push(wrong(
            Place::PhysicalSwitches,
            here,
            format!("flows to {there}"),
            format!(
                "{there} answers {here} on {} of {FLOWS} flows only",
                remote.flows
            ),
            "one of several paths of the underlay carries nothing, or a firewall on the way lets only some of the \
             tunnel's source ports pass: look for it there"
                .to_owned(),
        ));
    }
    findings.extend(narrow(here, there, way, remote.back, host.uplink_mtu));
    if let Some(back) = remote.back {
        if back.mtu < LONGEST_ANSWER {
            findings.extend(narrow(there, here, back, Some(way), uplink_mtu.into()));
        }
        findings.extend(asymmetric(host, remote, way, back, uplink_mtu));
    }
    findings
}

fn silence(host: &Probed, remote: &ProbedRemote) -> Finding {
    let (here, there, address) = (&host.host, &remote.remote, remote.address);
    let (says, remedy) = match &remote.unsent {
        Some(why) => (
            format!("{here} cannot send to {there} ({address}): {why}"),
            format!("on {here}: ip route get {address}"),
        ),
        None => (
            format!(
                "{there} ({address}) does not answer {here}: no Overlane there that knows probes, or nothing gets \
                 through"
            ),
            format!(
                "on {there}: overlane show counters; what `from_underlay` counts as `greeting` rises with each probe"
            ),
        ),
    };
    wrong(
        Place::PhysicalSwitches,
        here,
        format!("path to {there}"),
        says,
        remedy,
    )
}

/// One way that carries less than the sender's uplink. `other`: the same path in the other direction.
fn narrow(
    from: &str,
    to: &str,
    way: ProbedWay,
    other: Option<ProbedWay>,
    uplink_mtu: u32,
) -> Option<Finding> {
    if u32::from(way.mtu) >= uplink_mtu {
        return None;
    }
    let apart = other.filter(|other| mtu::differ_by_a_tag(way.mtu.into(), other.mtu.into()));
    let tag = match apart {
        Some(_) => {
            " (the other way differs by the 4 bytes of a VLAN tag, which Linux takes in beyond a device's MTU: it is \
             the same path)"
        }
        None => "",
    };
    let fits = format!(
        "the path from {from} to {to} carries {}{tag}, and the uplink has {uplink_mtu}",
        way.mtu
    );
    let mtu = apart.map_or(way.mtu, |other| way.mtu.min(other.mtu));
    let frame = mtu::frame(uplink_mtu, false);
    let (says, remedy) = match way.hop {
        Some(hop) => (
            format!("{fits}: {hop} says that no more passes"),
            format!(
                "let what is behind {hop} carry {uplink_mtu} (frames of {frame} bytes), or lower the MTU of the \
                 uplinks to {mtu} on all hosts"
            ),
        ),
        None => (
            format!("{fits}; larger packets are lost, and nobody says so"),
            format!(
                "let every switch and router from {from} to {to} carry {uplink_mtu} (frames of {frame} bytes), or \
                 let ICMP errors about the size of packets pass; meanwhile on {from}: overlane mtu FILE --watch"
            ),
        ),
    };
    let what = format!("path to {to}");
    Some(wrong(Place::PhysicalSwitches, from, what, says, remedy))
}

/// Compared as far as both uplinks can send.
fn asymmetric(
    host: &Probed,
    remote: &ProbedRemote,
    way: ProbedWay,
    back: ProbedWay,
    uplink_mtu: u16,
) -> Option<Finding> {
    let both = u32::from(uplink_mtu.min(LONGEST_ANSWER)).min(host.uplink_mtu);
    let (there_fits, back_fits) = (u32::from(way.mtu).min(both), u32::from(back.mtu).min(both));
    if there_fits == back_fits || mtu::differ_by_a_tag(there_fits, back_fits) {
        return None;
    }
    let (here, there) = (host.host.as_str(), remote.remote.as_str());
    // Both ends say the same of it.
    let (first, second) = if here < there {
        (here, there)
    } else {
        (there, here)
    };
    Some(wrong(
        Place::PhysicalSwitches,
        first,
        format!("paths to and from {second}"),
        format!(
            "{} bytes fit from {here} to {there}, and {} from {there} to {here}",
            way.mtu, back.mtu
        ),
        "the underlay has another path for each direction: look at its routes".to_owned(),
    ))
}

fn unlike(host: &Probed, remote: &ProbedRemote) -> Option<Finding> {
    let (here, there) = (host.host.as_str(), remote.remote.as_str());
    let mtu = remote
        .uplink_mtu
        .filter(|mtu| u32::from(*mtu) != host.uplink_mtu)?;
    Some(wrong(
        Place::Vtep,
        here,
        format!("uplinks of {here} and {there}"),
        format!(
            "the uplink of {here} has MTU {}, and that of {there} {mtu}",
            host.uplink_mtu
        ),
        "give both the same MTU, and apply the fabric again where it changed".to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn remote(name: &str, there: u16, back: u16) -> ProbedRemote {
        let way = |mtu| Some(ProbedWay { mtu, hop: None });
        ProbedRemote {
            remote: name.to_owned(),
            address: IpAddr::from([198, 18, 0, 2]),
            flows: FLOWS,
            unsent: None,
            there: way(there),
            back: way(back),
            uplink_mtu: Some(1500),
            round_trip_us: Some(100),
        }
    }

    fn host(name: &str, remotes: Vec<ProbedRemote>) -> Probed {
        Probed {
            host: name.to_owned(),
            uplink: "eth1".to_owned(),
            uplink_mtu: 1500,
            remotes,
        }
    }

    fn says(probed: &[Probed]) -> Vec<String> {
        findings(probed).into_iter().map(|one| one.says).collect()
    }

    #[test]
    fn a_whole_path_has_nothing_to_say() {
        assert_eq!(findings(&[host("h1", vec![remote("h2", 1500, 1500)])]), []);
    }

    #[test]
    fn a_small_hop_is_named_and_a_black_hole_is_not() {
        let mut one = remote("h2", 1400, 1400);
        one.there = Some(ProbedWay {
            mtu: 1400,
            hop: Some([198, 18, 0, 254].into()),
        });
        assert_eq!(
            says(&[host("h1", vec![one])]),
            [
                "the path from h1 to h2 carries 1400, and the uplink has 1500: 198.18.0.254 says that no more passes",
                "the path from h2 to h1 carries 1400, and the uplink has 1500; larger packets are lost, and nobody \
                 says so"
            ]
        );
    }

    #[test]
    fn what_both_ends_find_is_said_once() {
        let both = [
            host("h1", vec![remote("h2", 1500, 1300)]),
            host("h2", vec![remote("h1", 1300, 1500)]),
        ];
        let all = findings(&both);
        assert_eq!(all.len(), 2, "{all:?}");
        assert_eq!(
            (all[0].host.as_deref(), all[0].what.as_str()),
            (Some("h2"), "path to h1")
        );
        assert_eq!(
            all[1].says,
            "1500 bytes fit from h1 to h2, and 1300 from h2 to h1"
        );
    }

    #[test]
    fn who_does_not_answer_is_a_finding() {
        let mut one = remote("h2", 0, 0);
        (one.there, one.back, one.uplink_mtu, one.flows) = (None, None, None, 0);
        let all = says(&[host("h1", vec![one.clone()])]);
        assert_eq!(all.len(), 1);
        assert!(
            all[0].contains("does not answer h1: no Overlane there"),
            "{all:?}"
        );
        one.unsent = Some("Network is unreachable".to_owned());
        let all = says(&[host("h1", vec![one])]);
        assert!(all[0].contains("cannot send to h2"), "{all:?}");
    }

    #[test]
    fn the_allowance_for_a_vlan_tag_is_no_other_path() {
        for (there, back) in [(1400, 1404), (1404, 1400)] {
            let all = says(&[host("h1", vec![remote("h2", there, back)])]);
            assert_eq!(all.len(), 2, "{all:?}");
            assert!(
                all.iter().all(|says| says.contains("it is the same path")),
                "{all:?}"
            );
        }
        // The uplink's own MTU one way, and four bytes less back.
        let all = says(&[host("h1", vec![remote("h2", 1500, 1496)])]);
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(
            all[0].starts_with("the path from h2 to h1 carries 1496 (the other way differs"),
            "{all:?}"
        );
        for back in [1399, 1401, 1403, 1405, 1408] {
            let all = says(&[host("h1", vec![remote("h2", 1400, back)])]);
            assert_eq!(all.len(), 3, "{all:?}");
        }
    }

    #[test]
    fn unlike_uplinks_are_no_asymmetry() {
        let mut host = host("h1", vec![remote("h2", 9000, 1500)]);
        host.uplink_mtu = 9000;
        assert_eq!(
            says(&[host]),
            ["the uplink of h1 has MTU 9000, and that of h2 1500"]
        );
    }

    #[test]
    fn a_flow_without_answers_is_named() {
        let mut one = remote("h2", 1500, 1500);
        one.flows = 3;
        assert_eq!(
            says(&[host("h1", vec![one])]),
            ["h2 answers h1 on 3 of 4 flows only"]
        );
    }
}
