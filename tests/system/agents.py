"""The traffic tool, `overlane traffic`, led by hand: an agent in each of two namespaces, and what both counted.

The messages are those of docs/traffic.md: a JSON object a line, orders in, answers out.
"""

import contextlib
import json
import os
import queue
import subprocess
import threading
import time
from dataclasses import dataclass

from net import PATIENCE, run, stop, veth, wait_until
from overlane import binary

#: What the kernel has in front of a payload on Ethernet: 14 + IP + transport, TCP with time stamps.
UDP_HEADERS = {4: 14 + 20 + 8, 6: 14 + 40 + 8}
#: A TCP header has at least 20 bytes, and with every option of a SYN 40.
TCP_HEADERS = {4: (14 + 20 + 20, 14 + 20 + 40), 6: (14 + 40 + 20, 14 + 40 + 40)}


class JobFailed(AssertionError):
    """An agent said that it cannot do what it should."""


class Agent:
    """An agent in a namespace (None: in the test's own, for what needs no network)."""

    def __init__(self, lab, ns=None, prefix=()):
        command = [*prefix, str(binary()), "traffic"]
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = ns.popen(command, **options) if ns else subprocess.Popen(command, **options)
        lab.defer(stop, self.process)
        self._answers = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self.hello = self.answer("hello")

    def _listen(self):
        for line in self.process.stdout:
            self._answers.put(json.loads(line))
        self._answers.put(None)

    def say(self, text):
        """A line as it is."""
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def order(self, order, **fields):
        self.say(json.dumps({"order": order, **fields}))

    def answer(self, wanted, timeout=20, **fields):
        """The next answer but for `interval`, which comes at any time; it has to be the one that is wanted."""
        deadline = time.monotonic() + timeout * PATIENCE
        while True:
            try:
                answer = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no answer `{wanted}` within {timeout} s") from None
            if answer is None:
                raise JobFailed(f"the agent ended with status {self.process.wait(5 * PATIENCE)}")
            if answer["answer"] == "interval" != wanted:
                continue
            if answer["answer"] == "failed" != wanted:
                raise JobFailed(answer["reason"])
            assert answer["answer"] == wanted, answer
            assert all(answer[key] == value for key, value in fields.items()), (answer, fields)
            return answer

    def ask(self, order, wanted, **fields):
        self.order(order, **fields)
        return self.answer(wanted)

    def close_input(self):
        self.process.stdin.close()


def pinned(first=False):
    """Prefixes that put two programs on a CPU each, as far as there are two.

    `first`: before everything else that wants the CPU, for programs that mostly wait.
    """
    cpus = sorted(os.sched_getaffinity(0))
    ahead = ["chrt", "--rr", "1"] if first else []
    if ahead and run([*ahead, "true"], check=False).returncode != 0:
        ahead = []
    return tuple([*ahead, "taskset", "-c", str(cpu)] for cpu in (cpus[0], cpus[-1]))


@dataclass
class Count:
    """What one side counted between two marks, and over the whole job."""

    #: Between the marks.
    seconds: float
    #: From before the beginning to the last reading.
    at_most_seconds: float
    #: Before the first mark, between the two, after the second.
    latencies: list
    window: dict
    total: dict
    tcp: list


