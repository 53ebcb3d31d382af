//! The command line of the agent.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use overlane_model::Name;

use super::{HostChoice, NetnsName, names};

/// Keep this machine as a host of the fabric is declared, until a signal comes.
///
/// Follows the fabric file and the machine: whatever differs is mended, devices that are made again work again. What it
/// cannot do it says, and tries again. `systemctl enable --now overlane-agent` runs it as a service.
/// Packets do not need it: while it is away they flow as before.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane agent --host h1 --fabric /etc/overlane/fabric.yaml
  overlane agent                        as /etc/overlane/agent.yaml says
  overlane agent --host h1              no file: it keeps what somebody applies
  overlane status                       how it goes, and what waits for a person
  overlane agent accept                 do what it holds

/etc/overlane/agent.yaml, each key if you need it:
  host: h1                              default: the host that is known here, or the machine's name
  fabric: /etc/overlane/fabric.yaml     a file, or a folder with parts of one
  netns: blue                           network namespace of the host's devices
  watch_mtu: false                      do not look where packets vanish because they are too large

Exit codes: 0 ended by a signal, 1 it could not begin, 2 wrong usage or wrong settings.")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Agent {
    #[command(subcommand)]
    pub(crate) what: Option<AgentWhat>,
    /// Which host of the fabric this machine is
    #[arg(long, value_name = "NAME", value_parser = names::name)]
    pub(crate) host: Option<Name>,
    /// The fabric: a file (YAML), or a folder with the parts of one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub(crate) fabric: Option<PathBuf>,
    /// Network namespace of the host's devices, as `ip netns list` shows it
    #[arg(long, value_name = "NS", value_parser = names::netns)]
    pub(crate) netns: Option<NetnsName>,
    /// Another file with the settings
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
}

/// What else there is to do with an agent.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentWhat {
    Accept(AgentAccept),
}

/// Do what the agent holds: a change that takes away more than ten ports and a twentieth of them, and that nobody wrote.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane agent accept --host h1

Exit codes: 0 done, 1 nothing is held, or it failed.")]
pub(crate) struct AgentAccept {
    #[command(flatten)]
    pub(crate) host: HostChoice,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
