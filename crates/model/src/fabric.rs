//! The whole declared network, valid: there is no way to a [`Fabric`] but through a file without
//! mistakes. From here it is [compiled](Fabric::compile) for one host.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::Path;

use crate::check;
use crate::decode;
use crate::diagnostic::{FabricErrors, Sink, Span};
use crate::names::{DeviceName, Name};
use crate::render::Report;
use crate::tables::{GeneveOptions, Tunnel};
use crate::yaml;

mod firewall;
mod port;
mod router;
mod switch;

pub use firewall::{Group, Network, Peer, PortSet, Rule};
pub(crate) use port::single;
pub use port::{Allow, Port, Security};
pub(crate) use router::derived_mac;
pub use router::{GatewayHost, Interface, ReversePath, Router, StaticRoute};
pub use switch::{
    GuestVlan, Limits, Neighbours, NonIp, Policy, Switch, SwitchFirewall, UnknownUnicast,
};

/// The most that is read of a fabric file.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// A valid fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fabric {
    pub(crate) tunnel: Tunnel,
    pub(crate) hosts: BTreeMap<Name, Host>,
    pub(crate) switches: BTreeMap<Name, Switch>,
    pub(crate) ports: BTreeMap<Name, Port>,
    pub(crate) groups: BTreeMap<Name, Group>,
    pub(crate) networks: BTreeMap<Name, Network>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) routers: BTreeMap<Name, Router>,
    pub(crate) warnings: Option<Box<Report>>,
}

/// One chassis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// Its name.
    pub name: Name,
    /// Address of its VTEP.
    pub underlay: IpAddr,
    /// Its underlay device.
    pub uplink: DeviceName,
    /// What the Geneve header of a packet to it carries; without meaning in VXLAN.
    pub options: GeneveOptions,
    /// The most connections at a time, a power of two.
    pub connections: u32,
    /// Its number among the hosts of the file.
    pub order: usize,
    /// Where the file declares it.
    pub line: u32,
}

impl Fabric {
    /// Reads and validates a file.
    pub fn load(path: &Path) -> Result<Self, FabricErrors> {
        let bytes = read(path)?;
        let name = path.display().to_string();
        match String::from_utf8(bytes) {
            Ok(text) => Self::parse(&name, &text),
            Err(error) => Err(not_utf8(
                &name,
                error.as_bytes(),
                error.utf8_error().valid_up_to(),
            )),
        }
    }

    /// Validates the text of a file that messages call `name`.
    pub fn parse(name: &str, text: &str) -> Result<Self, FabricErrors> {
        let mut sink = Sink::default();
        let root = yaml::read(text, &mut sink);
        let fabric = root.and_then(|root| {
            let draft = decode::decode(&root, &mut sink);
            check::fabric(&draft, &mut sink)
        });
        match fabric {
            Some(mut fabric) if !sink.has_errors() => {
                let warned = !sink.warnings.list.is_empty();
                fabric.warnings = warned.then(|| Box::new(Report::new(name, text, sink)));
                Ok(fabric)
            }
            _ => {
                if !sink.has_errors() {
                    let message = "this file is refused, but without a reason".into();
                    sink.error(
                        Span::START,
                        message,
                        "this is a fault of Overlane: please report it",
                    );
                }
                Err(FabricErrors::Invalid(Box::new(Report::new(
                    name, text, sink,
                ))))
            }
        }
    }

    /// What may work, but hardly as it was meant; `None`: nothing.
    pub fn warnings(&self) -> Option<&Report> {
        self.warnings.as_deref()
    }

    /// Settings of the tunnels.
    pub fn tunnel(&self) -> &Tunnel {
        &self.tunnel
    }

    /// Every host, by name.
    pub fn hosts(&self) -> &BTreeMap<Name, Host> {
        &self.hosts
    }

    /// Every logical switch, by name.
    pub fn switches(&self) -> &BTreeMap<Name, Switch> {
        &self.switches
    }

    /// Every logical port, by name.
    pub fn ports(&self) -> &BTreeMap<Name, Port> {
        &self.ports
    }

    /// Every named set of ports, by name.
    pub fn groups(&self) -> &BTreeMap<Name, Group> {
        &self.groups
    }

    /// Every named set of addresses, by name.
    pub fn networks(&self) -> &BTreeMap<Name, Network> {
        &self.networks
    }

    /// Every rule of the firewall, in the order in which they are tried.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Every logical router, by name.
    pub fn routers(&self) -> &BTreeMap<Name, Router> {
        &self.routers
    }
}

/// Reads at most the limit: the path may be a device without end.
fn read(path: &Path) -> Result<Vec<u8>, FabricErrors> {
    let fault = |source| FabricErrors::Read {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(fault)?;
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(fault)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(FabricErrors::TooLarge {
            path: path.to_owned(),
            limit: MAX_FILE_BYTES,
        });
    }
    Ok(bytes)
}

fn not_utf8(name: &str, bytes: &[u8], valid: usize) -> FabricErrors {
    let before = String::from_utf8_lossy(bytes.get(..valid).unwrap_or_default());
    let (above, line) = before.rsplit_once('\n').unwrap_or(("", &before));
    let lines = if before.contains('\n') {
        above.matches('\n').count() + 2
    } else {
        1
    };
    let narrow = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    let at = Span {
        line: narrow(lines),
        column: narrow(line.chars().count() + 1),
        length: 1,
    };
    let mut sink = Sink::default();
    let byte = bytes.get(valid).copied().unwrap_or_default();
    let message = format!("the file is not UTF-8 text: byte 0x{byte:02x}");
    sink.error(at, message, "save it as UTF-8");
    let text = String::from_utf8_lossy(bytes);
    FabricErrors::Invalid(Box::new(Report::new(name, &text, sink)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_files() {
        let error = Fabric::load(Path::new("/nonexistent/f.yaml")).unwrap_err();
        assert!(
            error
                .render(false)
                .starts_with("error: cannot read /nonexistent/f.yaml: ")
        );
        assert!(error.diagnostics().is_empty());
        let error = Fabric::load(Path::new("/dev/zero")).unwrap_err();
        assert!(matches!(error, FabricErrors::TooLarge { .. }), "{error}");
        assert!(Fabric::load(Path::new("/")).is_err());
    }

    #[test]
    fn place_of_a_byte_that_is_no_text() {
        for (bytes, line, column) in [
            (&b"\xff"[..], 1, 1),
            (b"a\xff", 1, 2),
            (b"a\n\xff", 2, 1),
            (b"a\n\xc3\xa4b\xff\n", 2, 3),
            (b"a\n\n\nx\xff", 4, 2),
        ] {
            let valid = std::str::from_utf8(bytes).unwrap_err().valid_up_to();
            let error = not_utf8("f", bytes, valid);
            let found = &error.diagnostics()[0];
            assert_eq!((found.line, found.column), (line, column), "{bytes:?}");
        }
    }
}
