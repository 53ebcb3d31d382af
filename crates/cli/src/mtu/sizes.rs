//! What fits, by the fabric file alone but for the MTUs of uplinks: per tunnel, per switch, and in each place.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use overlane_host::mtu::audit::Place;
use overlane_host::mtu::facts::HostFacts;
use overlane_model::mtu::{self, Direction, Header, SwitchRoom};
use overlane_model::{Fabric, Name};
use serde::Serialize;

use crate::output::{Output, text};

/// Of an uplink of which nothing is known.
const USUAL: u32 = 1500;
/// Pairs of hosts, or switches, that a table names; the others it counts.
const NAMED: usize = 3;
/// MTUs that guests are often wanted to have.
const WANTED: [u32; 2] = [1500, 9000];

/// All of it, as JSON has it.
#[derive(Serialize)]
pub(super) struct Sizes {
    /// Of uplinks of which nothing is known.
    assumed_underlay_mtu: u32,
    #[serde(skip)]
    assumed_for: Vec<String>,
    tunnels: Vec<TunnelSize>,
    switches: Vec<SwitchSize>,
    places: Vec<PlaceSize>,
    wanted: Vec<Wanted>,
}

/// One direction between two hosts.
#[derive(Serialize)]
struct TunnelSize {
    from: String,
    to: String,
    #[serde(flatten)]
    header: Header,
    tagged: bool,
    underlay_mtu: u32,
    guest_mtu: u32,
    switches: Vec<String>,
    routers: Vec<String>,
}

/// One logical switch.
#[derive(Serialize)]
struct SwitchSize {
    switch: String,
    vni: Option<u32>,
    uplink_vlan: Option<u16>,
    header_bytes: Option<u32>,
    tagged: bool,
    guest_mtu: Option<u32>,
}

/// What to set in one of the places.
#[derive(Serialize)]
struct PlaceSize {
    place: Place,
    what: String,
    mtu: u32,
    /// Physical switches count the Ethernet header and the check sequence.
    frame_bytes: Option<u32>,
    tagged_frame_bytes: Option<u32>,
}

/// What the underlay has to carry for guests of an MTU.
#[derive(Serialize)]
struct Wanted {
    guest_mtu: u32,
    underlay_mtu: u32,
    frame_bytes: u32,
    tagged_frame_bytes: u32,
}

impl Sizes {
    /// `stated`: what the physical network carries; else each uplink's own MTU counts, as far as it is known.
    pub(super) fn of(fabric: &Fabric, facts: &[HostFacts], stated: Option<u32>) -> Self {
        let known: BTreeMap<&str, u32> = facts
            .iter()
            .filter_map(|host| Some((host.host.as_str(), host.uplink.as_ref()?.mtu)))
            .collect();
        // A host of which nothing is known does not make a path smaller than the others are.
        let assumed = stated.or_else(|| known.values().copied().max());
        let assumed = assumed.unwrap_or(USUAL).min(mtu::IP_MOST);
        let uplink = |host: &Name| {
            let known = known.get(host.as_str()).copied();
            stated.or(known).unwrap_or(assumed).min(mtu::IP_MOST)
        };
        let unknown = fabric
            .hosts()
            .keys()
            .filter(|host| !known.contains_key(host.as_str()));
        let assumed_for = unknown.filter(|_| stated.is_none());
        let directions = mtu::directions(fabric);
        let rooms = mtu::switch_rooms(fabric, &uplink);
        let most = fabric.hosts().keys().map(&uplink).max();
        let wanted = WANTED.into_iter().filter_map(|guest_mtu| {
            let longest = directions.iter().map(|it| (it.header.bytes, it.tagged));
            let sizes = longest.map(|(bytes, tag)| mtu::underlay_for(guest_mtu, bytes, tag));
            Some(Wanted::of(guest_mtu, sizes.max()?))
        });
        Self {
            assumed_underlay_mtu: assumed,
            assumed_for: assumed_for.map(ToString::to_string).collect(),
            wanted: wanted.collect(),
            places: places(fabric, &rooms, most.unwrap_or(assumed)),
            tunnels: directions
                .iter()
                .map(|it| TunnelSize::of(it, &uplink))
                .collect(),
            switches: rooms.iter().map(SwitchSize::of).collect(),
        }
    }

    /// The largest MTU of a switch's guests; none: whatever they like.
    pub(super) fn guest_mtu(&self, switch: &str) -> Option<u32> {
        let mut switches = self.switches.iter();
        switches.find(|it| it.switch == switch)?.guest_mtu
    }

