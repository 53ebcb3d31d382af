"""The traffic tool counts what the kernel counts: every test of it on a cable, held against the counters of the device.

Nothing here asks how fast anything is.
"""

import json
import re
import socket
import time

import pytest

from agents import TCP_HEADERS, UDP_HEADERS, Agent, JobFailed, Wire, latency_sum
from net import PATIENCE, run, wait_until
from overlane import ROOT, binary

pytestmark = pytest.mark.needs_overlane

BOTH_FAMILIES = pytest.mark.parametrize("family", [4, 6], ids=["v4", "v6"])


def stream(direction="forward", **more):
    return {"test": "tcp_stream", "message_bytes": 131072, "buffer_bytes": None, "congestion": None,
            "direction": direction, **more}


def udp(payload=200, rate=None, segments=1):
    return {"test": "udp", "payload_bytes": payload, "rate_pps": rate, "segments": segments,
            "buffer_bytes": 4 << 20}


@BOTH_FAMILIES
@pytest.mark.parametrize("direction", ["forward", "reverse", "both"])
def test_tcp_payload_is_what_the_device_carried_less_its_headers(lab, family, direction):
    wire = Wire(lab, family)
    with wire.counted() as device:
        driver, server = wire.run(stream(direction), instances=4)
    least, most = TCP_HEADERS[family]
    ways = {"forward": [("rx", server, driver)], "reverse": [("tx", driver, server)]}
    for way, receiver, sender in ways.get(direction) or [*ways["forward"], *ways["reverse"]]:
        payload, carried = receiver.total["received_bytes"], device[way]
        assert 1 << 20 < payload <= sender.total["sent_bytes"]
        # What a segment that was sent again, or was still under way at the end, adds is the sender's count.
        again = sender.total["sent_bytes"] - payload + 65536 * sender.total["retransmits"]
        assert payload + least * carried["packets"] <= carried["bytes"]
        assert carried["bytes"] <= payload + most * carried["packets"] + again + 4096
        assert receiver.window["received_bytes"] > 0
    if direction == "forward":
        assert driver.total["received_bytes"] == 0 == server.total["sent_bytes"]


@BOTH_FAMILIES
@pytest.mark.parametrize("instances", [1, 8])
def test_tcp_transactions_are_a_packet_each_way(lab, family, instances):
    wire = Wire(lab, family)
    work = {"test": "tcp_rr", "request_bytes": 64, "response_bytes": 128, "buffer_bytes": None,
            "congestion": None}
    with wire.counted() as device:
        driver, server = wire.run(work, instances=instances)
    done = driver.total["transactions"]
    assert 100 < done <= server.total["transactions"] <= done + instances
    assert driver.total["received_bytes"] >= 128 * done
    assert server.total["received_bytes"] >= 64 * done
    for way in ("rx", "tx"):
        # A stall longer than the delayed acknowledgement's 40 ms costs a packet without payload.
        assert done <= device[way]["packets"] <= done * 1.05 + 40 * instances
    holds_littles_law(driver, instances)


def test_short_connections_open_and_close_for_each_transaction(lab):
    wire = Wire(lab)
    work = {"test": "tcp_crr", "request_bytes": 64, "response_bytes": 64}
    with wire.counted() as device:
        driver, server = wire.run(work, instances=4)
    done = driver.total["transactions"]
    assert 50 < done <= server.total["transactions"] <= done + 4
    # Towards the server at least SYN, request and FIN; with an acknowledgement of each answer six.
    assert 3 * done <= device["rx"]["packets"] <= 7 * done + 100
    holds_littles_law(driver, 4)


def holds_littles_law(driver, instances):
    """One transaction is under way per instance at any time: latency × count is the time, whatever the speed."""
    count, seconds = latency_sum(driver.latencies)
    assert count == driver.total["transactions"]
    assert 0.8 * driver.seconds * instances <= seconds <= 1.02 * driver.at_most_seconds * instances


@BOTH_FAMILIES
@pytest.mark.parametrize("instances", [1, 8])
def test_udp_transactions_are_exactly_the_packets(lab, family, instances):
    wire = Wire(lab, family)
    work = {"test": "udp_rr", "request_bytes": 64, "response_bytes": 64, "timeout_ms": 2000}
    with wire.counted() as device:
        driver, server = wire.run(work, instances=instances)
    assert driver.total["timeouts"] == 0 == driver.total["duplicate_packets"]
    done, asked = driver.total["transactions"], driver.total["sent_packets"]
    assert done <= asked <= done + instances
    # A response to an instance that has stopped is answered by the kernel: port unreachable.
    assert asked <= device["rx"]["packets"] <= asked + instances
    if device["rx"]["packets"] == asked:
        assert device["rx"]["bytes"] == asked * (64 + UDP_HEADERS[family])
    assert device["tx"]["packets"] == server.total["transactions"]
    assert 100 < done <= server.total["transactions"] <= done + instances
    holds_littles_law(driver, instances)


