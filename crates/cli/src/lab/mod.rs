//! `overlane lab …`: studies on this machine. The laboratory measures and writes the result folder;
//! here it is watched ([`live`], [`lines`]) and its answers are printed.

mod answer;
mod cells;
mod compare;
mod lines;
mod live;
mod plan;
mod shown;
mod warnings;

use std::io::{self, IsTerminal};

use overlane_analysis::plan::StudySummary;
use overlane_analysis::record::CellStatus;
use overlane_analysis::report::picture;
use overlane_analysis::results::{Analysis, folder};
use overlane_analysis::study::{Overrides, Study, StudyRef};
use overlane_lab::watch::Watch;
use overlane_lab::{CleanupReport, Doctor, DoctorState, RunRequest, RunSummary};

use crate::args::{Lab, LabMatrix, LabRun, LabShow, LabWhat};
use crate::failure::Failure;
use crate::output::{Output, state, text};

const VERSION: &str = env!("OVERLANE_VERSION");

pub(crate) fn run(args: &Lab, output: Output) -> Result<(), Failure> {
    match &args.what {
        LabWhat::Run(args) => study(args, output),
        LabWhat::Resume(args) => {
            let mut watch = watch(&args.show, output);
            let summary = overlane_lab::resume(&args.dir, VERSION, watch.as_mut())?;
            drop(watch);
            finished(&summary, args.show.json, output)
        }
        LabWhat::Plan(args) => plan::run(args, output),
        LabWhat::Check(args) => check(&args.study, args.json, output),
        LabWhat::Compare(args) => compare::run(args, output),
        LabWhat::Report(args) => {
            let report = folder::render_again(&args.dir)?;
            answer::print(&Analysis::of(&folder::load(&args.dir)?), output)?;
            output.line(format!("report: {}", report.display()))?;
            Ok(())
        }
        LabWhat::Chart(args) => {
            let run = folder::load(&args.dir)?;
            let svg = picture(&Analysis::of(&run))?;
            match &args.output {
                Some(path) => Ok(folder::replace(path, &svg)?),
                None => Ok(output.raw(svg.as_bytes())?),
            }
        }
        LabWhat::List(args) => {
            let studies: Vec<_> = Study::all_shipped()?.iter().map(StudySummary::of).collect();
            if args.json {
                output.json(&studies)?
            } else {
                list(&studies, output)?
            }
            Ok(())
        }
        LabWhat::Doctor(args) => doctor(args.json, output),
        LabWhat::Cleanup(args) => {
            let report = overlane_lab::cleanup()?;
            if args.json {
                output.json(&report)?
            } else {
                show_cleanup(&report, output)?
            }
            if report.failed.is_empty() {
                Ok(())
            } else {
                Err(Failure::Negative)
            }
        }
    }
}

fn study(args: &LabRun, output: Output) -> Result<(), Failure> {
    let request = RunRequest {
        out: args.out.clone(),
        ..request(&args.matrix)
    };
    let mut watch = watch(&args.show, output);
    let summary = overlane_lab::run(request, watch.as_mut())?;
    // The view leaves the terminal before the tables come.
    drop(watch);
    finished(&summary, args.show.json, output)
}

/// What `run` and `plan` share: the study and what differs from its file.
fn request(args: &LabMatrix) -> RunRequest {
    RunRequest {
        study: StudyRef::from(args.study.as_str()),
        quick: args.quick,
        overrides: Overrides {
            backends: args.networks.clone(),
            hosts: args.hosts,
            pairs: args.pairs,
            guests: args.guests.clone(),
            mtu: args.mtu.clone(),
            tuning: args.tuning.clone(),
            inner: args.inner,
            underlay: args.underlay,
            samples: args.samples,
            seconds: args.seconds,
            against_itself: args.against_itself,
            busy_machine: args.busy_machine,
            guest_memory_mib: args.guest_memory.clone(),
            dirty_mib_per_second: args.dirty_rate.clone(),
            links: args.links.clone(),
            postcopy: args.postcopy,
        },
        out: None,
        version: VERSION.to_owned(),
    }
}

