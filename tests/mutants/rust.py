"""Bugs in the Rust crates that decide without devices: cargo-mutants plants them."""

import json
import os
import re
import shutil
from dataclasses import dataclass

from jobs import ROOT, Broken, Tally, known

#: The golden cases, and what trace says of them.
GOLDEN = ["--package=overlane-conformance", "--test=cases", "--test=explanations"]


@dataclass(frozen=True)
class Part:
    """Sources, and the tests that must find what is planted in them."""

    crate: str
    sources: str
    golden: bool = False  # the golden cases must find it, too
    only: str = ""  # tests with this in their name

    @property
    def package(self):
        return f"overlane-{self.crate}"

    @property
    def targets(self):
        """Arguments for cargo: what is built and runs. Nothing of it needs root or the kernel."""
        folder = ROOT / "crates" / self.crate / "tests"
        names = [path.stem for path in folder.glob("*.rs")] + [path.parent.name for path in folder.glob("*/main.rs")]
        own = [f"--test={name}" for name in sorted(names) if not self.only]
        return ["--lib", *own, *(GOLDEN if self.golden else [])]

    @property
    def tests(self):
        """Arguments for the tests."""
        return [self.only] if self.only else ["--skip", "on_the_ebpf_programs"]


PARTS = [
    Part("pipeline", "crates/pipeline/src/**", golden=True),
    Part("model", "crates/model/src/**", golden=True),
    Part("analysis", "crates/analysis/src/stats/**", only="stats::"),
]
#: No test runs longer than this for a bug that makes a loop endless.
SECONDS = 120


def run(room, seed, count):
    tally = Tally("Rust")
    if not shutil.which("cargo-mutants"):
        raise Broken("no cargo-mutants here", "scripts/setup mutants", 77)
    everything = {part: names(room, part) for part in PARTS}
    total = sum(len(found) for found in everything.values())
    listed = {name(text) for found in everything.values() for text in found}
    entries = {it["bug"]: it for it in known("rust")}
    if gone := entries.keys() - listed:
        raise Broken(f"known.toml explains bugs that cargo-mutants does not plant: {sorted(gone)}",
                     "take them out of tests/mutants/known.toml")
    # One of so many shards, of every part.
    shards = max(1, round(total / count)) if count else 1
    print(f"{total} places in {', '.join(part.sources for part in PARTS)}: shard {seed % shards} of {shards}",
          flush=True)
    for part in PARTS:
        outcomes = tested(room, part, f"{seed % shards}/{shards}")
        for outcome in outcomes:
            count_outcome(outcome, entries, tally)
    return tally


def command(part, *more):
    return ["cargo", "mutants", "--package", part.package, "--file", part.sources, "--no-config", *more]


def names(room, part):
    code, out = room.run(command(part, "--list", "--json", "--colors=never"), 120, cwd=ROOT)
    if code != 0:
        raise Broken(f"cargo-mutants does not list its bugs:\n{out[-2000:]}", "scripts/setup mutants")
    return [it["name"] for it in json.loads(out)]


def name(text):
    """Without line and column, which move."""
    return re.sub(r":\d+:\d+: ", ": ", text)


def tested(room, part, shard):
    """cargo-mutants copies the tree into our folder, and builds there."""
    out = room.folder / part.crate
    settings = {"TMPDIR": str(room.folder), "CARGO_PROFILE_DEV_DEBUG": "none", "CARGO_BUILD_JOBS": "2"}
    env = {**os.environ, **settings}
    env.pop("CARGO_TARGET_DIR", None)
    code, text = room.run(
        command(part, "--shard", shard, "--sharding", "round-robin", "--jobs", "1", "--output", out,
                "--timeout", str(SECONDS), "--colors=never",
                # Of building, too. `--test-package` would not hold for the first run, without a bug.
                *(f"--cargo-arg={it}" for it in ["--locked", *part.targets]), "--", "--", *part.tests),
        None, cwd=ROOT, env=env)
    found = out / "mutants.out" / "outcomes.json"
    if code not in (0, 2, 3) or not found.exists():
        raise Broken(f"cargo-mutants failed ({code}):\n{text[-3000:]}", "the lines above say why")
    return [it for it in json.loads(found.read_text())["outcomes"] if it["scenario"] != "Baseline"]


def count_outcome(outcome, entries, tally):
    what = outcome["scenario"]["Mutant"]["name"]
    summary = outcome["summary"]
    if summary in ("CaughtMutant", "Timeout"):
        tally.killed += 1
        if summary == "Timeout":
            print(f"took longer than {SECONDS} s: {what}", flush=True)
    elif summary == "Unviable":
        tally.refused += 1
    else:
        tally.survived(what, entries.get(name(what)))