@BOTH_FAMILIES
def test_paced_datagrams_all_arrive_and_are_those_of_the_device(lab, family):
    wire = Wire(lab, family)
    with wire.counted() as device:
        driver, server = wire.run(udp(rate=4000.0), seconds=1.0, instances=4)
    sent = driver.total["sent_packets"]
    assert sent == server.total["received_packets"] == device["rx"]["packets"]
    assert device["rx"]["bytes"] == sent * (200 + UDP_HEADERS[family])
    assert server.total["received_bytes"] == 200 * sent
    # What the pacing wanted and the tester did not do is told, not hidden.
    due = driver.total["due_packets"]
    assert sent + driver.total["refused_packets"] <= due
    # Beside other tests the agent may hear late that it is to stop.
    assert 0.75 * 4000 * driver.seconds <= due <= 1.25 * 4000 * (driver.at_most_seconds + 0.1)
    assert server.total["duplicate_packets"] == 0 == server.total["foreign_packets"]
    assert latency_sum(server.latencies)[0] == sent


def test_super_packets_count_as_the_datagrams_that_they_are(lab):
    wire = Wire(lab)
    with wire.counted() as device:
        driver, server = wire.run(udp(payload=64, rate=2_000_000.0, segments=32), seconds=0.3)
    sent = driver.total["sent_packets"]
    assert 1000 < server.total["received_packets"] <= sent
    packets = device["rx"]["packets"]
    assert sent % 32 == 0 == driver.total["due_packets"] % 32, "they are paced and sent whole"
    assert packets < sent / 2, "the kernel got them one by one"
    # Where the far end has no room for more, the cable drops whole super-packets. The sending device counts each once.
    arrived, rest = divmod(device["rx"]["bytes"] - packets * UDP_HEADERS[4], 64)
    assert rest == 0
    lost = wire.counters(0)["tx"]["dropped"]
    assert lost <= sent - arrived <= 32 * lost
    assert server.total["received_packets"] <= arrived


@BOTH_FAMILIES
def test_what_a_bottleneck_drops_is_what_is_missing(lab, family):
    wire = Wire(lab, family)
    wire.limit("8mbit", backlog=20_000)
    with wire.counted() as device:
        driver, server = wire.run(udp(payload=458, rate=6000.0), seconds=1.0)
    sent, received = driver.total["sent_packets"], server.total["received_packets"]
    refused = driver.total["refused_packets"]
    # A qdisc tells the sender of a drop: the datagram counts as sent or as refused, never as both.
    assert wire.dropped() > 1000
    assert sent + refused - received == wire.dropped()
    assert received == device["rx"]["packets"]
    assert server.total["duplicate_packets"] == 0
    # The qdisc's timer may go off on the other CPU, and what it sends then overtake what still waits on this one.
    assert server.total["reordered_packets"] <= received // 100


@BOTH_FAMILIES
@pytest.mark.parametrize("size", [82, 1450])
def test_raw_frames_are_exactly_the_packets(lab, family, size):
    wire = Wire(lab, family)
    with wire.counted() as device:
        driver, server = wire.run({"test": "frames", "frame_bytes": size, "rate_pps": 5000.0}, instances=2)
    sent = driver.total["sent_packets"]
    assert sent == server.total["received_packets"] == device["rx"]["packets"] > 500
    assert device["rx"]["bytes"] == sent * (size - 4), "a virtual device has no FCS"
    assert server.total["receiver_dropped_packets"] == 0


def test_as_fast_as_it_goes_everything_has_its_place(lab):
    wire = Wire(lab)
    driver, server = wire.run(udp(payload=18), instances=2, seconds=0.5)
    lost = driver.total["sent_packets"] - server.total["received_packets"]
    queue = wire.counters(1)["rx"]["dropped"] + wire.counters(0)["tx"]["dropped"]
    assert 0 <= lost <= server.total["receiver_dropped_packets"] + queue + softnet_drops()
    assert server.total["received_packets"] > 1000


def softnet_drops():
    """Of the whole machine since it was started: only a limit."""
    return sum(int(line.split()[1], 16) for line in open("/proc/net/softnet_stat", encoding="utf-8"))


