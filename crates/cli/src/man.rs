//! `overlane man DIR`: the texts of `--help` as man pages.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::roff::{Roff, roman};

use crate::args::{Cli, Man};
use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn run(args: &Man, output: Output) -> Result<(), Failure> {
    let failed = |path: &Path, source| Failure::File {
        path: path.to_owned(),
        source,
    };
    fs::create_dir_all(&args.folder).map_err(|error| failed(&args.folder, error))?;
    let mut written = 0;
    for (name, page) in pages().map_err(|error| failed(&args.folder, error))? {
        let path = args.folder.join(name);
        fs::write(&path, page).map_err(|error| failed(&path, error))?;
        written += 1;
    }
    Ok(output.line(format!("{written} man pages in {}", args.folder.display()))?)
}

/// Name and text of every page.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    // `overlane help` says what the pages say.
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    let mut open = vec![program];
    while let Some(command) = open.pop() {
        let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        open.extend(shown.cloned());
        pages.push(page(command)?);
    }
    Ok(pages)
}

/// As `clap_mangen` renders it, but for the examples: they keep their lines.
fn page(command: Command) -> io::Result<(String, Vec<u8>)> {
    let after = command
        .get_after_help()
        .map(|text| text.to_string())
        .unwrap_or_default();
    let has_commands = command.has_subcommands();
    let page = clap_mangen::Man::new(command)
        .source(concat!("Overlane ", env!("CARGO_PKG_VERSION")))
        .manual("Overlane");
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if has_commands {
        page.render_subcommands_section(&mut text)?;
    }
    after_help(&after).to_writer(&mut text)?;
    Ok((page.get_filename(), text))
}

/// What `--help` says below the options: examples, and notes in paragraphs.
fn after_help(text: &str) -> Roff {
    let mut roff = Roff::default();
    let (examples, notes) = match text.strip_prefix("Examples:\n") {
        Some(rest) => rest.split_once("\n\n").unwrap_or((rest, "")),
        None => ("", text),
    };
    for (heading, part) in [("EXAMPLES", examples), ("NOTES", notes)] {
        if part.is_empty() {
            continue;
        }
        roff.control("SH", [heading]);
        for (number, paragraph) in part.split("\n\n").enumerate() {
            if number > 0 {
                roff.control("PP", []);
            }
            // What is indented was laid out by hand.
            let keeps_lines = paragraph.lines().any(|line| line.starts_with(' '));
            if keeps_lines {
                roff.control("nf", []);
            }
            for line in paragraph.lines() {
                roff.text([roman(line)]);
            }
            if keeps_lines {
                roff.control("fi", []);
            }
        }
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_keep_their_lines_and_notes_do_not() {
        let text = after_help("Examples:\n  a  b\n  c\n\nNote one\nand two.\n\nThree.").to_roff();
        let expected =
            ".SH EXAMPLES\n.nf\n  a  b\n  c\n.fi\n.SH NOTES\nNote one\nand two.\n.PP\nThree.\n";
        assert!(text.ends_with(expected), "{text}");
        assert!(!after_help("Only this.").to_roff().contains("EXAMPLES"));
    }
}
