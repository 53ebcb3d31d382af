"""What cargo builds for the tests, all of it at once: so nothing that two of them share is compiled twice."""

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CARGO = ("cargo", "test", "--workspace", "--locked")


def executables():
    """Builds everything; the compiler's messages about what can be run (cargo's reason `compiler-artifact`).

    Raises CalledProcessError when something does not build; cargo has said what.
    """
    built = subprocess.run([*CARGO, "--no-run", "--message-format=json-render-diagnostics"],
                           cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return [message for message in map(json.loads, built.stdout.splitlines()) if message.get("executable")]
