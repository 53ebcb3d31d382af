//! Rows of what does not stop `apply` and its user should know: what it means, and what helps.

use std::net::IpAddr;

use nix::errno::Errno;
use overlane_net::nftables::Family;
use overlane_wire::Mac;

use super::remedy::Remedy;
use super::row::{Object, Row};
use crate::lib::detour::Detour;
use crate::lib::error::{HostError, UnfitDevice, UsedAs};
use crate::lib::holder::Holder;
use crate::lib::paths;

const RECEIVE_RATE: &str = "everything works, with a lower receive rate";

/// Full-size packets of the port do not fit into the underlay with the tunnel header around them.
pub(crate) fn port_mtu(port: &str, device: &str, mtu: u32, fits: u32) -> Row {
    let meaning = format!(
        "its device has MTU {mtu}, but only {fits} bytes fit into the underlay; larger packets are dropped as pkt_too_big"
    );
    Row::remark("port_mtu", Object::Port, port)
        .has("mtu", mtu, format!("{fits} or less"))
        .means(meaning)
        .ip(format!("link set {device} mtu {fits}"))
}

/// The kernel drops packets to it.
pub(crate) fn no_route(remote: &str, address: IpAddr, uplink: &str) -> Row {
    let meaning = format!(
        "no route to {address} through the uplink yet; the kernel drops packets to it, which count as encap"
    );
    Row::finding("no_route", Object::Remote, remote)
        .differs("route")
        .means(meaning)
        .advice(format!("add a route to {address} by {uplink} (`ip route`)"))
}

/// Somebody took the device of a port, a leg or the uplink down.
pub(crate) fn down(user: (Object, &str), device: &str) -> Row {
    let (note, what) = match user.0 {
        Object::Port => ("port_down", format!("its device {device}")),
        Object::Leg => ("leg_down", "it".to_owned()),
        _ => ("uplink_down", "it".to_owned()),
    };
    Row::finding(note, user.0, user.1)
        .has("device", "down", "up")
        .means(format!("{what} is down; no packet passes until it is up"))
        .ip(format!("link set {device} up"))
}

/// The device of ports belongs to a bridge or another master, which gets no frame from it. `kind`: of the master.
pub(crate) fn port_master(device: &str, master: &str, kind: &str) -> Row {
    let sends = match kind {
        // The guard has a table for bridges. Another row says if the kernel refused it.
        "bridge" => format!(
            "the guard drops what {master} sends to it, if this kernel has nftables for bridges"
        ),
        _ => format!("what {master} sends to it still reaches the guest"),
    };
    let meaning = format!(
        "it is a port of {kind} {master}: Overlane takes every frame from it before {master} does, and {sends}"
    );
    // Open vSwitch answers only to its own command.
    let remedy = match kind {
        "openvswitch" => Remedy::Command(format!("ovs-vsctl del-port {device}")),
        _ => Remedy::Ip(None, format!("link set {device} nomaster")),
    };
    Row::remark("port_master", Object::Device, device)
        .differs("master")
        .means(meaning)
        .remedy(remedy)
}

/// There is no receive helper.
pub(crate) fn no_gro(port: u16, reason: &str) -> Row {
    Row::remark("no_gro", Object::Device, paths::GRO).means(format!(
        "received packets to UDP port {port} are not coalesced: {reason}; {RECEIVE_RATE}"
    ))
}

/// Frames behind decap go the straight way.
pub(crate) fn no_detour(detour: Detour, reason: &str) -> Row {
    let goes_without = match detour {
        Detour::Unmarker => {
            "everything works, but TAP ports receive in segments, and remotes send UDP super-packets in segments"
        }
        Detour::Coalescer => RECEIVE_RATE,
    };
    let name = detour.name();
    Row::remark("no_detour", Object::Device, detour.entrance())
        .detail(name)
        .means(format!("there is no {name}: {reason}; {goes_without}"))
}

/// This kernel takes no guard of a family: a port's device that is made again is open until the next `apply`.
pub(crate) fn no_guard(host: &str, family: Family, reason: &str) -> Row {
    let meaning = format!(
        "there is no guard: {reason}; when a port's device is deleted and made again, its guest \
         reaches this host and what it forwards to, until the next apply"
    );
    Row::remark("no_guard", Object::Guard, family.name())
        .of(Object::Guard, paths::guard_table(host))
        .means(meaning)
        .advice("load the kernel module nf_tables and apply again, or apply after each restart of a guest")
}

