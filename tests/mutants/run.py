#!/usr/bin/python3
"""Plants one small bug after another and runs the tests: do they find it?

  run.py [bpf|rust|all]     default all

  SEED      which bugs: a number; default: another each time
  MUTANTS   how many in bpf/, default 300
  RUST      how many in the Rust crates, default 300; 0: all of them

Exit codes: 0 at least 95 % were found, 1 fewer, or something broke, 2 wrong usage, 77 skipped.
"""

import os
import signal
import sys
import time

import bpf
import rust
from jobs import Broken, Room

WANTED_PERCENT = 95


def number(name, default):
    text = os.environ.get(name) or str(default)
    if not text.isdecimal():
        raise Broken(f"{name} is no number: {text}", f"{name}={default}, for example")
    return int(text)


def main(arguments):
    parts = {"bpf": [bpf.run], "rust": [rust.run], "all": [bpf.run, rust.run]}
    what = arguments[0] if arguments else "all"
    if len(arguments) > 1 or what not in parts:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    # As by Ctrl-C: what was begun is taken down.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(128 + signal.SIGHUP))
    try:
        seed = number("SEED", time.time_ns() // 1000 % 1_000_000)
        counts = {bpf.run: number("MUTANTS", 300), rust.run: number("RUST", 300)}
        print(f"SEED={seed} repeats this run", flush=True)
        lines = []
        for part in parts[what]:
            with Room() as room:
                lines.append(part(room, seed, counts[part]))
        print()
        for line in lines:
            print(line)
        return 0 if all(line.percent >= WANTED_PERCENT for line in lines) else 1
    except Broken as error:
        print(f"{error.word}: {error}\nhelp: {error.help}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