    pub(super) fn show(&self, output: Output) -> io::Result<()> {
        self.show_tunnels(output)?;
        output.line("")?;
        self.show_switches(output)?;
        output.line("")?;
        self.show_places(output)?;
        let mut rows = output.table(&[
            "FOR GUESTS OF",
            "#UNDERLAY MTU",
            "#FRAME",
            "#WITH A VLAN TAG",
        ]);
        for wanted in &self.wanted {
            rows.push(vec![
                text(wanted.guest_mtu),
                text(wanted.underlay_mtu),
                text(wanted.frame_bytes),
                text(wanted.tagged_frame_bytes),
            ]);
        }
        if !rows.is_empty() {
            output.line("")?;
            output.section("WHAT THE UNDERLAY WOULD HAVE TO CARRY", &rows, "")?;
        }
        if !self.assumed_for.is_empty() {
            output.line(format!(
                "\nThe MTU of the uplink of {} is not known here: {} is assumed.",
                few(&self.assumed_for),
                self.assumed_underlay_mtu
            ))?;
        }
        Ok(())
    }

    /// Those that are alike in one line.
    fn show_tunnels(&self, output: Output) -> io::Result<()> {
        let mut forms: BTreeMap<_, Vec<&TunnelSize>> = BTreeMap::new();
        for tunnel in &self.tunnels {
            let form = (tunnel.header, tunnel.tagged, tunnel.underlay_mtu);
            forms.entry(form).or_default().push(tunnel);
        }
        let columns = ["HEADER", "#BYTES", "#UNDERLAY", "#GUEST MTU", "HOSTS"];
        let mut rows = output.table(&columns);
        for ((header, tagged, underlay_mtu), tunnels) in forms {
            let tag = if tagged { " + tag" } else { "" };
            let guest_mtu = mtu::room(underlay_mtu, header.bytes, tagged);
            rows.push(vec![
                text(format!("{}{tag}", header.words())),
                text(underlay_mtu - guest_mtu),
                text(underlay_mtu),
                text(guest_mtu),
                text(between(&tunnels)),
            ]);
        }
        output.section(
            "TUNNELS",
            &rows,
            "no two hosts speak to each other in tunnels",
        )
    }

    fn show_switches(&self, output: Output) -> io::Result<()> {
        let mut rows = output.table(&["SWITCH", "UNDERLAY", "#HEADER", "#GUEST MTU"]);
        for switch in &self.switches {
            let on = match (switch.vni, switch.uplink_vlan) {
                (Some(vni), _) => format!("VNI {vni}"),
                (None, vlan) => vlan.map_or_else(String::new, |vlan| format!("VLAN {vlan}")),
            };
            let tag = if switch.tagged { " + tag" } else { "" };
            let header = switch.header_bytes;
            let guest_mtu = switch.guest_mtu;
            rows.push(vec![
                text(&switch.switch),
                text(on),
                text(header.map_or("-".to_owned(), |bytes| format!("{bytes}{tag}"))),
                // What stays on one host crosses no underlay.
                text(guest_mtu.map_or("any".to_owned(), |mtu| mtu.to_string())),
            ]);
        }
        output.section("SWITCHES", &rows, "none")
    }

    fn show_places(&self, output: Output) -> io::Result<()> {
        let mut rows = output.table(&["PLACE", "WHAT", "#MTU", "FRAMES"]);
        for place in &self.places {
            let frames = place.frame_bytes.zip(place.tagged_frame_bytes);
            let frames = frames.map_or_else(String::new, |(plain, tagged)| {
                format!("{plain} bytes, tagged {tagged}")
            });
            rows.push(vec![
                text(place.place),
                text(&place.what),
                text(place.mtu),
                text(frames),
            ]);
        }
        output.section("WHAT EACH PLACE NEEDS", &rows, "nothing")
    }
}

