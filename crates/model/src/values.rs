//! The values of the fabric file that have a form of their own: names of devices, addresses, ranges.
//! Each reader reports its own mistake and answers `None`, like those of [`scalar`](crate::scalar).

use std::fmt::Display;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use overlane_wire::Mac;

use crate::diagnostic::{Sink, Span};
use crate::fabric::{Allow, NonIp};
use crate::names::{DeviceName, NameError};
use crate::netns::{Netns, NetnsError};
use crate::render::printable;
use crate::scalar::{Spanned, choice, integer, text, wrong_type};
use crate::special::{Special, special};
use crate::tables::{Dscp, VlanId};
use crate::yaml::{Kind, Node, Value, resolve};

/// A device, by name.
pub(crate) fn device(node: &Node, what: &str, sink: &mut Sink) -> Option<Spanned<DeviceName>> {
    let help = "write a device's name as `ip link` shows it, in quotes if it looks like a number";
    let written = text(node, what, help, sink)?;
    DeviceName::new(written.value)
        .map(|device| Spanned::new(device, node.at))
        .map_err(|error| report_name(&error, node.at, sink))
        .ok()
}

/// The network namespace of a port's device.
pub(crate) fn netns(node: &Node, sink: &mut Sink) -> Option<Spanned<Netns>> {
    if is_number(node) {
        let number = integer(node, "`netns`", 1..=Netns::MOST_PROCESSES, sink)?;
        let netns = Netns::of_process(number.value).ok()?;
        return Some(Spanned::new(netns, node.at));
    }
    let written = text(node, "`netns`", NetnsError::HELP, sink)?;
    Netns::new(written.value)
        .map(|netns| Spanned::new(netns, node.at))
        .map_err(|error| sink.error(node.at, printable(&error.to_string()), NetnsError::HELP))
        .ok()
}

/// In quotes it is text.
fn is_number(node: &Node) -> bool {
    matches!(&node.value, Value::Plain(written) if resolve(written) == Kind::Integer)
}

/// Reports what is no name.
pub(crate) fn report_name(error: &NameError, at: Span, sink: &mut Sink) {
    sink.error(at, printable(&error.to_string()), error.help());
}

/// A text that `T` reads.
fn parsed<T: FromStr>(
    node: &Node,
    what: &str,
    kind: &str,
    help: &str,
    sink: &mut Sink,
) -> Option<Spanned<T>> {
    let written = text(node, what, help, sink)?;
    match written.value.parse() {
        Ok(value) => Some(Spanned::new(value, node.at)),
        Err(_) => {
            let message = format!("`{}` is not {kind}", printable(written.value));
            sink.error(node.at, message, help);
            None
        }
    }
}

/// The MAC of a port or router: one station, not a group of them and not nobody.
pub(crate) fn station(node: &Node, what: &str, sink: &mut Sink) -> Option<Spanned<Mac>> {
    let help = "write six hexadecimal octets in quotes, like \"02:00:00:00:00:01\"";
    let mac: Spanned<Mac> = parsed(node, what, "a MAC address", help, sink)?;
    let fault = if mac.value.is_broadcast() {
        "is the broadcast address"
    } else if mac.value.is_group() {
        "is a multicast address (the lowest bit of the first octet is set)"
    } else if mac.value.is_zero() {
        "names no station"
    } else {
        return Some(mac);
    };
    let message = format!("{} {fault}", mac.value);
    let help = "a unicast address is needed; one of your own begins with 02, 06, 0a or 0e";
    sink.error(node.at, message, help);
    None
}

/// The addresses of a port.
pub(crate) fn addresses(node: &Node, sink: &mut Sink) -> Vec<Spanned<IpAddr>> {
    let Value::List(nodes) = &node.value else {
        let help = "write it in brackets: [198.18.100.1, \"2001:2::1\"]";
        wrong_type(node, "`addresses`", "a list", help, sink);
        return Vec::new();
    };
    nodes
        .iter()
        .filter_map(|node| address(node, "an address", sink))
        .collect()
}

/// The floating MACs of a port, each once.
pub(crate) fn allowed_macs(node: &Node, sink: &mut Sink) -> Vec<Spanned<Mac>> {
    let Value::List(nodes) = &node.value else {
        let help = "write it in brackets: [\"00:00:5e:00:01:33\"]";
        wrong_type(node, "`allowed_macs`", "a list", help, sink);
        return Vec::new();
    };
    let macs = nodes.iter();
    let macs = macs.filter_map(|node| station(node, "an entry of `allowed_macs`", sink));
    let macs = macs.collect();
    each_once(macs, "allowed_macs", sink)
}

/// The entries of a list without those that it has already, which are reported.
pub(crate) fn each_once<T: Copy + PartialEq + Display>(
    entries: Vec<Spanned<T>>,
    list: &str,
    sink: &mut Sink,
) -> Vec<Spanned<T>> {
    let mut kept: Vec<Spanned<T>> = Vec::new();
    for found in entries {
        match kept.iter().find(|earlier| earlier.value == found.value) {
            Some(first) => {
                let message = format!("`{}` appears twice in `{list}`", found.value);
                let help = "remove one of the two";
                let said = format!("`{}` is first here", found.value);
                sink.conflict(found.at, message, help, (first.at, said));
            }
            None => kept.push(found),
        }
    }
    kept
}

/// An address that one station can have.
pub(crate) fn address(node: &Node, what: &str, sink: &mut Sink) -> Option<Spanned<IpAddr>> {
    let help =
        "write an IPv4 or IPv6 address without prefix length, like 198.18.0.1 or \"2001:2::1\"";
    let found = parsed(node, what, "an IP address", help, sink)?;
    unicast(found, sink)
}

