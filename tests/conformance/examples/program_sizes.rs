//! Loads every program and prints, a line each, how many instructions the verifier looked at. What
//! `make kernels` runs on each kernel: `cargo run -p overlane-conformance --example program_sizes`

use std::collections::BTreeSet;
use std::process::ExitCode;

use overlane_ebpf::{DataPath, EbpfError, Program};

fn main() -> ExitCode {
    let mut refused = false;
    for program in Program::ALL {
        match verified_instructions(program) {
            Ok(count) => println!("program {} {count}", program.name()),
            Err(error) => {
                refused = true;
                println!("program {} refused: {error}", program.name());
            }
        }
    }
    if refused {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn verified_instructions(program: Program) -> Result<u32, EbpfError> {
    let loaded = DataPath::embedded()?.load(&BTreeSet::from([program]), None)?;
    Ok(loaded.size(program)?.verified_instructions)
}