/// From the wire to the guest.
fn places(fabric: &Fabric, rooms: &[SwitchRoom], underlay_mtu: u32) -> Vec<PlaceSize> {
    let plain = |place, what: String, mtu| PlaceSize {
        place,
        what,
        mtu,
        frame_bytes: None,
        tagged_frame_bytes: None,
    };
    let mut places = vec![
        PlaceSize {
            frame_bytes: Some(mtu::frame(underlay_mtu, false)),
            tagged_frame_bytes: Some(mtu::frame(underlay_mtu, true)),
            ..plain(
                Place::PhysicalSwitches,
                "between all VTEPs".to_owned(),
                underlay_mtu,
            )
        },
        plain(Place::Vtep, "uplinks".to_owned(), underlay_mtu),
    ];
    let mut alike: BTreeMap<u32, Vec<&Name>> = BTreeMap::new();
    for room in rooms {
        let of = room.guest_mtu.map(|mtu| alike.entry(mtu).or_default());
        if let Some(switches) = of {
            switches.push(&room.switch);
        }
    }
    for (mtu, switches) in &alike {
        let what = format!("ports of {}", few(switches));
        places.push(plain(Place::VirtualSwitch, what, *mtu));
    }
    for router in fabric.routers().values() {
        let interfaces = router.interfaces.iter();
        let guests = interfaces.filter_map(|interface| {
            let mut rooms = rooms.iter();
            let room = rooms.find(|room| room.switch == interface.switch)?;
            room.guest_mtu
        });
        if let (Some((_, device)), Some(mtu)) = (router.leg(), guests.max()) {
            let what = format!("leg {device} of {}, or more", router.name);
            places.push(plain(Place::Routers, what, mtu));
        }
    }
    for (mtu, switches) in &alike {
        let what = format!("guests of {}", few(switches));
        places.push(plain(Place::Guests, what, *mtu));
    }
    places
}

/// `h1 <-> h2, h1 -> h3`
fn between(tunnels: &[&TunnelSize]) -> String {
    let pairs: BTreeSet<(&str, &str)> = tunnels
        .iter()
        .map(|it| (it.from.as_str(), it.to.as_str()))
        .collect();
    let all = pairs.iter().filter_map(|(from, to)| {
        let is_both = pairs.contains(&(to, from));
        match (is_both, from < to) {
            (true, true) => Some(format!("{from} <-> {to}")),
            (true, false) => None,
            (false, _) => Some(format!("{from} -> {to}")),
        }
    });
    few(&all.collect::<Vec<_>>())
}

fn few<T: ToString>(names: &[T]) -> String {
    let named = names.iter().take(NAMED).map(ToString::to_string);
    let named = named.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

impl Wanted {
    const fn of(guest_mtu: u32, underlay_mtu: u32) -> Self {
        Self {
            guest_mtu,
            underlay_mtu,
            frame_bytes: mtu::frame(underlay_mtu, false),
            tagged_frame_bytes: mtu::frame(underlay_mtu, true),
        }
    }
}

impl TunnelSize {
    fn of(direction: &Direction, uplink: &dyn Fn(&Name) -> u32) -> Self {
        let names = |list: &[Name]| list.iter().map(ToString::to_string).collect();
        let underlay_mtu = uplink(&direction.from).min(uplink(&direction.to));
        Self {
            from: direction.from.to_string(),
            to: direction.to.to_string(),
            header: direction.header,
            tagged: direction.tagged,
            underlay_mtu,
            guest_mtu: mtu::room(underlay_mtu, direction.header.bytes, direction.tagged),
            switches: names(&direction.switches),
            routers: names(&direction.routers),
        }
    }
}

impl SwitchSize {
    fn of(room: &SwitchRoom) -> Self {
        Self {
            switch: room.switch.to_string(),
            vni: room.id.vni().map(|vni| vni.get()),
            uplink_vlan: room.id.vlan().map(|vlan| vlan.get()),
            header_bytes: room.header.map(|header| header.bytes),
            tagged: room.tagged,
            guest_mtu: room.guest_mtu,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_of_a_pair_are_one() {
        let tunnel = |from: &str, to: &str| TunnelSize {
            from: from.to_owned(),
            to: to.to_owned(),
            header: Header {
                encapsulation: mtu::Wrapping::Vxlan,
                ip_version: 4,
                bytes: 50,
            },
            tagged: false,
            underlay_mtu: 1500,
            guest_mtu: 1450,
            switches: Vec::new(),
            routers: Vec::new(),
        };
        let pairs = [
            ("a", "b"),
            ("b", "a"),
            ("c", "a"),
            ("b", "c"),
            ("c", "b"),
            ("d", "a"),
            ("e", "a"),
        ];
        let all: Vec<_> = pairs.map(|(from, to)| tunnel(from, to)).into();
        let all: Vec<&TunnelSize> = all.iter().collect();
        assert_eq!(between(&all[..2]), "a <-> b");
        assert_eq!(between(&all), "a <-> b, b <-> c, c -> a and 2 more");
    }
}