/// An address that one station can have for itself.
pub(crate) fn unicast(found: Spanned<IpAddr>, sink: &mut Sink) -> Option<Spanned<IpAddr>> {
    let fault = match found.value {
        ip if ip.is_unspecified() => "is the unspecified address",
        ip if ip.is_multicast() => "is a multicast address",
        ip if ip.is_loopback() => "is a loopback address",
        IpAddr::V4(ip) if ip.is_broadcast() => "is the broadcast address",
        // The maps hold IPv4 in this form: the two would be one entry.
        IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some() => "is an IPv4-mapped address",
        IpAddr::V6(ip) if ip.is_unicast_link_local() => return Some(found),
        IpAddr::V4(ip) if ip.octets()[0] == 0 => "is in 0.0.0.0/8, which no station has",
        ip if special(ip) == Special::Never => match ip {
            IpAddr::V4(_) => "is in 240.0.0.0/4, which is reserved",
            IpAddr::V6(_) => "is in ::/96, which no station has",
        },
        _ => return Some(found),
    };
    let message = format!("{} {fault}", found.value);
    sink.error(
        found.at,
        message,
        "write the unicast address of the station",
    );
    None
}

/// A first and a last port.
pub(crate) fn port_range(
    node: &Node,
    what: &str,
    help: &str,
    sink: &mut Sink,
) -> Option<Spanned<RangeInclusive<u16>>> {
    let written = text(node, what, help, sink)?;
    let Some(ports) = range(written.value).filter(|ports| *ports.start() > 0 && *ports.end() > 0)
    else {
        let message = format!("`{}` is not a range of ports", printable(written.value));
        sink.error(node.at, message, help);
        return None;
    };
    let (first, last) = (ports.start(), ports.end());
    if first > last {
        let message = format!("{what} ends before it begins: {first}-{last}");
        sink.error(node.at, message, &format!("write {last}-{first}"));
        return None;
    }
    Some(Spanned::new(ports, node.at))
}

/// Two numbers with a dash between them, in any order.
pub(crate) fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-')?;
    Some(decimal(first)?..=decimal(last)?)
}

/// A number of decimal digits only.
pub(crate) fn decimal<T: FromStr>(text: &str) -> Option<T> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// A VLAN, by number.
pub(crate) fn vlan(node: &Node, what: &str, sink: &mut Sink) -> Option<Spanned<VlanId>> {
    let number = integer(node, what, 1..=u32::from(VlanId::MAX), sink)?;
    Some(Spanned::new(VlanId::new(number.value).ok()?, number.at))
}

/// What an Ethernet frame that is neither IP nor ARP carries.
pub(crate) fn ether_type(node: &Node, sink: &mut Sink) -> Option<u16> {
    if let Value::Plain(written) | Value::Quoted(written) = &node.value
        && let Some(number) = bare_hexadecimal(written)
    {
        let message = format!("`{written}` is no number: a hexadecimal one begins with 0x");
        sink.error(node.at, message, &format!("write {number}"));
        return None;
    }
    let types = NonIp::FIRST..=u32::from(u16::MAX);
    let number = integer(node, "an EtherType", types, sink)?.value;
    let fault = match number {
        0x0800 | 0x86dd => "is IP, which rules judge",
        0x0806 => "is ARP, which always passes",
        0x8100 | 0x88a8 => "is a VLAN tag, not what is behind it",
        _ => return u16::try_from(number).ok(),
    };
    let help = "remove it, or write what the frames carry, like 0x88cc";
    sink.error(node.at, format!("{number:#06x} {fault}"), help);
    None
}

/// `0x88cc`, of `88CC`: an EtherType as people write it, but no number in YAML.
fn bare_hexadecimal(written: &str) -> Option<String> {
    let digits = written.to_lowercase();
    let is_bare = digits.len() == 4
        && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        && !digits.bytes().all(|digit| digit.is_ascii_digit());
    is_bare.then(|| format!("0x{digits}"))
}

/// A code point, or that of the inner header.
pub(crate) fn dscp(node: &Node, sink: &mut Sink) -> Option<Spanned<Dscp>> {
    let what = "`dscp`";
    let help = "write a whole number from 0 to 63, or `copy`";
    let word = match &node.value {
        Value::Plain(word) if resolve(word) != Kind::Text => {
            let number = integer(node, what, 0..=u32::from(Dscp::MAX), sink)?;
            let dscp = Dscp::Fixed(u8::try_from(number.value).ok()?);
            return Some(Spanned::new(dscp, number.at));
        }
        Value::Plain(word) | Value::Quoted(word) => word,
        Value::List(_) | Value::Mapping(_) | Value::Refused => {
            wrong_type(node, what, "a number or `copy`", help, sink);
            return None;
        }
    };
    if word == Dscp::COPY {
        return Some(Spanned::new(Dscp::Copy, node.at));
    }
    let message = format!(
        "{what} must be a number or `copy`, not `{}`",
        printable(word)
    );
    let help = sink.suggest(word, [Dscp::COPY], || Some(help.into()));
    sink.report(node.at, message, help);
    None
}

/// What a port is allowed to send, each once.
pub(crate) fn permissions(node: &Node, sink: &mut Sink) -> Vec<Spanned<Allow>> {
    let Value::List(nodes) = &node.value else {
        let help = format!("write it in brackets: [{}]", Allow::DhcpServer);
        wrong_type(node, "`allow`", "a list", &help, sink);
        return Vec::new();
    };
    let entries = nodes.iter();
    let entries = entries.filter_map(|node| choice(node, "an entry of `allow`", &Allow::ALL, sink));
    let entries = entries.collect();
    each_once(entries, "allow", sink)
}
