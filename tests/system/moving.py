"""A machine that moves from host a to host b, and what is under way to it meanwhile.

    peer 1 ┤ a ═══ underlay ═══ b ├ peer 2        c ├ peer 3
              └── TAP ── machine ── TAP ──┘

The machine is a namespace whose eth0 is a TAP; a relay process is the cable between it and the TAP on a host. Without
a relay it stands still, as a guest does that QEMU has stopped, and keeps its sockets. Both hosts have a TAP for
it all the time, as they have while QEMU migrates.
"""

import ctypes
import fcntl
import json
import os
import socket
import struct
import threading
import time

import tap_vm
import traffic
from frames import ETH_P_ALL
from net import stop, wait_until
from overlane import overlane
from topology import Scene, apply_host, guest_addresses, guest_mac
from vms import raise_device

PORT, DEVICE, NUMBER = "vm", "tap9", 9
DOWNLOAD, DATAGRAMS = 5301, 5302
BLOCK = traffic.payload(1 << 16, 11)

SIOCOUTQ, SO_ATTACH_FILTER = 0x5411, 26


class Machine:
    """What moves."""

    def __init__(self, lab, scene):
        self._lab, self.mac = lab, guest_mac(NUMBER)
        self.ns = lab.namespace("m")
        self.addresses = self.v4, self.v6 = guest_addresses(NUMBER)
        (self._eth0,) = tap_vm.open_tap(self.ns, "eth0")
        self.taps = {host: tap_vm.open_tap(host.ns, DEVICE)[0] for host in scene.hosts[:2]}
        for fd in (self._eth0, *self.taps.values()):
            lab.defer(os.close, fd)
        for host in self.taps:
            raise_device(host, DEVICE)
        self.ns.ip(f"link set eth0 address {self.mac} mtu {scene.mtu} up", f"address add {self.v4}/24 dev eth0",
                   f"address add {self.v6}/64 dev eth0 nodad")

    def run_at(self, host):
        ours, theirs = os.dup(self.taps[host]), os.dup(self._eth0)
        self._relay = tap_vm.relay_in_a_process(self._lab, [ours], [(theirs, None)])

    def stand_still(self):
        stop(self._relay)


class Stage:
    """Three hosts with a peer each, and the machine's port on the first. With a firewall every port takes in only what
    belongs to connections that its guest began; the peers serve besides."""

    def __init__(self, lab, encapsulation, firewall=True):
        self.lab = lab
        self.scene = Scene(lab, encapsulation, guests=(1, 1, 1))
        self.a, self.b, self.c = self.hosts = self.scene.hosts
        self.peers = self.scene.guests
        self.machine = Machine(lab, self.scene)
        if firewall:
            data = self.scene.fabric.data
            data["switches"]["blue"]["firewall"] = {"to_port": "drop"}
            data["rules"] = {"service": {
                "ports": [f"port{peer.number}" for peer in self.peers], "direction": "to_port", "action": "allow",
                "services": [f"tcp/{DOWNLOAD}", f"udp/{DATAGRAMS}"]}}
        self._files = {host: self._file(host) for host in (self.a, self.b)}
        self.apply(self.a, *self.hosts)

    def _file(self, home):
        fabric, machine = self.scene.fabric, self.machine
        fabric.port(PORT, "blue", home.name, DEVICE, machine.mac, machine.addresses, key=NUMBER)
        return fabric.write(self.lab.directory / f"machine-at-{home.number}.yaml")

    def apply(self, home, *hosts):
        """Tell some hosts that the machine is at `home`."""
        for host in hosts:
            apply_host(self.lab, self._files[home], host)

    def export(self, host):
        return overlane("connections", "export", PORT, "--host", host.name).stdout

    def take(self, host, text, expect=0):
        path = self.lab.directory / "connections.json"
        path.write_text(text, encoding="utf-8")
        done = overlane("connections", "import", PORT, path, "--host", host.name, "--json", expect=expect)
        return json.loads(done.stdout) if expect == 0 else done.stderr

    def move(self, source, target):
        """In the order of docs/migration.md, with a guest that QEMU has stopped."""
        self.machine.stand_still()
        text = self.export(source)
        self.apply(target, target)
        taken = self.take(target, text)
        self.apply(target, self.c, source)
        self.machine.run_at(target)
        return taken


