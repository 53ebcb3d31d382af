//! The golden frames of `tests/golden/`: our parse gives the fields that are written there, and our
//! emit gives the bytes. `tests/system/test_golden.py` shows the same file to tshark and Scapy.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::Path;

use overlane_wire::icmp::Message;
use overlane_wire::nd_option::NdOption;
use overlane_wire::packet::{Header, TunnelPorts, walk};
use overlane_wire::tcp_option::TcpOption;
use overlane_wire::{
    Egress, PortKey, ReservedBits, WireError, ethernet, geneve, icmp, ipv4, ipv6, nd, tcp,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    name: String,
    #[serde(rename = "about")]
    _about: String,
    hex: String,
    fields: BTreeMap<String, String>,
}

impl Golden {
    fn bytes(&self) -> Vec<u8> {
        let byte = |text| u8::from_str_radix(text, 16).expect("two hexadecimal digits");
        self.hex.split_whitespace().map(byte).collect()
    }
}

fn golden() -> Vec<Golden> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let mut files: Vec<_> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let frames: Vec<Golden> = files
        .iter()
        .flat_map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            serde_saphyr::from_str::<Vec<Golden>>(&text).unwrap()
        })
        .collect();
    assert!(
        frames.len() >= 20,
        "{} frames in {}",
        frames.len(),
        folder.display()
    );
    frames
}

