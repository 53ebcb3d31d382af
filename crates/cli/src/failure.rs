//! Everything that ends a command early, how it is said, and with which exit code: 1 the operation
//! failed, 2 wrong usage, or a wrong fabric, study or connections file, or `overlane status` cannot tell, 3 `overlane mtu` found something wrong.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use nix::errno::Errno;
use overlane_analysis::AnalysisError;
use overlane_host::calls::Refused;
use overlane_host::{HostError, chain};
use overlane_lab::LabError;
use overlane_model::{CompileError, FabricErrors, MovedError, escaped};
use overlane_traffic::TrafficError;
use thiserror::Error as ThisError;

use crate::capture::filter::FilterError;
use crate::output::Output;
use crate::trace::PacketError;

/// Why a command did not do what it was asked to.
#[derive(Debug, ThisError)]
pub(crate) enum Failure {
    /// There is no valid fabric; the text has a place and a help line for each mistake.
    #[error(transparent)]
    Fabric(#[from] FabricErrors),
    /// The fabric has no tables for the host that was named.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// There is no packet to trace.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// Applying, removing or looking at a host failed.
    #[error(transparent)]
    Host(HostError),
    /// Nobody can tell how a host is.
    #[error(transparent)]
    CannotTell(HostError),
    /// Some of a host could not be looked at, and that has been said already.
    #[error("not all could be looked at")]
    Unclear,
    /// The agent of a host did not do it.
    #[error("{}", .0.error)]
    Refused(Refused),
    /// Nobody said what to apply.
    #[error("what should be applied?")]
    NothingToApply,
    /// A study, or the result of one, is not usable.
    #[error(transparent)]
    Analysis(AnalysisError),
    /// The laboratory failed.
    #[error(transparent)]
    Lab(LabError),
    /// The traffic tool's input or output broke.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// The result of a study could not be read back.
    #[error("cannot read the result: {source} ({})", path.display())]
    Result { path: PathBuf, source: io::Error },
    /// A file with the connections of a port is not usable.
    #[error(transparent)]
    Moved(#[from] MovedError),
    /// A file, or standard input, could not be read.
    #[error("cannot read {name}: {source}")]
    Input { name: String, source: io::Error },
    /// A filter for captured packets makes no sense.
    #[error("filter: {0}")]
    Filter(#[from] FilterError),
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// What was asked for needs a terminal.
    #[error("`overlane top` needs a terminal")]
    NoTerminal,
    /// Standard output could not be written.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
    /// The fabric file is wrong and that has been said already (`--json`).
    #[error("the fabric file is wrong")]
    Reported,
    /// The command ran and its answer, already printed, is no.
    #[error("no")]
    Negative,
    /// The command ran and found mistakes, already printed.
    #[error("mistakes were found")]
    Findings,
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Fabric(errors) => Self::Fabric(errors),
            HostError::Compile(error) => Self::Compile(error),
            HostError::Moved(error) => Self::Moved(error),
            other => Self::Host(other),
        }
    }
}

impl From<AnalysisError> for Failure {
    fn from(error: AnalysisError) -> Self {
        Self::Analysis(error)
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Analysis(error) => Self::Analysis(error),
            other => Self::Lab(other),
        }
    }
}

impl Failure {
    /// Says what happened and gives the exit code.
    pub(crate) fn report(&self, output: Output) -> ExitCode {
        match self {
            // The reader went away: it has what it wanted.
            Self::Output(error) | Self::File { source: error, .. }
                if error.kind() == io::ErrorKind::BrokenPipe =>
            {
                return ExitCode::SUCCESS;
            }
            Self::Reported | Self::Negative | Self::Findings | Self::Unclear => {}
            Self::Fabric(errors) => output.err_raw(errors.render(output.colour_err())),
            other => output.error(
                other.said(),
                other.help().or_else(|| lacking(other)).as_deref(),
            ),
        }
        ExitCode::from(self.code())
    }

    /// In words. A text of several lines is made of lines of ours; in any other a line feed is a file's or a path's.
    fn said(&self) -> String {
        let text = chain(self);
        match self {
            Self::Refused(_)
            | Self::Lab(LabError::Command { .. })
            | Self::Analysis(AnalysisError::Mistakes { .. }) => text,
            _ => text.replace('\n', "\\u{a}"),
        }
    }

    fn code(&self) -> u8 {
        match self {
            Self::Fabric(_)
            | Self::Compile(_)
            | Self::Packet(_)
            | Self::Filter(_)
            | Self::Moved(_)
            | Self::Input { .. }
            | Self::NoTerminal
            | Self::CannotTell(_)
            | Self::Unclear
            | Self::NothingToApply
            | Self::Reported => 2,
            Self::Refused(refused) => refused.code,
            Self::Host(HostError::Config { .. } | HostError::WhichHost) => 2,
            Self::Findings => 3,
            Self::Analysis(error) if is_wrong_request(error) => 2,
            Self::Host(HostError::OtherPort { .. }) => 2,
            Self::Host(_)
            | Self::Analysis(_)
            | Self::Lab(_)
            | Self::Traffic(_)
            | Self::Result { .. }
            | Self::File { .. }
            | Self::Output(_)
            | Self::Negative => 1,
        }
    }

