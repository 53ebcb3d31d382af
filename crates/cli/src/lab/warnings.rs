//! What a reader of a run has to know before its tables: the warnings of the whole run in full, as many as there is room for;
//! the others are counted, and the report has them.

use std::io;

use overlane_analysis::record::Warning;

use super::shown::{counted, labelled};
use crate::output::Output;

/// Lines that the warnings of a run may take.
const MOST: usize = 5;

/// What stands before each.
const LABEL: &str = "note:";

pub(super) fn print(warnings: &[Warning], output: Output) -> io::Result<()> {
    let lines = lines(warnings);
    for line in &lines {
        output.line(line)?;
    }
    match lines.is_empty() {
        true => Ok(()),
        false => output.line(""),
    }
}

fn lines(warnings: &[Warning]) -> Vec<String> {
    let of_the_run: Vec<Vec<String>> = warnings
        .iter()
        .filter(|warning| warning.is_of_the_run())
        .map(|warning| labelled(LABEL, &warning.to_string()))
        .collect();
    let all_fit = of_the_run.len() == warnings.len() && of_the_run.iter().flatten().count() <= MOST;
    // The last line counts those that are not shown.
    let room = if all_fit { MOST } else { MOST - 1 };
    let mut out = Vec::new();
    let mut shown = 0;
    for text in of_the_run {
        if out.len() + text.len() <= room {
            out.extend(text);
            shown += 1;
        }
    }
    let rest = warnings.len() - shown;
    if rest > 0 {
        let noun = if shown > 0 { "more warning" } else { "warning" };
        let rest = counted(rest as u32, noun);
        out.extend(labelled(LABEL, &format!("{rest} in the report")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broke_off(words: usize) -> Warning {
        Warning::BrokeOff {
            reason: "word ".repeat(words),
        }
    }

    #[test]
    fn at_most_five_lines_and_the_rest_is_counted() {
        assert_eq!(lines(&[]), [""; 0]);
        let unsteady = Warning::Unsteady {
            when: "before".to_owned(),
            cpu: 1,
            spread_percent: 39.6,
        };
        assert_eq!(
            lines(std::slice::from_ref(&unsteady)),
            [
                "note:   The machine was unsteady before the run, a fixed piece of work on CPU 1",
                "        spread by 40 %: treat differences below 40 % as noise.",
            ]
        );
        let shown = lines(&[Warning::SharedCpus, unsteady, Warning::SharedCpus]);
        assert_eq!(shown.len(), MOST, "{shown:?}");
        assert_eq!(shown[4], "note:   1 more warning in the report");
        // What has no room is counted, and hides nothing that has.
        let shown = lines(&[broke_off(100), Warning::Interrupted]);
        assert_eq!(shown.len(), 2, "{shown:?}");
        assert_eq!(shown[1], "note:   1 more warning in the report");
        let shown = lines(&[broke_off(100)]);
        assert_eq!(shown, ["note:   1 warning in the report"]);
    }
}
