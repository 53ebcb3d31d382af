//! Mistakes of a study file that the types allow, and what has to be said of each.

/// From, to, what has to be said: rules that the types do not know.
pub(super) const BROKEN: [(&str, &str, &[&str]); 37] = [
    (
        "name: mine",
        "name: My Study",
        &["1:7: name:", "no plain word"],
    ),
    ("title: Mine", "title: \"\"", &["2:8: title:", "empty"]),
    (
        "samples: 6",
        "samples: 0",
        &["5:12: matrix.samples:", "`0`", "1 to 1000"],
    ),
    (
        "seconds: 1",
        "seconds: 0.01",
        &["6:12: matrix.seconds:", "`0.01`", "0.2 to 3600"],
    ),
    ("seconds: 1", "seconds: .inf", &[":6:", "`.inf`"]),
    (
        "warm_up_seconds: 0.5",
        "warm_up_seconds: 9999",
        &["matrix.warm_up_seconds:"],
    ),
    (
        "[bridge, overlane-vxlan]",
        "[]",
        &["matrix.networks:", "empty"],
    ),
    (
        "[bridge, overlane-vxlan]",
        "[bridge, bridge]",
        &["matrix.networks[1]:", "before"],
    ),
    (
        "bytes: [1024] }",
        "bytes: [] }",
        &["10:37: matrix.groups[0].bytes:", "empty"],
    ),
    (
        "bytes: [1024] }",
        "bytes: [1024], instances: [0] }",
        &["instances[0]:", "`0`", "1 to 256"],
    ),
    (
        "bytes: [1024] }",
        "bytes: [1024], instances: [8, 257] }",
        &["10:60:", "instances[1]:", "`257`"],
    ),
    (
        "bytes: [1024] }",
        "bytes: [1024], guests: [] }",
        &["groups[0].guests:", "empty"],
    ),
    (
        "bytes: [1024] }",
        "bytes: [1024], guests: [tap, tap] }",
        &["10:", "groups[0].guests[1]:", "before", "remove one"],
    ),
    (
        "bytes: [1024] }",
        "bytes: [2000000] }",
        &["bytes[0]:", "1048576"],
    ),
    (
        "bytes: [1024] }",
        "bytes: [1024], search: brief }",
        &["search:", "tcp_stream has no rate"],
    ),
    (
        "bytes: [1024] }",
        "bytes: [1024], rate_pps: [5] }",
        &["rate_pps:", "tcp_stream has no rate"],
    ),
    (
        "[tcp_stream], bytes: [1024] }",
        "[udp_stream], bytes: [1519] }",
        &["bytes[0]:", "udp_stream has 1519", "64 to 1518"],
    ),
    (
        "[tcp_stream], bytes: [1024] }",
        "[udp_stream], bytes: [8919], mtu: [jumbo] }",
        &["64 to 8918"],
    ),
    (
        "[tcp_stream], bytes: [1024] }",
        "[frame_stream], bytes: [64], inner: [ipv6] }",
        &["82 to 1518"],
    ),
    (
        "[tcp_stream], bytes: [1024] }",
        "[udp_gso_stream], bytes: [1400, 1473] }",
        &[
            "10:48:",
            "bytes[1]:",
            "udp_gso_stream has 1473",
            "16 to 1472",
        ],
    ),
    (
        "[tcp_stream], bytes: [1024] }",
        "[udp_gso_stream], bytes: [16, 8853], mtu: [jumbo], inner: [ipv6] }",
        &["bytes[1]:", "has 8853 bytes", "16 to 8852"],
    ),
    (
        "[tcp_stream], bytes: [1024] }",
        "[udp_gso_stream, tcp_stream], bytes: [1024], rate_pps: [9] }",
        &["rate_pps:", "tcp_stream has no rate"],
    ),
    (
        "overlane-vxlan]\n  groups:\n    - { tests: [tcp_stream], bytes: [1024] }",
        "overlane-vlan]\n  groups:\n    - { tests: [udp_gso_stream], bytes: [1024], far_end: [tester] }",
        &["far_end[0]:", "the tag of overlane-vlan"],
    ),
    (
        "[tcp_stream], bytes: [1024] }",
        "[udp_rr], bytes: [65508] }",
        &["65507"],
    ),
    (
        "[tcp_stream], bytes: [1024] }",
        "[udp_stream], bytes: [64], rate_pps: [9], search: quick }",
        &["searched, and given"],
    ),
    (
        "bytes: [1024] }",
        "bytes: [1024], vnis: [16] }",
        &["vnis[0]:", "tcp_stream sends none"],
    ),
    (
        "[tcp_stream], bytes: [1024] }",
        "[frame_stream], bytes: [64], vnis: [16], pairs: [3] }",
        &["vnis[0]:", "16 switches", "3 pairs"],
    ),
    (
        "bytes: [1024] }",
        "bytes: [1024], far_end: [tester] }",
        &["far_end[0]:", "tunnel of overlane-vxlan"],
    ),
    (
        "bytes: [1024] }",
        "bytes: [1024], networks: [bridge], far_end: [tester], hosts: [3] }",
        &["far_end[0]:", "second host"],
    ),
    (
        "bytes: [1024] }",
        "bytes: [1024], networks: [direct] }",
        &["networks[0]:", "`direct`", "not among"],
    ),
    (
        "bytes: [1024] }",
        "bytes: [1024], feature: [routing] }",
        &["feature[0]:", "no `routing` of bridge", "Overlane's alone"],
    ),
    (
        "bytes: [1024] }",
        "bytes: [1024], feature: [gateway], networks: [overlane-vxlan], pairs: [1, 4] }",
        &["feature[0]:", "no `gateway` here", "a single pair"],
    ),
    (
        "bytes: [1024] }",
        "bytes: [1024], feature: [default, gateway-nat], networks: [overlane-vxlan], hosts: [1] }",
        &["feature[1]:", "two hosts"],
    ),
    (
        "[tcp_stream], bytes: [1024] }",
        "[frame_stream], bytes: [64], feature: [routing], networks: [overlane-vxlan], vnis: [4] }",
        &["feature[0]:", "trunk ports"],
    ),
    (
        "bytes: [1024] }",
        "bytes: [1024], buffer_bytes: 1 }",
        &["buffer_bytes:", "`1`"],
    ),
    (
        "  seconds: 1",
        "  repeat: { rule: within, set: 1, percent: 5, attempts: 6 }\n  seconds: 1",
        &["repeat.set:", "`1`"],
    ),
    (
        "  seconds: 1",
        "  repeat: { rule: withing, set: 3, percent: 5, attempts: 6 }\n  seconds: 1",
        &["repeat.rule:", "did you mean `within`"],
    ),
];

