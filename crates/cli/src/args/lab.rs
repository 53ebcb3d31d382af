//! The command line of `overlane lab …`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use overlane_analysis::record::{BackendName, Family, GuestKind, MtuClass, Tuning};
use overlane_analysis::results::compare::Network as CompareNetwork;

/// Measure overlays on this machine, in network namespaces.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  overlane lab doctor                        what can run here, and why not the rest
  overlane lab list                          the studies
  overlane lab run jumbo-vxlan --quick       some minutes
  overlane lab compare results/a results/b   did anything get worse?
  overlane lab resume results/a              after a run was stopped
  overlane lab cleanup                       after a run was killed"
)]
pub(crate) struct Lab {
    #[command(subcommand)]
    pub(crate) what: LabWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabWhat {
    Run(LabRun),
    Resume(LabResume),
    Plan(LabPlan),
    /// Read a study file and say what is wrong with it
    #[command(after_help = "\
Examples:
  overlane lab check my-study.yaml
  overlane lab check frame-sweep

docs/studies.md has every key. Exit codes: 0 it can be run, 2 it cannot.")]
    Check(LabCheck),
    Compare(LabCompare),
    /// Write the report of a result folder again, from its samples
    #[command(after_help = "\
Examples:
  overlane lab report results/20261121T101500Z-jumbo-vxlan")]
    Report(LabReport),
    /// Draw the charts of a result folder as one SVG, for a page or a slide
    #[command(after_help = "\
Examples:
  overlane lab chart results/20261121T101500Z-jumbo-vxlan --output overlay.svg
  overlane lab chart results/a > overlay.svg

Throughput and CPU side by side, a row for each group. It needs no other file, and follows the reader's light or dark theme.
Exit codes: 0 drawn, 1 no cell of the result has a figure, or the file cannot be written.")]
    Chart(LabChart),
    /// The studies there are
    #[command(after_help = "\
Examples:
  overlane lab list
  overlane lab list --json")]
    List(Json),
    /// What the laboratory can run on this machine, and why not the rest
    #[command(after_help = "\
Examples:
  overlane lab doctor
  overlane lab doctor --json

Exit codes: 0 studies can run, 1 something that every study needs is missing.")]
    Doctor(Json),
    /// Undo what a killed run left behind: namespaces, devices, pins, processes
    #[command(after_help = "\
Examples:
  overlane lab cleanup
  overlane lab cleanup --json

Safe at any time: a run that is still going is left alone. Exit codes: 0 clean, 1 something stayed.")]
    Cleanup(Json),
}

#[derive(Debug, Args)]
pub(crate) struct Json {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Run a study and write its report.
///
/// On a terminal it shows a live view; q or ^C stops it cleanly and keeps what was measured.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane lab run jumbo-vxlan --quick       the smallest set of cells that shows the result
  overlane lab run jumbo-vxlan --out /tmp/monday
  overlane lab run jumbo-vxlan --quick --networks bridge,overlane-vlan,overlane-vxlan
  overlane lab run ./my-study.yaml --samples 12
  overlane lab run geneve-vs-vxlan --quick --underlay ipv6
  overlane lab run jumbo-vxlan --quick --guests veth,tap     containers and virtual machines
  overlane lab run jumbo-migration --quick --links 1,2 --guest-memory 512     virtual machines that move
  overlane lab run jumbo-vxlan --quick --networks overlane-vxlan --against-itself
  overlane lab run jumbo-vxlan --json        prints result.json, for programs

The result is a folder: report.html, report.md, result.json, cells.csv, env.json, and the record they are computed
from, run.json and samples.ndjson.
Exit codes: 0 the study ran (cells that cannot run here are listed with their reason), 1 it failed or was
stopped, 2 wrong usage or a wrong study file.")]
pub(crate) struct LabRun {
    #[command(flatten)]
    pub(crate) matrix: LabMatrix,
    /// Folder for the result; without it a new one under results/
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) show: LabShow,
}

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct LabMatrix {
    /// A study that `overlane lab list` shows, or the path of a study file (with a / or ending in .yaml)
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) study: String,
    /// Fewer cells, shorter samples: some minutes
    #[arg(long)]
    pub(crate) quick: bool,
    /// Compare these in place of the study's own: comma-separated names, as `overlane lab doctor` shows them
    #[arg(long, alias = "backends", value_name = "NAME", value_delimiter = ',')]
    pub(crate) networks: Option<Vec<BackendName>>,
    /// Virtual hosts: 1 puts both guests of a pair on one host
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(crate) hosts: Option<u32>,
    /// Pairs of guests; machines that move at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(crate) pairs: Option<u32>,
    /// What the guests are: veth (containers), tap (virtual machines), or both with a comma between them
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) guests: Option<Vec<GuestKind>>,
    /// MTU: 1500, 9000, or both with a comma between them
    #[arg(long, value_name = "MTU", value_delimiter = ',', value_parser = mtu_class)]
    pub(crate) mtu: Option<Vec<MtuClass>>,
    /// How the networks are set: alike (like for like), best (each network's own best), or both with a comma between them
    #[arg(long, value_name = "HOW", value_delimiter = ',')]
    pub(crate) tuning: Option<Vec<Tuning>>,
    /// Family of the guests' addresses: ipv4 or ipv6
    #[arg(long, value_name = "FAMILY")]
    pub(crate) inner: Option<Family>,
    /// Family of the underlay's addresses: ipv4 or ipv6
    #[arg(long, value_name = "FAMILY")]
    pub(crate) underlay: Option<Family>,
    /// Samples per cell, in place of the study's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) samples: Option<u32>,
    /// Length of a sample, in place of the study's
    #[arg(long, value_name = "SECONDS")]
    pub(crate) seconds: Option<f64>,
    /// Memory of each machine that moves, in MiB
    #[arg(
        long,
        value_name = "MIB",
        value_delimiter = ',',
        help_heading = "Machines that move"
    )]
    pub(crate) guest_memory: Option<Vec<u32>>,
    /// How fast each machine writes its memory meanwhile, in MiB per second
    #[arg(
        long,
        value_name = "MIB_PER_SECOND",
        value_delimiter = ',',
        help_heading = "Machines that move"
    )]
    pub(crate) dirty_rate: Option<Vec<u32>>,
    /// Cables that the memory travels over: 1, 2, or both with a comma between them
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        help_heading = "Machines that move"
    )]
    pub(crate) links: Option<Vec<u32>>,
    /// Machines go on at the other host before all of their memory is there (postcopy), in place of after (precopy)
    #[arg(long, help_heading = "Machines that move")]
    pub(crate) postcopy: bool,
    /// Build each network twice and compare it with itself: how often does noise look like a difference?
    #[arg(long)]
    pub(crate) against_itself: bool,
    /// Count rounds beside which other programs run, and mark them, in place of taking them again
    #[arg(long)]
    pub(crate) busy_machine: bool,
}

