//! The binary `overlane`: arguments become a typed request, a crate does the work, the answer is
//! printed. Decides nothing itself. One file per command.

mod agent;
mod announce;
mod apply;
mod args;
mod capture;
mod check;
mod completions;
mod connections;
#[cfg(test)]
mod documents;
mod drops;
mod failure;
mod flows;
mod lab;
mod log;
mod man;
mod mtu;
mod output;
mod places;
mod protocol;
mod relay;
mod remove;
mod schema;
mod show;
mod status;
mod top;
mod trace;
mod traffic;
mod version;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::failure::Failure;
use crate::output::Output;

fn main() -> ExitCode {
    let output = Output::from_environment();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::usage(error, output),
    };
    overlane_lab::open_files::raise();
    match run(&cli.command, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(output),
    }
}

fn run(command: &Command, output: Output) -> Result<(), Failure> {
    match command {
        Command::Check(args) => check::run(args, output),
        Command::Apply(args) => apply::run(args, output),
        Command::Agent(args) => agent::run(args, output),
        Command::Announce(args) => announce::run(args, output),
        Command::Remove(args) => remove::run(args, output),
        Command::Status(args) => status::run(args, output),
        Command::Show(args) => show::run(args, output),
        Command::Connections(args) => connections::run(args, output),
        Command::Capture(args) => capture::run(args, output),
        Command::Log(args) => log::run(args, output),
        Command::Top(args) => top::run(args, output),
        Command::Trace(args) => trace::run(args, output),
        Command::Flows(args) => flows::run(args, output),
        Command::Mtu(args) => mtu::run(args, output),
        Command::Schema(_) => schema::run(output),
        Command::Completions(args) => completions::run(args, output),
        Command::Man(args) => man::run(args, output),
        Command::Version(args) => version::run(args, output),
        Command::Lab(args) => lab::run(args, output),
        Command::Traffic(_) => traffic::run(output),
        Command::Relay(args) => relay::run(args),
    }
}
