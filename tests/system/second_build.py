#!/usr/bin/python3
"""A second build of the program whose data path has another ABI: structs that `apply` writes, and structs that packets
write, have a member more, in front of the others or between them.

Sources are copied, some lines are patched in the copy, and the copy is built beside the original's
compiled dependencies, so that only the project's own crates are compiled again. The result stays in
`target/upgrade` for the next run. `make test-all` runs this file before the system tests.
"""

import fcntl
import os
import shutil
import subprocess
import sys

from overlane import ROOT, binary

TARGET = ROOT / "target" / "upgrade"
COPY = TARGET / "source"

PATCHES = (
    ("bpf/lib/abi.h", "struct lswitch {\n", "struct lswitch {\n\t__u32 enlarged;\n"),
    ("crates/ebpf/src/abi.rs", 'struct Switch = "lswitch" {\n',
     'struct Switch = "lswitch" {\n        enlarged: u32,\n'),
    ("crates/ebpf/src/tables/ports.rs", "abi::Switch {\n", "abi::Switch {\n            enlarged: 0,\n"),
    ("bpf/lib/abi_firewall.h", "struct connection {\n", "struct connection {\n\t__u64 enlarged;\n"),
    ("crates/ebpf/src/abi/firewall.rs", 'struct Connection = "connection" {\n',
     'struct Connection = "connection" {\n        enlarged: u64,\n'),
    ("bpf/lib/abi_firewall.h", "struct translation_entry {\n", "struct translation_entry {\n\t__u32 enlarged;\n"),
    ("crates/ebpf/src/abi/firewall.rs", 'struct TranslationEntry = "translation_entry" {\n',
     'struct TranslationEntry = "translation_entry" {\n        enlarged: u32,\n'),
    ("bpf/lib/abi_firewall.h", "struct first_fragment {\n", "struct first_fragment {\n\t__u64 enlarged;\n"),
    ("crates/ebpf/src/abi/firewall.rs", 'struct FirstFragment = "first_fragment" {\n',
     'struct FirstFragment = "first_fragment" {\n        enlarged: u64,\n'),
    ("bpf/lib/abi.h", "struct found_neighbour {\n", "struct found_neighbour {\n\t__u64 enlarged;\n"),
    ("crates/ebpf/src/abi.rs", 'struct FoundNeighbour = "found_neighbour" {\n',
     'struct FoundNeighbour = "found_neighbour" {\n        enlarged: u64,\n'),
    ("crates/ebpf/src/neighbours.rs", "abi::FoundNeighbour {\n        mac:", "abi::FoundNeighbour {\n        enlarged: 0,\n        mac:"),
    ("bpf/lib/abi.h", "\t__u32 age;          /* seconds it is remembered */\n",
     "\t__u32 age;          /* seconds it is remembered */\n\t__u64 enlarged;\n"),
    ("crates/ebpf/src/abi.rs", "        age: u32,\n", "        age: u32,\n        enlarged: u64,\n"),
)
COPIED = ("Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "bpf", "crates", "docs", "studies",
          "tests/conformance")


def program():
    """Path of the second program, or None where it was not built from these sources."""
    built = TARGET / "release" / "overlane"
    if not built.exists() or _differing():
        return None
    return built


def build():
    """Builds it if sources are newer. One builder at a time."""
    TARGET.mkdir(parents=True, exist_ok=True)
    with open(TARGET / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _copy()
        _borrow_dependencies()
        environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET), "CARGO_NET_OFFLINE": "true"}
        subprocess.run(["cargo", "build", "--release", "--locked", "-p", "overlane-cli"], cwd=COPY,
                       env=environment, check=True)


def _sources():
    """Every file of the second build, by its name: what it has to hold."""
    patches = {}
    for name, old, new in PATCHES:
        patches.setdefault(name, []).append((old, new))
    files = {}
    for part in COPIED:
        source = ROOT / part
        for file in [source] if source.is_file() else source.rglob("*"):
            if "target" in file.relative_to(ROOT).parts or not file.is_file():
                continue
            name = str(file.relative_to(ROOT))
            files[name] = file.read_bytes()
            for old, new in patches.pop(name, []):
                text = files[name].decode()
                assert text.count(old) == 1, f"{name}: the place to patch is gone: {old!r}"
                files[name] = text.replace(old, new).encode()
    assert not patches, f"nothing to patch: {patches}"
    return files


def _differing():
    """The files of the copy that are not what they have to be: {name: what it has to hold, None: nothing}."""
    wanted = _sources()
    there = {str(file.relative_to(COPY)): file.read_bytes() for file in COPY.rglob("*") if file.is_file()}
    return {name: wanted.get(name) for name in {*wanted, *there} if wanted.get(name) != there.get(name)}


def _copy():
    """Bring the copy up to date; unchanged files keep their time: cargo sees real changes only."""
    for name, data in _differing().items():
        file = COPY / name
        if data is None:
            file.unlink()
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)


def _borrow_dependencies():
    """Compiled dependencies do not care where the project lies: take them from the first build."""
    first = binary().parent
    if (TARGET / "release").exists() or not (first / ".fingerprint").is_dir():
        return
    temporary = TARGET / "release.part"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    for part in (".fingerprint", "build", "deps"):
        shutil.copytree(first / part, temporary / part, symlinks=True, copy_function=shutil.copy2)
    if (first / ".cargo-lock").exists():
        shutil.copy2(first / ".cargo-lock", temporary)
    temporary.rename(TARGET / "release")


if __name__ == "__main__":
    try:
        build()
    except subprocess.CalledProcessError as error:
        sys.exit(f"error: {error}\nhelp: the lines above say why")
