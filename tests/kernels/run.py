#!/usr/bin/python3
"""Overlane on kernels that this machine does not run.

  run.py smoke                    smoke.txt on the oldest kernel (a step of `make test`)
  run.py boot SERIES 'COMMAND'    a shell command as root, on a kernel of kernels.toml

Exit codes: 0 passed, 1 failed, 77 skipped, with the reason as the last line. With CI set in the
environment nothing is skipped. `boot` exits with the command's own code.
"""

import io
import os
import re
import shlex
import signal
import subprocess
import sys
import time

import debian
import machine
from debian import HERE, ROOT, Unavailable

FAILED, WRONG_USAGE, SKIPPED = 1, 2, 77
#: Ten times what the smoke test takes on a machine that does nothing else.
SMOKE_SECONDS = 1200
BOOT_SECONDS = 3600


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
    lines = (HERE / "smoke.txt").read_text().splitlines()
    tests = [f"tests/system/{line}" for line in lines if line and not line.startswith("#")]
    print(f"Linux {kernel.release}, {machine.accelerator()[1]}, {len(tests)} tests", flush=True)
    began = time.monotonic()
    out = Tee()
    # What the tests test; else the release build.
    program = [f"export OVERLANE={shlex.quote(os.environ['OVERLANE'])}"] if "OVERLANE" in os.environ else []
    code = machine.run(kernel, "\n".join([
        f"cd {shlex.quote(str(ROOT))} || exit",
        "modprobe tun || exit",
        *program,
        "/usr/bin/python3 -m pytest -v --tb=short -p no:cacheprovider -n 2 "
        + shlex.join(tests),
    ]), SMOKE_SECONDS, out=out)
    passed = re.search(r"(\d+) passed", out.getvalue())
    passed = int(passed[1]) if passed else 0
    print(f"kernel smoke: Linux {kernel.release}: {passed} of {len(tests)} tests passed "
          f"in {time.monotonic() - began:.0f} s")
    return 0 if code == 0 and passed == len(tests) else FAILED


def boot(series, command):
    """Any command, on a kernel by its series."""
    kernels = {kernel.series: kernel for kernel in debian.pinned()}
    if series not in kernels:
        print(f"error: no kernel {series} in kernels.toml\n"
              f"help: there are {', '.join(kernels)}", file=sys.stderr)
        return WRONG_USAGE
    return machine.run(ready(kernels[series]), command, BOOT_SECONDS)


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
