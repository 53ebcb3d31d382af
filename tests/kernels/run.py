#!/usr/bin/python3
"""Overlane on kernels that this machine does not run.

  run.py smoke                    smoke.txt on the oldest kernel (a step of `make test`)
  run.py suite [KERNEL …]         all golden cases and the system tests, on each of these kernels: a series,
                                  `debian` (all of kernels.toml) or `here` (this machine's own);
                                  without a name on all of them (`make kernels`)
      --tests each|all            system tests: each once with one parameter set (default), or all
      --write                     writes the table of docs/kernels.md, when all passed
  run.py boot SERIES 'COMMAND'    a shell command as root, on a kernel of kernels.toml

Exit codes: 0 passed, 1 failed, 77 skipped, with the reason as the last line. With CI set in the
environment nothing is skipped. `boot` exits with the command's own code.
"""

import argparse
import contextlib
import io
import os
import platform
import re
import shlex
import signal
import subprocess
import sys
import time

import debian
import machine
import suite
import table
from debian import ROOT, Unavailable

FAILED, WRONG_USAGE, SKIPPED = 1, 2, 77
#: Ten times what the smoke test takes on a machine that does nothing else.
SMOKE_SECONDS = 1200
BOOT_SECONDS = 3600
#: Several times what the suite takes under emulation.
SUITE_SECONDS = 6 * 3600
#: Results of studies and the build's temporary files are in memory there.
SUITE_MEMORY_MIB = 6144
OURS, THEIRS = "here", "debian"


class Tee(io.StringIO):
    """Keeps what it shows."""

    def write(self, text):
        sys.stdout.write(text)
        return super().write(text)

    def flush(self):
        sys.stdout.flush()


def smoke():
    """The tests of smoke.txt on the oldest kernel: each must run, and pass."""
    kernel = ready(debian.pinned()[0])
    tests = suite.smoke_tests()
    print(f"Linux {kernel.release}, {machine.accelerator(kernel)[1]}, {len(tests)} tests", flush=True)
    began = time.monotonic()
    out = Tee()
    # What the tests test; else the release build.
    program = [f"export OVERLANE={shlex.quote(os.environ['OVERLANE'])}"] if "OVERLANE" in os.environ else []
    code = machine.run(kernel, "\n".join([
        f"cd {shlex.quote(str(ROOT))} || exit",
        "modprobe tun || exit",
        f"export OVERLANE_TEST_PATIENCE={suite.PATIENCE}",
        *program,
        "/usr/bin/python3 -m pytest -v --tb=short -p no:cacheprovider -n 2 "
        + shlex.join(tests),
    ]), SMOKE_SECONDS, out=out)
    passed = re.search(r"(\d+) passed", out.getvalue())
    passed = int(passed[1]) if passed else 0
    print(f"kernel smoke: Linux {kernel.release}: {passed} of {len(tests)} tests passed "
          f"in {time.monotonic() - began:.0f} s")
    return 0 if code == 0 and passed == len(tests) else FAILED


def whole_suite(arguments):
    """The suite on each of some kernels. One that fails does not stop the next."""
    parser = argparse.ArgumentParser(prog="run.py suite")
    parser.add_argument("kernels", nargs="*", metavar="KERNEL")
    parser.add_argument("--tests", choices=("each", "all"), default="each")
    parser.add_argument("--write", action="store_true")
    wanted = parser.parse_args(arguments)
    if wanted.write and wanted.tests != "each":
        parser.error("the table is of tests that ran once each: --write goes with --tests each")
    pinned = by_series()
    names = wanted.kernels or [THEIRS, OURS]
    if unknown := set(names) - {*pinned, THEIRS, OURS}:
        return no_kernel(", ".join(sorted(unknown)), [*pinned, THEIRS, OURS])
    names = [name for each in names for name in (pinned if each == THEIRS else [each])]
    if wanted.write:
        table.check()
    kernels = {name: None if name == OURS else ready(pinned[name]) for name in names}
    try:
        command = suite.script(*suite.build(), wanted.tests)
    except (OSError, subprocess.CalledProcessError) as error:
        return failed(f"the tests do not build: {error}", "look at the lines above; scripts/setup test")
    found = [suite_on(kernel, command) for kernel in kernels.values()]
    print("\n" + "\n".join(f"{'ok    ' if each.passed else 'FAILED'}  {each}" for each in found))
    if not all(each.passed for each in found):
        return FAILED
    if wanted.write:
        booted = {table.series(kernel.release) for kernel in kernels.values() if kernel}
        table.write([each for each, kernel in zip(found, kernels.values())
                     if kernel or table.series(each.release) not in booted])
        print(f"written: {table.PAGE.relative_to(ROOT)}")
    return 0


def suite_on(kernel, command):
    """The suite on one kernel, `None` being this machine's."""
    release = kernel.release if kernel else platform.release()
    print(f"\nLinux {release}, {machine.accelerator(kernel)[1] if kernel else 'this machine'}", flush=True)
    out, complaint = Tee(), ""
    try:
        if kernel:
            machine.run(kernel, command, SUITE_SECONDS, SUITE_MEMORY_MIB, out)
        else:
            run_here(command, out)
    except machine.MachineFailed as error:
        complaint = str(error)
    return suite.read(release, out.getvalue(), complaint, may_lack=kernel is None)


def run_here(command, out):
    """The same script on this machine. It ends with us, and pytest takes down what it has made."""
    with subprocess.Popen(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True) as process:
        try:
            for line in process.stdout:
                out.write(line)
        except BaseException:
            end(process)
            raise


def end(process):
    """The whole session: politely, so that pytest takes down what it has made, then not. Who ignores SIGINT, as a shell's
    jobs in the background do, has children that ignore it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
            return


def boot(series, command):
    """Any command, on a kernel by its series."""
    pinned = by_series()
    if series not in pinned:
        return no_kernel(series, pinned)
    return machine.run(ready(pinned[series]), command, BOOT_SECONDS)


def by_series():
    return {kernel.series: kernel for kernel in debian.pinned()}


def no_kernel(series, names):
    print(f"error: no kernel {series} in kernels.toml\nhelp: there are {', '.join(names)}", file=sys.stderr)
    return WRONG_USAGE


def ready(kernel):
    """The kernel, unpacked, on a machine that can boot it."""
    machine.check()
    return debian.fetch(kernel)


def failed(what, help):
    print(f"error: {what}\nhelp: {help}", file=sys.stderr)
    return FAILED


def main(arguments):
    # As by Ctrl-C: what was begun is taken down.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        match arguments:
            case ["smoke"]:
                return smoke()
            case ["suite", *rest]:
                return whole_suite(rest)
            case ["boot", series, command]:
                return boot(series, command)
            case _:
                print(__doc__.strip(), file=sys.stderr)
                return WRONG_USAGE
    except Unavailable as reason:
        if arguments[0] == "smoke" and not os.environ.get("CI"):
            print(f"SKIPPED: kernel smoke: {reason} ({reason.help})")
            return SKIPPED
        return failed(reason, reason.help)
    except machine.MachineFailed as error:
        return failed(f"the virtual machine failed: {error}", "`run.py boot` repeats it by hand")
    except (OSError, subprocess.CalledProcessError) as error:
        return failed(error, f"remove {debian.STORE}, and try again")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