/// A tunnel device of somebody else has the tunnel's UDP port. It keeps what is not the fabric's.
pub(crate) fn other_tunnel(device: &str, port: u16, coalesces: bool) -> Row {
    let meaning = format!(
        "it has UDP port {port} too: packets of other senders than the fabric's hosts, and with other VNIs than \
         this host's switches have, are left to it, and all others are Overlane's now; {}",
        match coalesces {
            true => "while it is up, the kernel coalesces received tunnel packets".to_owned(),
            false => format!("received tunnel packets are not coalesced, and {RECEIVE_RATE}"),
        }
    );
    Row::remark("other_tunnel", Object::Device, device).means(meaning)
}

/// Neighbour solicitations for an address go to its multicast group.
pub(crate) fn no_group(device: &str, address: IpAddr, reason: &str) -> Row {
    let meaning = format!(
        "it is not joined: {reason}; where the device or a switch filters multicast, nobody finds the address"
    );
    Row::remark("no_group", Object::MulticastGroup, address)
        .of(Object::Device, device)
        .means(meaning)
}

/// The note of next hops that the kernel does not keep resolved.
pub(crate) const NOT_KEPT: &str = "not_kept";
/// Up to so many of them are listed, more are counted.
const LISTED_MAX: usize = 8;

/// The kernel does not keep a next hop resolved, for this reason.
pub(crate) fn not_kept(device: &str, address: IpAddr, reason: &str) -> Row {
    Row::finding(NOT_KEPT, Object::NextHop, address)
        .of(Object::Device, device)
        .means(reason)
}

/// How many neighbours of a family the kernel has room for.
pub(crate) const fn neighbour_limit(family: IpAddr) -> &'static str {
    match family {
        IpAddr::V4(_) => "net.ipv4.neigh.default.gc_thresh3",
        IpAddr::V6(_) => "net.ipv6.neigh.default.gc_thresh3",
    }
}

/// The same of all next hops of a device and a family. `limit`: how many neighbours the kernel has room for, if that can
/// be read.
pub(crate) fn none_kept(
    device: &str,
    addresses: &[IpAddr],
    reason: &str,
    limit: Option<usize>,
) -> Row {
    let listed = addresses.iter().take(LISTED_MAX).map(ToString::to_string);
    let listed = listed.collect::<Vec<_>>().join(", ");
    let name = match addresses.len().saturating_sub(LISTED_MAX) {
        0 => listed,
        more => format!("{listed} and {more} more"),
    };
    let waits = "the first packet to each waits until it answers; all else is applied";
    let row = Row::finding(NOT_KEPT, Object::NextHop, name).of(Object::Device, device);
    let is_full = reason.contains(Errno::ENOBUFS.desc());
    let Some(key) = addresses
        .first()
        .copied()
        .map(neighbour_limit)
        .filter(|_| is_full)
    else {
        return row.means(format!("not kept resolved: {reason}; {waits}"));
    };
    let full = "not kept resolved: the kernel's table of neighbours is full";
    match limit {
        Some(limit) => {
            let needed = limit + addresses.len();
            row.has(key, limit, format!("{needed} or more"))
                .means(format!(
                    "{full}: {key} is {limit}, and {needed} or more is needed; {waits}"
                ))
                .advice(format!(
                    "run `sysctl -w {key}={needed}` in the first network namespace, and apply again"
                ))
        }
        None => row.means(format!("{full}; {waits}")).advice(format!(
            "raise {key} by {} or more in the first network namespace, and apply again",
            addresses.len()
        )),
    }
}

/// More stations would have to be told of addresses with other MACs than there is time for.
pub(crate) fn not_told(too_many: usize, most: usize) -> Row {
    Row::finding("not_told", Object::Announcement, "").means(format!(
        "too many addresses of switches have another MAC: {most} announcements to ports and peers are made, and {too_many} are not; \
         who is not told finds out by itself, in half a minute"
    ))
}

/// Devices are down, so that what they, or the guests behind them, have to announce has to wait.
pub(crate) fn announcement_waits(devices: &[String], seconds: u64) -> Row {
    let it = if devices.len() == 1 {
        "it"
    } else {
        "one of them"
    };
    let devices = devices.join(", ");
    let meaning = format!(
        "down, or made anew since `apply`: {devices}; announcements that need {it} are made when it is up, within \
         {seconds} seconds; later, run `overlane announce`"
    );
    Row::finding("announcement_waits", Object::Announcement, devices).means(meaning)
}

