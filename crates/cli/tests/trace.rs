//! `overlane trace` as its users meet it: what is said of a packet, for people
//! and for programs, and what the exit code is. The stages' own sentences are the executor's; that
//! every one of them is shown, with the right line of the file, is tested here.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod place;
#[path = "place/traced.rs"]
mod traced;

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use place::{Place, code, err, out};
use traced::hooks;

impl Place {
    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

fn receivers(trace: &Value) -> Vec<String> {
    let list = trace["result"]["receivers"].as_array().unwrap();
    let word = |of: &Value, name: &str| of[name].as_str().unwrap().to_owned();
    list.iter()
        .map(|of| format!("{} on {}", word(of, "port"), word(of, "host")))
        .collect()
}

/// The lines that the text of a trace must have, from its JSON.
fn expected_lines(hop: &Value, lines: &mut Vec<String>) {
    let word = |of: &Value, name: &str| of[name].as_str().unwrap().to_owned();
    lines.push(format!("host {}, {}", word(hop, "host"), word(hop, "hook")));
    for step in hop["steps"].as_array().unwrap() {
        let by = &step["by"];
        let place = match by["line"].as_u64() {
            Some(line) => format!(" (fabric.yaml:{line})"),
            None if by.is_null() => String::new(),
            None => format!(" (fabric.yaml, {})", word(by, "kind")),
        };
        lines.push(format!(
            "  {:<13}  {}{place}",
            word(step, "stage"),
            word(step, "found")
        ));
    }
    lines.push(format!("  verdict        {}: ", word(hop, "verdict")));
    let outputs = hop["outputs"].as_array().unwrap();
    lines.extend(outputs.iter().map(|_| "  out            ".to_owned()));
    for output in outputs {
        for next in output["then"].as_array().unwrap() {
            expected_lines(next, lines);
        }
    }
}

/// The text says what the JSON says, in its order, and nothing else between the first lines and the
/// last one, which is given back.
fn checked_text(place: &Place, port: &str, packet: &str) -> String {
    let text = place.text(port, packet);
    let mut expected = Vec::new();
    expected_lines(&place.json(port, packet)["hop"], &mut expected);
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let [_, _, body @ .., last] = &lines[..] else {
        panic!("{text}")
    };
    assert_eq!(body.len(), expected.len(), "{text}");
    for (line, expected) in body.iter().zip(&expected) {
        assert!(line.starts_with(expected), "{expected}\nin\n{text}");
    }
    (*last).to_owned()
}

#[test]
fn delivered_over_both_encapsulations() {
    for (encapsulation, port, length, keys) in [
        ("geneve", 6081, 156, json!([1, 3])),
        ("vxlan", 4789, 148, json!([null, null])),
    ] {
        let place = Place::new(encapsulation);
        let trace = place.json("a1", "ip4.dst=b1");
        assert_eq!(
            hooks(&trace["hop"]),
            ["h1 from_port encap", "h2 from_underlay to_port"]
        );
        assert_eq!(receivers(&trace), ["b1 on h2"]);
        let result = &trace["result"];
        assert_eq!(result["verdict"], "to_port");
        assert_eq!(result["drop"], false);
        assert_eq!(
            result["by"],
            json!({ "kind": "port", "name": "b1", "line": 14 })
        );
        let sent = &trace["hop"]["outputs"][0];
        assert_eq!(
            (&sent["to"], &sent["remote"]),
            (&json!("underlay"), &json!("198.18.0.2"))
        );
        assert_eq!(sent["packet"]["bytes"], length);
        let outer = &sent["packet"]["outer"];
        assert_eq!(outer["encapsulation"], encapsulation);
        assert_eq!(outer["source"], "198.18.0.1");
        assert_eq!(outer["destination"], "198.18.0.2");
        assert_eq!(
            (&outer["port"], &outer["vni"]),
            (&json!(port), &json!(5001))
        );
        assert_eq!(json!([outer["from_key"], outer["to_key"]]), keys);
        assert!((49152..=65535).contains(&outer["source_port"].as_u64().unwrap()));
        let got = &sent["then"][0]["outputs"][0];
        assert_eq!(got["packet"]["hex"], trace["packet"]["hex"]);

        assert_eq!(
            checked_text(&place, "a1", "ip4.dst=b1"),
            "delivered: b1 on h2"
        );
        let text = place.text("a1", "ip4.dst=b1");
        assert!(
            text.starts_with("from port a1 of switch blue on host h1 (fabric.yaml:12), 98 bytes\n"),
            "{text}"
        );
        assert!(text.contains(&format!(
            "  out            host h2, {length} bytes: 198.18.0.1 → 198.18.0.2"
        )));
        assert!(text.contains("  out            port b1, 98 bytes: as it was sent\n"));
        let named = text.contains("Geneve, VNI 5001, from key 1 (a1) to key 3 (b1) | the frame\n");
        assert_eq!(named, encapsulation == "geneve", "{text}");
    }
}

#[test]
fn delivered_on_the_same_host() {
    let place = Place::new("vxlan");
    let trace = place.json("a1", "ip4.dst=a2 tcp.dport=443");
    assert_eq!(hooks(&trace["hop"]), ["h1 from_port to_port"]);
    let headers = trace["packet"]["headers"].as_array().unwrap();
    assert_eq!(headers[2], "TCP 40000 → 443 [S]");
    assert_eq!(
        checked_text(&place, "a1", "ip4.dst=a2"),
        "delivered: a2 on h1"
    );
}

#[test]
fn dropped_with_the_line_that_says_so() {
    let place = Place::new("geneve");
    for (port, packet, verdict, stage, line) in [
        (
            "a1",
            "ip4.dst=b1 ip4.src=198.18.1.9",
            "spoofed_ip",
            "port_security",
            12,
        ),
        (
            "a1",
            "eth.src=b1 ip4.dst=b1",
            "spoofed_mac",
            "port_security",
            12,
        ),
        (
            "a1",
            "nd.kind=ra",
            "router_advertisement",
            "port_security",
            12,
        ),
        (
            "a1",
            "arp.op=reply arp.tpa=b1 arp.spa=b1",
            "spoofed_arp",
            "port_security",
            12,
        ),
        (
            "a1",
            "eth.dst=02:00:00:00:99:99",
            "unknown_unicast",
            "l2_lookup",
            8,
        ),
        ("a1", "eth.dst=b1 vlan.id=7", "vlan_tag", "parse", 8),
        ("p1", "eth.dst=p2 vlan.id=11", "no_port", "port", 0),
    ] {
        let trace = place.json(port, packet);
        let result = &trace["result"];
        assert_eq!(
            (&result["verdict"], &result["stage"]),
            (&json!(verdict), &json!(stage)),
            "{packet}"
        );
        assert_eq!(result["drop"], true);
        assert_eq!(
            result["by"]["line"].as_u64().unwrap_or(0),
            line,
            "{packet}: {result:#}"
        );
        assert!(receivers(&trace).is_empty());
        let last = checked_text(&place, port, packet);
        let found = result["found"].as_str().unwrap();
        assert!(
            last.starts_with(&format!("dropped: {verdict} at {stage} on h1 — {found}")),
            "{last}"
        );
        assert!(
            line == 0 || last.ends_with(&format!(" (fabric.yaml:{line})")),
            "{last}"
        );
    }
    // The other side of `allow`.
    assert_eq!(receivers(&place.json("b1", "nd.kind=ra")).len(), 3);
}

#[test]
fn dropped_on_the_other_host() {
    let place = Place::new("vxlan");
    // A tunnel packet from h1 to h2; the same from a stranger; and that with a wrong checksum.
    let sent = place.json("a1", "ip4.dst=b1")["hop"]["outputs"][0]["packet"]["hex"].clone();
    let sent = sent.as_str().unwrap();
    let stranger = sent.replace("c6120001c6120002", "c6120009c6120002");
    assert_ne!(sent, stranger);
    let bytes = |text: &str| -> Vec<u8> {
        let pairs = text.as_bytes().chunks(2);
        pairs
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    };
    let mut wrong = bytes(&stranger);
    // The header checksum grows smaller by what the address grew.
    let sum = u16::from_be_bytes([wrong[24], wrong[25]]) - 8;
    wrong[24..26].copy_from_slice(&sum.to_be_bytes());
    place.write(
        "underlay.pcap",
        &pcap(&[bytes(sent), wrong, bytes(&stranger)]),
    );
    let arguments = [
        "trace",
        "fabric.yaml",
        "--from-underlay",
        "h2",
        "--pcap",
        "underlay.pcap",
    ];
    let output = place.run(&[&arguments[..], &["--json"]].concat());
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let verdicts: Vec<&Value> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["result"]["verdict"])
        .collect();
    assert_eq!(verdicts, ["to_port", "unknown_vtep", "outer_ip_csum"]);
    let output = place.run(&arguments);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let text = out(&output);
    assert!(
        text.starts_with("packet 1, 0.000000 s: from the underlay to host h2, 148 bytes\n"),
        "{text}"
    );
    assert!(text.contains("\npacket 3, 2.000000 s: "), "{text}");
    assert!(
        text.contains("\ndropped: unknown_vtep at vtep_check on h2 — "),
        "{text}"
    );
}

