//! `overlane lab …`: studies on this machine. The laboratory measures and writes the result folder;
//! here its answers are printed.

use overlane_lab::record::CellStatus;
use overlane_lab::{CleanupReport, Doctor, DoctorState, Progress, RunRequest, StudySummary};

use crate::args::{Lab, LabRun, LabWhat};
use crate::cells;
use crate::failure::Failure;
use crate::output::{Output, state, text};

pub(crate) fn run(args: &Lab, output: Output) -> Result<(), Failure> {
    match &args.what {
        LabWhat::Run(args) => study(args, output),
        LabWhat::List(args) => {
            let studies = overlane_lab::list()?;
            if args.json {
                output.json(&studies)?
            } else {
                list(&studies, output)?
            }
            Ok(())
        }
        LabWhat::Doctor(args) => {
            let doctor = overlane_lab::doctor()?;
            if args.json {
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
    let summary = overlane_lab::run(RunRequest {
        study: args.study.clone(),
        quick: args.quick,
        backends: args.backends.clone(),
        out: args.out.clone(),
        progress: Progress::Auto,
        version: env!("OVERLANE_VERSION").to_owned(),
    })?;
    if args.json {
        let result = summary.dir.join("result.json");
        let bytes = std::fs::read(&result).map_err(|source| Failure::Result {
            path: result.clone(),
            source,
        })?;
        output.raw(&bytes)?;
    } else {
        cells::print(&summary.run, output)?;
        for warning in &summary.run.warnings {
            output.note(warning);
        }
        output.line(format!("result: {}", summary.dir.display()))?;
        output.line(format!("report: {}", summary.report.display()))?;
    }
    if summary.run.interrupted {
        output.note("the run was interrupted; what had been measured is in the result");
        return Err(Failure::Negative);
    }
    if !summary
        .run
        .cells
        .iter()
        .any(|cell| cell.status == CellStatus::Ok)
    {
        output.note("no cell could be measured; the table says why");
        return Err(Failure::Negative);
    }
    Ok(())
}

fn list(studies: &[StudySummary], output: Output) -> std::io::Result<()> {
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

fn show_doctor(doctor: &Doctor, output: Output) -> std::io::Result<()> {
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

fn show_cleanup(report: &CleanupReport, output: Output) -> std::io::Result<()> {
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
