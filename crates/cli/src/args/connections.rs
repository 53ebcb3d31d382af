//! The command line of `overlane connections …`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use overlane_host::forget::IpNet;
use overlane_model::Name;

use super::{HostChoice, names};
use crate::protocol;

/// Move the connections of a port with it from one host to another, or forget some.
///
/// `export` and `import` are for the live migration of a virtual machine through a stateful firewall: the host that the port comes to
/// learns which connections go on. docs/migration.md has the order of all steps.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  overlane connections export web1 > web1.json             on the host that the port leaves
  overlane connections import web1 < web1.json             on the host that it comes to
  overlane connections export web1 | ssh h2 overlane connections import web1
  overlane connections forget --port web1 --peer 198.18.9.7   so that the rules judge them anew

`overlane show connections` shows what there is. Translations of a router's gateway stay there."
)]
pub(crate) struct Connections {
    #[command(subcommand)]
    pub(crate) what: ConnectionsWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConnectionsWhat {
    /// Write the live connections of a port, as JSON
    #[command(after_help = "\
Examples:
  overlane connections export web1 > web1.json
  overlane connections export web1 web1.json --host h1

While the machine stands still nothing is missing. Changes nothing.
Exit codes: 0 written, 1 failed, 2 wrong usage.")]
    Export(ConnectionsExport),
    /// Take connections over, into the same port on this host
    #[command(after_help = "\
Examples:
  overlane connections import web1 < web1.json
  overlane connections import web1 web1.json --host h2 --json

The rules of this host judge each of them again with its next packet. Those that the host has
already stay as they are, so a second time does no harm.
Exit codes: 0 taken; 1 failed, or some found no place; 2 wrong usage, or a wrong file.")]
    Import(ConnectionsImport),
    /// Forget connections and translations, so that their next packets are judged anew
    #[command(after_help = "\
Examples:
  overlane connections forget --port web1
  overlane connections forget --peer 198.18.9.0/24 --protocol tcp --json
  overlane connections forget --port core --protocol udp --local-port 5060     translations of router core
  overlane connections forget --all

All that you name must agree. Rules that allow a packet of an open TCP connection let it begin anew
in the middle. `overlane show connections` shows what there is.
Exit codes: 0 forgotten, also none; 1 failed, or no such port; 2 wrong usage.")]
    Forget(ConnectionsForget),
}

#[derive(Debug, Args)]
pub(crate) struct ConnectionsExport {
    #[command(flatten)]
    pub(crate) host: HostChoice,
    /// The logical port
    #[arg(value_parser = names::name)]
    pub(crate) port: Name,
    /// The file to write; - is standard output
    #[arg(value_hint = ValueHint::FilePath, default_value = "-")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ConnectionsImport {
    #[command(flatten)]
    pub(crate) host: HostChoice,
    /// The logical port
    #[arg(value_parser = names::name)]
    pub(crate) port: Name,
    /// The file that `export` wrote; - is standard input
    #[arg(value_hint = ValueHint::FilePath, default_value = "-")]
    pub(crate) file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[group(id = "which", required = true, multiple = true, args = ["port", "protocol", "local", "local_port", "peer", "peer_port", "all"])]
pub(crate) struct ConnectionsForget {
    #[command(flatten)]
    pub(crate) host: HostChoice,
    /// Those of this logical port, or of this router's gateway
    #[arg(long, value_name = "NAME", value_parser = names::name)]
    pub(crate) port: Option<Name>,
    /// Those of this protocol, as rules name it: tcp, udp, sctp, icmp, icmp6, or protocol/47
    #[arg(long, value_parser = protocol::parse)]
    pub(crate) protocol: Option<u8>,
    /// Those whose end at the port has this address, or one of this network; of a translation the inside
    #[arg(long, value_name = "ADDRESS", value_parser = network)]
    pub(crate) local: Option<IpNet>,
    /// Those with this port number at that end; of ICMP the identifier
    #[arg(long, value_name = "NUMBER")]
    pub(crate) local_port: Option<u16>,
    /// Those whose other end has this address, or one of this network
    #[arg(long, value_name = "ADDRESS", value_parser = network)]
    pub(crate) peer: Option<IpNet>,
    /// Those with this port number at the other end
    #[arg(long, value_name = "NUMBER")]
    pub(crate) peer_port: Option<u16>,
    /// All connections and translations of the host
    #[arg(long, conflicts_with_all = ["port", "protocol", "local", "local_port", "peer", "peer_port"])]
    pub(crate) all: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// An address is the network of it alone.
fn network(text: &str) -> Result<IpNet, String> {
    let address = text.parse::<IpAddr>().map(IpNet::from);
    let network = address.or_else(|_| text.parse::<IpNet>());
    network.map_err(|_| {
        "write an address or a network, for example 198.18.9.7 or 198.18.9.0/24".to_owned()
    })
}
