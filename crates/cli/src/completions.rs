//! `overlane completions SHELL`.

use clap::CommandFactory;

use crate::args::{Cli, Completions};
use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn run(args: &Completions, output: Output) -> Result<(), Failure> {
    // Into memory first: the generator panics when its reader goes away.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "overlane", &mut script);
    Ok(output.raw(&script)?)
}
