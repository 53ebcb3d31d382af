//! The file: YAML → stations and statements, every name looked up in the fabric.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use overlane_model::{Fabric, Name, SwitchId, Verdict};
use overlane_wire::Mac;
use serde::{Deserialize, Deserializer, de};
use serde_saphyr::Spanned;
use thiserror::Error;

use super::station::{Place, Station};
use crate::values::MacText;

/// What is wrong with a file of statements, and where.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{}:{line}: {message}", path.display())]
pub struct WrongStatement {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: u64,
    /// What is wrong.
    pub message: String,
}

/// A file of statements, checked.
#[derive(Clone, Debug)]
pub struct Statements {
    /// The guests of all ports, and who else is there.
    pub(super) stations: Vec<Station>,
    /// What must be so.
    pub(super) all: Vec<Statement>,
    pub(super) path: PathBuf,
}

/// What must become of a packet.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) line: u64,
    /// By its place among the stations.
    pub(super) from: usize,
    pub(super) to: IpAddr,
    pub(super) on: Service,
    pub(super) source: IpAddr,
    /// The frame's destination, where nobody is asked for it.
    pub(super) mac: Option<Mac>,
    /// The guest's own tag.
    pub(super) tag: Option<u16>,
    pub(super) end: End,
}

/// Where it must end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// These get it, and nobody else; and their answers come back.
    Reaches {
        stations: Vec<usize>,
        seen_as: Option<IpAddr>,
    },
    /// It is dropped there, and the sender is told or not.
    Stopped {
        verdict: Verdict,
        host: Name,
        told: bool,
    },
    /// The data path itself answers there.
    AnsweredBy(Name),
    /// Nobody has the next hop's address.
    Unanswered,
}

/// What is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Service {
    Ping,
    Tcp(u16),
    Udp(u16),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    stations: BTreeMap<String, Spanned<StationText>>,
    statements: Vec<Spanned<StatementText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StationText {
    #[serde(default)]
    addresses: Vec<IpAddr>,
    /// Its way out; without it the router of its switch or leg.
    gateway: Option<IpAddr>,
    /// At this port, with a MAC of its own.
    behind: Option<String>,
    /// In the physical network, on the VLAN of this switch.
    vlan_of: Option<String>,
    /// In the physical network, on the leg of this router.
    outside: Option<String>,
    /// Anywhere behind these stations, which route.
    routed_by: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatementText {
    from: String,
    to: String,
    on: Option<Service>,
    source: Option<IpAddr>,
    mac: Option<MacText>,
    tag: Option<u16>,
    reaches: Option<OneOrMore>,
    seen_as: Option<IpAddr>,
    stopped: Option<String>,
    host: Option<String>,
    #[serde(default)]
    told: bool,
    answered_by: Option<String>,
    #[serde(default)]
    unanswered: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl<'de> Deserialize<'de> for Service {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let port = |number: &str| number.parse().ok();
        let service = match text.split_once('/') {
            None if text == "ping" => Some(Self::Ping),
            Some(("tcp", number)) => port(number).map(Self::Tcp),
            Some(("udp", number)) => port(number).map(Self::Udp),
            _ => None,
        };
        service
            .ok_or_else(|| de::Error::custom(format!("`{text}` is not ping, tcp/PORT or udp/PORT")))
    }
}

impl Statements {
    /// Reads a file of statements about a fabric.
    pub fn read(path: &Path, text: &str, fabric: &Fabric) -> Result<Self, WrongStatement> {
        let fail = |line: u64, message: String| WrongStatement {
            path: path.to_owned(),
            line,
            message,
        };
        let file: File = serde_saphyr::from_str(text).map_err(|error| {
            let line = error.location().map_or(1, |at| at.line());
            fail(line, error.to_string())
        })?;
        let mut stations: Vec<Station> = fabric.ports().values().map(Station::guest).collect();
        // Whoever is behind others comes after them, whatever the names.
        for is_routed in [false, true] {
            for (name, spanned) in &file.stations {
                if spanned.value.routed_by.is_some() == is_routed {
                    add_station(&mut stations, fabric, name, &spanned.value)
                        .map_err(|message| fail(spanned.referenced.line(), message))?;
                }
            }
        }
        let mut all = Vec::new();
        for spanned in file.statements {
            let line = spanned.referenced.line();
            let lookup = Lookup {
                fabric,
                stations: &stations,
            };
            let statement = lookup
                .statement(line, spanned.value)
                .map_err(|message| fail(line, message))?;
            all.push(statement);
        }
        if all.is_empty() {
            return Err(fail(1, "there are no statements".to_owned()));
        }
        Ok(Self {
            stations,
            all,
            path: path.to_owned(),
        })
    }
}

fn add_station(
    stations: &mut Vec<Station>,
    fabric: &Fabric,
    name: &str,
    text: &StationText,
) -> Result<(), String> {
    let place = match place_of(fabric, name, text)? {
        Where::Guest => {
            let known = stations.iter_mut().find(|station| station.name == name);
            let guest = known.ok_or_else(|| {
                format!(
                    "`{name}` is no port: say where it is (behind, vlan_of, outside, routed_by)"
                )
            })?;
            guest.addresses.extend(&text.addresses);
            guest.gateway = text.gateway;
            return Ok(());
        }
        Where::RoutedBy(routers) => {
            let mut found = Vec::new();
            for router in routers {
                let index = stations.iter().position(|station| station.name == *router);
                let index = index.filter(|at| !matches!(stations[*at].place, Place::RoutedBy(_)));
                found.push(index.ok_or_else(|| {
                    format!(
                        "`{name}` is routed by `{router}`, which is no port, and no station that is itself at a port, on \
                         a VLAN or outside"
                    )
                })?);
            }
            Place::RoutedBy(found)
        }
        Where::Place(place) => place,
    };
    if stations.iter().any(|station| station.name == name) {
        return Err(format!(
            "`{name}` is a port: its guest is where the port is"
        ));
    }
    let mac = Mac::new([2, 0, 0, 0xee, 0, stations.len() as u8]);
    stations.push(Station {
        name: name.to_owned(),
        place,
        mac,
        addresses: text.addresses.clone(),
        gateway: text.gateway,
    });
    Ok(())
}

/// Where a station's entry says that it is.
enum Where<'a> {
    Guest,
    RoutedBy(&'a [String]),
    Place(Place),
}

fn place_of<'a>(fabric: &Fabric, name: &str, text: &'a StationText) -> Result<Where<'a>, String> {
    match (&text.behind, &text.vlan_of, &text.outside, &text.routed_by) {
        (None, None, None, None) => Ok(Where::Guest),
        (Some(port), None, None, None) => match fabric.ports().get(port.as_str()) {
            Some(port) => Ok(Where::Place(Place::Port(port.name.clone()))),
            None => Err(format!("there is no port `{port}`")),
        },
        (None, Some(switch), None, None) => match fabric.switches().get(switch.as_str()) {
            Some(known) => match known.id {
                SwitchId::Vlan(vlan) => Ok(Where::Place(Place::Vlan(vlan.get()))),
                SwitchId::Vni(_) => Err(format!("switch `{switch}` is on no VLAN of the uplink")),
            },
            None => Err(format!("there is no switch `{switch}`")),
        },
        (None, None, Some(router), None) => {
            let found = fabric.routers().get(router.as_str());
            match found.and_then(|router| Some((router, router.leg()?))) {
                Some((router, _)) => Ok(Where::Place(Place::Leg(router.name.clone()))),
                None => Err(format!("there is no router `{router}` with a leg")),
            }
        }
        (None, None, None, Some(routers)) if !routers.is_empty() => Ok(Where::RoutedBy(routers)),
        _ => Err(format!("station `{name}` is in more than one place")),
    }
}

