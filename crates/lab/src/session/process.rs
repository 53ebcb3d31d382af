//! Child processes of a run: pinned to CPUs, journalled, dying with the run, and never waited for
//! without a limit.

use crate::error::LabError;
use crate::machine::interrupt::Interrupts;
use crate::machine::sys;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a child is looked after.
const TICK: Duration = Duration::from_millis(5);
/// Between the end of a child's output and its own.
const LAST_BREATH: Duration = Duration::from_millis(500);

/// Name of the program that this one has to be, to start itself again.
const PROGRAM: &str = "overlane";

/// The program that this process runs, where it is `overlane`: its other subcommands are parts of the laboratory.
pub(crate) fn own_program() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    (program.file_stem()? == PROGRAM).then_some(program)
}

/// A running child; dropping it kills it.
pub(crate) struct Process {
    child: Child,
    command: String,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

/// What a child left.
pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Process {
    /// Starts `command` on `cpus` (none: anywhere).
    pub(crate) fn start(command: Command, cpus: &[usize]) -> Result<Self, LabError> {
        let mut process = Self::spawn(command, cpus, Stdio::null())?;
        process.stdout = process.child.stdout.take().map(collect);
        Ok(process)
    }

    /// Starts `command` on `cpus` to talk with: its input and its output are the caller's.
    pub(crate) fn converse(
        command: Command,
        cpus: &[usize],
    ) -> Result<(Self, ChildStdin, ChildStdout), LabError> {
        let mut process = Self::spawn(command, cpus, Stdio::piped())?;
        match (process.child.stdin.take(), process.child.stdout.take()) {
            (Some(input), Some(output)) => Ok((process, input, output)),
            _ => Err(LabError::Command {
                command: process.command.clone(),
                outcome: "has neither input nor output".to_owned(),
                stderr: String::new(),
            }),
        }
    }

    fn spawn(mut command: Command, cpus: &[usize], input: Stdio) -> Result<Self, LabError> {
        let words: Vec<_> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let shown = words.join(" ");
        sys::prepare_child(&mut command, cpus);
        // A group of its own: the terminal's ^C reaches this process alone, which ends its children in order.
        command
            .process_group(0)
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|source| LabError::Command {
            command: shown.clone(),
            outcome: format!("could not be started ({source})"),
            stderr: String::new(),
        })?;
        let stderr = child.stderr.take().map(collect);
        Ok(Self {
            child,
            command: shown,
            stdout: None,
            stderr,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn program(&self) -> &str {
        self.command.split(' ').next().unwrap_or_default()
    }

    /// Waits for its end, at most `limit`; then, or on a signal, it is killed.
    pub(crate) fn finish(
        mut self,
        limit: Duration,
        interrupts: &Interrupts,
    ) -> Result<Output, LabError> {
        let end = Instant::now() + limit;
        let status = loop {
            let waiting = format!("waiting for `{}`", self.command);
            if let Some(status) = self.child.try_wait().map_err(LabError::system(&waiting))? {
                break status;
            }
            if Instant::now() >= end {
                let outcome = format!("took longer than {} s", limit.as_secs_f64());
                self.kill();
                let stderr = last_lines(&join(self.stderr.take()));
                return Err(LabError::Command {
                    command: self.command.clone(),
                    outcome,
                    stderr,
                });
            }
            interrupts.wait(TICK)?;
        };
        Ok(Output {
            status,
            stdout: join(self.stdout.take()),
            stderr: join(self.stderr.take()),
        })
    }

    /// Waits for its end and takes anything but success as an error.
    pub(crate) fn succeed(
        self,
        limit: Duration,
        interrupts: &Interrupts,
    ) -> Result<Output, LabError> {
        let command = self.command.clone();
        let output = self.finish(limit, interrupts)?;
        if output.status.success() {
            return Ok(output);
        }
        Err(LabError::Command {
            command,
            outcome: words_of(output.status),
            stderr: last_lines(&output.stderr),
        })
    }

    /// It runs no more.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// How a child ended whose output has ended, with what it complained about; one that lives on is killed.
    pub(crate) fn last_words(&mut self) -> String {
        let end = Instant::now() + LAST_BREATH;
        let status = loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < end => std::thread::sleep(TICK),
                Ok(status) => break status,
                Err(_) => break None,
            }
        };
        let outcome = status.map_or_else(|| "closed its output".to_owned(), words_of);
        self.kill();
        let stderr = last_lines(&join(self.stderr.take()));
        if stderr.is_empty() {
            outcome
        } else {
            format!("{outcome}: {stderr}")
        }
    }

    fn kill(&mut self) {
        // Both fail only when it has ended and been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn words_of(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exited with status {code}"),
        None => format!("ended by {status}"),
    }
}

/// Reads a pipe to its end beside the child, which would stand still on a full pipe.
fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error is worth showing.
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

fn join(reader: Option<JoinHandle<Vec<u8>>>) -> Vec<u8> {
    reader
        .and_then(|reader| reader.join().ok())
        .unwrap_or_default()
}

/// The end of what a program complained about: enough to see why, short enough for one error.
pub(crate) fn last_lines(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<_> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines[lines.len().saturating_sub(3)..].join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::open_files;
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    use std::io::Write;

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(command, &[]).unwrap()
    }

    #[test]
    fn outcomes() {
        let interrupts = Interrupts::take_over().unwrap();
        let second = Duration::from_secs(5);
        let output = shell("echo out; echo err >&2")
            .succeed(second, &interrupts)
            .unwrap();
        assert_eq!(
            (output.stdout, output.stderr),
            (b"out\n".to_vec(), b"err\n".to_vec())
        );
        let failed = shell("echo why >&2; exit 3")
            .succeed(second, &interrupts)
            .err()
            .unwrap()
            .to_string();
        assert!(
            failed.contains("status 3") && failed.contains("why"),
            "{failed}"
        );
        let began = Instant::now();
        let late = shell("exec sleep 60")
            .finish(Duration::from_millis(50), &interrupts)
            .err()
            .unwrap();
        assert!(late.to_string().contains("took longer"), "{late}");
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "not after its 60 s"
        );
    }

    #[test]
    fn a_conversation_and_its_end() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "read word; echo \"$word again\"; echo why >&2; exit 7",
        ]);
        let (mut process, mut input, mut output) = Process::converse(command, &[]).unwrap();
        writeln!(input, "once").unwrap();
        let mut said = String::new();
        output.read_to_string(&mut said).unwrap();
        assert_eq!(said, "once again\n");
        assert_eq!(process.last_words(), "exited with status 7: why");
        let mut command = Command::new("sh");
        command.args(["-c", "kill -9 $$"]);
        let (mut process, ..) = Process::converse(command, &[]).unwrap();
        assert!(process.last_words().contains("signal: 9"));
    }

    #[test]
    fn a_child_may_open_what_this_process_might_at_first() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, 512, hard).unwrap();
        open_files::raise();
        let own = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!(own, (hard, hard));
        let limits = shell("ulimit -Sn; ulimit -Hn");
        let interrupts = Interrupts::take_over().unwrap();
        let output = limits.succeed(Duration::from_secs(5), &interrupts).unwrap();
        let expected = format!("512\n{hard}\n");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    }

    #[test]
    fn only_the_last_lines_are_shown() {
        assert_eq!(last_lines(b"a\n\nb\n c \nd\n"), "b / c / d");
        assert_eq!(last_lines(b""), "");
    }
}
