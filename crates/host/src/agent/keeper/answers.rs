//! What an agent answers to who calls, and does for them.

use std::path::Path;
use std::time::Instant;

use overlane_model::Tables;

use super::super::keep::{Action, Outcome, Passed};
use super::super::source::{FabricSource, Reading, Source as _};
use super::{Asked, Hold, Keeper, is_failure, wall_s};
use crate::apply::{ApplyRequest, apply};
use crate::calls::{Answer, Applied, Call, Generation, Held, Mended, Refused, View};
use crate::lib::error::chain;
use crate::report::Report;
use crate::{HostError, RemoveRequest, remove};

impl Keeper<'_> {
    /// Answers the next call.
    pub(super) fn answer(&mut self) -> Option<Outcome> {
        let (caller, call) = self.server.call()?;
        let (answer, outcome) = match call {
            Call::Status => {
                let outcome = self.look();
                (Answer::Status(Box::new(self.view())), Some(outcome))
            }
            Call::Apply {
                file,
                netns,
                dry_run,
                strict,
            } => match self.other_namespace(netns.as_deref()) {
                Some(refused) => (refused, None),
                None => self.called_to_apply(file.as_deref(), dry_run, strict),
            },
            Call::Accept => self.accept(),
        };
        caller.answer(answer);
        // Others may wait too.
        Some(outcome.unwrap_or(Outcome::Again(Action::Answer)))
    }

    fn called_to_apply(
        &mut self,
        file: Option<&Path>,
        dry_run: bool,
        strict: bool,
    ) -> (Answer, Option<Outcome>) {
        if let Some(error) = file.and_then(|file| self.other_source(file)) {
            return (error, None);
        }
        if dry_run {
            return (self.dry_run(file, strict), None);
        }
        match file.filter(|_| self.source.name().is_none()) {
            None => drop(self.read()),
            Some(file) => match FabricSource::new(file).read(&self.host) {
                Ok(Reading::State { tables, origin, .. }) => {
                    // What is refused is not kept.
                    if strict && let Err(error) = self.plan(&tables, strict) {
                        return (refused_for(&error), None);
                    }
                    self.weigh(tables, origin);
                }
                Ok(_) => {
                    return (
                        refused(format!("{} has no fabric file", file.display()), None, 2),
                        None,
                    );
                }
                Err(error) => return (refused_for(&error), None),
            },
        }
        if let Some(mistakes) = self.troubles.mistakes.current() {
            return (refused(mistakes.error.clone(), None, 2), None);
        }
        if let Some(held) = &self.held {
            let (error, help) = self.held_words(held.loss, held.why);
            return (refused(error, Some(help), 1), None);
        }
        let (passed, result) = self.pass(if strict {
            Asked::Strictly
        } else {
            Asked::Plainly
        });
        let answer = match result {
            Some(Ok(report)) => self.report(&report),
            Some(Err(error)) => refused_for(&error),
            None => {
                let help = "give the agent a fabric file, or `overlane apply` one";
                refused(
                    format!("nobody has said yet what host {} should carry", self.host),
                    Some(help.to_owned()),
                    1,
                )
            }
        };
        (answer, Some(Outcome::Passed(passed)))
    }

    fn other_namespace(&self, netns: Option<&str>) -> Option<Answer> {
        let other = netns.filter(|netns| self.netns.as_deref() != Some(netns))?;
        let error = match &self.netns {
            Some(own) => format!(
                "an agent keeps host {} in namespace {own}, and not in {other}",
                self.host
            ),
            None => format!(
                "an agent keeps host {} in its own namespace, and not in {other}",
                self.host
            ),
        };
        let help = "stop the agent, and start it with another --netns";
        Some(refused(error, Some(help.to_owned()), 1))
    }

    /// Another file than the agent's would be undone by its next look.
    fn other_source(&self, file: &Path) -> Option<Answer> {
        let name = self.source.name()?;
        let same = |path: &Path| path.canonicalize().ok();
        if same(file).is_some() && same(file) == same(Path::new(&name)) {
            return None;
        }
        let error = format!(
            "an agent keeps host {} by {name}, and would undo what {} says",
            self.host,
            file.display()
        );
        let help =
            format!("change {name}, or stop the agent first (`systemctl stop overlane-agent`)");
        Some(refused(error, Some(help), 1))
    }

    fn dry_run(&self, file: Option<&Path>, strict: bool) -> Answer {
        let name = self.source.name();
        let path = file.map(Path::to_owned).or_else(|| name.map(Into::into));
        let tables = match path.map(|path| FabricSource::new(&path).read(&self.host)) {
            Some(Ok(Reading::State { tables, .. })) => Some(*tables),
            Some(Err(error)) => return refused_for(&error),
            _ => self.kept.as_ref().map(|kept| kept.tables.clone()),
        };
        let Some(tables) = tables else {
            return refused(
                format!("nobody has said yet what host {} should carry", self.host),
                None,
                1,
            );
        };
        match self.plan(&tables, strict) {
            Ok(report) => self.report(&report),
            Err(error) => refused_for(&error),
        }
    }

    /// What a pass would change.
    fn plan(&self, tables: &Tables, strict: bool) -> Result<Report, HostError> {
        apply(&ApplyRequest {
            netns: self.netns.as_deref(),
            dry_run: true,
            strict,
            each_alone: !strict,
            ..ApplyRequest::new(tables)
        })
    }

    /// Does what is held.
    fn accept(&mut self) -> (Answer, Option<Outcome>) {
        let Some(held) = self.held.take() else {
            return (
                refused(format!("nothing is held on host {}", self.host), None, 1),
                None,
            );
        };
        if let Some(tables) = held.tables {
            self.adopt(*tables, held.origin);
            let (passed, result) = self.pass(Asked::Plainly);
            let answer = match result {
                Some(Ok(report)) => self.report(&report),
                Some(Err(error)) => refused_for(&error),
                None => refused("nothing is wanted".to_owned(), None, 1),
            };
            return (answer, Some(Outcome::Passed(passed)));
        }
        let removed = remove(&RemoveRequest {
            netns: self.netns.as_deref(),
            ..RemoveRequest::new(&self.host)
        });
        let answer = match removed {
            Ok(removal) => {
                self.kept = None;
                self.applied = None;
                let lines = removal.removed.iter().map(|thing| format!("- {thing}"));
                Answer::Applied(Applied {
                    lines: lines.collect(),
                    report: serde_json::to_value(&removal).unwrap_or_default(),
                    notes: Vec::new(),
                    failed: 0,
                })
            }
            Err(error) => {
                self.held = Some(Hold {
                    tables: None,
                    ..held
                });
                refused_for(&error)
            }
        };
        let passed = Passed {
            interest: self.interest(),
            ..Passed::default()
        };
        (answer, Some(Outcome::Passed(passed)))
    }

    fn report(&self, report: &Report) -> Answer {
        let rendered = (self.voice.render)(report);
        Answer::Applied(Applied {
            report: serde_json::to_value(report).unwrap_or_default(),
            lines: rendered.lines,
            notes: rendered.notes,
            failed: report.notes.iter().filter(|row| is_failure(row)).count(),
        })
    }

    fn view(&self) -> View {
        let (now, wall_s) = (Instant::now(), wall_s());
        // By the present clock: it may have been wrong at that time.
        let at = |instant: Instant| {
            wall_s.saturating_sub(now.saturating_duration_since(instant).as_secs())
        };
        let generation = |number, since| Generation { number, since };
        let kept = self.kept.as_ref();
        View {
            host: self.host.clone(),
            pid: std::process::id(),
            since: at(self.started),
            source: self.source.name(),
            attempted: generation(
                kept.map_or(0, |it| it.generation),
                kept.map_or(0, |it| it.since),
            ),
            applied: self
                .applied
                .map(|(number, since)| generation(number, at(since))),
            mistakes: self.troubles.mistakes.told(at),
            failed: self.troubles.failed.told(at),
            not_kept: self.troubles.not_kept.told(at),
            held: self.held.as_ref().map(|held| Held {
                ports: held.loss.ports,
                of: held.loss.of,
                why: held.why.to_owned(),
                since: at(held.since),
            }),
            failing: self.failing.told(now, wall_s),
            seen: self.memory.told(at),
            mended: (self.mended.iter())
                .map(|(when, lines)| Mended {
                    at: at(*when),
                    lines: lines.clone(),
                })
                .collect(),
        }
    }
}

fn refused(error: String, help: Option<String>, code: u8) -> Answer {
    Answer::Refused(Refused { error, help, code })
}

fn refused_for(error: &HostError) -> Answer {
    let is_of_file = matches!(error, HostError::Fabric(_) | HostError::Compile(_));
    // Mistakes of a file say what they are, as does whoever prints an error.
    let text = chain(error);
    let text = text.strip_prefix("error: ").unwrap_or(&text).to_owned();
    refused(text, error.help(), if is_of_file { 2 } else { 1 })
}
