//! `connections forget`: connections that are to be judged again. The next packet of each is one without a connection:
//! the rules say whether it passes, and a translation is made anew.

pub use ipnet::IpNet;
use overlane_ebpf::DataPath;
use overlane_ebpf::abi::firewall::ConnectionKey;
use overlane_ebpf::connections::{self, Forgetter};
use serde::Serialize;

use crate::lib::lock::Lock;
use crate::lib::paths;
use crate::observe::{End, Whose, ends, known_owner, maps};
use crate::state::State;
use crate::{Holder, HostError};

/// Which connections are meant: all that is said holds. Nothing said: all of the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Which {
    /// Of the port, or of the router, with this name.
    pub of: Option<String>,
    /// Of this IP protocol.
    pub protocol: Option<u8>,
    /// The local end is in this network; of a translation the inside.
    pub local: Option<IpNet>,
    /// It has this port; of ICMP the identifier.
    pub local_port: Option<u16>,
    /// The other end is in this network.
    pub peer: Option<IpNet>,
    /// It has this port.
    pub peer_port: Option<u16>,
}

/// What was forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Forgotten {
    /// The host.
    pub host: String,
    /// How many connections, those that had expired among them.
    pub forgotten: usize,
}

/// Forgets the connections that are meant. None is no error; a name that the host does not have is one.
pub fn forget(
    host: &str,
    which: &Which,
    on_wait: &dyn Fn(&Holder),
) -> Result<Forgotten, HostError> {
    State::applied(host)?;
    // No `apply` may change over to other maps meanwhile.
    let _lock = Lock::acquire(host, on_wait)?;
    let state = State::applied(host)?;
    if let Some(name) = &which.of {
        known_owner(&state, name)?;
    }
    let maps = maps(&state)?;
    let is_meant = |key: &ConnectionKey| which.has(&state, key);
    Ok(Forgotten {
        host: host.to_owned(),
        forgotten: connections::forget_where(&maps, is_meant, || {
            let pins = paths::map_set(host, &state.map_signature);
            Ok::<_, HostError>(Forgetter::load(&DataPath::embedded()?, &pins)?)
        })?,
    })
}

impl Which {
    fn has(&self, state: &State, key: &ConnectionKey) -> bool {
        let (local, peer, _) = ends(key);
        let is_of = |name: &String| Whose::of(state, key).is_some_and(|it| it.name() == name);
        self.of.as_ref().is_none_or(is_of)
            && self.protocol.is_none_or(|it| it == key.protocol)
            && is_at(&local, self.local, self.local_port)
            && is_at(&peer, self.peer, self.peer_port)
    }
}

fn is_at(end: &End, network: Option<IpNet>, port: Option<u16>) -> bool {
    network.is_none_or(|network| network.contains(&end.address))
        && port.is_none_or(|port| end.port == Some(port))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use overlane_ebpf::abi::firewall::ZONE_ROUTER;
    use overlane_model::Fabric;

    use super::*;
    use crate::observe::connection_key as key;

    const FABRIC: &str = r#"
version: 1
hosts: { h1: { underlay: 198.18.0.1, uplink: eth1 } }
switches: { blue: { vni: 5001 } }
ports: { web: { switch: blue, host: h1, device: web0, mac: "02:00:00:00:00:01", key: 7 } }
routers: { r1: { interfaces: { blue: [198.18.1.254/24] } } }
"#;

    fn state() -> State {
        let fabric = Fabric::parse("f", FABRIC).unwrap();
        State::of(&fabric.compile("h1").unwrap())
    }

    fn translation() -> ConnectionKey {
        let router = state().tables.routers[0].id.get();
        ConnectionKey {
            switch_id: ZONE_ROUTER | router,
            key: 0,
            ..key(6, 4000, 80)
        }
    }

    fn net(text: &str) -> Option<IpNet> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn all_that_is_said_holds() {
        let (udp, tcp, echo) = (key(17, 53, 4000), key(6, 4000, 80), key(1, 77, 8));
        let v6 = ConnectionKey {
            family: 6,
            local: "2001:2::1".parse::<IpAddr>().unwrap().into(),
            peer: "2001:2::2".parse::<IpAddr>().unwrap().into(),
            ..tcp
        };
        let gone = ConnectionKey { key: 8, ..tcp };
        let all = [udp, tcp, echo, v6, gone, translation()];
        let any = Which::default();
        let of = |name: &str| Some(name.to_owned());
        for (which, expected) in [
            (any.clone(), &[0, 1, 2, 3, 4, 5][..]),
            (
                Which {
                    of: of("web"),
                    ..any.clone()
                },
                &[0, 1, 2, 3],
            ),
            (
                Which {
                    of: of("r1"),
                    ..any.clone()
                },
                &[5],
            ),
            (
                Which {
                    protocol: Some(6),
                    ..any.clone()
                },
                &[1, 3, 4, 5],
            ),
            (
                Which {
                    local: net("198.18.1.0/24"),
                    ..any.clone()
                },
                &[0, 1, 2, 4, 5],
            ),
            (
                Which {
                    local: net("198.18.2.0/24"),
                    ..any.clone()
                },
                &[],
            ),
            (
                Which {
                    peer: net("2001:2::/32"),
                    ..any.clone()
                },
                &[3],
            ),
            (
                Which {
                    local_port: Some(77),
                    ..any.clone()
                },
                &[2],
            ),
            // An ICMP connection has a port at its local end alone.
            (
                Which {
                    peer_port: Some(8),
                    ..any.clone()
                },
                &[],
            ),
            (
                Which {
                    peer_port: Some(80),
                    of: of("web"),
                    ..any.clone()
                },
                &[1, 3],
            ),
            (
                Which {
                    protocol: Some(17),
                    peer: net("198.18.2.2/32"),
                    local_port: Some(53),
                    ..any
                },
                &[0],
            ),
        ] {
            let state = state();
            let has = |key: &&ConnectionKey| which.has(&state, key);
            let expected: Vec<_> = expected.iter().map(|&at: &usize| &all[at]).collect();
            assert_eq!(
                all.iter().filter(has).collect::<Vec<_>>(),
                expected,
                "{which:?}"
            );
        }
    }
}
