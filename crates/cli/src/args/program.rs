//! The command line of what concerns the program itself: its schema, completions, man pages and version.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use clap_complete::Shell;

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

/// Write the man pages, one for each command.
///
/// They say what `--help` says. `make install` installs them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane man /usr/local/share/man/man1
  overlane man /tmp/pages && man /tmp/pages/overlane-apply.1

Exit codes: 0 written, 1 a page could not be written.")]
pub(crate) struct Man {
    /// The folder to write into; it is made if it is not there
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
}

/// Show which build of the program this is, and what it fits.
///
/// The commit of its sources, the oldest kernel that is tested, and the formats that builds have to share.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane version
  overlane version --json | jq -r .commit    for programs and for bug reports")]
pub(crate) struct Version {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
