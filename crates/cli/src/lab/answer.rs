//! The answer of a run for a terminal: the same words as in the report, in lines of 80 columns, last, where they stay on
//! the screen.

use std::io;

use overlane_analysis::record::Run;
use overlane_analysis::report::Answer;
use overlane_analysis::results::Analysis;

use crate::output::Output;

/// Columns of a line.
const COLUMNS: usize = 80;

/// Columns before the text: the longest label and its space.
const LABEL: usize = 8;

pub(super) fn print(run: &Run, output: Output) -> io::Result<()> {
    let answer = Answer::of(&Analysis::of(run));
    for line in lines(&answer) {
        output.line(line)?;
    }
    Ok(())
}

fn lines(answer: &Answer) -> Vec<String> {
    let trust = format!(
        "{}. {}",
        answer.trust.level.words(),
        answer.trust.reasons.join(" ")
    );
    let mut out = labelled("answer:", &answer.sentence);
    out.extend(answer.beside.iter().flat_map(|text| labelled("", text)));
    out.extend(labelled("trust:", &trust));
    out
}

/// Text in lines beside its label.
fn labelled(label: &str, text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = format!("{label:LABEL$}");
    let mut first = true;
    for word in text.split(' ') {
        let room = line.chars().count() + usize::from(!first) + word.chars().count() <= COLUMNS;
        if !first && !room {
            lines.push(std::mem::replace(&mut line, " ".repeat(LABEL)));
            first = true;
        }
        if !first {
            line.push(' ');
        }
        line.push_str(word);
        first = false;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use overlane_analysis::report::{Level, Trust};

    #[test]
    fn the_answer_fits_80_columns_and_loses_no_word() {
        let answer = Answer {
            sentence: "On this machine an overlay costs 12 % of the goodput against a plain bridge (8 to 15 %): 10 of \
                       12 comparisons, two cannot tell."
                .to_owned(),
            beside: Some("An overlay takes 14 % more CPU per Gbit/s: all 10 comparisons.".to_owned()),
            trust: Trust {
                level: Level::Good,
                reasons: vec!["8 samples each, in turn.".to_owned()],
            },
        };
        let want = [
            "answer: On this machine an overlay costs 12 % of the goodput against a plain",
            "        bridge (8 to 15 %): 10 of 12 comparisons, two cannot tell.",
            "        An overlay takes 14 % more CPU per Gbit/s: all 10 comparisons.",
            "trust:  good. 8 samples each, in turn.",
        ];
        assert_eq!(lines(&answer), want);
    }

    #[test]
    fn a_word_longer_than_a_line_has_one_of_its_own() {
        let long = "x".repeat(100);
        let got = labelled("a:", &format!("b {long} c"));
        assert_eq!(got.len(), 3);
        assert!(got[1].ends_with(&long));
    }
}
