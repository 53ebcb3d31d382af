//! Whether statements hold.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use overlane_model::{CompileError, Fabric, Name, Tables, Verdict};

use super::document::{End, Statement, Statements};
use super::station::{Heard, Request};
use super::walk::{Arrival, Hosts, Seen, Walk, Way};

/// An address that answers a router at all does so in time for this many packets, one a second.
const PATIENCE: usize = 6;

/// What was found out about the statements of a fabric.
#[derive(Debug)]
pub struct Proof {
    /// In words, each with its line: what does not hold, and what no statement is about.
    pub failures: Vec<String>,
    /// By host: what it knows.
    pub tables: BTreeMap<Name, Tables>,
    /// For each statement its place, and what each host saw in its order.
    pub seen: Vec<(String, BTreeMap<Name, Vec<Seen>>)>,
}

/// Walks the packets of each statement. Every port and every rule of the fabric must be in one.
pub fn prove(fabric: &Fabric, statements: &Statements) -> Result<Proof, CompileError> {
    let hosts = Hosts::new(fabric)?;
    let mut failures = Vec::new();
    let mut seen = Vec::new();
    for statement in &statements.all {
        let place = format!("{}:{}", statements.path.display(), statement.line);
        let walk = Walk::new(&hosts, &statements.stations, statement.tag);
        let mut test = Test {
            walk,
            statements,
            statement,
        };
        if let Err(failure) = test.run() {
            failures.push(format!("{place}: {failure}"));
        }
        seen.push((place, test.walk.seen));
    }
    failures.extend(unmentioned(fabric, statements, &seen));
    Ok(Proof {
        failures,
        tables: hosts.tables,
        seen,
    })
}

/// Ports that no statement is about, and rules that decide none.
fn unmentioned(
    fabric: &Fabric,
    statements: &Statements,
    seen: &[(String, BTreeMap<Name, Vec<Seen>>)],
) -> Vec<String> {
    let mut stations = BTreeSet::new();
    for statement in &statements.all {
        stations.insert(statement.from);
        if let End::Reaches { stations: to, .. } = &statement.end {
            stations.extend(to);
        }
    }
    let named: BTreeSet<&str> = stations
        .into_iter()
        .map(|index| statements.stations[index].name.as_str())
        .collect();
    let hops = seen.iter().flat_map(|(_, hosts)| hosts.values().flatten());
    let rules: BTreeSet<&Name> = hops
        .flat_map(|hop| hop.outcome.counters.rules.keys())
        .collect();
    let path = statements.path.display();
    let ports = fabric.ports().keys();
    let ports = ports.filter(|port| !named.contains(port.as_str()));
    let ports = ports.map(|port| format!("{path}: no statement is about port {port}"));
    let unused = fabric.rules().iter();
    let unused = unused.filter(|rule| !rules.contains(&rule.name));
    let unused =
        unused.map(|rule| format!("{path}: no statement's packet meets rule {}", rule.name));
    ports.chain(unused).collect()
}

/// One statement.
struct Test<'a, 'f> {
    walk: Walk<'a, 'f>,
    statements: &'a Statements,
    statement: &'a Statement,
}

impl Test<'_, '_> {
    fn run(&mut self) -> Result<(), String> {
        let Statement {
            from,
            to,
            source,
            mac,
            on,
            ..
        } = *self.statement;
        let next_hop = self.walk.next_hop(from, to);
        let mac = mac.or_else(|| self.walk.resolve(from, self.asking(source), next_hop));
        let Some(mac) = mac else {
            return match self.statement.end {
                End::Unanswered => Ok(()),
                _ => Err(format!("nobody answers for {next_hop}")),
            };
        };
        let request = Request::new(source, to, on);
        let mut way = self.walk.request(from, request, mac);
        for _ in 0..PATIENCE {
            let asks = |(_, verdict): &(Name, Verdict)| *verdict == Verdict::Resolving;
            if !way.ends.iter().any(asks) {
                break;
            }
            self.walk.wait(1);
            way = self.walk.request(from, request, mac);
        }
        self.judge(&way, request)
    }

