//! `overlane relay`: the relay of a virtual machine of the laboratory, on standard input and output.

use std::io;

use overlane_lab::RelayRequest;

use crate::args::Relay;
use crate::failure::Failure;

pub(crate) fn run(args: &Relay) -> Result<(), Failure> {
    let request = RelayRequest {
        queues: args.queues.into(),
        ends: [args.one.clone(), args.other.clone()],
        cables: args.cables.clone(),
    };
    Ok(overlane_lab::relay(&request, io::stdin(), io::stdout())?)
}
