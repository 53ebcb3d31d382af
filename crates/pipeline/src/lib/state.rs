//! What the data path itself has written: addresses learned and neighbours found, and who counts how many; connections
//! and their places; fragments; what happens at most so often; what remotes can take, and the paths to them. The maps
//! `learned`, `learning`, `found`, `found_counts`, `asked`, `connections`, `translations`, `connection_places`, `fragments`, `limits`,
//! `abilities` and `path_mtus` of `bpf/lib/abi*.h`.
//! Everything else is in the tables.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use overlane_model::{Attachment, DeviceName, RouterId, RouterTable, Side, SwitchId, cookie};
use overlane_wire::Mac;

use crate::lib::connection::Connection;
use crate::lib::fragments::Fragments;
use crate::lib::key::{ConnectionKey, Zone};
use crate::lib::limit::{Limit, Limited};
use crate::lib::time::SECOND_NS;

/// A host that takes UDP super-packets whole says so of its ports and of its routers.
pub(crate) const WHOLE_UDP: u8 = 1;
pub(crate) const ROUTES_WHOLE_UDP: u8 = 2;

/// State of one host's data path, from packet to packet.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct State {
    pub(crate) learned: BTreeMap<(SwitchId, Mac), Learned>,
    /// By switch and key of the owner: see [`Learned::owner`].
    pub(crate) counts: BTreeMap<(SwitchId, u16), u32>,
    /// Of the whole host: not before then are old addresses looked for again.
    pub(crate) next_sweep_ns: u64,
    pub(crate) found: BTreeMap<NeighbourId, FoundNeighbour>,
    /// By side and key of the port; 0: of what the underlay brought, or a leg.
    pub(crate) found_counts: BTreeMap<(RouterSide, u16), u32>,
    /// Of the whole host: not before then are old neighbours looked for again.
    pub(crate) next_found_sweep_ns: u64,
    /// Whom routers ask for, and nobody has answered.
    pub(crate) asked: BTreeMap<NeighbourId, Asked>,
    /// Seed of what nobody outside may foresee.
    pub(crate) secret: u32,
    /// The same of cookies.
    pub(crate) cookie_key: [u32; 2],
    /// By whose packets caused it. `None`: a switch's, of a sender that nobody knows.
    pub(crate) limits: BTreeMap<(LimitOf, Limited), Limit>,
    pub(crate) connections: BTreeMap<ConnectionKey, Connection>,
    /// By what a translation is outside: its connection.
    pub(crate) translations: BTreeMap<ConnectionKey, ConnectionKey>,
    pub(crate) places: Places,
    /// Of datagrams that came in fragments.
    pub(crate) fragments: Fragments,
    /// The remotes that said they take UDP super-packets whole, or do not.
    pub(crate) abilities: BTreeMap<IpAddr, u8>,
    /// The devices that went, or left the namespace, since `apply`: others may have their names and indices.
    pub(crate) gone: BTreeSet<DeviceName>,
    /// Those of them that `apply` did not find: they are no port's.
    pub(crate) missing: BTreeSet<DeviceName>,
    /// By remote: what is said of the path to it. Old ones are among them.
    pub(crate) path_mtus: BTreeMap<IpAddr, PathMtu>,
}

/// Whose packets cause what happens at most so often.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum LimitOf {
    /// The port with this key, here or elsewhere; 0: unknown.
    Port(SwitchId, u16),
    /// Those who send from behind this router's leg.
    Leg(RouterId),
    /// This remote, with a MAC that the FDB does not have: nobody knows which of its ports sent it.
    Remote(IpAddr),
}

impl From<Zone> for LimitOf {
    fn from(zone: Zone) -> Self {
        match zone {
            Zone::Port(switch, key) => Self::Port(switch, key.get()),
            Zone::Router(router) => Self::Leg(router),
        }
    }
}

/// Where a learned address was last seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Learned {
    /// Where.
    pub place: LearnedPlace,
    /// Key of the port; 0: behind a remote that did not say.
    pub key: u16,
    /// It is a MAC that several ports may use.
    pub floats: bool,
    /// Seconds it is remembered.
    pub age_s: u32,
    /// When, with the accuracy of a second.
    pub seen_ns: u64,
}

/// A place that packets came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LearnedPlace {
    /// A learning port of this host.
    Port(Attachment),
    /// This VTEP.
    Remote(IpAddr),
    /// The VLAN on the uplink.
    Vlan,
}

/// Where routers find neighbours.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RouterSide {
    /// On this logical switch.
    Switch(SwitchId),
    /// In the physical network behind this router's leg.
    Leg(RouterId),
}

impl RouterSide {
    /// Above the number of a router whose leg it is: `ZONE_ROUTER` of `bpf/lib/abi_firewall.h`.
    pub const LEG_BIT: u32 = 1 << 25;

    pub(crate) fn of(router: &RouterTable, side: Side) -> Self {
        match side {
            Side::Switch(id) => Self::Switch(id),
            Side::Leg => Self::Leg(router.id),
        }
    }

    /// Its number in the maps of the data path.
    pub fn number(self) -> u32 {
        match self {
            Self::Switch(id) => id.number(),
            Self::Leg(router) => Self::LEG_BIT | router.get(),
        }
    }
}

/// A neighbour by its side and address.
pub type NeighbourId = (RouterSide, IpAddr);

