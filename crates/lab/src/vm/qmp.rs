//! QEMU's monitor for programs (QMP): commands and their answers, and what QEMU tells unasked.

use super::lines::{Heard, Lines};
use crate::error::LabError;
use crate::machine::interrupt::Interrupts;
use serde_json::{Value, json};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Until QEMU has answered. It is busy for a while where it hands over a machine.
const ANSWER: Duration = Duration::from_secs(30);
/// QEMU tells more than this only if nobody asks.
const MOST_EVENTS: usize = 1000;

/// A connection to the monitor.
pub(super) struct Qmp {
    lines: Lines,
    events: Vec<Event>,
    last_id: u64,
}

/// Something that QEMU told unasked.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) data: Value,
    /// When it happened, by QEMU's own note of the time.
    pub(super) at: Instant,
}

/// Why a command has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum QmpError {
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The connection has ended, and QEMU most likely too.
    #[error("QEMU closed its monitor")]
    Ended,
    #[error("QEMU did not answer `{command}` within {} s", ANSWER.as_secs())]
    Silent { command: String },
    #[error("QEMU refused `{command}`: {reason}")]
    Refused { command: String, reason: String },
}

impl Qmp {
    /// Waits for the greeting and accepts it.
    pub(super) fn greet(stream: UnixStream, interrupts: &Interrupts) -> Result<Self, QmpError> {
        let mut qmp = Self {
            lines: Lines::new(stream)?,
            events: Vec::new(),
            last_id: 0,
        };
        match qmp.lines.hear(interrupts, Instant::now() + ANSWER)? {
            Heard::Line(_) => {}
            Heard::Silence => {
                let command = "the greeting".to_owned();
                return Err(QmpError::Silent { command });
            }
            Heard::End => return Err(QmpError::Ended),
        }
        qmp.execute(interrupts, "qmp_capabilities", json!({}))?;
        Ok(qmp)
    }

    /// Gives a command and waits for its answer.
    pub(super) fn execute(
        &mut self,
        interrupts: &Interrupts,
        command: &str,
        arguments: Value,
    ) -> Result<Value, QmpError> {
        self.last_id += 1;
        let order = json!({"execute": command, "arguments": arguments, "id": self.last_id});
        if !self.lines.say(interrupts, &order.to_string())? {
            return Err(QmpError::Ended);
        }
        let end = Instant::now() + ANSWER;
        loop {
            match self.lines.hear(interrupts, end)? {
                Heard::Line(line) => {
                    let Some(mut answer) = self.take(&line) else {
                        continue;
                    };
                    // The answer to a command that was given up on comes with another number.
                    if answer["id"] != self.last_id {
                        continue;
                    }
                    if let Some(error) = answer.get("error") {
                        return Err(QmpError::Refused {
                            command: command.to_owned(),
                            reason: error["desc"].as_str().unwrap_or("(no reason)").to_owned(),
                        });
                    }
                    return Ok(answer["return"].take());
                }
                Heard::Silence => {
                    let command = command.to_owned();
                    return Err(QmpError::Silent { command });
                }
                Heard::End => return Err(QmpError::Ended),
            }
        }
    }

    /// Everything that QEMU has told since the last time.
    pub(super) fn events(&mut self, interrupts: &Interrupts) -> Result<Vec<Event>, LabError> {
        // Its end is found out by the next command.
        while let Heard::Line(line) = self.lines.hear(interrupts, Instant::now())? {
            self.take(&line);
        }
        Ok(std::mem::take(&mut self.events))
    }

    /// Puts an event aside; anything else is an answer.
    fn take(&mut self, line: &str) -> Option<Value> {
        let mut said: Value = serde_json::from_str(line).ok()?;
        let Some(name) = said["event"].as_str().map(str::to_owned) else {
            return Some(said);
        };
        if self.events.len() < MOST_EVENTS {
            self.events.push(Event {
                name,
                at: moment(&said["timestamp"]),
                data: said["data"].take(),
            });
        }
        None
    }
}

/// QEMU notes the time of day; now, where it did not.
fn moment(timestamp: &Value) -> Instant {
    let now = Instant::now();
    let noted = || {
        let seconds = Duration::from_secs(timestamp["seconds"].as_u64()?);
        let micros = Duration::from_micros(timestamp["microseconds"].as_u64()?);
        let ago = SystemTime::now()
            .duration_since(UNIX_EPOCH + seconds + micros)
            .ok()?;
        now.checked_sub(ago)
    };
    noted().unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::fake::Fake;

    #[test]
    fn answers_events_and_refusals() {
        let interrupts = Interrupts::take_over().unwrap();
        let (fake, stream) = Fake::monitor(|command, _| match command {
            "good" => vec![
                json!({"event": "STOP", "timestamp": {"seconds": 1, "microseconds": 5}}),
                json!({"id": 77, "return": "late answer to another"}),
                json!({"return": {"is": 7}}),
                json!({"event": "RESUME", "data": {"x": 1}}),
            ],
            "end" => vec![],
            _ => vec![json!({"error": {"class": "GenericError", "desc": "not so"}})],
        });
        let mut qmp = Qmp::greet(stream, &interrupts).unwrap();
        let good = qmp.execute(&interrupts, "good", json!({})).unwrap();
        assert_eq!(good["is"], 7);
        let refused = qmp
            .execute(&interrupts, "bad", json!({"a": 1}))
            .unwrap_err();
        assert_eq!(refused.to_string(), "QEMU refused `bad`: not so");
        let events = qmp.events(&interrupts).unwrap();
        let names: Vec<_> = events.iter().map(|event| event.name.as_str()).collect();
        assert_eq!(names, ["STOP", "RESUME"]);
        assert_eq!(events[1].data["x"], 1);
        assert!(qmp.events(&interrupts).unwrap().is_empty());
        let ended = qmp.execute(&interrupts, "end", json!({})).unwrap_err();
        assert!(matches!(ended, QmpError::Ended), "{ended}");
        assert_eq!(fake.commands(), ["qmp_capabilities", "good", "bad", "end"]);
    }

    #[test]
    fn the_time_is_qemus_own() {
        let second_ago =
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap() - Duration::from_secs(1);
        let noted =
            json!({"seconds": second_ago.as_secs(), "microseconds": second_ago.subsec_micros()});
        let ago = moment(&noted).elapsed();
        assert!(
            ago >= Duration::from_millis(999) && ago < Duration::from_secs(10),
            "{ago:?}"
        );
    }
}
