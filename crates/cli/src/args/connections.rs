//! The command line of `overlane connections …`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::HostChoice;

/// Move the connections of a port with it, from one host to another.
///
/// For the live migration of a virtual machine through a stateful firewall: the host that the port comes to
/// learns which connections go on. docs/migration.md has the order of all steps.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  overlane connections export web1 > web1.json             on the host that the port leaves
  overlane connections import web1 < web1.json             on the host that it comes to
  overlane connections export web1 | ssh h2 overlane connections import web1

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
}

#[derive(Debug, Args)]
pub(crate) struct ConnectionsExport {
    #[command(flatten)]
    pub(crate) host: HostChoice,
    /// The logical port
    pub(crate) port: String,
    /// The file to write; - is standard output
    #[arg(value_hint = ValueHint::FilePath, default_value = "-")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ConnectionsImport {
    #[command(flatten)]
    pub(crate) host: HostChoice,
    /// The logical port
    pub(crate) port: String,
    /// The file that `export` wrote; - is standard input
    #[arg(value_hint = ValueHint::FilePath, default_value = "-")]
    pub(crate) file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
