//! What the names in a case mean: ports, hosts, legs and rules looked up, packets composed.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use overlane_model::{Attachment, DeviceName, Fabric, GatewayPlace, Name, Tables, Verdict};
use overlane_pipeline::{Entry, Packet};

use super::{CaseError, Counted, Destination, Left, Step};
use crate::compose::compose;
use crate::document;

/// What names in a case mean.
pub(super) struct Reader<'a> {
    pub(super) path: &'a Path,
    pub(super) fabric: &'a Fabric,
    pub(super) tables: &'a Tables,
}

impl Reader<'_> {
    pub(super) fn step(&self, line: u64, packet: &document::Packet) -> Result<Step, CaseError> {
        let fail = |message: String| CaseError::at(self.path, line, message);
        let at = packet.at.unwrap_or(0.0);
        if !(0.0..1e9).contains(&at) {
            return Err(fail(format!("at: {at} is no time in seconds")));
        }
        let verdict = Verdict::ALL
            .iter()
            .find(|verdict| verdict.name() == packet.verdict);
        let verdict =
            *verdict.ok_or_else(|| fail(format!("no verdict is called `{}`", packet.verdict)))?;
        let entered = self.packet(line, &packet.packet)?;
        let out = match &packet.out {
            Some(out) => out
                .iter()
                .map(|left| self.left(left.referenced.line(), &left.value, &entered))
                .collect::<Result<_, _>>()?,
            None if verdict.is_drop() || verdict == Verdict::ToRouter => Vec::new(),
            None if verdict == Verdict::ToHost => vec![Left {
                to: Destination::Host,
                packet: entered.clone(),
            }],
            None => {
                return Err(fail(format!(
                    "`out` is missing: what leaves with verdict {verdict}"
                )));
            }
        };
        let probe = packet.probe.iter().flatten();
        let probe = probe
            .map(|left| self.left(left.referenced.line(), &left.value, &entered))
            .collect::<Result<_, _>>()?;
        let counts = packet.counters.iter().flatten();
        let log = packet.log.as_ref();
        let log = log.map(|rules| rules.iter().map(|rule| self.rule(rule)).collect());
        Ok(Step {
            log: log.transpose().map_err(fail)?,
            line,
            changed: packet.changed.unwrap_or(false),
            gone: self.gone(&packet.gone).map_err(fail)?,
            now_ns: (at * 1e9).round() as u64,
            entry: self.entry(&packet.from).map_err(fail)?,
            packet: entered,
            verdict,
            out,
            probe,
            counts: counts
                .map(|(what, count)| Ok((self.counted(what)?, *count)))
                .collect::<Result<_, _>>()
                .map_err(fail)?,
        })
    }

    /// Devices of ports and legs, and the uplink.
    fn gone(&self, devices: &[String]) -> Result<BTreeSet<DeviceName>, String> {
        let named = devices.iter().map(|device| {
            let mut ports = self.tables.ports.iter();
            let is_port = ports.any(|port| port.attachment.device.as_str() == device);
            if is_port || self.tables.uplink.as_str() == device || self.leg(device).is_ok() {
                return DeviceName::new(device).map_err(|error| error.to_string());
            }
            Err(format!(
                "gone: host {} has no device `{device}`",
                self.tables.host
            ))
        });
        named.collect()
    }

    fn packet(&self, line: u64, layers: &document::Layers) -> Result<Packet, CaseError> {
        let plain: Vec<_> = layers.iter().map(|layer| layer.value.clone()).collect();
        compose(&plain).map_err(|error| {
            let line = layers
                .get(error.index)
                .map_or(line, |layer| layer.referenced.line());
            CaseError::at(self.path, line, error)
        })
    }

    fn left(&self, line: u64, left: &document::Left, entered: &Packet) -> Result<Left, CaseError> {
        let packet = match (&left.packet, left.same.unwrap_or(false)) {
            (Some(layers), false) => self.packet(line, layers)?,
            (None, true) => entered.clone(),
            _ => {
                return Err(CaseError::at(
                    self.path,
                    line,
                    "give either `packet` or `same: true`",
                ));
            }
        };
        let to = self.destination(&left.to);
        let to = to.map_err(|message| CaseError::at(self.path, line, message))?;
        Ok(Left { to, packet })
    }

    fn entry(&self, from: &str) -> Result<Entry, String> {
        let words: Vec<&str> = from.split_whitespace().collect();
        match words[..] {
            ["underlay"] => Ok(Entry::Underlay),
            ["port", port] => Ok(Entry::Port(self.attachment(port)?.device.clone())),
            ["leg", device] => self.leg(device).map(Entry::Leg),
            ["segmenter", port] => Ok(Entry::Segmenter(self.attachment(port)?.device.clone())),
            ["device", device] => DeviceName::new(device)
                .map(Entry::Port)
                .map_err(|error| error.to_string()),
            _ => Err(format!(
                "from: `{from}` is none of `port NAME`, `device NAME`, `segmenter NAME`, `underlay`, `leg DEVICE`"
            )),
        }
    }

    fn destination(&self, to: &str) -> Result<Destination, String> {
        let words: Vec<&str> = to.split_whitespace().collect();
        match words[..] {
            ["underlay"] => Ok(Destination::Underlay(None)),
            ["underlay", host] => Ok(Destination::Underlay(Some(self.vtep(host)?))),
            ["port", port] => self
                .attachment(port)
                .and_then(|_| name(port))
                .map(Destination::Port),
            ["segmenter"] => Ok(Destination::Segmenter),
            ["host"] => Ok(Destination::Host),
            ["leg", device] => Ok(Destination::Leg(self.leg(device)?, None)),
            ["leg", device, next_hop] => {
                let next_hop = next_hop.parse();
                let next_hop = next_hop.map_err(|error| format!("to: `{to}`: {error}"))?;
                Ok(Destination::Leg(self.leg(device)?, Some(next_hop)))
            }
            _ => Err(format!(
                "to: `{to}` is none of `port NAME`, `underlay`, `underlay HOST`, `segmenter`, `host`, \
                 `leg DEVICE`, `leg DEVICE NEXT-HOP`"
            )),
        }
    }

    fn counted(&self, what: &str) -> Result<Counted, String> {
        let words: Vec<&str> = what.split_whitespace().collect();
        match words[..] {
            ["port", port] => self
                .attachment(port)
                .and_then(|_| name(port))
                .map(Counted::Port),
            ["remote", host] => self.vtep(host).map(Counted::Remote),
            ["rule", rule] => self.rule(rule).map(Counted::Rule),
            _ => Err(format!(
                "counters: `{what}` is none of `port NAME`, `remote HOST`, `rule NAME`"
            )),
        }
    }

    fn attachment(&self, port: &str) -> Result<&Attachment, String> {
        let found = self
            .tables
            .ports
            .iter()
            .find(|known| known.name.as_str() == port);
        found
            .map(|port| &port.attachment)
            .ok_or_else(|| format!("host {} has no port `{port}`", self.tables.host))
    }

    fn leg(&self, device: &str) -> Result<DeviceName, String> {
        let mut routers = self.tables.routers.iter();
        let found = routers.find_map(|router| match &router.gateway.as_ref()?.place {
            GatewayPlace::Here { leg: Some(leg) } => (leg.as_str() == device).then(|| leg.clone()),
            _ => None,
        });
        found.ok_or_else(|| format!("host {} has no leg `{device}`", self.tables.host))
    }

    fn rule(&self, rule: &str) -> Result<Name, String> {
        let mut rules = self.tables.firewall.rules.iter();
        let found = rules.find(|known| known.name.as_str() == rule);
        found
            .map(|found| found.name.clone())
            .ok_or_else(|| format!("no rule `{rule}` names a port of host {}", self.tables.host))
    }

    fn vtep(&self, host: &str) -> Result<IpAddr, String> {
        let found = self.fabric.hosts().get(host);
        found
            .map(|host| host.underlay)
            .ok_or_else(|| format!("the fabric has no host `{host}`"))
    }
}

pub(super) fn name(text: &str) -> Result<Name, String> {
    Name::new(text).map_err(|error| error.to_string())
}