def test_a_lost_response_is_asked_for_again(lab):
    wire = Wire(lab)
    driver, server = wire.agents
    work = {"test": "udp_rr", "request_bytes": 64, "response_bytes": 64, "timeout_ms": 50}
    wire.prepare(1, work)
    driver.order("go", job=1)
    time.sleep(0.1)
    wire.limit("8mbit", burst=64, end=1)  # less than a packet: every response is dropped
    time.sleep(0.3)
    wire.ends[1].run("tc qdisc del dev eth0 root")
    before = driver.ask("mark", "mark", job=1)["counters"]
    assert before["timeouts"] >= 1
    wait_until(lambda: driver.ask("mark", "mark", job=1)["counters"]["transactions"]
               > before["transactions"] + 10, what="transactions after the gap")
    done = driver.ask("stop", "done", job=1)["counters"]
    server.ask("stop", "done", job=1)
    assert done["sent_packets"] >= done["transactions"] + done["timeouts"]


def test_a_peer_that_is_gone_is_said_to_be(lab):
    wire = Wire(lab)
    driver, server = wire.agents
    wire.prepare(1, stream())
    driver.order("go", job=1)
    driver.answer("interval")
    server.process.kill()
    failed = driver.answer("failed")
    assert failed["job"] == 1 and "198.18.50.2" in failed["reason"], failed
    # The agent itself lives on: another job can be asked for, and is refused by what is there.
    with pytest.raises(JobFailed, match="refused"):
        driver.ask("prepare", "ready", job=2, instances=1, work=stream(),
                   role={"side": "drive", "from": "198.18.50.1", "to": "198.18.50.2", "ports": [9]})


WRONG = {
    "no JSON": "hello",
    "an order that is none": '{"order": "jump"}',
    "a key too many": '{"order": "go", "job": 1, "now": true}',
    "a job that is not there": '{"order": "go", "job": 77}',
    "no instances": json.dumps({"order": "prepare", "job": 1, "instances": 0, "work": stream(),
                                "role": {"side": "serve", "address": "127.0.0.1"}}),
    "too many instances": json.dumps({"order": "prepare", "job": 1, "instances": 257, "work": stream(),
                                      "role": {"side": "serve", "address": "127.0.0.1"}}),
    "a message that is too large": json.dumps(
        {"order": "prepare", "job": 1, "instances": 1, "work": stream(message_bytes=(1 << 20) + 1),
         "role": {"side": "serve", "address": "127.0.0.1"}}),
    "a role that is not the work's": json.dumps(
        {"order": "prepare", "job": 1, "instances": 1, "work": udp(),
         "role": {"side": "serve_frames", "devices": ["lo"]}}),
}


def test_orders_that_make_no_sense_are_refused_and_the_agent_lives_on(lab):
    agent = Agent(lab)
    for what, line in WRONG.items():
        agent.say(line)
        assert len(agent.answer("failed")["reason"]) > 10, what
    serve = {"side": "serve", "address": "127.0.0.1"}
    ready = agent.ask("prepare", "ready", job=1, instances=1, work=udp(), role=serve)
    assert len(ready["ports"]) == 1
    agent.order("prepare", job=1, instances=1, work=udp(), role=serve)
    assert "1" in agent.answer("failed")["reason"]
    agent.ask("stop", "done", job=1)


@pytest.mark.parametrize("end", ["its input ends", "it is told to"])
def test_an_agent_ends_with_its_controller_whatever_it_does(lab, end):
    agent = Agent(lab)
    serve = {"side": "serve", "address": "127.0.0.1"}
    ready = agent.ask("prepare", "ready", job=1, instances=2, work=stream(), role=serve)
    drive = {"side": "drive", "from": "127.0.0.1", "to": "127.0.0.1", "ports": ready["ports"]}
    agent.ask("prepare", "ready", job=2, instances=2, work=stream(), role=drive)
    agent.order("go", job=2)
    agent.answer("interval")
    if end == "its input ends":
        agent.close_input()
    else:
        agent.order("quit")
    assert agent.process.wait(10 * PATIENCE) == 0
    with socket.socket() as sock:
        assert sock.connect_ex(("127.0.0.1", ready["ports"][0])) != 0, "nobody listens any more"


def test_the_session_in_the_manual_works_when_pasted():
    page = (ROOT / "docs" / "traffic.md").read_text()
    blocks = [block for block in re.findall(r"```(?:console|sh|bash)\n(.*?)```", page, re.S)
              if "overlane traffic" in block]
    assert blocks, "docs/traffic.md has a session"
    path = f"{binary().parent}:/usr/sbin:/usr/bin:/sbin:/bin"
    for block in blocks:
        lines = [line[2:] if line[:2] in ("$ ", "# ") else line for line in block.splitlines()]
        done = run(["bash", "-eu", "-c", "\n".join(lines)], env={"PATH": path}, timeout=30)
        answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        assert not [answer for answer in answers if answer["answer"] == "failed"], done.stdout
        assert [answer for answer in answers if answer["answer"] == "done"], done.stdout