/// How a run is shown.
#[derive(Debug, Args)]
pub(crate) struct LabShow {
    /// Print the result as JSON, and nothing else, on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Plain lines in place of the live view, on a terminal too
    #[arg(long)]
    pub(crate) no_tty: bool,
}

/// Go on with a run that was stopped or killed, into the same folder.
///
/// What was measured stays; a round that was not complete is measured again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane lab resume results/20261121T101500Z-jumbo-vxlan

Exit codes: as of `overlane lab run`.")]
pub(crate) struct LabResume {
    /// The result folder
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) show: LabShow,
}

/// Show the cells of a study and how long it takes, without measuring.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane lab plan frame-sweep --quick
  overlane lab plan ./my-study.yaml --json")]
pub(crate) struct LabPlan {
    #[command(flatten)]
    pub(crate) matrix: LabMatrix,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LabCheck {
    /// A study that `overlane lab list` shows, or the path of a study file
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) study: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Compare two results, or two networks within one: better, worse, or cannot tell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane lab compare results/monday results/tuesday
  overlane lab compare results/monday results/tuesday --threshold 5
  overlane lab compare results/monday --networks kernel-vxlan,overlane-vxlan --json
  overlane lab compare results/monday --networks overlane-vxlan,overlane-vxlan+routing-firewall

The second is held against the first. Networks of one run are compared by the ratios of their rounds; two
runs are no pairs, and their machines are compared with them.
Exit codes: 0 no regression, 1 something is worse by more than the threshold or is missing, 2 wrong usage.")]
pub(crate) struct LabCompare {
    /// The result folder that the other is held against
    #[arg(value_name = "A", value_hint = ValueHint::DirPath)]
    pub(crate) a: PathBuf,
    /// The other result folder
    #[arg(value_name = "B", value_hint = ValueHint::DirPath, required_unless_present = "networks", conflicts_with = "networks")]
    pub(crate) b: Option<PathBuf>,
    /// Two networks within A, the second held against the first: NAME, or NAME+FEATURE
    #[arg(long, value_name = "A,B", value_parser = two_networks)]
    pub(crate) networks: Option<(CompareNetwork, CompareNetwork)>,
    /// How many per cent worse is no regression yet
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub(crate) threshold: f64,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The size class of an MTU.
fn mtu_class(text: &str) -> Result<MtuClass, String> {
    match text.trim() {
        "1500" => Ok(MtuClass::Standard),
        "9000" => Ok(MtuClass::Jumbo),
        _ => Err("write 1500 or 9000, or both with a comma between them".to_owned()),
    }
}

/// `kernel-vxlan,overlane-vxlan+routing`
fn two_networks(text: &str) -> Result<(CompareNetwork, CompareNetwork), String> {
    let (a, b) = text
        .split_once(',')
        .ok_or("two networks with a comma between them")?;
    let network = |name: &str| name.trim().parse::<CompareNetwork>();
    match (network(a), network(b)) {
        (Ok(a), Ok(b)) => Ok((a, b)),
        (Err(error), _) | (_, Err(error)) => Err(error.to_string()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct LabChart {
    /// The result folder
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Write the SVG to this file, in place of standard output
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct LabReport {
    /// The result folder
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
}
