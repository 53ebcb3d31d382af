//! The command line of `overlane show …`.

use clap::{Args, Subcommand};
use overlane_model::Name;

use super::{HostChoice, names};

/// Show what runs on this machine; without more, as `overlane status` does.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  overlane show                              whether all is as declared
  overlane show counters                     every verdict and drop reason that occurred
  overlane show counters --all --json | jq '.verdicts[] | select(.drop)'
  overlane show remotes --host h1"
)]
pub(crate) struct Show {
    #[command(subcommand)]
    pub(crate) what: Option<ShowWhat>,
    #[command(flatten)]
    pub(crate) status: ShowArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ShowWhat {
    /// The logical ports of this host and whether packets flow
    #[command(after_help = "\
Examples:
  overlane show ports
  overlane show ports --json

States: ok; missing (no such device); detached (the device is there without our program: apply again);
down (bring the device up); no carrier (its other end is down).")]
    Ports(ShowArgs),
    /// The logical switches with a port on this host, and those that a router joins with one
    #[command(after_help = "\
Examples:
  overlane show switches
  overlane show switches --json")]
    Switches(ShowArgs),
    /// The MAC addresses learned behind learning ports and other hosts, and when they were last seen
    #[command(after_help = "\
Examples:
  overlane show learned
  overlane show learned --json
  watch -n 1 overlane show learned")]
    Learned(ShowArgs),
    /// Whom routers found by ARP and neighbour discovery, and who does not answer them
    #[command(after_help = "\
Examples:
  overlane show neighbours
  overlane show neighbours --json | jq -r '.neighbours[] | select(.state == \"silent\") | .address'

States: reachable (it answered in the last 30 seconds); stale (it did not; packets go there all the same);
asking (nobody has answered yet); silent (nobody answered three questions; senders are told so).
What no packet needed for a while is not asked for, and not shown.")]
    Neighbours(ShowArgs),
    /// Where each MAC address lives: local port, remote or uplink
    #[command(after_help = "\
Examples:
  overlane show fdb
  overlane show fdb --host h1 --json")]
    Fdb(ShowArgs),
    /// The firewall's rules on this host, in the order in which they are tried, and how often each decided
    #[command(after_help = "\
Examples:
  overlane show rules
  overlane show rules --json | jq -r '.rules[] | select(.hits.packets == 0) | .rule'

Hits are the packets that a rule let pass or stopped, those of its connections included.")]
    Rules(ShowArgs),
    /// The connections that the firewall follows, and the translations of gateways
    #[command(after_help = "\
Examples:
  overlane show connections
  overlane show connections --port web1
  overlane show connections --json | jq '.connections | length'

An expired connection is nobody's any more; its place is taken when one is needed.")]
    Connections(ShowConnections),
    /// The routers that this host knows, and their routes
    #[command(after_help = "\
Examples:
  overlane show routes
  overlane show routes --json | jq '.routers[].routes[] | select(.way == \"via\")'")]
    Routes(ShowArgs),
    /// The other hosts, and how the underlay reaches them
    #[command(after_help = "\
Examples:
  overlane show remotes
  overlane show remotes --json")]
    Remotes(ShowArgs),
    /// What became of every packet: verdicts and drop reasons, per port, per remote
    #[command(after_help = "\
Examples:
  overlane show counters                     what is not zero
  overlane show counters --all               also what never happened
  watch -n 1 overlane show counters

Packets are what the kernel hands over (a super-packet is one), segments what they are on a wire,
bytes their length where they were seen.")]
    Counters(ShowCounters),
    /// What was dropped, how often and why
    #[command(after_help = "\
Examples:
  overlane show drops                        every reason that occurred, with its meaning
  overlane show drops --follow               each packet as it is dropped, until Ctrl-C
  overlane show drops --follow --json | jq .summary")]
    Drops(ShowDrops),
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) host: HostChoice,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowConnections {
    #[command(flatten)]
    pub(crate) common: ShowArgs,
    /// Only those of this logical port, or of this router's gateway
    #[arg(long, value_name = "NAME", value_parser = names::name)]
    pub(crate) port: Option<Name>,
}

#[derive(Debug, Args)]
pub(crate) struct ShowCounters {
    #[command(flatten)]
    pub(crate) common: ShowArgs,
    /// Also verdicts that are zero
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowDrops {
    #[command(flatten)]
    pub(crate) common: ShowArgs,
    /// Each packet as it is dropped, until Ctrl-C
    #[arg(long, short)]
    pub(crate) follow: bool,
}
