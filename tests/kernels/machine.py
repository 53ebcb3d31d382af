"""Boots a kernel in QEMU over this machine's root file system, and runs one command there.

The virtual machine sees every program and build of this machine, and nothing that it writes lasts: its
root is read-only under a layer in memory. It has no network device.
"""

import contextlib
import functools
import lzma
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import debian
from debian import HERE, Unavailable

QEMU = "qemu-system-x86_64"
#: It ends with this process, however that ends.
TIED = ["setpriv", "--pdeathsig", "KILL", QEMU]
TOOLS = {QEMU: "qemu-system-x86", "cpio": "cpio", "depmod": "kmod", "setpriv": "util-linux"}

KVM = ["-accel", "kvm", "-cpu", "host"]
#: One thread for all processors: with one each, one runs code while the other one patches it, and the kernel dies of
#: `Oops: int3`. 5-level page tables cost the emulation a tenth of its speed, and string instructions that it runs byte
#: by byte, half.
EMULATION = ["-accel", "tcg,thread=single", "-cpu", "max,la57=off,erms=off,fsrm=off"]
#: What a kernel says that was booted without a root file system, and what QEMU says when KVM gives up: it waits then.
NO_ROOT, KVM_GAVE_UP = "Unable to mount root fs", "KVM internal error"
#: KVM takes two seconds.
PROBE_SECONDS = 30

#: Modules that the initial RAM disk needs to find the root file system.
ROOT_MODULES = ("9pnet_virtio", "9p", "overlay")
#: The watchdogs are off: under emulation they measure how slow this machine is. Nothing waits for RCU longer than it
#: must: every namespace that is taken down does. `rep_good` is a string instruction, too.
KERNEL_OPTIONS = ("console=ttyS0", "loglevel=5", "panic=-1", "oops=panic", "mitigations=off",
                  "nowatchdog", "clearcpuid=rep_good", "rcupdate.rcu_expedited=1", "rcupdate.rcu_cpu_stall_suppress=1")
#: What a kernel prints when it finds a mistake, its own or one that we led it to.
COMPLAINT = re.compile(r"WARNING: |BUG: |Oops|Kernel panic|Call Trace|refcount_t|KASAN|UBSAN")
#: What `init` prints: without it the console says nothing, and its silence proves nothing.
CONSOLE_WORKS = "root file system: mounted"


class MachineFailed(Exception):
    """The virtual machine did not come to its end as it should; the text has its console's words."""


def check():
    """Raises Unavailable where none can be booted."""
    missing = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
    if missing:
        raise Unavailable(f"not installed: {', '.join(missing)}",
                          f"apt-get install {' '.join(missing)}")


def run(kernel, command, seconds, memory_mib=4096, out=None):
    """Run a shell command as root on this kernel, and return its exit code.

    What it prints is written to `out` as it comes.
    """
    out = out or sys.stdout
    with debian.workspace("machine") as share:
        (share / "command").write_text(command)
        (share / "modules").write_text(str(kernel.modules))
        (share / "output").touch()
        (share / "console").touch()
        shutil.copy(HERE / "start", share / "start")
        arguments = _arguments(kernel, share, memory_mib)
        with open(share / "qemu", "wb") as errors, _ended(subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)) as qemu:
            ended = _follow(qemu, share / "output", out, seconds)
        console = (share / "console").read_text(errors="replace")
        _no_complaint(console, kernel.known_complaints)
        if not (share / "code").exists():
            why = "it ended without an answer" if ended else f"it was not done in {seconds} s"
            raise MachineFailed(f"{why}; its console:\n{_last(console)}\n"
                                + _last((share / "qemu").read_text(errors="replace")))
        if CONSOLE_WORKS not in console:
            raise MachineFailed("its console shows nothing")
        return int((share / "code").read_text())


def _no_complaint(console, known=()):
    """Raises for the first complaint that is none of the known ones: parts of a WARNING line."""
    lines = console.splitlines()
    passed_over = False
    for number, line in enumerate(lines):
        if "WARNING: " in line:
            passed_over = any(each in line for each in known)
        if COMPLAINT.search(line) and not passed_over:
            said = "\n".join(lines[number:number + 60])
            raise MachineFailed(f"its kernel complained:\n{said}")
        if "---[ end trace" in line:
            passed_over = False


