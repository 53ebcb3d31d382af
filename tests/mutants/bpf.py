"""Bugs in bpf/: golden cases on the eBPF programs, and random packets for what survives them."""

import json
import os
import random
import re
import shutil
import struct
from concurrent.futures import ThreadPoolExecutor, as_completed

from jobs import ROOT, Broken, Tally, known
from plant import bugs, plant

WORKERS = 2
PACKETS = 20_000
#: Twenty times what it takes.
CASES_SECONDS, PACKETS_SECONDS = 120, 600
#: As in crates/ebpf/build.rs, but for warnings: a bug may leave something unused.
CLANG = ["-target", "bpf", "-O2", "-g", "-mcpu=v3"]
CASES = "every_case_on_the_ebpf_programs"
PACKETS_TEST = "both_executors_decide_the_same_about_random_packets"
#: What names a bug in known.toml; the first two name a whole function.
NAMES = ("file", "function", "line", "becomes")
EXECINSTR, ALLOC, REL = 4, 2, 9


def run(room, seed, count):
    tally = Tally("bpf")
    tests = Tests(room, seed)
    sources = ROOT / "bpf"
    every = bugs(sources)
    chosen = random.Random(seed).sample(every, min(count, len(every)))
    entries = {tuple(it[name] for name in NAMES if name in it): it for it in known("bpf")}
    gone = entries.keys() - {key for bug in every for key in (bug.key, bug.key[:2])}
    if gone:
        raise Broken(f"known.toml explains bugs that bpf/ has no line for: {sorted(gone)}",
                     "take them out of tests/mutants/known.toml")
    print(f"{len(every)} places in bpf/, {len(chosen)} of them tried", flush=True)
    copies = [shutil.copytree(sources, room.folder / f"bpf{n}") for n in range(WORKERS)]
    tests.unharmed(copies[0])

    def one(bug):
        folder = copies.pop()
        try:
            return bug, tests.verdict(folder, bug)
        finally:
            copies.append(folder)

    with ThreadPoolExecutor(WORKERS) as pool:
        jobs = [pool.submit(one, bug) for bug in chosen]
        try:
            for done, job in enumerate(as_completed(jobs), 1):
                report(*job.result(), entries, tally)
                if done % 25 == 0:
                    print(f"  … {done} of {len(chosen)}", flush=True)
        except BaseException:
            # The pool waits for what runs: that ends now.
            room.close()
            pool.shutdown(cancel_futures=True)
            raise
    return tally


def report(bug, verdict, entries, tally):
    if verdict == "survived":
        tally.survived(bug, entries.get(bug.key) or entries.get(bug.key[:2]))
        return
    setattr(tally, verdict, getattr(tally, verdict) + 1)
    if verdict == "killed" and bug.key in entries:
        print(f"note: a test finds {bug}: take it out of known.toml", flush=True)


class Tests:
    """The tests, built once, and the compiler."""

    def __init__(self, room, seed):
        self.room, self.seed = room, seed
        self.clang = shutil.which("clang-19") or shutil.which("clang")
        if not self.clang:
            raise Broken("no clang here", "scripts/setup test", 77)
        cases, differential = build(room)
        self.tests = [(cases, CASES_SECONDS, CASES), (differential, PACKETS_SECONDS, PACKETS_TEST)]
        self.plain = None

    def unharmed(self, folder):
        """The tests must pass as long as no bug is planted."""
        object_file = self.compile(folder)
        self.plain = program(object_file)
        for test, seconds, name in self.tests:
            code, out = self.run(test, object_file, seconds, name)
            if skipped := re.search(r"^SKIPPED .*", out, re.M):
                raise Broken(skipped[0], "root, and a kernel with tcx", 77)
            if code != 0:
                raise Broken(f"{name} fails without any bug planted:\n{out[-2000:]}",
                             "cargo test -p overlane-conformance")

    def verdict(self, folder, bug):
        """killed, survived, refused (by compiler or verifier), or same: the same program."""
        before = plant(folder, bug)
        try:
            object_file = self.compile(folder)
        finally:
            (folder / bug.file).write_text(before)
        if object_file is None:
            return "refused"
        if program(object_file) == self.plain:
            return "same"
        for test, seconds, name in self.tests:
            code, out = self.run(test, object_file, seconds, name)
            if code is None:
                raise Broken(f"{name} takes longer than {seconds} s", "a machine that does less beside it")
            if " Refused {" in out:
                return "refused"
            if code != 0:
                return "killed"
            if "1 passed" not in out:
                raise Broken(f"{test} did not run:\n{out[-2000:]}", "the lines above say why")
        return "survived"

    def compile(self, folder):
        object_file = folder / "tc.bpf.o"
        code, _ = self.room.run(
            [self.clang, *CLANG, "-I", folder, "-I", f"/usr/include/{os.uname().machine}-linux-gnu",
             f"-ffile-prefix-map={folder}=bpf", "-c", folder / "tc.bpf.c", "-o", object_file], 60)
        return object_file if code == 0 else None

    def run(self, test, object_file, seconds, name):
        settings = {"OVERLANE_OBJECT": str(object_file), "OVERLANE_SEED": str(self.seed),
                    "OVERLANE_PACKETS": str(PACKETS)}
        return self.room.run([test, name], seconds, env=os.environ | settings,
                             cwd=ROOT / "tests" / "conformance")


def build(room):
    """The two test programs."""
    names = ["cases", "differential"]
    command = ["cargo", "test", "--release", "--locked", "--no-run", "-p", "overlane-conformance",
               "--message-format=json-render-diagnostics"]
    for name in names:
        command += ["--test", name]
    print("building the tests", flush=True)
    code, out = room.run(command, 3600, cwd=ROOT)
    if code != 0:
        raise Broken(f"the tests do not build:\n{out[-3000:]}", "scripts/setup test")
    found = {}
    for line in out.splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("executable") and message["target"]["name"] in names:
            found[message["target"]["name"]] = message["executable"]
    # Whoever builds meanwhile does not change ours.
    return [shutil.copy(found[name], room.folder) for name in names]


def program(path):
    """What an ELF object has that the kernel gets: instructions, data and relocations; no debug information."""
    data = path.read_bytes()
    (offset,), (size, number, _) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + n * size) for n in range(number)]

    def content(header):
        return data[header[4]:header[4] + header[5]]

    kept = [content(it) for it in headers if it[2] & (ALLOC | EXECINSTR)]
    return kept + [content(it) for it in headers if it[1] == REL and headers[it[7]][2] & EXECINSTR]
