//! What one packet costs: the programs of the eBPF data path, run by the kernel on single packets, and
//! the reference executor on the same packets. `make bench`.
//!
//! Every cell is measured in every round, so that what the machine does besides falls on all of them;
//! a cell's figure is the median of its rounds, its spread the quartiles. What the kernel itself spends
//! on a run (its clock, the call) is in every cell alike and is shown as the cell `floor`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cells;
mod fabrics;
mod logical;
mod record;

use std::collections::BTreeMap;
use std::path::PathBuf;

use overlane_ebpf::Program;
use overlane_ebpf::measure::{Bench, Variant};

use cells::{Cell, Loaded};
use record::{Figures, Record, Size};

const ROUNDS: usize = 31;
const RUNS: usize = 400;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let against = arguments
        .iter()
        .position(|argument| argument == "--against")
        .map(|at| PathBuf::from(arguments.get(at + 1).expect("--against DIR")));
    let out = arguments
        .iter()
        .position(|argument| argument == "--out")
        .map_or_else(record::new_folder, |at| {
            PathBuf::from(arguments.get(at + 1).expect("--out DIR"))
        });
    if !cells::measures() {
        cells::load_all();
        return;
    }
    if let Err(error) = Bench::load(Variant::default()) {
        println!("SKIPPED: the data path cannot be loaded here: {error}");
        return;
    }
    let sets = cells::load_all();
    let cells: Vec<(&Loaded, &Cell)> = sets
        .iter()
        .flat_map(|set| set.cells.iter().map(move |cell| (set, cell)))
        .collect();
    eprintln!(
        "{} cells, {ROUNDS} rounds of {RUNS} packets each",
        cells.len()
    );
    let record = Record {
        host: record::host(),
        sizes: sizes(&sets),
        cells: measure(&cells),
    };
    record.write(&out);
    print!("{}", record.table());
    if let Some(base) = against {
        print!("{}", record.compared_with(&Record::read(&base)));
    }
    println!("result: {}", out.display());
}

/// Medians of every round, by cell.
fn measure(cells: &[(&Loaded, &Cell)]) -> BTreeMap<String, Figures> {
    let mut rounds: Vec<Vec<f64>> = vec![Vec::with_capacity(ROUNDS); cells.len()];
    for round in 0..ROUNDS {
        eprint!("\rround {} of {ROUNDS}", round + 1);
        for (of_cell, (set, cell)) in rounds.iter_mut().zip(cells) {
            of_cell.push(set.run(cell, RUNS));
        }
    }
    eprintln!();
    let names = cells
        .iter()
        .map(|(set, cell)| format!("{}: {}", set.name, cell.name));
    names.zip(rounds.into_iter().map(Figures::of)).collect()
}

fn sizes(sets: &[Loaded]) -> BTreeMap<String, Size> {
    let bench = sets
        .iter()
        .find_map(|set| set.bench())
        .expect("a set of the kernel's");
    Program::ALL
        .into_iter()
        .map(|program| {
            let size = bench.size(program).expect("the program is loaded");
            (program.name().to_owned(), Size::from(size))
        })
        .collect()
}