/// A classic capture, one packet a second.
fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (second, frame) in frames.iter().enumerate() {
        let length = u32::try_from(frame.len()).unwrap();
        for word in [u32::try_from(second).unwrap(), 0, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

#[test]
fn flooded_to_everybody() {
    let place = Place::new("geneve");
    let trace = place.json("a1", "eth.dst=broadcast");
    assert_eq!(
        hooks(&trace["hop"]),
        [
            "h1 from_port flood",
            "h2 from_underlay flood",
            "h3 from_underlay flood"
        ]
    );
    assert_eq!(receivers(&trace), ["a2 on h1", "b1 on h2", "c1 on h3"]);
    assert_eq!(trace["result"]["verdict"], "flood");
    assert_eq!(
        trace["hop"]["outputs"][1]["packet"]["outer"]["to_key"],
        0x8000
    );
    let last = checked_text(&place, "a1", "eth.dst=broadcast");
    assert_eq!(last, "flooded: a2 on h1, b1 on h2, c1 on h3");
}

#[test]
fn questions_are_answered() {
    let place = Place::new("vxlan");
    for packet in ["arp.tpa=b1", "nd.target=2001:2:0:100::1"] {
        let port = if packet.starts_with("arp") {
            "a1"
        } else {
            "a2"
        };
        let trace = place.json(port, packet);
        assert_eq!(hooks(&trace["hop"]), ["h1 from_port answer"], "{packet}");
        assert_eq!(
            checked_text(&place, port, packet),
            format!("answered: {port} on h1")
        );
    }
    assert!(
        place
            .text("a1", "arp.tpa=b1")
            .contains("ARP: 198.18.100.3 is at 02:00:00:00:00:03, for 198.18.100.1")
    );
}

#[test]
fn a_switch_on_a_vlan_and_a_trunk_port() {
    let place = Place::new("vxlan");
    let trace = place.json("p1", "ip4.dst=p2");
    assert_eq!(trace["packet"]["vlan"], 10, "the tag of the trunk port");
    assert_eq!(
        hooks(&trace["hop"]),
        ["h1 from_port vlan_out", "h2 from_underlay to_port"]
    );
    let sent = &trace["hop"]["outputs"][0];
    assert_eq!(
        (&sent["remote"], &sent["packet"]["vlan"]),
        (&Value::Null, &json!(100))
    );
    assert_eq!(sent["then"][0]["outputs"][0]["packet"]["vlan"], Value::Null);
    assert_eq!(
        checked_text(&place, "p1", "ip4.dst=p2"),
        "delivered: p2 on h2"
    );
    // And back, onto the trunk.
    let trace = place.json("p2", "ip4.dst=p1");
    assert_eq!(
        trace["hop"]["outputs"][0]["then"][0]["outputs"][0]["packet"]["vlan"],
        10
    );

    let everybody = place.json("p1", "eth.dst=broadcast");
    assert_eq!(receivers(&everybody), ["p2 on h2"]);
    let last = checked_text(&place, "p1", "eth.dst=02:00:00:00:99:99");
    assert_eq!(last, "sent: to the physical network, from h1");
}

#[test]
fn tags_cross_a_transparent_switch() {
    let place = Place::new("geneve");
    let trace = place.json("g1", "eth.dst=g2 vlan.id=7 vlan.pcp=3");
    let got = &trace["hop"]["outputs"][0]["then"][0]["outputs"][0]["packet"];
    assert_eq!(
        (&got["vlan"], &got["headers"]),
        (&json!(7), &trace["packet"]["headers"])
    );
}

#[test]
fn learned_addresses_begin_with_none_and_stay_for_a_capture() {
    let place = Place::new("geneve");
    let unknown = place.json("g1", "eth.dst=02:00:00:00:0e:0e");
    assert_eq!(receivers(&unknown), ["g2 on h2"]);
    assert_eq!(unknown["result"]["verdict"], "flood");
    // Behind the learning port an address that the fabric does not know.
    let behind = place.json("g1", "eth.src=02:00:00:00:0e:0e eth.dst=g2");
    assert_eq!(behind["result"]["verdict"], "to_port");

    // Two stations behind g1: the second speaks to the first, of whom g1 has just learned.
    let frame = |destination: u8, source: u8| {
        let mut bytes = vec![
            2,
            0,
            0,
            0,
            0x0e,
            destination,
            2,
            0,
            0,
            0,
            0x0e,
            source,
            0x88,
            0xb5,
        ];
        bytes.extend([0; 46]);
        bytes
    };
    place.write(
        "guest.pcap",
        &pcap(&[frame(1, 2), frame(2, 1), frame(3, 1)]),
    );
    let arguments = [
        "trace",
        "fabric.yaml",
        "--port",
        "g1",
        "--pcap",
        "guest.pcap",
        "--json",
    ];
    let all: Value = serde_json::from_slice(&place.run(&arguments).stdout).unwrap();
    let verdicts: Vec<&Value> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["hop"]["verdict"])
        .collect();
    assert_eq!(verdicts, ["flood", "hairpin", "flood"]);
    // Cut in its last packet: the others are traced, and a note says so.
    let whole = pcap(&[frame(1, 2), frame(2, 1), frame(3, 1)]);
    for missing in [1, 59, 61, 75] {
        let bytes = &whole[..whole.len() - missing];
        fs::write(place.folder.path().join("guest.pcap"), bytes).unwrap();
        let output = place.run(&arguments);
        assert!(output.status.success(), "{output:?}");
        let all: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(all.as_array().unwrap().len(), 2);
        let end = bytes.len();
        let note = format!(
            "note: guest.pcap: it is cut in packet 3: that begins at byte 176, and the file ends at byte {end}; 2 before it are whole\n"
        );
        assert_eq!(String::from_utf8_lossy(&output.stderr), note);
    }
}

#[test]
fn super_packets_and_the_size_of_the_underlay() {
    let place = Place::new("vxlan");
    let trace = place.json("a1", "ip4.dst=b1 udp size=2500 gso=1000");
    assert_eq!(
        hooks(&trace["hop"]),
        [
            "h1 from_port segment",
            "h1 from_segmenter encap",
            "h2 from_underlay to_port"
        ]
    );
    assert_eq!(trace["hop"]["outputs"][0]["then"][0]["count"], 3);
    let text = place.text("a1", "ip4.dst=b1 udp size=2500 gso=1000");
    assert!(
        text.contains("from_segmenter, the first of 3 segments that fare the same\n"),
        "{text}"
    );
    assert!(
        text.contains("(a super-packet of 3 segments, 1000 bytes of payload each)"),
        "{text}"
    );

    // 1450 bytes of inner IP packet fit into 1500.
    let fits = ["--expect", "delivered"];
    for (packet, more, expected) in [
        ("ip4.dst=b1 udp size=1422", &[][..], 0),
        ("ip4.dst=b1 udp size=1423", &[], 1),
        ("ip4.dst=b1 udp size=1423", &["--mtu", "1501"], 0),
        ("ip4.dst=b1 tcp size=60000 gso=1410", &[], 0),
        ("ip4.dst=b1 tcp size=60000 gso=1411", &[], 1),
    ] {
        let output = place.trace("a1", packet, &[&fits[..], more].concat());
        assert_eq!(code(&output), expected, "{packet}: {}", out(&output));
    }
}

#[test]
fn expectations_are_exit_codes() {
    let place = Place::new("geneve");
    for (packet, expected, exit) in [
        ("ip4.dst=b1", "to_port", 0),
        ("ip4.dst=b1", "delivered", 0),
        ("ip4.dst=b1", "dropped", 1),
        ("ip4.dst=b1", "encap", 1),
        ("ip4.dst=b1 ip4.src=b1", "spoofed_ip", 0),
        ("ip4.dst=b1 ip4.src=b1", "dropped", 0),
        ("ip4.dst=b1 ip4.src=b1", "delivered", 1),
        ("eth.dst=broadcast", "flood", 0),
        ("ip4.dst=b1", "deliverd", 2),
    ] {
        let output = place.trace("a1", packet, &["--expect", expected]);
        assert_eq!(code(&output), exit, "{packet} {expected}: {}", err(&output));
        let note = format!("note: packet 1: expected {expected}, found ");
        assert_eq!(
            err(&output).starts_with(&note),
            exit == 1,
            "{}",
            err(&output)
        );
    }
}

#[test]
fn wrong_usage_names_what_is_wrong_and_what_is_right() {
    let place = Place::new("geneve");
    for (arguments, message, help) in [
        (
            &["--port", "a1", "ip4.dts=b1"][..],
            "`ip4.dts` is no field of a packet",
            "did you mean `ip4.dst`?",
        ),
        (
            &["--port", "a9", "ip4.dst=b1"],
            "the fabric has no port `a9`",
            "did you mean `a1`?",
        ),
        (
            &["--port", "a1", "ip4.ttl=300"],
            "ip4.ttl: `300` is not a number from 0 to 255",
            "",
        ),
        (
            &["--from-underlay", "h9", "--pcap", "x"],
            "the fabric has no host `h9` (its hosts: h1, h2, h3)",
            "did you mean `h1`?",
        ),
        (
            &["--port", "a1", "--pcap", "fabric.yaml"],
            "fabric.yaml: not a capture: neither pcap nor pcapng",
            "a capture of Ethernet frames, as `tcpdump -w` writes it",
        ),
        (
            &["--port", "a1", "--pcap", "none.pcap"],
            "cannot read none.pcap: No such file or directory (os error 2)",
            "",
        ),
    ] {
        let output = place.run(&[&["trace", "fabric.yaml"], arguments].concat());
        assert_eq!(code(&output), 2, "{arguments:?}");
        assert_eq!(out(&output), "");
        let mut lines = err(&output).lines();
        assert_eq!(lines.next(), Some(format!("error: {message}").as_str()));
        let said = lines.next().and_then(|line| line.strip_prefix("help: "));
        assert_eq!(said.unwrap_or_default(), help, "{arguments:?}");
    }
    for arguments in [
        &["--port", "a1"][..],
        &["ip4.dst=b1"],
        &["--port", "a1", "--from-underlay", "h1", "--pcap", "x"],
        &["--from-underlay", "h1", "ip4.dst=b1"],
        &["--port", "a1", "ip4.dst=b1", "--mtu", "20"],
    ] {
        let output = place.run(&[&["trace", "fabric.yaml"], arguments].concat());
        assert_eq!(code(&output), 2, "{arguments:?}");
    }
}
