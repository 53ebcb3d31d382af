#!/usr/bin/env python3
"""Lets known.toml follow when code of bpf/ has moved.

  tests/mutants/follow.py

An entry whose function and line are found in another file, and there only, goes there. One without a line to plant its
bug in goes from the file, and is printed.
"""

import re
import tomllib
from pathlib import Path

from plant import bugs

ROOT = Path(__file__).resolve().parents[2]
KNOWN = Path(__file__).with_name("known.toml")


def main():
    places, functions = {}, {}
    for bug in bugs(ROOT / "bpf"):
        places.setdefault(bug.key[1:], set()).add(bug.file)
        functions.setdefault(bug.function, set()).add(bug.file)
    head, *blocks = re.split(r"(?m)^(?=\[\[)", KNOWN.read_text())
    kept, gone, moved = [], [], 0
    for block in blocks:
        (kind, (entry,)), = tomllib.loads(block).items()
        if kind != "bpf":
            kept.append(block)
            continue
        whole = "line" not in entry
        name = entry["function"] if whole else (entry["function"], entry["line"], entry["becomes"])
        files = (functions if whole else places).get(name, set())
        if entry["file"] in files:
            kept.append(block)
        elif len(files) == 1:
            moved += 1
            kept.append(block.replace(f'file = "{entry["file"]}"', f'file = "{min(files)}"', 1))
        else:
            gone.append(f"{entry['file']}: {entry['function']}: {entry.get('line', 'all of it')}")
    KNOWN.write_text(head + "".join(kept))
    print(f"{moved} entries moved, {len(gone)} are gone:")
    for line in gone:
        print(f"  {line}")


if __name__ == "__main__":
    main()
