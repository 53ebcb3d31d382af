//! What `--expect` asks of a packet: what becomes of it, and who gets it. `VERDICT[:RECEIVER,…]`; docs/trace.md has the
//! grammar.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, Command};
use overlane_model::{CompileError, Fabric, Name, SwitchId, Verdict};
use overlane_pipeline::Output;
use overlane_wire::Mac;

use super::error::{PacketError, did_you_mean, printable};
use super::unreachable::UNREACHABLE;
use super::walk::Hop;
use crate::failure::Failure;

/// What `--expect` takes beside the names of verdicts: somebody got it; it was lost.
const DELIVERED: &str = "delivered";
const DROPPED: &str = "dropped";

/// Before the name of a router, a switch or a host that got it.
const LEG: &str = "leg:";
const VLAN: &str = "vlan:";
const STACK: &str = "host:";

/// What must become of a packet.
#[derive(Debug, Clone)]
pub(crate) struct Expectation {
    verdict: String,
    /// These get it, and nobody else.
    receivers: Option<BTreeSet<Receiver>>,
}

/// Who gets a packet, or an answer to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Receiver {
    /// The guest of a port.
    Port(Name),
    /// The physical network, by the leg of a router.
    Leg(Name),
    /// The physical network, on the VLAN of a switch.
    Vlan(Name),
    /// The stack of a host.
    Stack(Name),
}

impl Expectation {
    /// Names that the fabric does not have are wrong usage.
    pub(super) fn check(&self, fabric: &Fabric) -> Result<(), Failure> {
        for receiver in self.receivers.iter().flatten() {
            receiver.check(fabric)?;
        }
        Ok(())
    }

    /// What was found instead, if it is not as expected.
    pub(super) fn missed(&self, fabric: &Fabric, hop: &Hop) -> Option<String> {
        let verdict = hop.end().outcome.verdict;
        let ends = ends(fabric, hop);
        let has_verdict = match self.verdict.as_str() {
            DROPPED => verdict.is_drop(),
            DELIVERED if self.receivers.is_some() => !verdict.is_drop(),
            DELIVERED => !verdict.is_drop() && !hop.receivers().is_empty(),
            name => verdict.name() == name,
        };
        let has_receivers = (self.receivers.as_ref()).is_none_or(|expected| *expected == ends);
        let got = match self.receivers {
            Some(_) if !ends.is_empty() => format!(":{}", joined(&ends)),
            _ => String::new(),
        };
        (!has_verdict || !has_receivers).then(|| format!("{verdict}{got}"))
    }

    /// Of a packet that never leaves.
    pub(super) fn missed_unreachable(&self) -> Option<String> {
        let is_met = self.verdict == UNREACHABLE && self.receivers.is_none();
        (!is_met).then(|| UNREACHABLE.to_owned())
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.verdict)?;
        match &self.receivers {
            Some(receivers) => write!(f, ":{}", joined(receivers)),
            None => Ok(()),
        }
    }
}

fn joined(receivers: &BTreeSet<Receiver>) -> String {
    let names: Vec<String> = receivers.iter().map(ToString::to_string).collect();
    names.join(",")
}

impl Receiver {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, new): (_, fn(Name) -> Self) = if let Some(router) = text.strip_prefix(LEG) {
            (router, Self::Leg)
        } else if let Some(switch) = text.strip_prefix(VLAN) {
            (switch, Self::Vlan)
        } else if let Some(host) = text.strip_prefix(STACK) {
            (host, Self::Stack)
        } else {
            (text, Self::Port)
        };
        Name::new(name).map(new).map_err(|error| {
            format!(
                "a receiver is the name of a port, {LEG}ROUTER, {VLAN}SWITCH or {STACK}HOST; {}",
                error.help()
            )
        })
    }

    fn check(&self, fabric: &Fabric) -> Result<(), Failure> {
        match self {
            Self::Port(name) if !fabric.ports().contains_key(name) => {
                let known = fabric.ports().keys().map(Name::as_str);
                let help = did_you_mean(name.as_str(), known);
                let name = printable(name.as_str());
                Err(PacketError::UnknownPort { name, help }.into())
            }
            Self::Leg(name) => Ok(super::leg(fabric, name.as_str()).map(|_| ())?),
            Self::Vlan(name) => match fabric.switches().get(name).map(|switch| switch.id) {
                Some(SwitchId::Vlan(_)) => Ok(()),
                Some(SwitchId::Vni(_)) => Err(PacketError::NoVlan(name.clone()).into()),
                None => {
                    let known = fabric.switches().keys().map(Name::as_str);
                    let help = did_you_mean(name.as_str(), known);
                    let name = printable(name.as_str());
                    Err(PacketError::UnknownSwitch { name, help }.into())
                }
            },
            Self::Stack(name) if !fabric.hosts().contains_key(name) => {
                Err(CompileError::UnknownHost {
                    host: name.to_string(),
                    known: fabric.hosts().keys().cloned().collect(),
                }
                .into())
            }
            Self::Port(_) | Self::Stack(_) => Ok(()),
        }
    }
}

