//! The answer of a run for a terminal: the same words as in the report, in lines of 80 columns, last, where they stay on
//! the screen.

use std::io;

use overlane_analysis::report::Answer;
use overlane_analysis::results::Analysis;

use super::shown::labelled;
use crate::output::Output;

pub(super) fn print(analysis: &Analysis<'_>, output: Output) -> io::Result<()> {
    let answer = Answer::of(analysis);
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
    out.extend(answer.doubt.iter().flat_map(|text| labelled("note:", text)));
    out
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
            doubt: Some("7 of 12 comparisons cannot tell.".to_owned()),
        };
        let want = [
            "answer: On this machine an overlay costs 12 % of the goodput against a plain",
            "        bridge (8 to 15 %): 10 of 12 comparisons, two cannot tell.",
            "        An overlay takes 14 % more CPU per Gbit/s: all 10 comparisons.",
            "trust:  good. 8 samples each, in turn.",
            "note:   7 of 12 comparisons cannot tell.",
        ];
        assert_eq!(lines(&answer), want);
    }
}
