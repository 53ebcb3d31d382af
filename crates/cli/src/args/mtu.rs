//! The command line of `overlane mtu`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use overlane_model::Name;

use super::names::{self, NetnsName};

/// Show which MTU each place needs, and where one is wrong.
///
/// Reads the fabric file, the devices and routes of this machine, and what the data path has seen. Changes nothing.
/// With --probe it tries which packets really get from host to host, and back. With --watch it goes on trying, and
/// tells the data path of this host what fits.
/// Without a host of the file on this machine it shows the arithmetic alone.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane mtu fabric.yaml                   the hosts of the file that are applied on this machine
  overlane mtu fabric.yaml --underlay-mtu 9000   what fits, and which uplink is set otherwise
  overlane mtu fabric.yaml --host h1         this machine is to become h1
  overlane mtu fabric.yaml --json > h1.json  for programs, and for --with on another host
  overlane mtu fabric.yaml --with h1.json    both ends together
  overlane mtu fabric.yaml --probe           what really gets through, both ways
  overlane mtu fabric.yaml --watch --host h1 finds what vanishes because it is too large, until Ctrl-C

Exit codes: 0 nothing is wrong, 1 failed, 2 wrong usage or wrong file, 3 something is set wrongly.")]
pub(crate) struct Mtu {
    /// The fabric file (YAML), or - for standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Look at this machine as this host of the fabric; several, if several are applied here
    #[arg(long = "host", value_name = "NAME", value_parser = names::name)]
    pub(crate) hosts: Vec<Name>,
    /// Network namespace of the host's devices, if the host is not applied
    #[arg(long, value_name = "NS", value_parser = names::netns, requires = "hosts")]
    pub(crate) netns: Option<NetnsName>,
    /// What the physical network carries, if you know: sizes are reckoned with it, uplinks compared with it
    #[arg(
        long,
        value_name = "BYTES",
        value_parser = clap::value_parser!(u32).range(68..=65535)
    )]
    pub(crate) underlay_mtu: Option<u32>,
    /// What `--json` printed on another host
    #[arg(long = "with", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) others: Vec<PathBuf>,
    /// Try which sizes get to each remote and back; the host must be applied here
    #[arg(long, conflicts_with_all = ["underlay_mtu", "netns", "watch"])]
    pub(crate) probe: bool,
    /// Find packets that vanish on the way because they are too large, until Ctrl-C
    #[arg(long, conflicts_with_all = ["underlay_mtu", "netns", "others"])]
    pub(crate) watch: bool,
    /// Seconds from one look to the next
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 2.0,
        value_parser = interval,
        requires = "watch"
    )]
    pub(crate) interval: f64,
    /// Print JSON; with --watch a line for each change
    #[arg(long)]
    pub(crate) json: bool,
}

/// Longer, and the data path would forget what was found before the next look, which tells it again.
fn interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=300.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.1 to 300".to_owned()),
    }
}
