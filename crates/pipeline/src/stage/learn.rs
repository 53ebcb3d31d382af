//! Stage learn: source addresses behind learning ports, and behind remotes on switches that have such
//! ports. The fabric's FDB always comes first, so that no port can take an address the fabric gave away.
//! From a port between `port_security` and `arp_nd`, from a tunnel between `ecn` and `ids`.

use overlane_model::{Name, SwitchId, SwitchTable, Verdict};
use overlane_wire::Mac;

use crate::lib::context::{Context, Stage};
use crate::lib::explain::{Found, sharers};
use crate::lib::frame::Frame;
use crate::lib::source::Source;
use crate::lib::state::{Learned, LearnedPlace, State};
use crate::lib::time::SECOND_NS;

const STAGE: &str = "learn";
/// There are no more of what floats than the fabric lists.
const NO_LIMIT: u32 = u32::MAX;

pub(crate) fn from_port(cx: &mut Context<'_>, source: &Source<'_>, frame: &Frame<'_>) -> Stage {
    let (port, mac) = (source.port, frame.source);
    if mac == port.mac {
        return Stage::Continue(());
    }
    let floats = port.allowed_macs.contains(&mac);
    let limit = match port.learning {
        _ if floats => NO_LIMIT,
        Some(learning) => learning.limit,
        None => return Stage::Continue(()),
    };
    if !floats && let Some(owners) = owners(cx, port.switch, mac) {
        if port.security.check_mac {
            return cx.end(STAGE, Verdict::SpoofedMac, || {
                let who = sharers(owners);
                let text = format!("{mac} belongs to {who}, and is not learned elsewhere");
                match owners {
                    [owner, ..] => Found::by_port(text, owner),
                    [] => text.into(),
                }
            });
        }
        return Stage::Continue(());
    }
    let entry = Learned {
        place: LearnedPlace::Port(port.attachment.clone()),
        key: port.key.get(),
        floats,
        age_s: port.learn_age_s().unwrap_or_default(),
        seen_ns: cx.now_ns,
    };
    if cx.state.see_again((port.switch, mac), &entry) {
        cx.step(STAGE, || {
            format!("{mac} was learned at port {} before", port.name)
        });
        return Stage::Continue(());
    }
    if cx.state.learn_new((port.switch, mac), entry, limit) {
        cx.step(STAGE, || {
            Found::by_port(format!("{mac} is at port {} now", port.name), &port.name)
        });
        return Stage::Continue(());
    }
    cx.end(STAGE, Verdict::MacLimit, || {
        let name = &port.name;
        let text = match floats {
            true => format!("{mac} is new at port {name}, and the table is full"),
            false => format!(
                "{mac} is new, and port {name} has its limit of {limit} addresses, or the table is full"
            ),
        };
        Found::by_port(text, name)
    })
}

/// Who has a MAC by the fabric: one port or router, or those that share it.
fn owners<'a>(cx: &Context<'a>, switch: SwitchId, mac: Mac) -> Option<&'a [Name]> {
    let declared = cx.host.fdb_entry(switch, mac);
    let declared = declared.map(|entry| std::slice::from_ref(&entry.port));
    declared.or_else(|| Some(cx.host.floating_mac(switch, mac)?.ports.as_slice()))
}

/// From the underlay nothing is refused: the frame's own host did that. Where the switch has its limit of
/// such addresses, or the table is full, it is just not learned. `place` is the remote, or the VLAN;
/// `key` that of the port there, 0 where nobody said.
pub(crate) fn from_underlay(
    cx: &mut Context<'_>,
    switch: &SwitchTable,
    frame: &Frame<'_>,
    place: LearnedPlace,
    key: u16,
) {
    let mac = frame.source;
    let Some(age_s) = switch.learn_age_s else {
        return;
    };
    if cx.host.fdb_entry(switch.id, mac).is_some() {
        return;
    }
    let floats = cx.host.floating_mac(switch.id, mac).is_some();
    let entry = Learned {
        place: place.clone(),
        key,
        floats,
        age_s,
        seen_ns: cx.now_ns,
    };
    let id = (switch.id, mac);
    let limit = match floats {
        true => NO_LIMIT,
        false => State::MAX_LEARNED_FROM_UNDERLAY,
    };
    if !cx.state.see_again(id, &entry) && cx.state.learn_new(id, entry, limit) {
        cx.step(STAGE, || {
            let where_ = match place {
                LearnedPlace::Remote(remote) => match cx.host.remote(remote) {
                    Some(host) => format!("on host {} ({remote})", host.name),
                    None => format!("behind {remote}"),
                },
                LearnedPlace::Port(_) | LearnedPlace::Vlan => "behind the uplink".to_owned(),
            };
            Found::by_switch(format!("{mac} is {where_} now"), &switch.name)
        });
    }
}

impl State {
    /// Whether the address is known to be there; then it is seen now. Written at most once a second.
    fn see_again(&mut self, id: (SwitchId, Mac), seen: &Learned) -> bool {
        let Some(known) = self.learned.get_mut(&id) else {
            return false;
        };
        if (known.key, known.floats) != (seen.key, seen.floats) || known.place != seen.place {
            return false;
        }
        if seen.seen_ns >= known.seen_ns.saturating_add(SECOND_NS) {
            known.seen_ns = seen.seen_ns;
        }
        true
    }

    /// A new address, or one that has moved; false where there is no room for it.
    fn learn_new(&mut self, id: (SwitchId, Mac), entry: Learned, limit: u32) -> bool {
        let (owner, now_ns) = ((id.0, entry.owner()), entry.seen_ns);
        let has_limit = |state: &Self| state.counts.get(&owner).is_some_and(|macs| *macs >= limit);
        if has_limit(self) {
            self.sweep(now_ns);
        }
        if has_limit(self) {
            return false;
        }
        if self.is_full(&id) {
            self.sweep(now_ns);
        }
        if self.is_full(&id) {
            return false;
        }
        if let Some(former) = self.learned.insert(id, entry) {
            self.uncount(id.0, &former);
        }
        *self.counts.entry(owner).or_default() += 1;
        true
    }

    fn is_full(&self, id: &(SwitchId, Mac)) -> bool {
        self.learned.len() >= Self::MAX_LEARNED && !self.learned.contains_key(id)
    }

    /// Forgets what is old, everywhere: it walks the whole table, so at most once a second on the host.
    fn sweep(&mut self, now_ns: u64) {
        if now_ns < self.next_sweep_ns {
            return;
        }
        self.next_sweep_ns = now_ns.saturating_add(SECOND_NS);
        let old: Vec<_> = self
            .learned
            .extract_if(.., |_, learned| learned.is_old(now_ns))
            .collect();
        for ((switch, _), learned) in old {
            self.uncount(switch, &learned);
        }
    }

    fn uncount(&mut self, switch: SwitchId, former: &Learned) {
        if let Some(macs) = self.counts.get_mut(&(switch, former.owner())) {
            *macs = macs.saturating_sub(1);
        }
    }
}
