"""The table of docs/kernels.md: a row for each kernel, written by `make kernels`."""

import os
import re
import subprocess

from debian import ROOT, Unavailable
from suite import PROGRAMS

PAGE = ROOT / "docs" / "kernels.md"
BEGIN, END = "<!-- make kernels writes from here -->", "<!-- to here -->"
COLUMNS = ("Linux", *(f"`{program}`" for program in PROGRAMS), "cases in a test run", "cases on a wire",
           "system tests", "the kernel lacks", "at commit")


def row(found):
    """A kernel on which all passed, as cells of text."""
    return (
        found.release,
        *(f"{found.programs[program]:,}".replace(",", " ") for program in PROGRAMS),
        str(found.test_run),
        str(found.wire),
        ", ".join(f"{count} {word}" for word, count in found.system.items()),
        ", ".join(found.lacks) or "nothing",
    )


def commit():
    """What was tested: rows may be of several runs. `+`: with changes that are in no commit."""
    git = ["git", "-C", str(ROOT)]
    name = subprocess.run([*git, "rev-parse", "--short=7", "HEAD"], capture_output=True, text=True)
    if name.returncode:
        return "unknown"
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "bpf", "crates", "tests"]).returncode
    return name.stdout.strip() + ("+" if changed else "")


def markdown(rows):
    lines = [COLUMNS, ["---"] * len(COLUMNS), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def check():
    """Raises Unavailable when the page has no place for the table, or lines in it that are no kernels."""
    text = PAGE.read_text(encoding="utf-8")
    if not (text.count(BEGIN) == text.count(END) == 1 and text.index(BEGIN) < text.index(END)):
        raise Unavailable(f"{PAGE.name} does not have the two lines around its table", f"git checkout {PAGE}")
    for line in old_rows(text):
        if not re.match(r"\| \d+\.\d+", line):
            raise Unavailable(f"{PAGE.name} has a row that is no kernel: {line}", "mend the row, or remove it")


def write(found):
    """Writes the rows of these kernels; other kernels keep theirs. Oldest first. In one step."""
    check()
    text = PAGE.read_text(encoding="utf-8")
    rows = {series(cells[0]): cells for cells in map(cells_of, old_rows(text))}
    at = commit()
    rows |= {series(each.release): (*row(each), at) for each in found}
    table = markdown([rows[key] for key in sorted(rows)])
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    new = PAGE.with_suffix(".new")
    new.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
    os.replace(new, PAGE)


def old_rows(text):
    return text.partition(BEGIN)[2].partition(END)[0].strip().splitlines()[2:]


def cells_of(line):
    return tuple(cell.strip() for cell in line.strip().strip("|").split("|"))


def series(release):
    """6.12.95+deb12 → (6, 12): one row for each."""
    return tuple(int(part) for part in re.match(r"(\d+)\.(\d+)", release).groups())