/// Names of a statement.
struct Lookup<'a> {
    fabric: &'a Fabric,
    stations: &'a [Station],
}

impl Lookup<'_> {
    fn statement(&self, line: u64, text: StatementText) -> Result<Statement, String> {
        let from = self.station(&text.from)?;
        let to = self.address(&text.to)?;
        let source = text.source.map_or_else(|| self.source(from, to), Ok)?;
        if source.is_ipv4() != to.is_ipv4() {
            return Err(format!("{source} and {to} are of two families"));
        }
        let end = self.end(&text)?;
        Ok(Statement {
            line,
            from,
            to,
            on: text.on.unwrap_or(Service::Ping),
            source,
            mac: text.mac.map(|mac| mac.0),
            tag: text.tag,
            end,
        })
    }

    fn station(&self, name: &str) -> Result<usize, String> {
        let found = self
            .stations
            .iter()
            .position(|station| station.name == name);
        found.ok_or_else(|| format!("there is no port and no station `{name}`"))
    }

    /// Of a name, the station's first address.
    fn address(&self, text: &str) -> Result<IpAddr, String> {
        if let Ok(address) = text.parse() {
            return Ok(address);
        }
        let station = &self.stations[self.station(text)?];
        let first = station.addresses.first().copied();
        first.ok_or_else(|| format!("`{text}` has no address; say which under `stations`"))
    }

    fn source(&self, from: usize, to: IpAddr) -> Result<IpAddr, String> {
        let station = &self.stations[from];
        let mut addresses = station.addresses.iter().copied();
        let found = addresses.find(|address| address.is_ipv4() == to.is_ipv4());
        found.ok_or_else(|| {
            let name = &station.name;
            format!("`{name}` has no address of the family of {to}; say which under `stations`")
        })
    }

    fn host(&self, name: &str) -> Result<Name, String> {
        let found = self.fabric.hosts().get(name);
        let found = found.map(|host| host.name.clone());
        found.ok_or_else(|| format!("there is no host `{name}`"))
    }

    fn end(&self, text: &StatementText) -> Result<End, String> {
        let ends = [
            text.reaches.is_some(),
            text.stopped.is_some(),
            text.answered_by.is_some(),
            text.unanswered,
        ];
        if ends.into_iter().filter(|given| *given).count() != 1 {
            return Err(
                "a statement has one of `reaches`, `stopped`, `answered_by`, `unanswered`".into(),
            );
        }
        if text.stopped.is_none() && (text.told || text.host.is_some()) {
            return Err("`host` and `told` are said of what is `stopped`".into());
        }
        if text.reaches.is_none() && text.seen_as.is_some() {
            return Err("`seen_as` is said of what `reaches` somebody".into());
        }
        if let Some(name) = &text.stopped {
            let verdict = Verdict::ALL
                .iter()
                .copied()
                .find(|verdict| verdict.name() == name && verdict.is_drop());
            let host = text.host.as_deref();
            return Ok(End::Stopped {
                verdict: verdict.ok_or_else(|| format!("`{name}` is no drop reason"))?,
                host: self.host(host.ok_or("`stopped` needs a `host`: where it ends")?)?,
                told: text.told,
            });
        }
        if let Some(host) = &text.answered_by {
            return Ok(End::AnsweredBy(self.host(host)?));
        }
        let names = match &text.reaches {
            None => return Ok(End::Unanswered),
            Some(OneOrMore::One(name)) => std::slice::from_ref(name),
            Some(OneOrMore::More(names)) => names.as_slice(),
        };
        let mut stations = Vec::new();
        for name in names {
            stations.push(self.station(name)?);
        }
        stations.sort_unstable();
        Ok(End::Reaches {
            stations,
            seen_as: text.seen_as,
        })
    }
}
