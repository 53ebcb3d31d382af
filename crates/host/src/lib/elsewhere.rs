//! Devices of ports that somebody makes in another network namespace: which are there, how one comes into the host's
//! namespace, and how it goes back.
//!
//! ```text
//!   look: there is no web1 here, and c1 has one ──► Coming, with the index that it will have here
//!   take: is it still the one that was looked at? ──► by its index from there to here, down
//!   put_back: the same way back, up if it was up
//! ```
//!
//! The index is chosen before the device comes, so that tables can be made with it. No step keeps a file or a socket of
//! the other namespace: whoever keeps one keeps that namespace and its devices alive.

use std::collections::{BTreeMap, BTreeSet};

use overlane_ebpf::devices as held;
use overlane_model::{Netns as Declared, Tables};
use overlane_net::netns::{self, Netns};
use overlane_net::{Link, NetError, Netlink};

use super::error::{Absence, HostError, NotElsewhere};
use super::features::takes_mark;
use super::random;

/// Indices for devices whose own one is taken here. The kernel counts up from 1 and gets nowhere near, and the
/// segmenter's is above.
const FREE: u32 = 1 << 29;

/// Why devices could not be taken in by an earlier try, and what helps.
pub(crate) type NotTaken = BTreeMap<String, (String, Option<String>)>;

/// What other namespaces have of the ports' devices that this one lacks.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere {
    /// To be taken in.
    pub(crate) coming: Vec<Coming>,
    /// By device, what was found in place of it.
    pub(crate) absent: BTreeMap<String, NotElsewhere>,
}

/// A device that another namespace has, and that this one will have.
#[derive(Debug, Clone)]
pub(crate) struct Coming {
    /// As declared.
    pub(crate) netns: Declared,
    /// The ports on it.
    pub(crate) ports: Vec<String>,
    /// As it will be here.
    pub(crate) here: Link,
    /// It takes super-packets that have the tunnel's mark.
    pub(crate) takes_mark: bool,
    /// As it was found there.
    there: Link,
    /// The number of that namespace, which no other one gets.
    cookie: u64,
}

/// What one namespace has.
enum Found {
    /// It is the namespace of this thread.
    Here,
    Device {
        cookie: u64,
        link: Box<Link>,
        takes_mark: bool,
    },
}

impl Elsewhere {
    /// Looks for the devices that are not among the `links` of the namespace of this thread. Those that an earlier try
    /// could not take in stay where they are.
    pub(crate) fn look(
        tables: &Tables,
        links: &[Link],
        not_taken: &NotTaken,
    ) -> Result<Self, HostError> {
        let here = netns::current_cookie()?;
        let names: BTreeSet<&str> = links.iter().map(|link| link.name.as_str()).collect();
        let mut taken: BTreeSet<u32> = links.iter().map(|link| link.index).collect();
        let mut elsewhere = Self::default();
        for (device, netns) in tables.devices_elsewhere() {
            let device = device.as_str();
            let absent = |why| NotElsewhere {
                netns: netns.clone(),
                why,
            };
            let found = match not_taken.contains_key(device) {
                true => Err(Absence::NotTaken),
                false if names.contains(device) => continue,
                false => look_into(netns, device, here),
            };
            match found {
                Ok(Found::Here) => {}
                Ok(Found::Device {
                    cookie,
                    link: there,
                    takes_mark,
                }) => {
                    let index = free_index(there.index, &mut taken);
                    elsewhere.coming.push(Coming {
                        netns: netns.clone(),
                        ports: ports_on(tables, device),
                        here: as_it_will_be(&there, index, links),
                        takes_mark,
                        there: *there,
                        cookie,
                    });
                }
                Err(why) => drop(elsewhere.absent.insert(device.to_owned(), absent(why))),
            }
        }
        Ok(elsewhere)
    }

    /// The devices that are coming, as they will be here.
    pub(crate) fn links(&self) -> impl Iterator<Item = Link> {
        self.coming.iter().map(|coming| coming.here.clone())
    }

    /// The device of this name, if it is coming.
    pub(crate) fn of(&self, device: &str) -> Option<&Coming> {
        self.coming.iter().find(|coming| coming.name() == device)
    }
}

impl Coming {
    pub(crate) fn name(&self) -> &str {
        &self.here.name
    }

    /// Takes it into the namespace of this thread, where it is down. On an error it is where it was.
    pub(crate) fn take(&self, netlink: &Netlink) -> Result<(), HostError> {
        let here = Netns::current()?;
        let there = self.open()?.ok_or_else(|| held::gone(self.name()))?;
        let moved = there.run(|| {
            let netlink = Netlink::new()?;
            match netlink.link_by_index(self.there.index) {
                Ok(link) if is_same(&link, &self.there) => {}
                // Another device has its index, or none.
                Ok(_) => return Ok(false),
                Err(error) if error.is_not_found() => return Ok(false),
                Err(error) => return Err(error),
            }
            let device = (self.there.index, self.name());
            netlink.move_to(device, &here, Some(self.here.index))?;
            Ok(true)
        })?;
        match moved {
            Ok(true) => {}
            Ok(false) => return Err(held::gone(self.name()).into()),
            Err(source) => {
                return Err(HostError::NotTakenIn {
                    device: self.name().to_owned(),
                    ports: self.ports.clone(),
                    netns: self.netns.clone(),
                    source: Box::new(source),
                });
            }
        }
        let link = netlink.link_by_index(self.here.index);
        if link.is_ok_and(|link| is_same(&link, &self.there)) {
            return Ok(());
        }
        self.put_back(netlink)?;
        Err(held::gone(self.name()).into())
    }

