"""Kernels and BusyBox from Debian's archive, unpacked below target/kernels/.

apt runs with sources, lists, a cache and hooks of its own: the machine's stay as they are, and nothing
is installed.
"""

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
STORE = ROOT / "target" / "kernels"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

APT_CONF = """\
Dir::Etc::SourceList "{home}/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "{home}/lists";
Dir::Cache "{home}/cache";
// The folder belongs to whoever builds, and apt's own user may not enter it.
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::Retries "2";
// In a container they empty the machine's own cache.
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
"""


class Unavailable(Exception):
    """Something that only the archive or the machine can give is not there."""

    def __init__(self, what, help):
        super().__init__(what)
        self.help = help


@dataclass(frozen=True)
class Kernel:
    """A kernel of kernels.toml."""

    series: str
    suite: str
    packages: tuple
    known_complaints: tuple = ()

    @property
    def folder(self):
        """Where it is unpacked: vmlinuz, lib/modules/, and `release`, which is written last."""
        return STORE / self.packages[0].replace("+", "_")

    @property
    def is_unpacked(self):
        return (self.folder / "release").exists()

    @property
    def release(self):
        """What `uname -r` prints on it."""
        return (self.folder / "release").read_text().strip()

    @property
    def modules(self):
        return self.folder / "lib" / "modules" / self.release


def pinned():
    """The kernels of kernels.toml, oldest first."""
    table = tomllib.loads((HERE / "kernels.toml").read_text())["kernel"]
    return [Kernel(row["series"], row["suite"], tuple(row["packages"]),
                   tuple(row.get("known_complaints", ()))) for row in table]


def fetch(kernel):
    """Unpack a kernel, once. Returns it, or its successor in the archive."""
    with _lock():
        if kernel.is_unpacked:
            return kernel
        apt = Apt(kernel.suite)
        names = apt.names()
        if not names.issuperset(kernel.packages):
            kernel = successor(names, kernel)
        if not kernel.is_unpacked:
            print(f"fetching {' '.join(kernel.packages)}", flush=True)
            _unpack_kernel(apt, kernel)
        return kernel


def busybox():
    """A BusyBox that needs no libraries."""
    path = STORE / "busybox"
    with _lock():
        if not path.exists():
            with workspace("busybox") as work:
                Apt(_codename()).unpack(["busybox-static"], work)
                _only_file(work, "bin/busybox").rename(path)
    return path


class Apt:
    """apt for one suite of the machine's own Debian mirror."""

    def __init__(self, suite):
        self.home = STORE / "apt" / suite
        for folder in ("lists/partial", "cache/archives/partial"):
            (self.home / folder).mkdir(parents=True, exist_ok=True)
        source = f"deb [signed-by={KEYRING}] {_mirror()} {suite} main\n"
        (self.home / "sources.list").write_text(source)
        (self.home / "apt.conf").write_text(APT_CONF.format(home=self.home))
        self._run("apt-get", "update")

    def names(self):
        """The packages that the suite has."""
        return set(self._run("apt-cache", "pkgnames").split())

    def unpack(self, packages, folder):
        self._run("apt-get", "download", *packages, cwd=folder)
        for package in sorted(folder.glob("*.deb")):
            subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
            package.unlink()

    def _run(self, program, *words, **options):
        # Our file is read after the machine's, and so wins.
        command = [program, "-q", "-c", str(self.home / "apt.conf"), *words]
        help = "look at the network, the proxy and apt's sources"
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=900,
                                  check=False, **options)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{program} {' '.join(words)}: no answer in 15 minutes", help) from None
        if done.returncode != 0:
            said = done.stderr.strip()[-500:]
            raise Unavailable(f"{program} {' '.join(words)}: {said}", help)
        return done.stdout


def successor(names, kernel):
    """The newest kernel of the same series among `names`: the pinned one has left the archive."""
    prefix, _, rest = kernel.packages[0].partition(kernel.series)
    suffix = rest.partition("+")[2]
    pattern = re.compile(re.escape(prefix) + r"(?P<version>" + re.escape(kernel.series)
                         + r"(\.[0-9]+)*)\+" + re.escape(suffix))
    found = [match for match in map(pattern.fullmatch, names) if match]
    if not found:
        raise Unavailable(f"{kernel.suite} has no kernel {kernel.series} any more",
                          "name another one in tests/kernels/kernels.toml")
    newest = max(found, key=lambda match: [int(part) for part in match["version"].split(".")])
    old = kernel.series + rest.partition("+")[0]
    packages = tuple(name.replace(old, newest["version"]) for name in kernel.packages)
    print(f"note: {kernel.packages[0]} has left the archive; {packages[0]} is taken", flush=True)
    return replace(kernel, packages=packages)


def _unpack_kernel(apt, kernel):
    """In one step: a folder that has `release` is whole."""
    with workspace("kernel") as work:
        apt.unpack(kernel.packages, work)
        modules = _only(work, "lib/modules/*", lambda path: path.is_dir())
        release = modules.name
        unpacked = work / "unpacked"
        (unpacked / "lib/modules").mkdir(parents=True)
        # Newer packages keep it among the modules.
        _only_file(work, "vmlinuz*").rename(unpacked / "vmlinuz")
        modules.rename(unpacked / "lib/modules" / release)
        subprocess.run(["depmod", "--basedir", unpacked, release], check=True,
                       stderr=subprocess.DEVNULL)
        (unpacked / "release").write_text(f"{release}\n")
        shutil.rmtree(kernel.folder, ignore_errors=True)
        unpacked.rename(kernel.folder)


def _only_file(folder, pattern):
    return _only(folder, pattern, lambda path: path.is_file() and not path.is_symlink())


def _only(folder, pattern, condition):
    found = [path for path in folder.rglob(pattern) if condition(path)]
    if len(found) != 1:
        raise Unavailable(f"the packages have {len(found)} times {pattern}, not once",
                          "name other packages in tests/kernels/kernels.toml")
    return found[0]


def _mirror():
    """The Debian mirror that this machine uses, also where its lists are empty."""
    lines = subprocess.run(
        ["apt-get", "indextargets", "--no-release-info", "--format",
         "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"],
        capture_output=True, text=True, check=True).stdout
    return mirror_among(lines, _codename())


def mirror_among(lines, codename):
    """The URI of Debian's main component; other makers' repositories use the names of suites too."""
    releases = (codename, "oldstable", "stable")
    uris = [uri for uri, release, component in map(str.split, lines.splitlines())
            if component == "main" and release in releases]
    for uri in uris:
        if uri.rstrip("/").endswith("/debian"):
            return uri
    if uris:
        return uris[0]
    raise Unavailable(f"apt has no source for Debian {codename}", "add one to apt's sources")


def _codename():
    text = Path("/etc/os-release").read_text()
    return re.search(r"^VERSION_CODENAME=(\S+)$", text, re.MULTILINE)[1]


@contextlib.contextmanager
def _lock():
    """One fetch at a time, whoever runs tests here."""
    STORE.mkdir(parents=True, exist_ok=True)
    with open(STORE / "lock", "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def workspace(label):
    """A folder of this process beside the store, so that what is ready can be moved into it."""
    parent = STORE / "work"
    parent.mkdir(parents=True, exist_ok=True)
    for old in parent.iterdir():  # of a process that was killed
        if not Path("/proc", old.name.split("-")[0]).exists():
            shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{os.getpid()}-{label}-", dir=parent) as folder:
        yield Path(folder)