class Wire:
    """Two namespaces joined by a cable, on which nobody speaks unasked: its counters are of the test's own traffic."""

    MACS = ("02:00:00:00:01:01", "02:00:00:00:01:02")

    def __init__(self, lab, family=4, mtu=1500, prefixes=((), ())):
        self.lab, self.family = lab, family
        #: Of the agents' command lines: `pinned()` or nothing.
        self.prefixes = prefixes
        self.addresses = (("198.18.50.1", "198.18.50.2") if family == 4
                          else ("2001:2:0:50::1", "2001:2:0:50::2"))
        self.ends = [lab.namespace(label, ipv6=family == 6) for label in ("a", "b")]
        veth(self.ends[0], "eth0", self.ends[1], "eth0")
        for this, other in ((0, 1), (1, 0)):
            prefix = "24" if family == 4 else "64 nodad"
            self.ends[this].ip(
                f"link set eth0 address {self.MACS[this]} mtu {mtu} up",
                f"address add {self.addresses[this]}/{prefix} dev eth0",
                f"neighbour add {self.addresses[other]} lladdr {self.MACS[other]} dev eth0 nud permanent")
        if family == 6:
            # Each end tells once which multicast groups it listens to: after that nobody speaks unasked.
            for end in (0, 1):
                wait_until(lambda: self.counters(end)["tx"]["packets"], what="the multicast report")
        self._agents = None

    @property
    def agents(self):
        """(driving, serving)"""
        if self._agents is None:
            self._agents = tuple(Agent(self.lab, end, prefix)
                                 for end, prefix in zip(self.ends, self.prefixes))
        return self._agents

    def roles(self, work, ports=()):
        """(of the driver, of the server) in this work."""
        if work["test"] == "frames":
            lane = {"device": "eth0", "vlans": [], "source_mac": self.MACS[0],
                    "destination_mac": self.MACS[1], "source": self.addresses[0],
                    "destination": self.addresses[1]}
            return ({"side": "drive_frames", "lanes": [lane]},
                    {"side": "serve_frames", "devices": ["eth0"]})
        return ({"side": "drive", "from": self.addresses[0], "to": self.addresses[1],
                 "ports": list(ports)},
                {"side": "serve", "address": self.addresses[1]})

    def prepare(self, job, work, instances=1):
        driver, server = self.agents
        ready = server.ask("prepare", "ready", job=job, instances=instances, work=work,
                           role=self.roles(work)[1])
        driver.ask("prepare", "ready", job=job, instances=instances, work=work,
                   role=self.roles(work, ready["ports"])[0])

    def run(self, work, seconds=0.5, instances=1, ramp=0.1, job=1):
        """One job from its beginning to its end: what the driver and what the server counted."""
        driver, server = self.agents
        self.prepare(job, work, instances)
        began_ns = time.monotonic_ns()
        driver.order("go", job=job)
        time.sleep(ramp)
        first = [agent.ask("mark", "mark", job=job) for agent in self.agents]
        time.sleep(seconds)
        second = [agent.ask("mark", "mark", job=job) for agent in self.agents]
        done = [agent.ask("stop", "done", job=job) for agent in (driver, server)]
        return tuple(_count(began_ns, *each) for each in zip(first, second, done))

    def counters(self, end):
        """What the device of one end (0 drives, 1 serves) has counted, each way."""
        stats = self.ends[end].link("eth0")["stats64"]
        return {way: {key: stats[way][key] for key in ("packets", "bytes", "dropped")}
                for way in ("rx", "tx")}

    @contextlib.contextmanager
    def counted(self):
        """What the device of the serving end counts meanwhile: filled in at the end of the `with`."""
        before = self.counters(1)
        rose = {}
        yield rose
        after = self.counters(1)
        rose.update({way: {key: after[way][key] - before[way][key] for key in after[way]}
                     for way in after})

    def limit(self, rate, burst=4000, backlog=200_000, end=0):
        """Let no more than `rate` (tc's words) leave one end: a bottleneck that is the same for every tool."""
        self.ends[end].run(["tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", rate,
                            "burst", str(burst), "limit", str(backlog)])

    def dropped(self, end=0):
        """What the bottleneck had no room for."""
        return self.limited(end)[1]

    def limited(self, end=0):
        """Packets that the bottleneck let through, and those it had no room for: the kernel's own count."""
        shown = self.ends[end].run(["tc", "-s", "-json", "qdisc", "show", "dev", "eth0"]).stdout
        counted = json.loads(shown)[0]
        return counted["packets"], counted["drops"]


def _count(began_ns, first, second, done):
    readings = (first, second, done)
    window = {key: second["counters"][key] - first["counters"][key] for key in second["counters"]}
    return Count((second["at_ns"] - first["at_ns"]) / 1e9, (done["at_ns"] - began_ns) / 1e9,
                 [reading["latency"] for reading in readings], window, done["counters"], done["tcp"])


def latency_sum(latencies):
    """(how many, seconds in all) of some histograms, by the upper ends of their buckets."""
    buckets = [bucket for latency in latencies for bucket in latency["buckets"]]
    return sum(count for _, count in buckets), sum(end * count for end, count in buckets) / 1e9
