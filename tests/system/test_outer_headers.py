"""The outer header of every golden case that has one, built again with Scapy and compared byte by byte.

Only these come from the case and its capture: the packet that enters, where it enters and with which verdict it
ends; the frame that leaves, behind the outer header; and the remote, where a copy of a flooded frame goes to several.
All else is computed from the fabric file by docs/semantics.md, whose rules have the IDs in the comments (tunnelled.py,
outer.py). Two things follow from no document: that the outer MACs are zeros, because the kernel's neighbours fill them
in behind the executors (ENCAP-18), and the seed of the flow hash.
"""

from dataclasses import replace

import pytest

import golden_cases
import outer
from tunnelled import Tunnels

#: Fewer outputs would mean that they got lost on the way here.
AT_LEAST = 270
#: So many are shown.
MANY = 20


def check(case):
    """({(packet, output)} that were compared, what is wrong)."""
    compared, wrong = set(), []
    tunnels = Tunnels(case.host)
    for number, step in enumerate(case.steps, 1):
        try:
            expected = tunnels.step(step)
        except Exception as error:  # whatever it is, the case must be named
            wrong.append(f"{case.name}, packet {number}: cannot be built again: {error!r}")
            continue
        for place, (left, layers) in enumerate(zip(step.out, expected), 1):
            if layers is None:
                continue
            compared.add((number, place))
            if found := outer.difference(layers, left.frame):
                header = b"".join(data for _, data in layers)
                wrong.append(f"{case.name}, packet {number}, output {place} to {left.to}: {found}\n"
                             f"  captured {left.frame[:len(header)].hex()}\n  must be  {header.hex()}")
    return compared, wrong


def with_outer_header(case):
    """The outputs for which the case itself says that they have one."""
    return {(number, place) for number, step in enumerate(case.steps, 1)
            for place, left in enumerate(step.out, 1) if left.tunnelled}


def test_outer_headers_of_all_cases():
    outputs, wrong = 0, []
    for name in golden_cases.names():
        case = golden_cases.load(name)
        compared, found = check(case)
        outputs, wrong = outputs + len(compared), wrong + found
        if not found and compared != (said := with_outer_header(case)):
            wrong.append(f"{name}: compared {sorted(compared)}, and the case has an outer header at {sorted(said)}")
    assert not wrong, f"{len(wrong)} of {outputs} outer headers\n" + "\n".join(wrong[:MANY])
    assert outputs >= AT_LEAST


#: A case, a byte of its first outer header, the bits that flip there, and the field that it is.
FAULTS = [
    ("encap/vxlan-over-ip4", 13, 0x01, "Ether.type"),
    ("encap/vxlan-over-ip4", 15, 0x04, "IP.tos"),
    ("encap/ecn-ect0", 15, 0x01, "IP.tos"),
    ("encap/vxlan-over-ip4", 17, 0x01, "IP.len"),
    ("encap/vxlan-over-ip4", 19, 0x80, "IP.id"),
    ("encap/vxlan-over-ip4", 20, 0x40, "IP.flags"),
    ("encap/vxlan-over-ip4", 22, 0x01, "IP.ttl"),
    ("encap/vxlan-over-ip4", 24, 0x80, "IP.chksum"),
    ("encap/vxlan-over-ip4", 29, 0x02, "IP.src"),
    ("encap/source-port-tcp", 35, 0x01, "UDP.sport"),
    ("encap/vxlan-over-ip4", 36, 0x01, "UDP.dport"),
    ("encap/vxlan-over-ip4", 39, 0x02, "UDP.len"),
    ("encap/vxlan-over-ip4", 41, 0x01, "UDP.chksum"),
    ("encap/vxlan-over-ip4", 42, 0x80, "VXLAN.flags"),
    ("encap/vxlan-over-ip4", 48, 0x01, "VXLAN.vni"),
    ("encap/geneve-over-ip6", 15, 0x10, "IPv6.tc"),
    ("encap/geneve-over-ip6", 17, 0x01, "IPv6.fl"),
    ("encap/geneve-over-ip6", 19, 0x01, "IPv6.plen"),
    ("encap/geneve-over-ip6", 21, 0x80, "IPv6.hlim"),
    ("encap/geneve-over-ip6", 63, 0x40, "GENEVE.critical"),
    ("encap/geneve-over-ip6", 66, 0x01, "GENEVE.vni"),
    ("encap/geneve-over-ip6", 75, 0x01, "OvnOption.source_key"),
    ("encap/geneve-over-ip6", 76, 0x80, "OvnOption.destination_key"),
]


@pytest.mark.parametrize("name, byte, bits, field", FAULTS,
                         ids=[f"{field}-{name.partition('/')[2]}" for name, _, _, field in FAULTS])
def test_a_flipped_bit_is_found(name, byte, bits, field):
    case = golden_cases.load(name)
    assert check(case)[1] == []
    step, left = case.steps[0], case.steps[0].out[0]
    frame = bytearray(left.frame)
    frame[byte] ^= bits
    wrong_step = replace(step, out=(replace(left, frame=bytes(frame)), *step.out[1:]))
    compared, [wrong] = check(replace(case, steps=(wrong_step, *case.steps[1:])))
    assert compared == with_outer_header(case)
    assert wrong.startswith(f"{name}, packet 1, output 1 to {left.to}: {field} is "), wrong


@pytest.mark.parametrize("name", ["encap/vxlan-over-ip6", "encap/geneve-over-ip4", "encap/options-none-over-ip4"])
def test_no_bit_may_differ(name):
    case = golden_cases.load(name)
    step = case.steps[0]
    [layers] = Tunnels(case.host).step(step)
    for bit in range(8 * sum(len(data) for _, data in layers)):
        frame = bytearray(step.out[0].frame)
        frame[bit // 8] ^= 0x80 >> bit % 8
        assert outer.difference(layers, frame), bit


def test_the_flow_hash_is_the_published_one():
    """lookup3.c's own driver5 says this of `hashlittle`. That takes the length in bytes, `hashword` the one in
    words, so the seed makes up for two bytes."""
    text = b"Four score and seven years ago"
    words = [int.from_bytes(text[at:at + 4], "little") for at in range(0, len(text), 4)]
    assert outer.lookup3(words, 0 - 2) == 0x17770551
    assert outer.lookup3(words, 1 - 2) == 0xCD628161


def test_a_capture_that_is_not_there_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(golden_cases, "CAPTURES", golden_cases.CAPTURES / tmp_path.name)
    with pytest.raises(AssertionError, match="to make it: OVERLANE_WRITE"):
        golden_cases.load(golden_cases.names()[0])