/// The physical network may remember where addresses were.
pub(crate) fn not_announced(reason: &str) -> Row {
    Row::finding("not_announced", Object::Announcement, "")
        .means(format!(
            "not all is announced ({reason}): the physical network may remember where addresses were"
        ))
        .remedy(Remedy::Command("overlane announce".to_owned()))
}

/// Nobody repeats the announcements.
pub(crate) fn announced_once(reason: &str) -> Row {
    Row::finding("announced_once", Object::Announcement, "")
        .means(format!("addresses are announced once only ({reason})"))
        .remedy(Remedy::Command("overlane announce".to_owned()))
}

/// A program of somebody else sees the packets of a device before ours does.
pub(crate) fn earlier_program(device: &str, program: &str, id: u32, link: u32) -> Row {
    let meaning = format!(
        "program {program} (id {id}) is attached before Overlane's; Overlane does not see what it drops or redirects, \
         and counts none of it"
    );
    Row::finding("earlier_program", Object::Device, device)
        .differs("program before Overlane's")
        .means(meaning)
        .remedy(match link {
            0 => Remedy::Advice(format!(
                "take it off: `tc filter` and `bpftool net` show who attached program {id}"
            )),
            link => Remedy::Command(format!("bpftool link detach id {link}")),
        })
}

/// The running kernel is older than any that is tested.
pub(crate) fn kernel_untested(running: &str, oldest: &str) -> Row {
    Row::remark("kernel_untested", Object::Kernel, running).means(format!(
        "Linux {running} is not tested; the oldest tested kernel is {oldest}"
    ))
}

/// Nobody can see from here whether the BPF file system is the machine's.
pub(crate) fn shut_in(host: &str) -> Row {
    let meaning = format!(
        "this PID namespace is not the machine's first, and from here nobody sees whether {} is the machine's; if it was \
         mounted in this container, the datapath ends with the container: bind-mount the machine's",
        paths::BPFFS
    );
    Row::remark("shut_in", Object::Host, host).means(meaning)
}

/// The maps of another build tell nothing that this one could read.
pub(crate) fn begins_anew(maps: &[&str]) -> Row {
    let maps = maps.join(", ");
    Row::remark("begins_anew", Object::Maps, "").means(format!(
        "the build before has nothing that this one can read in {maps}: they begin empty"
    ))
}

/// Some of what the maps of another build had is not in the new ones.
pub(crate) fn left_behind(entries: usize) -> Row {
    Row::remark("left_behind", Object::Maps, "").means(format!(
        "{entries} entries of the maps before have no place in the new ones: what they were of begins anew"
    ))
}

/// An earlier `apply` was interrupted; this one completed or repaired it.
pub(crate) fn interrupted(host: &str) -> Row {
    Row::finding("interrupted", Object::Host, host)
        .means("an earlier apply was interrupted; its remains were repaired")
}

/// What is no longer needed could not be taken away.
pub(crate) fn left_over(thing: &Row, reason: &str) -> Row {
    let meaning = format!("it could not be removed ({reason}); the next apply tries again");
    Row {
        change: None,
        note: Some("left_over"),
        meaning: Some(meaning),
        ..thing.clone()
    }
}

/// What remotes said before may be out of date, and they were not asked anew.
pub(crate) fn remotes_not_asked(host: &str, reason: &str) -> Row {
    Row::finding("remotes_not_asked", Object::Host, host).means(format!(
        "its remotes were not asked what they take ({reason}); the next apply asks again"
    ))
}

/// A thing that stands alone could not be made; all else was.
pub(crate) fn failed(thing: (Object, &str), reason: &str, help: Option<&str>) -> Row {
    let (object, name) = thing;
    let row = Row::finding("failed", object, name).means(format!("{reason}; all else is applied"));
    match help {
        Some(help) => row.advice(help),
        None => row,
    }
}

/// The device of ports or of a leg is not there. The fabric is applied without it.
pub(crate) fn missing(device: &UnfitDevice) -> Vec<Row> {
    let name = &device.device;
    let means = device.used_as.lost(1);
    let elsewhere = device.elsewhere.as_ref();
    let elsewhere = elsewhere.map_or_else(String::new, |it| format!(" ({it})"));
    let row = |(object, by): (Object, String)| {
        Row::finding("missing_device", object, by)
            .has("device", "missing", name)
            .means(format!("no such device: {name}{elsewhere}; {means}"))
            .advice(format!("make the device {name} and apply again"))
    };
    users(device).map(row).collect()
}

