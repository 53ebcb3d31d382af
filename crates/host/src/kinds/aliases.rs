//! Aliases of devices: `ip link` says which port, leg or uplink a device is. What somebody else wrote there stays.

use std::collections::BTreeMap;

use overlane_model::Tables;

use super::kind::{Kind, Look};
use super::plan::{Deed, Done, Plan, unless_gone};
use crate::HostError;
use crate::report::{Object, Row};

/// The kernel takes no more bytes (IFALIASZ), a zero behind them included.
const LONGEST: usize = 254;

/// A word at each device of the fabric.
pub(super) struct Aliases;

impl Kind for Aliases {
    fn compare<'a>(&self, look: &Look<'a>, plan: &mut Plan<'a>) -> Result<(), HostError> {
        let ours = format!("overlane {}: ", look.host);
        let of = |tables| aliases(tables, &ours);
        let mut wanted = look
            .target
            .map(|target| of(target.tables))
            .unwrap_or_default();
        let before = look.current.state_in(look.here);
        let before = before.map(|state| of(&state.tables)).unwrap_or_default();
        let coming = look
            .target
            .map_or(&[][..], |target| &target.resolved.coming);
        let comes = |device: &str| coming.iter().any(|coming| coming.name() == device);
        for link in &look.current.in_namespace {
            let (device, is) = (&link.name, link.alias.clone().unwrap_or_default());
            let is_ours = is.starts_with(&ours);
            let should = match wanted.remove(device) {
                Some(should) if should != is && (is.is_empty() || is_ours) => should,
                None if is_ours => String::new(),
                _ => continue,
            };
            // Beside a port that is new or another one, or a device that comes, nobody needs to hear of it.
            let is_repaired = before.get(device) == Some(&should) && !comes(device);
            let row = Row::modify(Object::Device, device).has("alias", word(&is), word(&should));
            let row = is_repaired.then_some(row);
            plan.add(write(device.clone(), is, should, row));
        }
        Ok(())
    }
}

/// By device.
fn aliases(tables: &Tables, ours: &str) -> BTreeMap<String, String> {
    let mut users = BTreeMap::<String, Vec<String>>::new();
    let ports = tables.ports.iter();
    let ports = ports.map(|port| (&port.attachment.device, format!("port {}", port.name)));
    let legs = tables.legs();
    let legs = legs.map(|(router, device)| (device, format!("leg of {}", router.name)));
    let uplink = (&tables.uplink, "uplink".to_owned());
    for (device, user) in ports.chain(legs).chain([uplink]) {
        users.entry(device.to_string()).or_default().push(user);
    }
    let alias = |(device, users): (String, Vec<String>)| {
        let mut alias = format!("{ours}{}", users.join(", "));
        alias.truncate(LONGEST);
        (device, alias)
    };
    users.into_iter().map(alias).collect()
}

fn word(alias: &str) -> &str {
    if alias.is_empty() { "none" } else { alias }
}

/// A device works without.
fn write<'a>(device: String, before: String, alias: String, row: Option<Row>) -> Deed<'a> {
    let (thing, name) = (format!("alias {device}"), device.clone());
    let deed = Deed::new(row, move |mending| {
        mending.journal.before()?;
        let netlink = mending.netlink;
        match netlink.set_alias(&device, &alias) {
            Ok(()) => {
                let undo = move || unless_gone(netlink.set_alias(&device, &before));
                mending.journal.push(undo);
                Ok(Done::Yes)
            }
            // It went with its device.
            Err(error) if error.is_not_found() => Ok(Done::Nothing),
            Err(error) => Ok(Done::Refused(error.to_string())),
        }
    });
    deed.or_without(thing, move |reason| {
        let meaning = format!("`ip link` does not say whose it is: {reason}");
        Row::remark("no_alias", Object::Device, &name).means(meaning)
    })
}

#[cfg(test)]
mod tests {
    use overlane_model::Fabric;

    use super::*;

    #[test]
    fn each_device_says_whose_it_is() {
        let text = "version: 1\nhosts: { h1: { underlay: 198.18.0.1, uplink: eth1 } }\n\
            switches: { s: { vni: 5001 } }\nports:\n  \
            a: { switch: s, host: h1, device: v0, vlan: 10, mac: '02:00:00:00:00:01' }\n  \
            b: { switch: s, host: h1, device: v0, vlan: 20, mac: '02:00:00:00:00:02' }\n\
            routers:\n  r:\n    interfaces: { s: [198.18.1.254/24] }\n    \
            gateway: { host: h1, device: phys0, addresses: [198.19.0.2/24] }\n";
        let tables = Fabric::parse("f", text).unwrap().compile("h1").unwrap();
        let found = aliases(&tables, "overlane h1: ");
        let expected = [
            ("eth1", "overlane h1: uplink"),
            ("phys0", "overlane h1: leg of r"),
            ("v0", "overlane h1: port a, port b"),
        ];
        let expected = expected.map(|(device, alias)| (device.to_owned(), alias.to_owned()));
        assert_eq!(found, expected.into());
    }
}