/// The live view on a terminal, lines elsewhere.
fn watch(show: &LabShow, output: Output) -> Box<dyn Watch> {
    if !show.no_tty && io::stderr().is_terminal() && io::stdin().is_terminal() {
        Box::new(live::LiveView::new(output.colour_err()))
    } else {
        Box::new(lines::Lines::new())
    }
}

fn finished(summary: &RunSummary, json: bool, output: Output) -> Result<(), Failure> {
    if json {
        let result = summary.dir.join("result.json");
        let bytes = std::fs::read(&result).map_err(|source| Failure::Result {
            path: result.clone(),
            source,
        })?;
        output.raw(&bytes)?;
    } else {
        let analysis = Analysis::of(&summary.run);
        warnings::print(&analysis.warnings, output)?;
        cells::print(&analysis, output)?;
        answer::print(&analysis, output)?;
        output.line(format!("result: {}", summary.dir.display()))?;
        output.line(format!("report: {}", summary.report.display()))?;
    }
    if summary.run.interrupted {
        output.note(format!(
            "the run was interrupted; what had been measured is kept, and goes on with: overlane lab resume {}",
            summary.dir.display()
        ));
        return Err(Failure::Negative);
    }
    let mut cells = summary.run.cells.iter();
    if !cells.any(|cell| cell.status == CellStatus::Ok) {
        output.note("no cell could be measured; the table says why");
        return Err(Failure::Negative);
    }
    Ok(())
}

fn check(study: &str, json: bool, output: Output) -> Result<(), Failure> {
    let summary = StudySummary::of(&Study::load(&StudyRef::from(study))?);
    if json {
        output.json(&summary)?;
    } else {
        output.outcome(format!("{study}: a study that can be run"), true)?;
        list(&[summary], output)?;
    }
    Ok(())
}

fn list(studies: &[StudySummary], output: Output) -> io::Result<()> {
    let columns = [
        "STUDY",
        "#CELLS",
        "#MINUTES",
        "#QUICK CELLS",
        "#QUICK MINUTES",
        "TITLE",
    ];
    let mut rows = output.table(&columns);
    for study in studies {
        rows.push(vec![
            text(&study.name),
            text(study.cells),
            text(format!("{:.0}", study.minutes.ceil())),
            text(study.quick_cells),
            text(format!("{:.0}", study.quick_minutes.ceil())),
            text(&study.title),
        ]);
    }
    output.section("studies", &rows, "none")
}

fn doctor(json: bool, output: Output) -> Result<(), Failure> {
    let doctor = overlane_lab::doctor()?;
    if json {
        output.json(&doctor)?
    } else {
        show_doctor(&doctor, output)?
    }
    if doctor.quick_can_run {
        Ok(())
    } else {
        Err(Failure::Negative)
    }
}

fn show_doctor(doctor: &Doctor, output: Output) -> io::Result<()> {
    let mut rows = output.table(&["WHAT", "STATE", "FOUND"]);
    for item in &doctor.items {
        let state = match item.state {
            DoctorState::Ok => state("ok", true),
            DoctorState::Limited => state("limited", false),
            DoctorState::Missing => state("missing", false),
        };
        rows.push(vec![text(&item.what), state, text(&item.detail)]);
        if !item.help.is_empty() {
            rows.push(vec![
                text(""),
                text(""),
                text(format!("help: {}", item.help)),
            ]);
        }
    }
    output.section("this machine", &rows, "nothing was looked at")?;
    output.line("")?;
    output.line(if doctor.quick_can_run {
        "the quick study can run here: overlane lab run jumbo-vxlan --quick"
    } else {
        "the quick study cannot run here; what is missing says why"
    })
}

fn show_cleanup(report: &CleanupReport, output: Output) -> io::Result<()> {
    for thing in &report.removed {
        output.line(format!("- {thing}"))?;
    }
    for thing in &report.failed {
        output.error(format!("could not be removed: {thing}"), None);
    }
    if let Some(process) = report.active {
        output.note(format!(
            "a run is going on (process {process}) and was left alone"
        ));
    }
    output.line(match (report.removed.len(), report.failed.is_empty()) {
        (0, true) => "clean: nothing was left behind".to_owned(),
        (count, true) => format!("clean: {count} removed"),
        (count, false) => format!("{count} removed, {} stayed", report.failed.len()),
    })
}
