//! The command line as types: what was typed, and nothing else. Each command's file takes its part
//! of this and does the work. `--help` texts and their examples live here, beside what they explain.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;

/// An overlay virtual switch for Linux, and the laboratory that measures it.
#[derive(Debug, Parser)]
#[command(
    name = "overlane",
    version = env!("OVERLANE_VERSION"),
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "\
Examples:
  overlane check fabric.yaml                 what is wrong with the file, all at once
  overlane apply fabric.yaml --host h1       make this machine host h1 of the fabric
  overlane show counters                     what became of every packet
  overlane lab run jumbo-vxlan --quick       measure it, beside what else is on this machine

Exit codes: 0 done, 1 the operation failed, 2 wrong usage or wrong fabric file."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Check(Check),
    Apply(Apply),
    Remove(Remove),
    Show(Show),
    Schema(Schema),
    Completions(Completions),
    Lab(Lab),
}

/// Read a fabric file and show everything that is wrong with it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane check fabric.yaml
  overlane check - < fabric.yaml             from standard input
  overlane check fabric.yaml --json          for programs: positions as numbers

Exit codes: 0 the file is right, 2 it is wrong or cannot be read.")]
pub(crate) struct Check {
    /// The fabric file (YAML), or - for standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Make this machine carry one host of the fabric.
///
/// Changes only what differs from what is there, loses no packet, and on any error puts the machine
/// back as it was. The data path stays when the command ends; after a reboot, apply again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane apply fabric.yaml --host h1 --dry-run     print the difference, change nothing
  overlane apply fabric.yaml --host h1
  overlane apply fabric.yaml --host h1 --netns blue  the host lives in network namespace 'blue'

Needs root, Linux 6.6 or newer, and the BPF file system on /sys/fs/bpf.
Exit codes: 0 applied (or nothing differed), 1 failed and put back, 2 wrong usage or wrong fabric file.")]
pub(crate) struct Apply {
    /// The fabric file (YAML), the same on every host
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Which host of the fabric this machine is
    #[arg(long, value_name = "NAME")]
    pub(crate) host: String,
    /// Network namespace of the host's devices, as `ip netns list` shows it
    #[arg(long, value_name = "NS")]
    pub(crate) netns: Option<String>,
    /// Only print what would change
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Take away everything that `apply` made.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane remove                            when one host is applied on this machine
  overlane remove --host h1

Works also when devices or the namespace are gone already. Exit codes: 0 done, 1 failed.")]
pub(crate) struct Remove {
    #[command(flatten)]
    pub(crate) host: HostChoice,
    /// Network namespace of the host's devices, if it is not the one `apply` was told
    #[arg(long, value_name = "NS")]
    pub(crate) netns: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show what runs on this machine.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  overlane show counters                     every verdict and drop reason that occurred
  overlane show counters --all --json | jq '.verdicts[] | select(.drop)'
  overlane show remotes --host h1"
)]
pub(crate) struct Show {
    #[command(subcommand)]
    pub(crate) what: ShowWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ShowWhat {
    /// The logical ports of this host and whether packets flow
    #[command(after_help = "\
Examples:
  overlane show ports
  overlane show ports --json

States: ok; missing (no such device); detached (the device was re-created: apply again).")]
    Ports(ShowArgs),
    /// Where each MAC address lives: local port or remote
    #[command(after_help = "\
Examples:
  overlane show fdb
  overlane show fdb --host h1 --json")]
    Fdb(ShowArgs),
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
pub(crate) struct ShowCounters {
    #[command(flatten)]
    pub(crate) common: ShowArgs,
    /// Also verdicts that are zero
    #[arg(long)]
    pub(crate) all: bool,
}

/// Which of the hosts applied on this machine.
#[derive(Debug, Args)]
pub(crate) struct HostChoice {
    /// Host of the fabric; may be left out when exactly one is applied on this machine
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// Print the JSON Schema of the fabric file.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane schema > fabric.schema.json
  # then, first line of fabric.yaml, for editors with the YAML language server:
  # yaml-language-server: $schema=fabric.schema.json")]
pub(crate) struct Schema {}

/// Print a completion script for your shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane completions bash > /etc/bash_completion.d/overlane
  overlane completions zsh > /usr/share/zsh/site-functions/_overlane
  overlane completions fish > ~/.config/fish/completions/overlane.fish")]
pub(crate) struct Completions {
    /// Which shell
    pub(crate) shell: Shell,
}

/// Measure overlays on this machine, in network namespaces.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  overlane lab doctor                        what can run here, and why not the rest
  overlane lab run jumbo-vxlan --quick       five minutes
  overlane lab cleanup                       after a run was killed"
)]
pub(crate) struct Lab {
    #[command(subcommand)]
    pub(crate) what: LabWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabWhat {
    Run(LabRun),
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
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane lab run jumbo-vxlan --quick       the smallest set of cells that shows the result
  overlane lab run jumbo-vxlan --out /tmp/monday
  overlane lab run jumbo-vxlan --json        prints result.json, for programs

The result is a folder: report.html, report.md, result.json, samples.ndjson, cells.csv, env.json.
Exit codes: 0 the study ran (cells that cannot run here are listed with their reason), 1 it failed.")]
pub(crate) struct LabRun {
    /// Name of the study, as `overlane lab list` shows it
    pub(crate) study: String,
    /// Fewer cells, shorter samples: within five minutes
    #[arg(long)]
    pub(crate) quick: bool,
    /// Folder for the result; without it a new one under results/
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,
    /// Print the result as JSON, and nothing else, on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
