//! What guests send, against what fits.

use std::collections::BTreeMap;

use overlane_model::Switch;
use overlane_model::mtu::{self, IPV6_LEAST, SwitchRoom, Wrapping};

use super::finding::{Finding, Place, Severity};
use super::view::{View, listed};
use crate::mtu::facts::{HostFacts, PortFacts};

/// Bytes that IPv6 takes more than IPv4, and OVN's option more than none.
const IPV6_MORE: u32 = 20;
const OPTION: u32 = 8;

/// A port of a switch on a host of which something is known.
#[derive(Clone, Copy)]
struct Guest<'a> {
    host: &'a HostFacts,
    port: &'a PortFacts,
}

impl Guest<'_> {
    /// What the guest can send: the smaller end of its cable.
    fn mtu(self) -> u32 {
        let device = &self.port.device;
        device
            .peer_mtu
            .map_or(device.mtu, |peer| peer.min(device.mtu))
    }

    /// The guest's own device cannot be seen, so its packets are the only witness.
    fn is_hidden(self) -> bool {
        self.port.device.peer_mtu.is_none()
    }
}

impl View<'_> {
    /// What guests of a switch have, as far as it is known.
    pub(super) fn guest_mtus(&self, switch: &str) -> impl Iterator<Item = u32> {
        self.guests(switch).into_iter().map(Guest::mtu)
    }

    fn guests(&self, switch: &str) -> Vec<Guest<'_>> {
        let ports = self.hosts.values().flat_map(|host| {
            let guest = |port| Guest { host, port };
            host.ports.iter().map(guest)
        });
        let is_here = |guest: &Guest<'_>| {
            let port = self.fabric.ports().get(guest.port.port.as_str());
            port.is_some_and(|port| port.switch.as_str() == switch)
        };
        ports.filter(is_here).collect()
    }
}

pub(super) fn guests(view: &View<'_>, findings: &mut Vec<Finding>) {
    for switch in view.fabric.switches().values() {
        let guests = view.guests(switch.name.as_str());
        let room = view.room(switch.name.as_str());
        let fits = room.map_or(u32::MAX, |(_, fits)| fits);
        if let Some((room, fits)) = room {
            too_large(switch, room, fits, &guests, findings);
            for guest in &guests {
                findings.extend(seen_too_large(switch, fits, *guest));
                findings.extend(seen_too_small(room, fits, *guest));
            }
        }
        let set: Vec<Guest<'_>> = guests
            .iter()
            .copied()
            .filter(|it| it.mtu() <= fits)
            .collect();
        findings.extend(unlike(switch, &set));
        if let Some((room, fits)) = room {
            findings.extend(too_small(switch, room, fits, &set));
        }
        if view.has_ipv6(switch.name.as_str()) && fits >= IPV6_LEAST {
            findings.extend(set.iter().filter_map(|it| no_ipv6(switch, *it)));
        }
    }
    for host in view.hosts.values() {
        findings.extend(host.ports.iter().filter_map(|port| untold(host, port)));
    }
}