/// A device of ports or of a leg cannot be used. The fabric is applied without it.
pub(crate) fn unfit(device: &UnfitDevice, reason: &str) -> Vec<Row> {
    let row = |(object, by): (Object, String)| {
        Row::finding("failed", object, by)
            .means(reason)
            .advice("give it another device, and apply again")
    };
    users(device).map(row).collect()
}

/// Each port on it, or itself.
fn users(device: &UnfitDevice) -> impl Iterator<Item = (Object, String)> {
    let users = match device.used_as {
        UsedAs::Port => device.by.clone(),
        UsedAs::Uplink | UsedAs::Leg => vec![device.device.clone()],
    };
    let object = match device.used_as {
        UsedAs::Port => Object::Port,
        UsedAs::Uplink => Object::Uplink,
        UsedAs::Leg => Object::Leg,
    };
    users.into_iter().map(move |user| (object, user))
}

/// A file was given that is not the one that was applied.
pub(crate) fn other_file(host: &str) -> Row {
    Row::finding("other_file", Object::Host, host)
        .differs("fabric file")
        .means("the fabric file is not the one that was applied")
        .remedy(Remedy::apply_file(host))
}

/// The last `apply` did not come to its end, or works right now.
pub(crate) fn apply_unfinished(host: &str, at_work: Option<&Holder>, since: Option<u64>) -> Row {
    match at_work {
        Some(holder) => Row::finding("apply_at_work", Object::Host, host)
            .differs("apply")
            .means(format!("an apply is at work: {holder}"))
            .advice("wait until it is done"),
        None => Row::finding("apply_interrupted", Object::Host, host)
            .differs("apply")
            .since(since)
            .means("the last apply was interrupted; packets may be lost until the next one")
            .remedy(Remedy::apply_again(host)),
    }
}

/// The namespace in which the host was applied does not exist any more, or has no name.
pub(crate) fn namespace_gone(host: &str) -> Row {
    Row::finding("namespace_gone", Object::Host, host)
        .has("namespace", "missing", "the one in which it was applied")
        .means("the network namespace of the host is gone, and its devices with it")
        .remedy(Remedy::Command(format!("overlane remove --host {host}")))
}

/// Nobody can tell from here whether the network namespace of the host exists.
pub(crate) fn namespace_unseen(host: &str) -> Row {
    Row::finding("unknown", Object::Host, host)
        .means("the network namespace in which it was applied has no name: it is gone, or cannot be seen from here")
        .advice(format!("look from inside it; if it is gone, `overlane remove --host {host}`"))
}

/// Nothing says what was applied.
pub(crate) fn tables_unknown(host: &str) -> Row {
    Row::finding("unknown", Object::Host, host)
        .means("an earlier version applied it, and did not keep what it applied; traffic goes on")
        .remedy(Remedy::apply_file(host))
}

/// Another build with other maps applied the host.
pub(crate) fn other_layout(host: &str) -> Row {
    Row::finding("other_layout", Object::DataPath, "layout")
        .differs("layout of the maps")
        .means("another build applied this host, and its maps cannot be read by this one; traffic goes on")
        .remedy(Remedy::apply_again(host))
}

/// Another build with the same maps applied the host.
pub(crate) fn other_programs(host: &str) -> Row {
    Row::finding("other_programs", Object::DataPath, "programs")
        .differs("build of the programs")
        .means("another build applied this host; traffic goes on with its programs")
        .remedy(Remedy::apply_again(host))
}

/// Under the name of a device of the fabric there is another one than `apply` found.
pub(crate) fn other_device(
    host: &str,
    user: (Object, &str),
    device: &str,
    (before, now): (u32, u32),
) -> Row {
    Row::finding("other_device", user.0, user.1)
        .has("device index", now, before)
        .means(format!(
            "{device} is another device than the one that `apply` found"
        ))
        .remedy(Remedy::apply_again(host))
}

/// A device takes less than `apply` found.
pub(crate) fn lower_mtu(user: (Object, &str), device: &str, mtu: u32, before: u32) -> Row {
    Row::finding("lower_mtu", user.0, user.1)
        .has("MTU", mtu, before)
        .means(format!(
            "MTU of {device} is {mtu}, was {before} at apply: larger packets are lost there"
        ))
        .ip(format!("link set {device} mtu {before}"))
}

