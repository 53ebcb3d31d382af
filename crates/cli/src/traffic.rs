//! `overlane traffic`: an agent of the traffic tool on standard input and output.

use std::io::{self, IsTerminal};

use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn run(output: Output) -> Result<(), Failure> {
    let input = io::stdin();
    if input.is_terminal() {
        output.note(
            "waits for orders, one JSON object a line; `overlane traffic --help` shows a session, ^D ends it",
        );
    }
    Ok(overlane_traffic::run(input.lock(), io::stdout())?)
}