    /// Who spoofs an address asks with its own.
    fn asking(&self, source: IpAddr) -> IpAddr {
        let own = &self.statements.stations[self.statement.from].addresses;
        let of_family = |own: &&IpAddr| own.is_ipv4() == source.is_ipv4();
        match own.iter().find(of_family) {
            Some(first) if !own.contains(&source) => *first,
            _ => source,
        }
    }

    fn judge(&mut self, way: &Way, request: Request) -> Result<(), String> {
        let from = self.statement.from;
        let got: Vec<(usize, Request)> = way
            .arrivals
            .iter()
            .filter_map(|arrival| match arrival.heard {
                Heard::Request(request) => Some((arrival.station, request)),
                _ => None,
            })
            .collect();
        let mut reached: Vec<usize> = got.iter().map(|(station, _)| *station).collect();
        reached.sort_unstable();
        match &self.statement.end {
            End::Unanswered => Err("somebody answers for the next hop".to_owned()),
            End::Reaches { stations, seen_as } => {
                if reached != *stations {
                    return Err(format!(
                        "reaches {}, and not {}: {}",
                        self.names(&reached),
                        self.names(stations),
                        ends(way)
                    ));
                }
                let is_group = match request.destination {
                    IpAddr::V4(v4) => v4.is_broadcast(),
                    IpAddr::V6(v6) => v6.is_multicast(),
                };
                for (station, heard) in got.into_iter().filter(|_| !is_group) {
                    let expected = seen_as.unwrap_or(request.source);
                    if heard.source != expected {
                        let name = &self.statements.stations[station].name;
                        return Err(format!("{name} sees {}, and not {expected}", heard.source));
                    }
                    self.comes_back(station, heard, request)?;
                }
                Ok(())
            }
            End::Stopped {
                verdict,
                host,
                told,
            } => {
                let here = way.ends.contains(&(host.clone(), *verdict));
                if !here || !reached.is_empty() {
                    return Err(format!(
                        "is not {verdict} on {host}, but reaches {}: {}",
                        self.names(&reached),
                        ends(way)
                    ));
                }
                let hears = |arrival: &Arrival| {
                    arrival.station == from && matches!(arrival.heard, Heard::Refusal(_))
                };
                match (way.arrivals.iter().any(hears), told) {
                    (true, false) => Err(format!("{verdict}, but the sender is told")),
                    (false, true) => Err(format!("{verdict}, but the sender is not told")),
                    _ => Ok(()),
                }
            }
            End::AnsweredBy(host) => {
                let here = way.ends.contains(&(host.clone(), Verdict::Answer));
                let answer = Heard::Answer(request);
                let hears = |arrival: &Arrival| arrival.station == from && arrival.heard == answer;
                match here && way.arrivals.iter().any(hears) {
                    true => Ok(()),
                    false => Err(format!("host {host} does not answer: {}", ends(way))),
                }
            }
        }
    }

    /// The answer to a request, as its sender knows it.
    fn comes_back(
        &mut self,
        station: usize,
        heard: Request,
        request: Request,
    ) -> Result<(), String> {
        let mut way = self.walk.answer(station, heard);
        for _ in 0..PATIENCE {
            let from = self.statement.from;
            let answer = Heard::Answer(request);
            let hears = |arrival: &Arrival| arrival.station == from && arrival.heard == answer;
            if way.arrivals.iter().any(hears) {
                return Ok(());
            }
            self.walk.wait(1);
            way = self.walk.answer(station, heard);
        }
        let name = &self.statements.stations[station].name;
        Err(format!(
            "{name} gets it, but its answer does not come back: {}",
            ends(&way)
        ))
    }

    fn names(&self, stations: &[usize]) -> String {
        let names = stations.iter();
        let names = names.map(|index| self.statements.stations[*index].name.as_str());
        match names.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => "nobody".to_owned(),
            names => names,
        }
    }
}

fn ends(way: &Way) -> String {
    let ends = way.ends.iter();
    let ends: Vec<_> = ends
        .map(|(host, verdict)| format!("{verdict} on {host}"))
        .collect();
    ends.join(", then ")
}