/// The uplink or a leg takes more than `apply` found.
pub(crate) fn raised_mtu(user: (Object, &str), device: &str, mtu: u32, before: u32) -> Row {
    Row::finding("raised_mtu", user.0, user.1)
        .has("MTU", mtu, before)
        .means(format!(
            "MTU of {device} is {mtu}, was {before} at apply: larger packets than {before} are refused; if the network \
             carries {mtu}, apply again"
        ))
        .ip(format!("link set {device} mtu {before}"))
}

/// A leg has another MAC than `apply` found.
pub(crate) fn other_mac(user: (Object, &str), now: Mac, before: Mac) -> Row {
    let device = user.1;
    Row::finding("other_mac", user.0, device)
        .has("MAC", now, before)
        .means(format!(
            "MAC of {device} is {now}, was {before} at apply: the router sends from the old one, and takes nothing that \
             is for the new one; if the new one is meant, apply again"
        ))
        .ip(format!("link set {device} address {before}"))
}

/// The other end of the uplink or of a leg is down.
pub(crate) fn no_carrier(user: (Object, &str), device: &str) -> Row {
    Row::finding("no_carrier", user.0, user.1)
        .has("carrier", "none", "there")
        .means("it has no carrier: no packet passes")
        .advice(format!("bring up the other end of {device}, or its cable"))
}

/// Nobody answers for the next hop to a remote.
pub(crate) fn no_answer(remote: &str, next_hop: IpAddr, uplink: &str, since: Option<u64>) -> Row {
    Row::finding("no_answer", Object::Remote, remote)
        .since(since)
        .has("next hop", "silent", next_hop)
        .means(format!(
            "next hop {next_hop} does not answer on {uplink}: packets to it are lost"
        ))
        .advice(format!(
            "bring up {next_hop}, or its cable; the kernel asks again by itself"
        ))
}

/// Nobody answers for the next hop of a router behind its leg.
pub(crate) fn leg_silent(router: &str, next_hop: &str) -> Row {
    Row::finding("no_answer", Object::Router, router)
        .has("next hop", "silent", next_hop)
        .means(format!(
            "next hop {next_hop} behind its leg does not answer: packets to it are lost"
        ))
        .advice(format!(
            "bring up {next_hop}, or its cable; the router asks again by itself"
        ))
}

/// What keeps `apply` from working at all.
pub(crate) fn of_error(host: &str, error: &HostError) -> Vec<Row> {
    match error {
        HostError::MissingDevices {
            devices, besides, ..
        } => devices.iter().chain(besides).flat_map(missing).collect(),
        HostError::NoVtepAddress {
            uplink, address, ..
        } => {
            let prefix = if address.is_ipv4() { 24 } else { 64 };
            let row = Row::finding("no_address", Object::Uplink, uplink)
                .has("address", "missing", address)
                .means(format!("it does not have the underlay address {address}"))
                .ip(format!("address add {address}/{prefix} dev {uplink}"));
            vec![row]
        }
        HostError::MtuTooSmall { uplink, mtu, needs } => {
            let row = Row::finding("mtu_too_small", Object::Uplink, uplink)
                .has("MTU", mtu, format!("{needs} or more"))
                .means("the tunnel header leaves too little of it")
                .ip(format!("link set {uplink} mtu {needs}"));
            vec![row]
        }
        error => {
            let row = Row::finding("unknown", Object::Host, host).means(error);
            vec![match error.help() {
                Some(help) => row.advice(help),
                None => row,
            }]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_master_has_its_command() {
        for (kind, command) in [
            ("bridge", "`ip link set tap0 nomaster`"),
            ("bond", "`ip link set tap0 nomaster`"),
            ("openvswitch", "`ovs-vsctl del-port tap0`"),
        ] {
            let said = port_master("tap0", "up0", kind).to_string();
            assert!(said.contains(&format!("port of {kind} up0: ")), "{said}");
            assert!(said.ends_with(command), "{said}");
        }
    }

    #[test]
    fn each_port_on_a_missing_device_has_a_row() {
        let device = UnfitDevice {
            device: "trunk0".into(),
            used_as: UsedAs::Port,
            by: vec!["a".into(), "b".into()],
            elsewhere: None,
        };
        let names: Vec<_> = missing(&device).into_iter().map(|row| row.name).collect();
        assert_eq!(names, ["a", "b"]);
    }
}