/// Views and published figures that find no cell.
pub(super) const SHOWN: [(&str, &[&str]); 14] = [
    (
        "views: [{ view: packet-rate }, { view: packet-rate }]",
        &["views[1]:", "stands before"],
    ),
    (
        "views: [{ view: packetrate }]",
        &["did you mean `packet-rate`"],
    ),
    (
        "views: [{ view: vnis }]",
        &["views[0]:", "one number of switches"],
    ),
    (
        "views: [{ view: difference, pairs: [] }]",
        &["views[0].pairs:", "empty"],
    ),
    (
        "views: [{ view: difference, pairs: [[bridge, ovs-vxlan]] }]",
        &["`ovs-vxlan`"],
    ),
    (
        "views: [{ view: difference, pairs: [[bridge, bridge]] }]",
        &["with itself"],
    ),
    (
        "views: [{ view: frame-table, pairs: [[bridge, overlane-vxlan]] }]",
        &["sends frames"],
    ),
    (
        "views: [{ view: cpu-steps, baseline: [], steps: [bridge], at_gbps: 10, cores: 12 }]",
        &["baseline:"],
    ),
    (
        "views: [{ view: cpu-steps, baseline: [bridge], steps: [overlane-vxlan], features: [routing], at_gbps: 10, cores: 12 }]",
        &["features[0]:", "with `routing`"],
    ),
    (
        "views: [{ view: cpu-steps, baseline: [bridge], steps: [overlane-vxlan], features: [default], at_gbps: 10, cores: 12 }]",
        &["features[0]:", "held against"],
    ),
    (
        "published: { tables: [{ title: t, columns: [a, b], rows: [{ name: x, values: [1, 2] }] }] }",
        &["2 values for 2 columns"],
    ),
    (
        "published: { ratios: [{ name: r, published: [1, 2], metric: goodput, a: { networks: [bridge] }, b: { networks: [bridge] } }] }",
        &[
            "12:61: published.ratios[0].metric:",
            "`goodput`",
            "did you mean `goodput_gbps`",
        ],
    ),
    (
        "published: { ratios: [{ name: r, published: [1, 2], metric: goodput_gbps, a: { networks: [bridge], bytes: 7 }, b: { networks: [bridge] } }] }",
        &["ratios[0].a:", "no cell"],
    ),
    (
        "published: { ratios: [{ name: r, published: [1, 2], metric: goodput_gbps, a: { networks: [bridge] }, b: { networks: [bridge, overlane-vxlan] } }] }",
        &["not as many"],
    ),
];
