//! A monitor that plays QEMU, for tests.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

/// What it was asked.
#[derive(Clone, Default)]
pub(super) struct Fake(Arc<Mutex<Vec<String>>>);

impl Fake {
    /// It answers each command with what `answer` says: of these lines, one without a number of its own gets the
    /// command's. Without a line it ends.
    pub(super) fn monitor(
        mut answer: impl FnMut(&str, &Value) -> Vec<Value> + Send + 'static,
    ) -> (Self, UnixStream) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let fake = Self::default();
        let commands = Arc::clone(&fake.0);
        std::thread::spawn(move || {
            writeln!(
                theirs,
                "{}",
                json!({"QMP": {"version": {}, "capabilities": []}})
            )
            .unwrap();
            for line in BufReader::new(theirs.try_clone().unwrap()).lines() {
                let Ok(line) = line else { return };
                let order: Value = serde_json::from_str(&line).unwrap();
                let command = order["execute"].as_str().unwrap();
                commands.lock().unwrap().push(command.to_owned());
                let answers = match command {
                    "qmp_capabilities" => vec![json!({"return": {}})],
                    _ => answer(command, &order["arguments"]),
                };
                if answers.is_empty() {
                    return;
                }
                for mut said in answers {
                    if said.get("event").is_none() && said.get("id").is_none() {
                        said["id"] = order["id"].clone();
                    }
                    if writeln!(theirs, "{said}").is_err() {
                        return;
                    }
                }
            }
        });
        (fake, ours)
    }

    pub(super) fn commands(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}
