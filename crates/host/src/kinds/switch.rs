//! Switches of others: a mode of a device, or an entry in a list of the kernel, that its user may have set too. What we
//! switch on we switch off; what was on before us stays. Nothing of the kernel shows which is which, so the record and
//! the state file say what is ours.

use std::collections::BTreeSet;
use std::net::IpAddr;

use nix::errno::Errno;
use overlane_net::{NetError, Netlink};

use super::kind::{Kind, Look};
use super::plan::unless_gone;
use super::plan::{Deed, Done, Plan};
use super::target::{Spot, Target};
use crate::HostError;
use crate::report::{ChangeKind, Object, Row};

/// One kind of switch.
#[derive(Clone, Copy)]
pub(super) struct Switch {
    /// The first word of its things in the record.
    pub(super) word: &'static str,
    pub(super) object: Object,
    /// What it is for, in a sentence.
    pub(super) purpose: Option<&'static str>,
    pub(super) wanted: fn(&Target<'_>) -> BTreeSet<Spot>,
    pub(super) form: Form,
}

/// What is switched.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// A mode of a device.
    Mode {
        is_on: fn(&Netlink, &str) -> Result<bool, NetError>,
        set: fn(&Netlink, &str, bool) -> Result<(), NetError>,
    },
    /// An address in a list of a device.
    Entry {
        is_on: fn(&Netlink, &str, IpAddr) -> Result<bool, NetError>,
        set: fn(&Netlink, &str, IpAddr, bool) -> Result<(), NetError>,
        /// What a host goes without where the kernel refuses the address, for this reason; none: it is needed.
        without: Option<fn(&str, IpAddr, &str) -> Row>,
    },
}

impl Switch {
    /// [`spot`](Self::spot) makes no spot of another form.
    pub(super) fn is_on(self, netlink: &Netlink, spot: &Spot) -> Result<bool, NetError> {
        match (self.form, spot.address) {
            (Form::Mode { is_on, .. }, _) => is_on(netlink, &spot.device),
            (Form::Entry { is_on, .. }, Some(address)) => is_on(netlink, &spot.device, address),
            (Form::Entry { .. }, None) => Ok(false),
        }
    }

    pub(super) fn set(self, netlink: &Netlink, spot: &Spot, on: bool) -> Result<(), NetError> {
        match (self.form, spot.address) {
            (Form::Mode { set, .. }, _) => set(netlink, &spot.device, on),
            (Form::Entry { set, .. }, Some(address)) => set(netlink, &spot.device, address, on),
            (Form::Entry { .. }, None) => Ok(()),
        }
    }

    fn thing(self, spot: &Spot) -> String {
        format!("{} {spot}", self.word)
    }

    pub(super) fn spot(self, thing: &str) -> Option<Spot> {
        let (word, rest) = thing.split_once(' ')?;
        let (device, address) = match rest.split_once(' ') {
            Some((device, address)) => (device, Some(address.parse().ok()?)),
            None => (rest, None),
        };
        let is_entry = matches!(self.form, Form::Entry { .. });
        (word == self.word && is_entry == address.is_some()).then(|| Spot {
            device: device.to_owned(),
            address,
        })
    }

    pub(super) fn row(self, change: ChangeKind, spot: &Spot) -> Row {
        let row = match spot.address {
            Some(address) => {
                Row::new(change, self.object, address).of(Object::Device, &spot.device)
            }
            None => Row::new(change, self.object, &spot.device),
        };
        match self.purpose {
            Some(purpose) if change == ChangeKind::Add => row.detail(purpose),
            _ => row,
        }
    }

    fn switch_on<'a>(self, spot: Spot) -> Deed<'a> {
        let thing = self.thing(&spot);
        let row = self.row(ChangeKind::Add, &spot);
        let without = match (self.form, spot.address) {
            (Form::Entry { without, .. }, Some(address)) => {
                let device = spot.device.clone();
                without.map(|row| move |reason: &str| row(&device, address, reason))
            }
            _ => None,
        };
        let is_needed = without.is_none();
        let itself = (self.object, row.name.clone());
        let made = thing.clone();
        let deed = Deed::new(row, move |mending| {
            mending.journal.before()?;
            let netlink = mending.netlink;
            if mending.journal.is_refused(&made) {
                return Ok(Done::Refused(Errno::ENOBUFS.to_string()));
            }
            match self.set(netlink, &spot, true) {
                Ok(()) => {
                    let undo = move || unless_gone(self.set(netlink, &spot, false));
                    mending.journal.push(undo);
                    Ok(Done::Yes)
                }
                Err(error) if !is_needed && !error.is_not_found() => {
                    Ok(Done::Refused(error.to_string()))
                }
                Err(error) => Err(error.into()),
            }
        });
        let deed = deed.alone([itself]);
        match without {
            Some(without) => deed.or_without(thing, without),
            None => deed.makes(thing),
        }
    }

    /// A device that is gone has taken its switches along.
    fn switch_off<'a>(self, spot: Spot) -> Deed<'a> {
        Deed::new(self.row(ChangeKind::Remove, &spot), move |mending| {
            mending.journal.before()?;
            let netlink = mending.netlink;
            match self.is_on(netlink, &spot) {
                Ok(true) => {}
                Ok(false) => return Ok(Done::Nothing),
                Err(error) if error.is_not_found() => return Ok(Done::Nothing),
                Err(error) => return Err(error.into()),
            }
            unless_gone(self.set(netlink, &spot, false))?;
            let undo = move || unless_gone(self.set(netlink, &spot, true));
            mending.journal.push(undo);
            Ok(Done::Yes)
        })
    }
}

impl Kind for Switch {
    fn compare<'a>(&self, look: &Look<'a>, plan: &mut Plan<'a>) -> Result<(), HostError> {
        let switch = *self;
        let mut before: BTreeSet<Spot> = (look.ours.iter())
            .filter_map(|thing| switch.spot(thing))
            .collect();
        let wanted = look.target.map(switch.wanted).unwrap_or_default();
        for spot in wanted {
            let was_ours = before.remove(&spot);
            let is_on = switch.is_on(look.netlink, &spot)?;
            if was_ours || !is_on {
                plan.ours.insert(switch.thing(&spot));
            }
            if !is_on {
                plan.add(switch.switch_on(spot));
            }
        }
        for spot in before {
            plan.delete(switch.switch_off(spot));
        }
        Ok(())
    }

    fn knows(&self, thing: &str) -> bool {
        self.spot(thing).is_some()
    }
}

#[cfg(test)]
mod tests {
    use crate::kinds::{groups::GROUPS, next_hops::NEXT_HOPS, promiscuous::PROMISCUOUS};

    #[test]
    fn the_record_says_what_is_ours_in_words_of_its_kind() {
        for (switch, thing) in [
            (&PROMISCUOUS, "promiscuous eth1"),
            (&NEXT_HOPS, "managed eth1.5 198.18.0.2"),
            (&GROUPS, "group phys0 2001:2::1"),
        ] {
            assert_eq!(switch.thing(&switch.spot(thing).unwrap()), thing);
        }
        for wrong in [
            "altname eth1",
            "managed eth1",
            "group x 1.2.3",
            "promiscuous eth1 198.18.0.2",
            "x",
        ] {
            for switch in [&PROMISCUOUS, &NEXT_HOPS, &GROUPS] {
                assert_eq!(switch.spot(wrong), None, "{wrong}");
            }
        }
    }
}