/// The devices of the guests take more than fits: a finding for each host and MTU.
fn too_large(
    switch: &Switch,
    room: &SwitchRoom,
    fits: u32,
    guests: &[Guest<'_>],
    findings: &mut Vec<Finding>,
) {
    let mut alike: BTreeMap<(&str, u32), Vec<Guest<'_>>> = BTreeMap::new();
    for guest in guests.iter().filter(|guest| guest.mtu() > fits) {
        let key = (guest.host.host.as_str(), guest.mtu());
        alike.entry(key).or_default().push(*guest);
    }
    for ((host, mtu), guests) in alike {
        let names: Vec<&str> = guests.iter().map(|it| it.port.port.as_str()).collect();
        let so = if switch.path_mtu_discovery {
            "each sender of more is told so"
        } else {
            "larger packets are lost, and nobody is told"
        };
        findings.push(Finding {
            ports: names.iter().map(ToString::to_string).collect(),
            words: (names.iter().copied())
                .chain(guests.first().map(|it| it.port.device.device.as_str()))
                .map(str::to_owned)
                .collect(),
            host: Some(host.to_owned()),
            what: format!("switch {}", switch.name),
            says: format!(
                "{} {} MTU {mtu}, and {fits} {}: {so}",
                listed(&names),
                if guests.len() == 1 { "has" } else { "have" },
                why(room, fits, mtu)
            ),
            remedy: remedy(switch, room, fits, mtu, &guests),
            ..Finding::new(Place::Guests, Severity::Wrong)
        });
    }
}

/// What takes the bytes, and what was forgotten, where the number shows it.
fn why(room: &SwitchRoom, fits: u32, mtu: u32) -> String {
    let Some(header) = room.header else {
        return format!("fit on {} of the uplink", room.id);
    };
    let tag = if room.tagged {
        " and 4 of a guest's tag"
    } else {
        ""
    };
    let underlay = mtu::underlay_for(fits, header.bytes, room.tagged);
    let too_much = mtu - fits;
    let is_ipv6 = header.ip_version == 6;
    let has_option = header.encapsulation == Wrapping::Geneve;
    let forgotten = match too_much {
        4 if room.tagged => "; the guest's tag was forgotten",
        IPV6_MORE if is_ipv6 => "; IPv6 takes 20 bytes more than IPv4",
        OPTION if has_option => "; OVN's option takes 8 bytes",
        28 if is_ipv6 && has_option => "; IPv6 takes 20 bytes more than IPv4, and OVN's option 8",
        _ if mtu < underlay => "; the underlay leaves less for the header than it needs",
        _ => "",
    };
    format!(
        "fit beside the {} bytes of {}{tag} into {underlay}{forgotten}",
        header.bytes,
        header.words()
    )
}

fn remedy(switch: &Switch, room: &SwitchRoom, fits: u32, mtu: u32, guests: &[Guest<'_>]) -> String {
    let first = guests.first();
    let command = first.map_or_else(String::new, |guest| {
        guest.host.set_mtu(&guest.port.device.device, fits)
    });
    let header = room.header.map_or(0, |header| header.bytes);
    let needs = mtu::underlay_for(mtu, header, room.tagged && room.header.is_some());
    let mut remedy = format!("{command}, and {fits} inside the guests");
    if needs <= mtu::IP_MOST {
        remedy += &format!(
            "; or let the underlay carry {needs} (frames of {} bytes) and set the uplinks to it",
            mtu::frame(needs, false)
        );
    }
    if !switch.path_mtu_discovery {
        remedy += &format!(
            "; `path_mtu_discovery: true` at switch {} tells the guests",
            switch.name
        );
        if !switch.mss_clamp {
            remedy += ", and `mss_clamp: true` makes their TCP fit";
        }
    }
    remedy
}

/// A guest that nobody can look into sends more than its device says.
fn seen_too_large(switch: &Switch, fits: u32, guest: Guest<'_>) -> Option<Finding> {
    let longest = u32::try_from(guest.port.longest?).unwrap_or(u32::MAX);
    let is_news = guest.is_hidden() && guest.mtu() <= fits && longest > fits;
    is_news.then(|| Finding {
        host: Some(guest.host.host.clone()),
        what: format!("port {}", guest.port.port),
        says: format!(
            "the guest has sent packets of {longest} bytes, and {fits} fit through switch {}",
            switch.name
        ),
        remedy: format!("set the MTU to {fits} inside the guest"),
        ..Finding::new(Place::Guests, Severity::Wrong)
    })
}

/// Its device would let it send more than it does.
fn seen_too_small(room: &SwitchRoom, fits: u32, guest: Guest<'_>) -> Option<Finding> {
    let segment = u32::try_from(guest.port.longest_segment?).ok()?;
    let is_small =
        segment != 0 && is_worth_it(segment, fits) && guest.port.longest? < u64::from(fits);
    let is_news = guest.is_hidden() && guest.mtu() >= fits && room.header.is_some();
    (is_small && is_news).then(|| Finding {
        host: Some(guest.host.host.clone()),
        what: format!("port {}", guest.port.port),
        says: format!(
            "the guest cuts what it sends into packets of {segment} bytes at most, and {fits} fit"
        ),
        remedy: format!("set the MTU to {fits} inside the guest"),
        ..Finding::new(Place::Guests, Severity::Wasteful)
    })
}

/// Guests of one switch hear each other directly: nobody tells the one what the other takes.
fn unlike(switch: &Switch, guests: &[Guest<'_>]) -> Option<Finding> {
    let least = guests.iter().map(|guest| guest.mtu()).min()?;
    let most = guests.iter().map(|guest| guest.mtu()).max()?;
    if least == most {
        return None;
    }
    let named = |mtu: u32| {
        let alike = guests.iter().filter(|guest| guest.mtu() == mtu);
        let names = alike.map(|it| format!("{} on {}", it.port.port, it.host.host));
        listed(&names.collect::<Vec<_>>())
    };
    let smaller = guests.iter().filter(|guest| guest.mtu() < most);
    let commands = smaller.map(|it| it.host.set_mtu(&it.port.device.device, most));
    Some(Finding {
        host: None,
        what: format!("switch {}", switch.name),
        says: format!(
            "the MTUs of its guests differ: {} has {least}, {} has {most}; what the one sends the other does not take",
            named(least),
            named(most)
        ),
        remedy: format!(
            "give all of them {most}, inside the guests too: {}",
            listed(&commands.collect::<Vec<_>>())
        ),
        ..Finding::new(Place::Guests, Severity::Wrong)
    })
}

/// Less than a hundredth is no reason to change anything. And 1500 is what everybody expects of a network: a little
/// more than that is no reason either.
const fn is_worth_it(mtu: u32, fits: u32) -> bool {
    let is_usual = mtu == 1500 && fits < 2 * 1500;
    mtu < fits && (fits - mtu) * 100 >= fits && !is_usual
}

/// All guests of a switch are alike, and could send more.
fn too_small(
    switch: &Switch,
    room: &SwitchRoom,
    fits: u32,
    guests: &[Guest<'_>],
) -> Option<Finding> {
    let mtu = guests.first()?.mtu();
    // On a VLAN there are neighbours of which nothing is known.
    let is_small = is_worth_it(mtu, fits) && room.header.is_some();
    let are_alike = guests.iter().all(|guest| guest.mtu() == mtu);
    (is_small && are_alike).then(|| Finding {
        host: None,
        what: format!("switch {}", switch.name),
        says: format!("its guests have MTU {mtu}, and {fits} fit"),
        remedy: format!("set {fits} on the devices of all its ports, and inside the guests"),
        ..Finding::new(Place::Guests, Severity::Wasteful)
    })
}

/// The kernel of a guest takes IPv6 off such a device.
fn no_ipv6(switch: &Switch, guest: Guest<'_>) -> Option<Finding> {
    let mtu = guest.mtu();
    (mtu < IPV6_LEAST).then(|| Finding {
        words: vec![guest.port.device.device.clone()],
        host: Some(guest.host.host.clone()),
        what: format!("port {}", guest.port.port),
        says: format!(
            "the guest has MTU {mtu}, and IPv6, which switch {} has addresses of, needs {IPV6_LEAST}",
            switch.name
        ),
        remedy: format!(
            "{}, and inside the guest",
            guest.host.set_mtu(&guest.port.device.device, IPV6_LEAST)
        ),
        ..Finding::new(Place::Guests, Severity::Wrong)
    })
}

/// It goes on sending what is too large, so it does not listen.
fn untold(host: &HostFacts, port: &PortFacts) -> Option<Finding> {
    let packets = port.untold.filter(|packets| *packets != 0)?;
    Some(Finding {
        words: vec![packets.to_string()],
        host: Some(host.host.clone()),
        what: format!("port {}", port.port),
        says: format!(
            "{packets} packets of the guest were refused faster than it was told: it does not heed what it is told"
        ),
        remedy: "set the MTU inside the guest, and let its firewall accept ICMP errors (`overlane show drops`)".to_owned(),
        ..Finding::new(Place::Guests, Severity::Wrong)
    })
}