    /// What to do about it.
    pub(crate) fn help(&self) -> Option<String> {
        match self {
            Self::Compile(error) => error.help(),
            Self::Refused(refused) => refused.help.clone(),
            Self::NothingToApply => Some(
                "name a fabric file, or write `fabric: FILE` into /etc/overlane/agent.yaml"
                    .to_owned(),
            ),
            Self::Packet(error) => error.help(),
            Self::Host(error) | Self::CannotTell(error) => error.help(),
            Self::Analysis(AnalysisError::UnknownStudy { .. }) => {
                Some("`overlane lab list` shows the studies".to_owned())
            }
            Self::Lab(error) => lab_help(error).map(str::to_owned),
            Self::Filter(error) => error.help(),
            Self::Moved(_) => Some(
                "`overlane connections export PORT` writes such a file; nothing was changed"
                    .to_owned(),
            ),
            Self::NoTerminal => Some("--once prints a table, --json lines for programs".to_owned()),
            _ => None,
        }
    }
}

/// Says why the command line is none, or shows the help that was asked for. What was typed is shown as it can be seen.
pub(crate) fn usage(mut error: clap::Error, output: Output) -> ExitCode {
    let shown = |(kind, value): (ContextKind, &ContextValue)| {
        let safe = |text: &String| escaped(text).into_owned();
        let value = match value {
            ContextValue::String(text) => ContextValue::String(safe(text)),
            ContextValue::Strings(texts) => ContextValue::Strings(texts.iter().map(safe).collect()),
            _ => return None,
        };
        Some((kind, value))
    };
    let values: Vec<_> = error.context().filter_map(shown).collect();
    let is_hidden = |(kind, value): &(ContextKind, ContextValue)| error.get(*kind) != Some(value);
    if values.iter().any(is_hidden) {
        // Tips quote what was typed in a form that cannot be looked into.
        error.insert(ContextKind::Suggested, ContextValue::None);
    }
    for (kind, value) in values {
        error.insert(kind, value);
    }
    match error.print() {
        // What was asked for cannot be said.
        Err(failed) if !error.use_stderr() => return Failure::Output(failed).report(output),
        _ => {}
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// What was asked of the laboratory makes no sense; nothing was tried.
fn is_wrong_request(error: &AnalysisError) -> bool {
    matches!(
        error,
        AnalysisError::UnknownStudy { .. }
            | AnalysisError::UnknownName { .. }
            | AnalysisError::Mistakes { .. }
            | AnalysisError::Unreadable { .. }
            | AnalysisError::NotComparable { .. }
    )
}

/// When nobody closer knows a help, and the kernel refused for want of rights or of room for open files.
fn lacking(error: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        let of_file = error.downcast_ref::<io::Error>();
        let of_call = error.downcast_ref::<Errno>().copied();
        if of_file.is_some_and(|answer| answer.kind() == io::ErrorKind::PermissionDenied) {
            return Some("run it as root (sudo)".to_owned());
        }
        let number = of_file
            .and_then(io::Error::raw_os_error)
            .map(Errno::from_raw);
        if number.or(of_call) == Some(Errno::EMFILE) {
            return Some(
                "raise the hard limit of open files (`ulimit -Hn`; `LimitNOFILE=` of a unit)"
                    .to_owned(),
            );
        }
        next = error.source();
    }
    None
}

fn lab_help(error: &LabError) -> Option<&'static str> {
    match error {
        LabError::Busy { .. } => {
            Some("wait until it is done; after a crash: `overlane lab cleanup`")
        }
        LabError::Unable { .. } | LabError::Command { .. } => {
            Some("`overlane lab doctor` shows what this machine lacks")
        }
        LabError::Net(error) if error.is_permission() => Some("run it as root (sudo)"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, ThisError)]
    #[error("cannot open the map")]
    struct Outer(#[source] io::Error);

    #[test]
    fn causes_are_said_once() {
        let cause = || io::Error::new(io::ErrorKind::PermissionDenied, "refused");
        assert_eq!(chain(&Outer(cause())), "cannot open the map: refused");
        let said = Failure::Output(cause());
        assert_eq!(chain(&said), "cannot write to standard output: refused");
    }

    #[test]
    fn a_file_adds_no_line_to_an_error() {
        let evil = "x`\nerror: another one";
        let json = || <serde_json::Error as serde::de::Error>::custom(evil);
        let path = PathBuf::from("f");
        let source = || io::Error::other(evil);
        for failure in [
            Failure::Input {
                name: evil.into(),
                source: source(),
            },
            Failure::Result {
                path: path.clone(),
                source: source(),
            },
            Failure::Moved(MovedError::OtherFormat { found: evil.into() }),
            Failure::Host(HostError::State {
                path: path.clone(),
                source: json(),
            }),
            Failure::Host(HostError::Config {
                path: path.clone(),
                what: evil.into(),
            }),
            Failure::Analysis(AnalysisError::OtherSchema {
                path: path.clone(),
                found: evil.into(),
            }),
            Failure::Analysis(AnalysisError::json("reading", &path)(json())),
            Failure::Traffic(TrafficError::Malformed(json())),
        ] {
            let said = failure.said();
            assert!(
                !said.contains('\n') && said.contains("\\u{a}error: another"),
                "{said}"
            );
        }
    }

    #[test]
    fn a_refusal_anywhere_behind_an_error_has_a_help() {
        let refused = Outer(io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(lacking(&refused).is_some());
        assert!(lacking(&Outer(io::Error::from(io::ErrorKind::NotFound))).is_none());
        let full = Outer(io::Error::from(Errno::EMFILE));
        assert!(lacking(&full).unwrap().contains("open files"));
    }
}