/// A neighbour that answered a router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundNeighbour {
    /// Where frames for it go.
    pub mac: Mac,
    /// Key of the port that counts it; 0: behind the underlay, or a leg.
    pub key: u16,
    /// When it last answered a router, with the accuracy of a second.
    pub confirmed_ns: u64,
    /// When it was asked again last,
    pub asked_ns: u64,
    /// so many times.
    pub tries: u32,
    /// No router has asked for it: it spoke first.
    pub unasked: bool,
}

impl FoundNeighbour {
    /// Beside the key in the counts of those that spoke first: `FOUND_UNASKED` of `bpf/lib/abi.h`.
    pub const UNASKED: u16 = 0x8000;

    /// Under which key it counts.
    pub(crate) fn owner(&self) -> u16 {
        self.key | if self.unasked { Self::UNASKED } else { 0 }
    }
}

/// A router asks for an address that nobody has answered for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// The last time,
    pub at_ns: u64,
    /// of so many.
    pub tries: u32,
}

/// What somebody on the way to a remote said. The map `path_mtus` of `bpf/lib/abi.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathMtu {
    /// Of the largest outer IP packet that gets there.
    pub mtu: u32,
    /// On the clock of packets, in seconds: then it is forgotten.
    pub until_s: u64,
    /// Who.
    pub hop: IpAddr,
}

/// Who had which place last.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Places {
    /// A place of a connection that is forgotten is free, though its key still stands here.
    pub(crate) last: BTreeMap<u32, ConnectionKey>,
}

impl Places {
    pub(crate) fn put(&mut self, place: u32, key: ConnectionKey) {
        self.last.insert(place, key);
    }
}

impl State {
    /// Most addresses that are learned: `MAX_LEARNED`.
    pub const MAX_LEARNED: usize = 262_144;
    /// Most of them that one switch learns from the underlay: `MAX_LEARNED_FROM_UNDERLAY`.
    pub const MAX_LEARNED_FROM_UNDERLAY: u32 = 4096;

    /// Under this key, which no port has, count the floating MACs of a switch: `LEARNING_FLOATING`.
    pub const FLOATING: u16 = 0x8000;

    /// Nothing learned, no connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with the seeds of what nobody outside may foresee, all of them this; they are 0 without.
    #[must_use]
    pub fn with_secret(mut self, secret: u32) -> Self {
        self.secret = secret;
        self.cookie_key = [secret; 2];
        self
    }

    /// These devices are gone, and no others.
    pub fn set_gone(&mut self, devices: BTreeSet<DeviceName>) {
        self.gone = devices;
    }

    /// `apply` did not find these devices of ports. They are gone, too.
    pub fn set_missing(&mut self, devices: BTreeSet<DeviceName>) {
        self.gone.extend(devices.iter().cloned());
        self.missing = devices;
    }

    /// What makes its cookies.
    pub(crate) const fn cookies(&self) -> cookie::Key {
        cookie::Key {
            secret: self.secret,
            words: self.cookie_key,
        }
    }

    /// Whether so much more may happen now; then it is counted.
    pub(crate) fn allows(
        &mut self,
        of: LimitOf,
        what: Limited,
        now_ns: u64,
        weight: u32,
        most: u32,
    ) -> bool {
        let limit = self.limits.entry((of, what)).or_default();
        limit.allow(now_ns, what, weight, most)
    }

    /// Every connection, expired ones that nobody has asked for since included.
    pub fn connections(&self) -> &BTreeMap<ConnectionKey, Connection> {
        &self.connections
    }

    /// What the local end of a translation is outside: the key there, and that of its connection.
    pub fn translations(&self) -> &BTreeMap<ConnectionKey, ConnectionKey> {
        &self.translations
    }

    /// Every learned address, old ones included.
    pub fn learned(&self) -> &BTreeMap<(SwitchId, Mac), Learned> {
        &self.learned
    }

    /// What was said of the path to each remote, old entries included.
    pub fn path_mtus(&self) -> &BTreeMap<IpAddr, PathMtu> {
        &self.path_mtus
    }

    /// How many addresses the learning ports have, by switch and key, with key 0 how many were learned
    /// from the underlay, and with [`FLOATING`](Self::FLOATING) how many float. Those that nobody has forgotten yet are among them.
    pub fn counts(&self) -> &BTreeMap<(SwitchId, u16), u32> {
        &self.counts
    }

    /// A connection is over, and what it is outside with it. Its place is free for others.
    pub(crate) fn forget(&mut self, key: &ConnectionKey) {
        let Some(connection) = self.connections.remove(key) else {
            return;
        };
        if let Some(outside) = connection.outside
            && self.translations.get(&outside) == Some(key)
        {
            self.translations.remove(&outside);
        }
    }

    pub(crate) fn remember(&mut self, key: ConnectionKey, connection: Connection) {
        self.places.put(connection.place, key);
        if let Some(outside) = connection.outside {
            self.translations.insert(outside, key);
        }
        self.connections.insert(key, connection);
    }
}

impl Learned {
    /// The key of who counts it: its learning port, 0 for what was learned from the underlay, or [`FLOATING`] for
    /// what floats in the switch.
    ///
    /// [`FLOATING`]: State::FLOATING
    pub(crate) fn owner(&self) -> u16 {
        match self.place {
            _ if self.floats => State::FLOATING,
            LearnedPlace::Port(_) => self.key,
            LearnedPlace::Remote(_) | LearnedPlace::Vlan => 0,
        }
    }

    /// Nobody has seen it for its age.
    pub fn is_old(&self, now_ns: u64) -> bool {
        let age_ns = u64::from(self.age_s) * SECOND_NS;
        now_ns > self.seen_ns.saturating_add(age_ns)
    }
}