/// Every value of every field, in tshark's names and notation, outermost first.
#[derive(Default)]
struct Fields(BTreeMap<&'static str, Vec<String>>);

impl Fields {
    fn add(&mut self, name: &'static str, value: impl ToString) {
        self.0.entry(name).or_default().push(value.to_string());
    }

    fn add_hex(&mut self, name: &'static str, value: u16) {
        self.add(name, format!("0x{value:04x}"));
    }

    fn add_flag(&mut self, name: &'static str, value: bool) {
        self.add(name, u8::from(value));
    }

    fn ethernet(&mut self, view: &ethernet::View<'_>) {
        self.add("eth.dst", view.destination());
        self.add("eth.src", view.source());
        let tags = view.tags();
        let types = tags
            .as_slice()
            .iter()
            .map(|tag| if tag.service { 0x88a8 } else { 0x8100 });
        let mut types = types.chain([view.ethertype().get()]);
        self.add_hex("eth.type", types.next().unwrap());
        for tag in tags.as_slice() {
            let (id, priority, dei) = if tag.service {
                ("ieee8021ad.id", "ieee8021ad.priority", "ieee8021ad.dei")
            } else {
                ("vlan.id", "vlan.priority", "vlan.dei")
            };
            self.add(id, tag.tag.vid());
            self.add(priority, tag.tag.pcp());
            self.add_flag(dei, tag.tag.dei());
            let next = types.next().unwrap();
            if !tag.service {
                self.add_hex("vlan.etype", next);
            }
        }
    }

    fn ipv4(&mut self, view: &ipv4::View<'_>) {
        assert!(view.checksum_is_right());
        self.add("ip.hdr_len", view.header_len());
        self.add("ip.dsfield.dscp", view.dscp());
        self.add("ip.dsfield.ecn", view.ecn().bits());
        self.add("ip.len", view.total_len());
        self.add_hex("ip.id", view.identification());
        self.add_flag("ip.flags.df", view.dont_fragment());
        self.add_flag("ip.flags.mf", view.more_fragments());
        self.add("ip.frag_offset", view.fragment_offset());
        self.add("ip.ttl", view.ttl());
        self.add("ip.proto", view.protocol());
        self.add_hex("ip.checksum", view.checksum());
        self.add("ip.src", view.source());
        self.add("ip.dst", view.destination());
    }

    fn ipv6(&mut self, view: &ipv6::View<'_>) {
        self.add("ipv6.version", 6);
        self.add("ipv6.tclass.dscp", view.dscp());
        self.add("ipv6.tclass.ecn", view.ecn().bits());
        self.add("ipv6.flow", format!("0x{:06x}", view.flow_label()));
        self.add("ipv6.plen", view.payload_len());
        self.add("ipv6.nxt", view.extensions().first());
        self.add("ipv6.hlim", view.hop_limit());
        self.add("ipv6.src", view.source());
        self.add("ipv6.dst", view.destination());
        for extension in view
            .extensions()
            .iter()
            .filter(|extension| extension.kind == 0)
        {
            self.add("ipv6.hopopts.nxt", extension.next_header);
        }
        if let Some(fragment) = view.fragment() {
            self.add("ipv6.fraghdr.nxt", fragment.next_header);
            self.add("ipv6.fraghdr.offset", fragment.offset);
            self.add_flag("ipv6.fraghdr.more", fragment.more);
            self.add(
                "ipv6.fraghdr.ident",
                format!("0x{:08x}", fragment.identification),
            );
        }
    }

    fn tcp(&mut self, view: &tcp::View<'_>) {
        self.add("tcp.srcport", view.source());
        self.add("tcp.dstport", view.destination());
        self.add("tcp.seq_raw", view.sequence());
        self.add("tcp.ack_raw", view.acknowledgment());
        self.add("tcp.hdr_len", view.header_len());
        self.add_hex("tcp.flags", view.flags().0.into());
        self.add("tcp.window_size_value", view.window());
        self.add_hex("tcp.checksum", view.checksum());
        self.add("tcp.urgent_pointer", view.urgent());
        for option in view.options().iter() {
            match option {
                TcpOption::MaxSegmentSize(size) => self.add("tcp.options.mss_val", size),
                TcpOption::WindowScale(shift) => self.add("tcp.options.wscale.shift", shift),
                TcpOption::Timestamps { value, echo } => {
                    self.add("tcp.options.timestamp.tsval", value);
                    self.add("tcp.options.timestamp.tsecr", echo);
                }
                TcpOption::Sack(blocks) => {
                    for block in blocks {
                        self.add("tcp.options.sack_le", block.left);
                        self.add("tcp.options.sack_re", block.right);
                    }
                }
                _ => {}
            }
        }
    }

    fn icmp(&mut self, view: &icmp::View<'_>) {
        let v6 = view.version() == overlane_wire::IpVersion::V6;
        let name = |v4, v6_name| if v6 { v6_name } else { v4 };
        self.add(name("icmp.type", "icmpv6.type"), view.kind());
        self.add(name("icmp.code", "icmpv6.code"), view.code());
        self.add_hex(name("icmp.checksum", "icmpv6.checksum"), view.checksum());
        match view.message() {
            Message::EchoRequest {
                identifier,
                sequence,
            } if v6 => {
                self.add_hex("icmpv6.echo.identifier", identifier);
                self.add("icmpv6.echo.sequence_number", sequence);
            }
            Message::EchoRequest {
                identifier,
                sequence,
            } => {
                self.add("icmp.ident", identifier);
                self.add("icmp.seq", sequence);
            }
            Message::FragmentationNeeded { mtu } => self.add("icmp.mtu", mtu),
            Message::PacketTooBig { mtu } => self.add("icmpv6.mtu", mtu),
            Message::TimeExceeded { code } => assert_eq!(code, view.code()),
            other => panic!("no golden fields for {other:?}"),
        }
    }

    fn nd(&mut self, view: &nd::View<'_>) {
        self.add("icmpv6.code", 0);
        self.add_hex("icmpv6.checksum", view.checksum());
        let kind = match view.message() {
            nd::Message::RouterSolicitation => nd::ROUTER_SOLICITATION,
            nd::Message::RouterAdvertisement {
                hop_limit,
                flags,
                lifetime_s,
                reachable_ms,
                retransmit_ms,
            } => {
                self.add("icmpv6.nd.ra.cur_hop_limit", hop_limit);
                self.add("icmpv6.nd.ra.flag", format!("0x{flags:02x}"));
                self.add("icmpv6.nd.ra.router_lifetime", lifetime_s);
                self.add("icmpv6.nd.ra.reachable_time", reachable_ms);
                self.add("icmpv6.nd.ra.retrans_timer", retransmit_ms);
                nd::ROUTER_ADVERTISEMENT
            }
            nd::Message::NeighbourSolicitation { target } => {
                self.add("icmpv6.nd.ns.target_address", target);
                nd::NEIGHBOUR_SOLICITATION
            }
            nd::Message::NeighbourAdvertisement {
                router,
                solicited,
                replace,
                target,
            } => {
                self.add_flag("icmpv6.nd.na.flag.r", router);
                self.add_flag("icmpv6.nd.na.flag.s", solicited);
                self.add_flag("icmpv6.nd.na.flag.o", replace);
                self.add("icmpv6.nd.na.target_address", target);
                nd::NEIGHBOUR_ADVERTISEMENT
            }
        };
        self.add("icmpv6.type", kind);
        view.options()
            .iter()
            .for_each(|option| self.nd_option(option));
    }

    fn nd_option(&mut self, option: NdOption<'_>) {
        let kind = match option {
            NdOption::SourceLinkLayer(mac) => {
                self.add("icmpv6.opt.linkaddr", mac);
                1
            }
            NdOption::TargetLinkLayer(mac) => {
                self.add("icmpv6.opt.linkaddr", mac);
                2
            }
            NdOption::Prefix {
                prefix_len,
                valid_s,
                preferred_s,
                prefix,
                ..
            } => {
                self.add("icmpv6.opt.prefix.length", prefix_len);
                self.add("icmpv6.opt.prefix.valid_lifetime", valid_s);
                self.add("icmpv6.opt.prefix.preferred_lifetime", preferred_s);
                self.add("icmpv6.opt.prefix", prefix);
                3
            }
            NdOption::Mtu(mtu) => {
                self.add("icmpv6.opt.mtu", mtu);
                5
            }
            NdOption::Other { kind, .. } => kind,
        };
        self.add("icmpv6.opt.type", kind);
    }

    fn geneve(&mut self, view: &geneve::View<'_>) {
        self.add("geneve.version", 0);
        self.add_flag("geneve.flags.oam", view.control());
        self.add_flag("geneve.flags.critical", view.critical());
        self.add("geneve.proto_type", view.protocol());
        self.add("geneve.vni", format!("0x{:06x}", view.vni()));
        for option in view.options().iter() {
            self.add_hex("geneve.option.class", option.class);
            self.add("geneve.option.type", format!("0x{:02x}", option.kind));
            let data: String = option
                .data()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            self.add("geneve.option.unknown.data", data);
        }
    }

    fn header(&mut self, header: &Header<'_>) {
        match header {
            Header::Ethernet(view) => self.ethernet(view),
            Header::Arp(view) => {
                self.add("arp.opcode", view.operation().get());
                self.add("arp.src.hw_mac", view.sender_mac());
                self.add("arp.src.proto_ipv4", view.sender());
                self.add("arp.dst.hw_mac", view.target_mac());
                self.add("arp.dst.proto_ipv4", view.target());
            }
            Header::Ipv4(view) => self.ipv4(view),
            Header::Ipv6(view) => self.ipv6(view),
            Header::Udp(view) => {
                self.add("udp.srcport", view.source());
                self.add("udp.dstport", view.destination());
                self.add("udp.length", view.length());
                self.add_hex("udp.checksum", view.checksum().unwrap_or(0));
            }
            Header::Tcp(view) => self.tcp(view),
            Header::Icmp(view) => self.icmp(view),
            Header::Nd(view) => self.nd(view),
            Header::Vxlan(view) => {
                assert!(!view.has_reserved_bits());
                self.add_hex("vxlan.flags", 0x0800);
                self.add("vxlan.vni", view.vni());
                self.add("vxlan.reserved8", 0);
            }
            Header::Geneve(view) => self.geneve(view),
        }
    }
}

#[test]
fn our_parse_gives_the_fields() {
    for golden in golden() {
        let bytes = golden.bytes();
        let packet = walk(&bytes, TunnelPorts::default());
        assert_eq!(packet.error, None, "{}", golden.name);
        let mut fields = Fields::default();
        packet
            .headers
            .iter()
            .for_each(|header| fields.header(header));
        for (name, expected) in &golden.fields {
            let found = fields.0.get(name.as_str()).map(|values| values.join(","));
            assert_eq!(found.as_ref(), Some(expected), "{}: {name}", golden.name);
        }
    }
}

#[test]
fn our_emit_gives_the_bytes() {
    for golden in golden() {
        let bytes = golden.bytes();
        let packet = walk(&bytes, TunnelPorts::default());
        let mut out = Vec::new();
        packet
            .headers
            .iter()
            .for_each(|header| header.emit_to(&mut out).unwrap());
        // What no header covers is payload, then the frame's padding.
        assert!(packet.headers.len() >= 2, "{}", golden.name);
        assert_eq!(out, bytes[..out.len()], "{}", golden.name);
        assert!(
            bytes[out.len()..].starts_with(packet.payload),
            "{}",
            golden.name
        );
    }
}

#[test]
fn checksums_verify() {
    let mut verified = 0;
    for golden in golden() {
        let bytes = golden.bytes();
        let mut addresses = None;
        for header in walk(&bytes, TunnelPorts::default()).headers {
            let right = match (header, addresses) {
                (Header::Ipv4(view), _) => {
                    addresses = Some((view.source().into(), view.destination().into()));
                    view.checksum_is_right()
                }
                (Header::Ipv6(view), _) => {
                    addresses = Some((view.source().into(), view.destination().into()));
                    continue;
                }
                (Header::Udp(view), Some((from, to))) => view.checksum_is_right(from, to),
                (Header::Tcp(view), Some((from, to))) => view.checksum_is_right(from, to),
                (Header::Icmp(view), Some((from, to))) => view.checksum_is_right(from, to),
                (
                    Header::Nd(view),
                    Some((std::net::IpAddr::V6(from), std::net::IpAddr::V6(to))),
                ) => view.checksum_is_right(from, to),
                _ => continue,
            };
            assert!(right, "{}", golden.name);
            verified += 1;
        }
    }
    assert!(verified > 30, "only {verified} checksums");
}

#[test]
fn the_receivers_verdict_on_the_options() {
    let mut verdicts = BTreeMap::new();
    for golden in golden() {
        let bytes = golden.bytes();
        for header in walk(&bytes, TunnelPorts::default()).headers {
            if let Header::Geneve(view) = header {
                let received = view.receive(ReservedBits::Refuse);
                let option = received.map(|received| received.ovn);
                let ports =
                    option.map(|ovn| ovn.map(|ovn| (ovn.ingress.map(PortKey::get), ovn.egress)));
                verdicts.insert(golden.name.clone(), ports);
            }
        }
    }
    let port = |key| Egress::Port(PortKey::new(key).unwrap());
    let expected = [
        ("geneve-v4-bare", Ok(None)),
        ("geneve-v4-ovn", Ok(Some((Some(3), port(4))))),
        (
            "geneve-v4-several-options",
            Ok(Some((Some(9), Egress::Group(0xffff)))),
        ),
        (
            "geneve-v6-critical",
            Err(WireError::GeneveCritical {
                class: 0x0129,
                kind: 0x81,
            }),
        ),
        (
            "geneve-v6-ovn-flood",
            Ok(Some((Some(32767), Egress::FLOOD))),
        ),
    ];
    let expected: BTreeMap<_, _> = expected
        .into_iter()
        .map(|(name, verdict)| (name.to_owned(), verdict))
        .collect();
    assert_eq!(verdicts, expected);
}
