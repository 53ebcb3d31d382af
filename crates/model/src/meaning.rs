//! What a name in a rule means: a port, a group of ports, a switch's ports, or a network.

use std::collections::HashSet;

use crate::decode::Draft;
use crate::fabric::PortSet;
use crate::names::Name;

/// The names that rules may use.
pub(crate) struct Meanings<'d> {
    pub(crate) ports: HashSet<&'d str>,
    pub(crate) groups: HashSet<&'d str>,
    pub(crate) switches: HashSet<&'d str>,
    pub(crate) networks: HashSet<&'d str>,
}

/// Ports, as a rule names them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Meaning<'a> {
    Port(&'a str),
    Group(&'a str),
    Switch(&'a str),
}

impl<'d> Meanings<'d> {
    pub(crate) fn new(draft: &'d Draft<'_>) -> Self {
        Self {
            ports: draft.ports.iter().map(|port| port.name.text).collect(),
            groups: draft.groups.iter().map(|group| group.name.text).collect(),
            switches: (draft.switches.iter())
                .map(|switch| switch.name.text)
                .collect(),
            networks: (draft.networks.iter())
                .map(|network| network.name.text)
                .collect(),
        }
    }

    /// The ports of a name. One that means two things has been reported where it is used.
    pub(crate) fn ports<'a>(&self, name: &'a str) -> Option<Meaning<'a>> {
        if self.ports.contains(name) {
            Some(Meaning::Port(name))
        } else if self.groups.contains(name) {
            Some(Meaning::Group(name))
        } else if self.switches.contains(name) {
            Some(Meaning::Switch(name))
        } else {
            None
        }
    }
}

impl Meaning<'_> {
    pub(crate) fn port_set(self) -> Option<PortSet> {
        Some(match self {
            Self::Port(name) => PortSet::Port(Name::new(name).ok()?),
            Self::Group(name) => PortSet::Group(Name::new(name).ok()?),
            Self::Switch(name) => PortSet::Switch(Name::new(name).ok()?),
        })
    }
}
