"""The golden cases of tests/cases: what enters and leaves, from the captures that the tests of cargo write."""

import os
import struct
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import yaml

from overlane import GENEVE, ROOT, VXLAN

FOLDER = ROOT / "tests" / "cases"
CAPTURES = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "cases"
WRITE = "OVERLANE_WRITE=captures cargo test -p overlane-conformance --test cases"

#: Blocks and an option of pcapng, as tests/conformance/src/pcap.rs writes them.
INTERFACE, ENHANCED_PACKET = 1, 6
OPTION_NAME = 2


@dataclass(frozen=True)
class Left:
    """A packet that leaves: where to in the case's words, its bytes, and whether the case has an outer header there."""

    to: str
    frame: bytes
    tunnelled: bool


@dataclass(frozen=True)
class Step:
    """A packet that enters, its tag in the bytes. `fabric` is the file's mapping, all values as text."""

    at: float
    entrance: str
    frame: bytes
    verdict: str
    fabric: dict
    out: tuple


@dataclass(frozen=True)
class Case:
    name: str
    host: str
    steps: tuple


def names():
    """STAGE/NAME of every case."""
    files = FOLDER.glob("*/*.yaml")
    return sorted(f"{file.parent.name}/{file.stem}" for file in files if file.parent.name != "fabrics")


def load(name):
    document = read_yaml(FOLDER / f"{name}.yaml")
    packets = [packet for packet in document["packets"] for _ in range(int(packet.get("times", 1)))]
    captured = list(grouped(capture(CAPTURES / f"{name}.pcap")))
    assert len(packets) == len(captured), f"{name}: {len(packets)} packets enter, {len(captured)} in the capture"
    steps, fabric = [], fabric_of(document["fabric"])
    for packet, (entrance, frame, left) in zip(packets, captured):
        if packet.get("changed") == "true":
            fabric = fabric_of(document["changed"])
        out = packet.get("out", [])
        # What is for the host's stack may stand in the capture alone.
        assert len(out) == len(left) or "out" not in packet, f"{name}: {out} and not {left}"
        out = [Left(said["to"], bytes, has_outer_header(said)) for said, (_, bytes) in zip(out, left)]
        steps.append(Step(float(packet.get("at", 0)), entrance, frame, packet["verdict"], fabric, tuple(out)))
    return Case(name, document.get("host", "h1"), tuple(steps))


def has_outer_header(said):
    """Whether an output's layers are Ethernet, IP, UDP and then a tunnel, or bytes alone."""
    layers = [next(iter(layer)) for layer in said.get("packet", [])]
    return said["to"].startswith("underlay") and (layers[3:4] in ([VXLAN], [GENEVE]) or layers[0] == "raw")


def fabric_of(place):
    return place if isinstance(place, dict) else read_yaml(FOLDER / "fabrics" / f"{place}.yaml")


@lru_cache(maxsize=None)
def read_yaml(path):
    """All values stay text: YAML 1.1, which this is, reads `off` and 10:20:30:40:50:10 otherwise than Overlane."""
    return yaml.load(Path(path).read_text(encoding="utf-8"), yaml.CBaseLoader)


def grouped(packets):
    """(entrance, frame, [(way out, frame), …]) of each packet that enters."""
    group = None
    for way, frame in packets:
        direction, _, place = way.partition(": ")
        if direction == "in":
            if group:
                yield group
            group = (place, frame, [])
        else:
            group[2].append((place, frame))
    yield group


def capture(path):
    """(name of the interface, frame) of a capture. Scapy's reader knows no names, and cuts at 65535 bytes."""
    assert path.exists(), f"there is no {path}; to make it: {WRITE}"
    data, at, interfaces = path.read_bytes(), 0, []
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        body = data[at + 8:at + length - 4]
        if kind == INTERFACE:
            interfaces.append(option(body[8:], OPTION_NAME).decode())
        elif kind == ENHANCED_PACKET:
            interface, _, _, size = struct.unpack_from("<IIII", body)
            yield interfaces[interface], body[20:20 + size]
        at += length


def option(options, wanted):
    while options:
        code, length = struct.unpack_from("<HH", options)
        if code == wanted:
            return options[4:4 + length]
        options = options[4 + (length + 3) // 4 * 4:]
    raise ValueError(f"no option {wanted}")
