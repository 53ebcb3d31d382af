//! Switches of others: a mode of a device, or an entry in a list of the kernel, that its user may have set too. What we
//! switch on we switch off; what was on before us stays. Nothing of the kernel shows which is which, so the record and
//! the state file say what is ours.

use std::collections::BTreeSet;

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
    pub(super) wanted: fn(&Target<'_>) -> BTreeSet<Spot>,
    pub(super) is_on: fn(&Netlink, &Spot) -> Result<bool, NetError>,
    pub(super) set: fn(&Netlink, &Spot, bool) -> Result<(), NetError>,
    /// What a host goes without where the kernel refuses it; none: it is needed.
    pub(super) without: Option<fn(&Spot, &str) -> Row>,
}

impl Switch {
    fn thing(self, spot: &Spot) -> String {
        format!("{} {spot}", self.word)
    }

    pub(super) fn spot(self, thing: &str) -> Option<Spot> {
        let (word, rest) = thing.split_once(' ')?;
        let (device, address) = match rest.split_once(' ') {
            Some((device, address)) => (device, Some(address.parse().ok()?)),
            None => (rest, None),
        };
        // Only promiscuous mode is a device's own.
        let is_whole = address.is_some() != (self.object == Object::Promiscuous);
        (word == self.word && is_whole).then(|| Spot {
            device: device.to_owned(),
            address,
        })
    }

    pub(super) fn row(self, change: ChangeKind, spot: &Spot) -> Row {
        match spot.address {
            Some(address) => {
                Row::new(change, self.object, address).of(Object::Device, &spot.device)
            }
            None => Row::new(change, self.object, &spot.device),
        }
    }

    fn switch_on<'a>(self, spot: Spot) -> Deed<'a> {
        let thing = self.thing(&spot);
        let (row, refused) = (self.row(ChangeKind::Add, &spot), spot.clone());
        let itself = (self.object, row.name.clone());
        let deed = Deed::new(row, move |mending| {
            mending.journal.before()?;
            let netlink = mending.netlink;
            match (self.set)(netlink, &spot, true) {
                Ok(()) => {
                    let undo = move || unless_gone((self.set)(netlink, &spot, false));
                    mending.journal.push(undo);
                    Ok(Done::Yes)
                }
                Err(error) if self.without.is_some() && !error.is_not_found() => {
                    Ok(Done::Refused(error.to_string()))
                }
                Err(error) => Err(error.into()),
            }
        });
        let deed = deed.alone([itself]);
        match self.without {
            Some(without) => deed.or_without(thing, move |reason| without(&refused, reason)),
            None => deed,
        }
    }

    /// A device that is gone has taken its switches along.
    fn switch_off<'a>(self, spot: Spot) -> Deed<'a> {
        Deed::new(self.row(ChangeKind::Remove, &spot), move |mending| {
            mending.journal.before()?;
            let netlink = mending.netlink;
            match (self.is_on)(netlink, &spot) {
                Ok(true) => {}
                Ok(false) => return Ok(Done::Nothing),
                Err(error) if error.is_not_found() => return Ok(Done::Nothing),
                Err(error) => return Err(error.into()),
            }
            unless_gone((self.set)(netlink, &spot, false))?;
            let undo = move || unless_gone((self.set)(netlink, &spot, true));
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
            let is_on = (switch.is_on)(look.netlink, &spot)?;
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