impl fmt::Display for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(name) => write!(f, "{name}"),
            Self::Leg(name) => write!(f, "{LEG}{name}"),
            Self::Vlan(name) => write!(f, "{VLAN}{name}"),
            Self::Stack(name) => write!(f, "{STACK}{name}"),
        }
    }
}

/// Everybody who got something.
pub(super) fn ends(fabric: &Fabric, hop: &Hop) -> BTreeSet<Receiver> {
    let mut found = BTreeSet::new();
    gather(fabric, hop, &mut found);
    found
}

fn gather(fabric: &Fabric, hop: &Hop, found: &mut BTreeSet<Receiver>) {
    for (output, then) in hop.outcome.outputs.iter().zip(&hop.then) {
        found.extend(match output {
            Output::Port { port, .. } => Some(Receiver::Port(port.clone())),
            Output::Leg { device, .. } => {
                let mut routers = fabric.routers().values();
                let router = routers.find(|router| router.leg() == Some((&hop.host, device)));
                router.map(|router| Receiver::Leg(router.name.clone()))
            }
            Output::Host { .. } => Some(Receiver::Stack(hop.host.clone())),
            Output::Underlay {
                remote: None,
                packet,
            } => {
                // A frame for a guest of another host is nobody else's.
                let to = packet.bytes.first_chunk().copied().map(Mac::new);
                let is_for_many = to.is_some_and(Mac::is_group);
                let vlan = packet.tag.map(|tag| tag.tag.vid());
                let mut switches = fabric.switches().values();
                let switch = switches.find(|it| it.id.vlan().map(|vlan| vlan.get()) == vlan);
                switch
                    .filter(|_| vlan.is_some() && (is_for_many || then.is_empty()))
                    .map(|switch| Receiver::Vlan(switch.name.clone()))
            }
            Output::Underlay { .. } | Output::Segmenter { .. } => None,
        });
        for behind in then {
            gather(fabric, behind, found);
        }
    }
}

/// Of the command line.
#[derive(Debug, Clone)]
pub(crate) struct ExpectationParser;

impl ExpectationParser {
    fn verdicts() -> PossibleValuesParser {
        let verdicts = Verdict::ALL.iter().map(|verdict| verdict.name());
        PossibleValuesParser::new(verdicts.chain([DELIVERED, DROPPED, UNREACHABLE]))
    }
}

impl TypedValueParser for ExpectationParser {
    type Value = Expectation;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Expectation, clap::Error> {
        let text = value.to_string_lossy();
        let (verdict, receivers) = match text.split_once(':') {
            Some((verdict, receivers)) => (verdict, Some(receivers)),
            None => (&*text, None),
        };
        let all = |names: &str| -> Result<BTreeSet<Receiver>, String> {
            names.split(',').map(Receiver::parse).collect()
        };
        let receivers = receivers.map(|names| all.parse_ref(command, arg, OsStr::new(names)));
        Ok(Expectation {
            verdict: Self::verdicts().parse_ref(command, arg, OsStr::new(verdict))?,
            receivers: receivers.transpose()?,
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values: Vec<_> = Self::verdicts().possible_values()?.collect();
        Some(Box::new(values.into_iter()))
    }
}
