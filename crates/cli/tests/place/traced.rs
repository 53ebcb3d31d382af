//! What the tests of `trace` ask of a place.

#![allow(unreachable_pub, clippy::unwrap_used)]

use std::process::Output;

use serde_json::Value;

use crate::place::{Place, code, err, out};

impl Place {
    pub fn trace(&self, port: &str, packet: &str, more: &[&str]) -> Output {
        self.run(&[&["trace", "fabric.yaml", "--port", port, packet], more].concat())
    }

    /// The only packet's trace.
    pub fn json(&self, port: &str, packet: &str) -> Value {
        let output = self.trace(port, packet, &["--json"]);
        assert_eq!(code(&output), 0, "{packet}: {}", err(&output));
        let all: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(all.as_array().unwrap().len(), 1);
        all[0].clone()
    }

    pub fn text(&self, port: &str, packet: &str) -> String {
        let output = self.trace(port, packet, &[]);
        assert_eq!(code(&output), 0, "{packet}: {}", err(&output));
        assert_eq!(err(&output), "");
        out(&output).to_owned()
    }
}

/// Verdicts of all hooks, in the order of the text: host, hook, verdict.
pub fn hooks(hop: &Value) -> Vec<String> {
    let word = |name: &str| hop[name].as_str().unwrap();
    let mut found = vec![format!(
        "{} {} {}",
        word("host"),
        word("hook"),
        word("verdict")
    )];
    for output in hop["outputs"].as_array().unwrap() {
        for next in output["then"].as_array().unwrap() {
            found.extend(hooks(next));
        }
    }
    found
}