    /// Puts it back where it was, under its index if that is free, and up if it was. What went with its namespace needs no
    /// way back.
    pub(crate) fn put_back(&self, netlink: &Netlink) -> Result<(), HostError> {
        let index = self.here.index;
        match netlink.link_by_index(index) {
            Ok(link) if link.name == self.name() => {}
            Ok(_) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let no_namespace = || HostError::NoNamespace(self.netns.to_string());
        let there = self.open()?.ok_or_else(no_namespace)?;
        let device = (index, self.name());
        match netlink.move_to(device, &there, Some(self.there.index)) {
            Err(error) if error.is_busy() => netlink.move_to(device, &there, None)?,
            other => other?,
        }
        if self.there.up {
            there.run(|| Netlink::new()?.set_up(self.name()))??;
        }
        Ok(())
    }

    /// The namespace in which it was found, if it is still there under this name.
    fn open(&self) -> Result<Option<Netns>, HostError> {
        let found = Netns::at(&self.netns.path()).and_then(|netns| {
            let cookie = netns.run(netns::current_cookie)??;
            Ok((cookie == self.cookie).then_some(netns))
        });
        match found {
            Err(NetError::NotANamespace { .. }) => Ok(None),
            Err(error) if error.is_not_found() => Ok(None),
            other => Ok(other?),
        }
    }
}

/// From a thread in that namespace.
fn look_into(netns: &Declared, device: &str, here: u64) -> Result<Found, Absence> {
    let look = || {
        let cookie = netns::current_cookie()?;
        if cookie == here {
            return Ok(Found::Here);
        }
        let netlink = Netlink::new()?;
        let link = Box::new(netlink.link(device)?);
        Ok(Found::Device {
            cookie,
            takes_mark: takes_mark(&link, &netlink),
            link,
        })
    };
    let found = Netns::at(&netns.path()).and_then(|netns| netns.run(look).flatten());
    found.map_err(|error: NetError| match error {
        NetError::NotANamespace { .. } => Absence::NotANamespace,
        NetError::OtherName { device, .. } => Absence::OtherName(device),
        error if error.is_not_found() && error.device().is_some() => Absence::NoDevice,
        error if error.is_not_found() => Absence::NoNamespace,
        error => Absence::Unreadable(error.to_string()),
    })
}

fn ports_on(tables: &Tables, device: &str) -> Vec<String> {
    let ports = tables.ports.iter();
    let ports = ports.filter(|port| port.attachment.device.as_str() == device);
    ports.map(|port| port.name.to_string()).collect()
}

/// Its own index, if no device here has it, as the kernel does. It is taken then.
fn free_index(own: u32, taken: &mut BTreeSet<u32>) -> u32 {
    let mut index = own;
    while !taken.insert(index) {
        index = FREE + random::number() as u32 % FREE;
    }
    index
}

/// It leaves its master, and `apply` brings it up.
fn as_it_will_be(there: &Link, index: u32, links: &[Link]) -> Link {
    let is_peer = |link: &Link| {
        link.peer_in_other_netns
            && link.kind == there.kind
            && (Some(link.index), link.peer_index) == (there.peer_index, Some(there.index))
    };
    Link {
        index,
        up: true,
        master: None,
        peer_in_other_netns: there.peer_index.is_some() && !links.iter().any(is_peer),
        ..there.clone()
    }
}

/// What a device keeps when it moves.
fn is_same(one: &Link, other: &Link) -> bool {
    let traits = |link: &Link| (link.kind.clone(), link.mac, link.is_layer3, link.peer_index);
    one.name == other.name && traits(one) == traits(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_keeps_its_index_unless_another_one_has_it() {
        let mut taken = BTreeSet::from([1, 2]);
        assert_eq!(free_index(3, &mut taken), 3);
        for _ in 0..2 {
            let index = free_index(3, &mut taken);
            assert!((FREE..2 * FREE).contains(&index), "{index}");
        }
        assert_eq!(taken.len(), 5);
    }

    #[test]
    fn a_device_that_comes_leaves_its_peer_or_comes_to_it() {
        let link = |index, peer, is_apart| Link {
            index,
            kind: Some("veth".into()),
            peer_index: Some(peer),
            peer_in_other_netns: is_apart,
            ..Link::default()
        };
        let comes = |there: &Link, links: &[Link]| as_it_will_be(there, 9, links);
        // Both ends are there, or the other one is here.
        let inside = comes(&link(3, 2, false), &[]);
        assert!(inside.peer_in_other_netns && inside.up && inside.index == 9);
        assert!(!comes(&link(3, 7, true), &[link(7, 3, true)]).peer_in_other_netns);
        assert!(comes(&link(3, 7, true), &[link(7, 4, true)]).peer_in_other_netns);
        let plain = Link::default();
        assert!(!comes(&plain, &[]).peer_in_other_netns);
    }
}
