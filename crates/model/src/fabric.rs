//! The whole declared network, valid: there is no way to a [`Fabric`] but through a file without
//! mistakes. From here it is [compiled](Fabric::compile) for one host.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::Path;

use overlane_wire::{Mac, PortKey};

use crate::check;
use crate::decode;
use crate::diagnostic::{FabricErrors, Sink, Span};
use crate::names::{DeviceName, Name};
use crate::render::Report;
use crate::tables::{Attachment, Learning, SwitchId, Tunnel};
use crate::yaml;

/// The most that is read of a fabric file.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// A valid fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fabric {
    pub(crate) tunnel: Tunnel,
    pub(crate) hosts: BTreeMap<Name, Host>,
    pub(crate) switches: BTreeMap<Name, Switch>,
    pub(crate) ports: BTreeMap<Name, Port>,
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
    /// Where the file declares it.
    pub line: u32,
}

/// A logical switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Switch {
    /// Its name.
    pub name: Name,
    /// What it is on the underlay.
    pub id: SwitchId,
    /// What happens to unicast without an FDB entry.
    pub unknown_unicast: UnknownUnicast,
    /// What happens to VLAN tags of guests.
    pub guest_vlan: GuestVlan,
    /// Where the file declares it.
    pub line: u32,
}

/// What a logical switch does with unicast without an FDB entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UnknownUnicast {
    /// Drops it.
    #[default]
    Drop,
    /// Copies it to the flood list.
    Flood,
}

impl UnknownUnicast {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Drop, Self::Flood];
}

/// What a logical switch does with VLAN tags of guests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GuestVlan {
    /// Drops the frame (RFC 7348 section 6.1).
    #[default]
    Refuse,
    /// Carries the tag with the frame.
    Transparent,
}

impl GuestVlan {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Refuse, Self::Transparent];
}

impl fmt::Display for GuestVlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Refuse => "refuse",
            Self::Transparent => "transparent",
        })
    }
}

/// How much of what a port sends is compared with what the fabric says of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Security {
    /// MAC and, where the port has any, addresses.
    #[default]
    Strict,
    /// MAC only: a guest that routes or balances for others.
    Mac,
    /// Nothing.
    Off,
}

impl Security {
    /// All.
    pub const ALL: [Self; 3] = [Self::Strict, Self::Mac, Self::Off];
}

impl fmt::Display for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Strict => "strict",
            Self::Mac => "mac",
            Self::Off => "off",
        })
    }
}

/// What port security refuses unless the port is allowed it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Allow {
    /// Answers of a DHCP or DHCPv6 server.
    DhcpServer,
    /// Router advertisements and redirects.
    RouterAdvertisement,
}

impl Allow {
    /// Both.
    pub const ALL: [Self; 2] = [Self::DhcpServer, Self::RouterAdvertisement];
}

impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::DhcpServer => "dhcp_server",
            Self::RouterAdvertisement => "router_advertisement",
        })
    }
}

impl fmt::Display for UnknownUnicast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Drop => "drop",
            Self::Flood => "flood",
        })
    }
}

/// A logical port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// Its name.
    pub name: Name,
    /// Its logical switch.
    pub switch: Name,
    /// Its host.
    pub host: Name,
    /// Where it is attached on that host.
    pub attachment: Attachment,
    /// Its MAC.
    pub mac: Mac,
    /// Its addresses, in order.
    pub addresses: Vec<IpAddr>,
    /// Its number in the switch: declared, or derived from its name.
    pub key: PortKey,
    /// How much of what it sends is checked.
    pub security: Security,
    /// What it may send nevertheless, in order.
    pub allow: Vec<Allow>,
    /// Whether MACs the fabric does not know are learned behind it.
    pub learning: Option<Learning>,
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
            Some(fabric) if sink.is_empty() => Ok(fabric),
            _ => {
                if sink.is_empty() {
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
