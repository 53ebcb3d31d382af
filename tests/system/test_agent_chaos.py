"""Whatever happens to a host that an agent keeps, no connection through it breaks.

    near ┤ host 1 │ uplink ══ underlay ══ uplink │ host 2 ├ far      an agent keeps each of the hosts
"""

import contextlib
import time
from pathlib import Path

import pytest

import second_build
import traffic
from keeping import KEPT, Keeping, make_again
from net import run, wait_until
from overlane import GENEVE, PINS, binary, in_mount_namespace
from probes import Talk
from streams import Streams
from topology import UPLINK, Scene

pytestmark = [pytest.mark.needs_overlane, pytest.mark.needs("nft"), pytest.mark.needs_kernel("nftables"),
              pytest.mark.thorough]

CONNECTIONS = 200
ALL = ["killed", "garbage", "disk", "flap", "again", "mtu", "clock", "ruleset", "restart", "upgrade"]


class World:
    def __init__(self, lab, what):
        self.lab = lab
        self.scene = Scene(lab, GENEVE, guests=(2, 1), switch={"firewall": {"to_port": "allow", "from_port": "allow"}})
        self.near, self.spare, self.far = self.scene.guests
        self.path = self.scene.fabric.write(lab.directory / "fabric.yaml")
        KEPT.mkdir(mode=0o700, exist_ok=True)
        own_disk = in_mount_namespace(f"mount -t tmpfs -o size=512k,mode=700 none {KEPT}") if what == "disk" else ()
        # Who has mounts of its own makes names of namespaces that no other program sees.
        self.is_seen_by_others = what != "disk"
        self.agents = [Keeping(lab, host, self.path, prefix=own_disk).start() for host in self.scene.hosts]
        wait_until(self.is_whole, what="both hosts to be whole")
        traffic.ping(self.near.ns, self.far.v4)

    def is_whole(self):
        return all(agent.view()["applied"] and not (agent.view()["failed"] or agent.view()["not_kept"])
                   and (agent.is_whole() or not self.is_seen_by_others) for agent in self.agents)

    def everywhere(self, line):
        for host in self.scene.hosts:
            host.ns.ip(line)

    def killed(self):
        """At each step of a turn: a device comes, and a file."""
        agent = self.agents[0]
        text = self.path.read_text()
        for number in range(16):
            make_again(self.spare)
            self.path.write_text(text.replace("vni: 5001", f"vni: 5001\n    unknown_unicast: {('drop', 'flood')[number % 2]}"))
            time.sleep(0.006 * number)
            agent.kill()
            agent.start()
        self.path.write_text(text)

    def garbage(self):
        text = self.path.read_bytes()
        for wrong in (b"", b"\0" * 100, text[:len(text) // 2], b"ports: ["):
            self.path.write_bytes(wrong)
            wait_until(lambda: self.agents[0].view()["mistakes"], what="the mistake to be seen")
        self.path.unlink()
        time.sleep(0.3)
        self.path.write_bytes(text)
        wait_until(lambda: not self.agents[0].view()["mistakes"], what="the file to be back")

    def disk(self):
        agent = self.agents[0]
        inside = ["nsenter", "-m", "-t", str(agent.process.pid)]
        run([*inside, "dd", "if=/dev/zero", f"of={KEPT}/all", "bs=4096"], check=False)
        text = self.path.read_text()
        self.path.write_text(text + "# another state\n" + "groups: { all: [port1] }\n")
        make_again(self.spare)
        time.sleep(1)
        run([*inside, "rm", f"{KEPT}/all"])
        self.path.write_text(text)

    def flap(self):
        for _ in range(5):
            self.scene.hosts[0].ns.ip(f"link set {UPLINK} down")
            time.sleep(0.3)
            self.scene.hosts[0].ns.ip(f"link set {UPLINK} up")
            time.sleep(0.3)

    def again(self):
        first, second = (host.ns for host in self.scene.hosts)
        first.ip(f"link delete {UPLINK}")
        time.sleep(0.5)
        first.ip(f"link add {UPLINK} type veth peer name {UPLINK} netns {second.name}")
        for host in self.scene.hosts:
            self.scene.underlay._configure(host)

    def mtu(self):
        for mtu in (1400, 1500):
            self.everywhere(f"link set {UPLINK} mtu {mtu}")
            time.sleep(0.5)

    def clock(self):
        """By ten years: the program is told another time of the day than the kernel has."""
        libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
        if not libraries:
            pytest.skip("needs faketime")
        agent = self.agents[0]
        for when in ("-10y", "+10y"):
            assert agent.end() == 0
            # Not the command faketime: it would stand between the test and the agent.
            agent.start(LD_PRELOAD=str(libraries[0]), FAKETIME=when, FAKETIME_DONT_FAKE_MONOTONIC="1")
            assert abs(agent.view()["since"] - time.time()) > 9 * 365 * 86400
            make_again(self.spare)
            wait_until(lambda: agent.mended(), what="the agent to work at another time")
        assert agent.end() == 0
        agent.start()

    def ruleset(self):
        for host in self.scene.hosts:
            host.ns.run("nft flush ruleset")
        for agent in self.agents:
            wait_until(lambda: any("guard" in line for line in agent.mended()), what="the guard to be back")

    def restart(self):
        for agent in self.agents:
            assert agent.end() == 0
            agent.start()

    def upgrade(self):
        second = second_build.program()
        if second is None:
            pytest.skip("needs a second build of the program: tests/system/second_build.py")
        for program in (second, None, second, None):
            for agent in self.agents:
                agent.end()
                agent.program = program or binary()
                agent.start()
                assert len(list((PINS / agent.host.name).glob("maps-*"))) == 1


@pytest.mark.parametrize("what", ALL)
def test_no_connection_breaks(lab, what):
    world = World(lab, what)
    with contextlib.ExitStack() as stack:
        talks = [stack.enter_context(Talk(world.near.ns, world.far.ns, world.far.v4, port=5300))
                 for _ in range(CONNECTIONS)]
        streams = stack.enter_context(Streams(talks))
        time.sleep(1)
        getattr(world, what)()
        wait_until(world.is_whole, timeout=30, what=f"both hosts to be whole after: {what}")
        before = streams.heard()
        wait_until(lambda: all(now > then for now, then in zip(streams.heard(), before)), timeout=30,
                   what="each connection to go on")
    assert streams.broken == {} and min(streams.heard()) > 0