class Download:
    """A stream from a peer into the machine, which began the connection and only receives."""

    def __init__(self, machine, peer, which):
        self.received, self.errors = 0, []
        self._sent, self._idle = 0, True
        self._flows, self._is_over = threading.Event(), threading.Event()
        self._near, self._far = traffic.connection(machine.ns, machine.addresses[which], peer.ns, peer.addresses[which],
                                                   DOWNLOAD)
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._send, self._receive)]
        self.resume()
        for thread in self._threads:
            thread.start()

    def resume(self):
        self._flows.set()

    def pause(self):
        """Everything that was sent has arrived and is acknowledged: nobody has anything to say."""
        self._flows.clear()
        wait_until(lambda: self._idle and self._sent == self.received and not self._under_way(), what="a quiet connection")

    def _under_way(self):
        return struct.unpack("i", fcntl.ioctl(self._far, SIOCOUTQ, bytes(4)))[0]

    def _send(self):
        try:
            while not self._is_over.is_set():
                self._idle = not self._flows.is_set()
                if self._idle:
                    self._flows.wait(0.02)
                    continue
                at = self._sent % len(BLOCK)
                self._sent += self._far.send(BLOCK[at:at + 8192])
                time.sleep(0.004)
        except OSError as error:
            self.errors.append(f"send: {error}")

    def _receive(self):
        try:
            while data := self._near.recv(1 << 16):
                at = self.received % len(BLOCK)
                if data != (BLOCK + BLOCK)[at:at + len(data)]:
                    self.errors.append(f"other bytes behind {self.received}")
                self.received += len(data)
        except OSError as error:
            self.errors.append(f"receive: {error}")

    def close(self):
        self._is_over.set()
        self.resume()
        self._threads[0].join(10)
        self._far.close()
        self._threads[1].join(10)
        self._near.close()


class Datagrams:
    """Numbered datagrams from a peer to the machine, which asked for them."""

    def __init__(self, machine, peer, which):
        self.numbers, self.errors = [], []
        self._is_over = threading.Event()
        self._near = traffic.udp_socket(machine.ns, machine.addresses[which], timeout=0.1)
        self._far = traffic.udp_socket(peer.ns, peer.addresses[which], DATAGRAMS)
        self._near.sendto(b"go", (peer.addresses[which], DATAGRAMS))
        _, self._to = self._far.recvfrom(16)
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    @property
    def received(self):
        return len(self.numbers)

    def duplicates(self):
        return len(self.numbers) - len(set(self.numbers))

    def _send(self):
        number = 0
        while not self._is_over.wait(0.003):
            self._far.sendto(struct.pack("!Q", number), self._to)
            number += 1

    def _receive(self):
        while True:
            try:
                self.numbers.append(struct.unpack("!Q", self._near.recv(64))[0])
            except socket.timeout:
                if self._is_over.is_set():
                    return

    def close(self):
        self._is_over.set()
        for thread in self._threads:
            thread.join(10)
        self._near.close()
        self._far.close()


class Watch:
    """Counts the frames for a MAC that arrive in a namespace, whoever they are for there."""

    def __init__(self, lab, ns, mac):
        octets = bytes.fromhex(mac.replace(":", ""))
        head, tail = struct.unpack("!IH", octets)
        # (code, if so, if not, constant) of linux/filter.h: sent from here? Then no. The destination, 4 bytes and 2.
        steps = [(0x30, 0, 0, 0xfffff004), (0x15, 5, 0, socket.PACKET_OUTGOING), (0x20, 0, 0, 0), (0x15, 0, 3, head),
                 (0x28, 0, 0, 4), (0x15, 0, 1, tail), (0x06, 0, 0, 64), (0x06, 0, 0, 0)]
        code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
        with ns.entered():
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        lab.defer(self._socket.close)
        program = struct.pack("HL", len(steps), ctypes.addressof(code))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
        with ns.entered():
            self._socket.bind(("eth0", ETH_P_ALL))
        self._socket.setblocking(False)

    def frames(self):
        """How many since the last call, as far as the socket had room for them."""
        count = 0
        try:
            while self._socket.recv(64):
                count += 1
        except BlockingIOError:
            return count
