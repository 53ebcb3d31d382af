//! The devices of Overlane: which they are, and how a broken one is replaced. The old one waits under another name until
//! all else has succeeded; what an interrupted run put aside is deleted first.

use std::collections::BTreeMap;

use overlane_net::netns::Netns;
use overlane_net::{Link, NetError, Netlink, sysctl};

use super::inside;
use super::kind::Look;
use super::plan::{Deed, Done, Plan};
use crate::HostError;
use crate::lib::detour::own_devices;
use crate::lib::paths;
use crate::report::{Object, Row};

/// Devices with our names among those of a namespace, also those put aside.
pub(crate) fn find(links: &[Link]) -> BTreeMap<String, Link> {
    let aside = paths::ASIDE.map(|(_, aside)| aside);
    let is_ours = |name: &str| own_devices().any(|own| own == name) || aside.contains(&name);
    let ours = links.iter().filter(|link| is_ours(&link.name));
    ours.map(|link| (link.name.clone(), link.clone())).collect()
}

/// And those in the unmarker's namespace. No name is in both.
pub(crate) fn find_all(host: &str, links: &[Link]) -> Result<BTreeMap<String, Link>, HostError> {
    let mut devices = find(links);
    let inside = inside::inside(host)?.into_iter();
    devices.extend(inside.map(|link| (link.name.clone(), link)));
    Ok(devices)
}

/// A device of ours is up for a moment before it has its program: the host must neither speak nor listen there.
pub(crate) fn quiet(netlink: &Netlink, device: &str) -> Result<(), NetError> {
    netlink.set_addr_gen_none(device)?;
    netlink.set_arp(device, false)?;
    let disable_ipv6 = format!("net.ipv6.conf.{device}.disable_ipv6");
    match sysctl::set(&Netns::current()?, &disable_ipv6, "1") {
        // A kernel without IPv6.
        Err(error) if error.is_not_found() => Ok(()),
        other => other,
    }
}

/// A device is made, or made anew.
pub(super) fn row(look: &Look<'_>, name: &str, what: &str) -> Row {
    let row = match look.current.devices.contains_key(name) {
        true => Row::modify(Object::Device, name),
        false => Row::add(Object::Device, name),
    };
    row.detail(what)
}

/// What is there of these devices goes out of the way of new ones, or goes when nothing is wanted.
pub(super) fn discard_aside<'a>(look: &Look<'a>, plan: &mut Plan<'a>, names: &[&str]) {
    for (name, aside) in paths::ASIDE {
        if names.contains(&name) && look.current.devices.contains_key(aside) {
            let row = Row::remove(Object::Device, aside).detail("of an interrupted run");
            plan.add(discard(aside, row));
        }
    }
}

/// Deletes what no packet needs any more. Not undone.
pub(super) fn discard<'a>(name: &'static str, row: impl Into<Option<Row>>) -> Deed<'a> {
    Deed::new(row, move |mending| {
        mending.journal.before()?;
        Ok(delete(mending.netlink, name)?)
    })
}

/// The second end of a pair goes with the first.
pub(super) fn delete(netlink: &Netlink, name: &str) -> Result<Done, NetError> {
    match netlink.delete(name) {
        Err(error) if error.is_not_found() => Ok(Done::Nothing),
        other => other.map(|()| Done::Yes),
    }
}

/// Takes away what there is of these devices when all else has succeeded.
pub(super) fn take_away<'a>(
    look: &Look<'a>,
    plan: &mut Plan<'a>,
    names: &[&'static str],
    what: &str,
) {
    for name in names {
        if look.current.devices.contains_key(*name) {
            let row = Row::remove(Object::Device, name).detail(what);
            plan.clean_up(clean_up(name, row));
        }
    }
}

fn clean_up<'a>(name: &'static str, row: impl Into<Option<Row>>) -> Deed<'a> {
    Deed::new(row, move |mending| Ok(delete(mending.netlink, name)?))
}

/// The new devices get the names of these.
pub(super) fn put_aside<'a>(look: &Look<'a>, plan: &mut Plan<'a>, names: &[&str]) {
    for (name, aside) in paths::ASIDE {
        if !names.contains(&name) || !look.current.devices.contains_key(name) {
            continue;
        }
        plan.add(Deed::new(None, move |mending| {
            mending.journal.before()?;
            let netlink = mending.netlink;
            netlink.rename(name, aside)?;
            let undo = move || Ok(netlink.rename(aside, name)?);
            mending.journal.push(undo);
            Ok(Done::Yes)
        }));
        plan.clean_up(clean_up(aside, None));
    }
}
