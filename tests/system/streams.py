"""Many TCP connections at once whose every byte is known: one that is lost, doubled or changed shows."""

import contextlib
import selectors
import threading

import traffic
from net import PATIENCE

PERIOD = 1 << 16


class Stream:
    """What one end of a connection says and hears: each a sequence of known bytes."""

    def __init__(self, sock, says, hears):
        self.says, self.hears = (traffic.payload(PERIOD, seed) * 2 for seed in (says, hears))
        self.sent = self.heard = 0
        self.sock = sock
        sock.setblocking(False)

    def speak(self):
        at = self.sent % PERIOD
        with contextlib.suppress(BlockingIOError):
            self.sent += self.sock.send(self.says[at:at + 1000])

    def hear(self):
        got = self.sock.recv(PERIOD)
        assert got, "the other end has closed"
        at = self.heard % PERIOD
        assert got == self.hears[at:at + len(got)], f"other bytes than those that were sent, behind {self.heard}"
        self.heard += len(got)


class Streams:
    """Many connections at once, both ways, from here on until the block ends; then all that was sent has arrived."""

    def __init__(self, talks):
        ends = [(talk.near, talk.far) for talk in talks]
        self.pairs = [(Stream(near, 2 * number, 2 * number + 1), Stream(far, 2 * number + 1, 2 * number))
                      for number, (near, far) in enumerate(ends)]
        self.broken = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join(60 * PATIENCE)
        assert not self._thread.is_alive()

    def heard(self):
        return [each.heard for pair in self.pairs for each in pair]

    def _run(self):
        with selectors.DefaultSelector() as ready:
            for number, pair in enumerate(self.pairs):
                for each in pair:
                    ready.register(each.sock, selectors.EVENT_READ, (number, each))
            while not self._over.wait(0.05):
                for near, far in self.pairs:
                    near.speak()
                    far.speak()
                self._hear(ready, 0)
            while any(one.sent != other.heard for near, far in self.pairs for one, other in ((near, far), (far, near))):
                if not self._hear(ready, 10 * PATIENCE):
                    break

    def _hear(self, ready, timeout):
        events = ready.select(timeout)
        for key, _ in events:
            number, stream = key.data
            try:
                stream.hear()
            except (OSError, AssertionError) as error:
                self.broken[number] = str(error)
                ready.unregister(stream.sock)
        return events

    def lost(self):
        """The bytes of each connection that did not arrive."""
        return {number: left for number, (near, far) in enumerate(self.pairs)
                if (left := near.sent - far.heard + far.sent - near.heard)}
