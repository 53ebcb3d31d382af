"""A second build of the program whose data path has another ABI: one map value is larger.

Sources are copied, two lines are patched in the copy, and the copy is built beside the original's
compiled dependencies, so that only the project's own crates are compiled again. The result stays in
`target/upgrade` for the next run.
"""

import fcntl
import os
import shutil
from pathlib import Path

from net import run
from overlane import ROOT, binary

PATCHES = (
    ("bpf/abi.h", "struct lswitch {\n", "struct lswitch {\n\t__u32 enlarged;\n"),
    ("crates/ebpf/src/abi.rs", 'struct Switch = "lswitch" {\n',
     'struct Switch = "lswitch" {\n        enlarged: u32,\n'),
    ("crates/ebpf/src/tables/ports.rs", "abi::Switch {\n", "abi::Switch {\n            enlarged: 0,\n"),
)
COPIED = ("Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "bpf", "crates", "docs", "studies",
          "tests/conformance")


def build():
    """Path of the second program; builds it if sources are newer. One builder at a time."""
    target = ROOT / "target" / "upgrade"
    target.mkdir(parents=True, exist_ok=True)
    with open(target / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        copy = target / "source"
        _copy(copy)
        _borrow_dependencies(target)
        environment = {**os.environ, "CARGO_TARGET_DIR": str(target), "CARGO_NET_OFFLINE": "true"}
        run(["cargo", "build", "--release", "--locked", "-p", "overlane-cli"], cwd=copy,
            env=environment, timeout=900)
    return target / "release" / "overlane"


def _copy(copy):
    """Bring the copy up to date; unchanged files keep their time: cargo sees real changes only."""
    copy.mkdir(exist_ok=True)
    wanted = set()
    patches = {}
    for name, old, new in PATCHES:
        patches.setdefault(name, []).append((old, new))
    for part in COPIED:
        source = ROOT / part
        files = [source] if source.is_file() else [each for each in source.rglob("*")
                                                   if each.is_file() or each.is_symlink()]
        for file in files:
            if "target" in file.relative_to(ROOT).parts or not file.exists():
                continue
            name = str(file.relative_to(ROOT))
            data = file.read_bytes()
            for old, new in patches.pop(name, []):
                text = data.decode()
                assert text.count(old) == 1, f"{name}: the place to patch is gone: {old!r}"
                data = text.replace(old, new).encode()
            wanted.add(name)
            there = copy / name
            if not there.exists() or there.read_bytes() != data:
                there.parent.mkdir(parents=True, exist_ok=True)
                there.write_bytes(data)
    assert not patches, f"nothing to patch: {patches}"
    for file in list(copy.rglob("*")):
        if file.is_file() and str(file.relative_to(copy)) not in wanted:
            file.unlink()


def _borrow_dependencies(target):
    """Compiled dependencies do not care where the project lies: take them from the first build."""
    first = binary().parent
    if (target / "release").exists() or not (first / ".fingerprint").is_dir():
        return
    temporary = target / "release.part"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    for part in (".fingerprint", "build", "deps"):
        shutil.copytree(first / part, temporary / part, symlinks=True, copy_function=shutil.copy2)
    for lock in (Path(first) / ".cargo-lock",):
        if lock.exists():
            shutil.copy2(lock, temporary)
    temporary.rename(target / "release")
