//! Devices that come from another network namespace (`netns` of a port). Each comes when the guard has closed its name,
//! down, and is brought up when it has its program: its guest reaches nothing of the host in between.

use super::kind::{Kind, Look};
use super::plan::{Deed, Done, Plan};
use crate::HostError;
use crate::lib::elsewhere::Coming;
use crate::report::{Object, Row};

/// Each device, taken in.
pub(super) struct TakeIn;

impl Kind for TakeIn {
    fn compare<'a>(&self, look: &Look<'a>, plan: &mut Plan<'a>) -> Result<(), HostError> {
        for coming in coming(look) {
            // It is told when it is up.
            plan.add(Deed::new(None, move |mending| {
                mending.journal.before()?;
                let netlink = mending.netlink;
                coming.take(netlink)?;
                mending.journal.push(move || coming.put_back(netlink));
                Ok(Done::Yes)
            }));
        }
        Ok(())
    }
}

/// Each of them, up.
pub(super) struct BringUp;

impl Kind for BringUp {
    fn compare<'a>(&self, look: &Look<'a>, plan: &mut Plan<'a>) -> Result<(), HostError> {
        for coming in coming(look) {
            plan.add(bring_up(coming));
        }
        Ok(())
    }
}

fn coming<'a>(look: &Look<'a>) -> impl Iterator<Item = &'a Coming> + use<'a> {
    let target = look.target.into_iter();
    target.flat_map(|target| &target.resolved.coming)
}

/// Where its ports failed alone, it goes back.
fn bring_up(coming: &Coming) -> Deed<'_> {
    let from = format!("taken from network namespace {}", coming.netns);
    let row = Row::add(Object::Device, coming.name()).detail(from);
    let ports = coming.ports.iter();
    let things: Vec<_> = ports.map(|port| (Object::Port, port.clone())).collect();
    let users = things.clone();
    let deed = Deed::new(row, move |mending| {
        let netlink = mending.netlink;
        if users.iter().any(|user| mending.failed.contains(user)) {
            coming.put_back(netlink)?;
            return Ok(Done::Nothing);
        }
        mending.journal.before()?;
        if let Err(error) = netlink.set_up(coming.name()) {
            coming.put_back(netlink)?;
            return Err(error.into());
        }
        Ok(Done::Yes)
    });
    deed.alone(things)
}