def _arguments(kernel, share, memory_mib):
    virtfs = "local,security_model=none"
    return [
        *_bare(accelerator(kernel), kernel, share, memory_mib), "-smp", "2",
        "-device", "virtio-rng-pci", "-initrd", str(_initrd(kernel)),
        "-virtfs", f"{virtfs},path=/,mount_tag=root,readonly=on,multidevs=remap",
        "-virtfs", f"{virtfs},path={_value(share)},mount_tag=share",
    ]


def _bare(accelerator, kernel, folder, memory_mib):
    """A machine with a kernel, and a console in the folder; nothing else."""
    return [
        *TIED, "-machine", "q35", *accelerator, "-m", str(memory_mib),
        "-nodefaults", "-display", "none", "-no-reboot",
        "-chardev", f"file,id=console,path={_value(folder)}/console", "-serial", "chardev:console",
        "-kernel", str(kernel.folder / "vmlinuz"), "-append", " ".join(KERNEL_OPTIONS),
    ]


def _value(path):
    """A path in an option of QEMU, which ends a value at a comma and takes two for one."""
    return str(path).replace(",", ",,")


@functools.cache
def accelerator(kernel):
    """KVM where it really boots the kernel, else emulation.

    /dev/kvm alone proves nothing. Nor does a boot sector: some clouds' KVM runs it, and not a kernel.
    """
    return KVM if boots_with(KVM, kernel, PROBE_SECONDS) else EMULATION


def boots_with(accelerator, kernel, seconds):
    """Whether the kernel boots so, as far as its search for a root file system, which is not there."""
    with debian.workspace("probe") as folder:
        console, errors = folder / "console", folder / "errors"
        console.touch()
        with open(errors, "wb") as file, _ended(subprocess.Popen(
                _bare(accelerator, kernel, folder, 512), stdin=subprocess.DEVNULL, stdout=file, stderr=file)) as qemu:
            deadline = time.monotonic() + seconds
            while qemu.poll() is None and time.monotonic() < deadline:
                if KVM_GAVE_UP in errors.read_text(errors="replace"):
                    break
                time.sleep(0.1)
        return NO_ROOT in console.read_text(errors="replace")


def _initrd(kernel):
    """The initial RAM disk of a kernel, made anew when its contents change."""
    path = kernel.folder / "initrd"
    sources = [HERE / "init", Path(__file__), debian.busybox()]
    if path.exists() and all(path.stat().st_mtime > each.stat().st_mtime for each in sources):
        return path
    with debian.workspace("initrd") as work:
        root = work / "root"
        for folder in ("proc", "sys", "dev", "below", "upper", "root", "modules"):
            (root / folder).mkdir(parents=True)
        shutil.copy(debian.busybox(), root / "busybox")
        shutil.copy(HERE / "init", root / "init")
        for file in ("busybox", "init"):
            (root / file).chmod(0o755)
        for number, module in enumerate(_with_dependencies(kernel)):
            (root / "modules" / f"{number:02}").write_bytes(_decompressed(module))
        names = "\n".join(str(each.relative_to(root)) for each in sorted(root.rglob("*")))
        with open(work / "initrd", "wb") as file:
            subprocess.run(["cpio", "--create", "--format=newc", "--quiet"], input=names.encode(),
                           stdout=file, cwd=root, check=True)
        (work / "initrd").rename(path)
    return path


def _with_dependencies(kernel):
    """Files of the modules that the root file system needs, in the order to load them."""
    lines = (kernel.modules / "modules.dep").read_text().splitlines()
    files = {}
    for line in lines:
        name, _, needs = line.partition(":")
        files[re.sub(r"\.ko(\.\w+)?$", "", Path(name).name)] = [name, *needs.split()]
    ordered = []
    for module in ROOT_MODULES:
        # modules.dep lists what a module needs, the last one to be loaded first.
        for name in reversed(files.get(module, [])):
            if name not in ordered:
                ordered.append(name)
    return [kernel.modules / name for name in ordered]


def _decompressed(module):
    data = module.read_bytes()
    return lzma.decompress(data) if module.suffix == ".xz" else data


@contextlib.contextmanager
def _ended(process):
    """Whatever happens, the process is gone afterwards."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()


def _follow(process, path, out, seconds):
    """Copy what is appended to a file until the process ends; False when the time was over first."""
    deadline = time.monotonic() + seconds
    with open(path, encoding="utf-8", errors="replace") as file:
        while True:
            ended = process.poll() is not None
            if text := file.read():
                out.write(text)
                out.flush()
            elif ended:
                return True
            if not ended and time.monotonic() > deadline:
                return False
            time.sleep(0.1)


def _last(text, count=20):
    return "\n".join(text.strip().splitlines()[-count:])
