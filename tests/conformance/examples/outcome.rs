//! Prints what the reference executor makes of a case, as the case would write it: to look at, and to
//! paste what is right. `cargo run -p overlane-conformance --example outcome -- tests/cases/STAGE/NAME.yaml`

use std::path::Path;
use std::process::ExitCode;

use overlane_conformance::case::Case;
use overlane_conformance::{compare, reference};

fn main() -> ExitCode {
    let mut worked = true;
    for path in std::env::args().skip(1) {
        match Case::load(Path::new(&path)) {
            Ok(case) => print(&case),
            Err(error) => {
                eprintln!("error: {error}");
                worked = false;
            }
        }
    }
    if worked {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn print(case: &Case) {
    println!("# {}: {}", case.name, case.title);
    for (step, outcome) in case.steps.iter().zip(reference::run(case)) {
        println!("  # line {}", step.line);
        print!("{}", compare::outcome_text(&outcome));
        for explained in &outcome.steps {
            println!("    # {}: {}", explained.stage, explained.found);
        }
    }
}
