//! What becomes of a packet: the closed list of verdicts and the hooks that count them.
//!
//! The numbers are the ABI of the map `verdict_counters` and stand in `bpf/lib/verdicts.h`; this enum is
//! its mirror, and `docs/counters.md` says what each one asks of a user. Tests compare all three.

use std::fmt;

/// Where a packet was seen. Names follow `enum hook` in `bpf/lib/abi.h`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Hook {
    /// The device of a logical port.
    FromPort = 0,
    /// The uplink.
    FromUnderlay = 1,
    /// The end of the segmenter where the segments of a super-packet come back.
    FromSegmenter = 2,
    /// The kernel device that registers the tunnel port for receive offload.
    FromGroDevice = 3,
    /// A gateway's device in the physical network.
    FromLeg = 4,
    /// The device behind which the kernel has taken the tunnel's mark off a frame.
    FromUnmarker = 5,
    /// The end of the coalescer where joined tunnel packets come out.
    FromCoalescer = 6,
}

impl Hook {
    /// Every hook, in the order of its number.
    pub const ALL: [Self; 7] = [
        Self::FromPort,
        Self::FromUnderlay,
        Self::FromSegmenter,
        Self::FromGroDevice,
        Self::FromLeg,
        Self::FromUnmarker,
        Self::FromCoalescer,
    ];

    /// The name users see: `from_port`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FromPort => "from_port",
            Self::FromUnderlay => "from_underlay",
            Self::FromSegmenter => "from_segmenter",
            Self::FromGroDevice => "from_gro_device",
            Self::FromLeg => "from_leg",
            Self::FromUnmarker => "from_unmarker",
            Self::FromCoalescer => "from_coalescer",
        }
    }

    /// The number in the counters' index.
    pub const fn number(self) -> u32 {
        self as u32
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One line per verdict: number, variant, name, whether the packet is lost, meaning.
macro_rules! verdicts {
    ($($number:literal $variant:ident $name:literal $fate:ident $meaning:literal;)+) => {
        /// The end of a packet's way: every packet that reaches a hook gets exactly one.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Verdict {
            $(#[doc = $meaning] $variant = $number,)+
        }

        impl Verdict {
            /// Every verdict, in the order of its number.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name users see: `pkt_too_big`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Whether the packet ends here and is lost.
            pub const fn is_drop(self) -> bool {
                match self { $(Self::$variant => verdicts!(@$fate)),+ }
            }

            /// What happened, in one line without a full stop.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning),+ }
            }

            /// The verdict with this number, if there is one.
            pub const fn from_number(number: u32) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)+ _ => None }
            }
        }
    };
    (@pass) => { false };
    (@drop) => { true };
}

verdicts! {
    0 ToHost "to_host" pass "not ours: left to the host's own stack";
    1 ToPort "to_port" pass "unicast, delivered to one local port";
    2 Encap "encap" pass "unicast, sent to one remote";
    3 Flood "flood" pass "copied to every member of the flood list";
    4 Answer "answer" pass "an ARP request or neighbour solicitation, answered here";
    5 Segment "segment" pass "a super-packet that cannot travel whole: its segments come back";
    6 VlanOut "vlan_out" pass "unicast, sent to the uplink with the VLAN tag of its switch";
    7 LegOut "leg_out" pass "routed into the physical network by the gateway's leg";
    8 Greeting "greeting" pass "a remote says what it can take, and is answered if it asked";
    9 Coalesce "coalesce" pass "a segment of a stream: it comes back joined with others";
    10 ToRouter "to_router" pass "an ARP reply or neighbour advertisement to a router, which noted it";
    11 Probe "probe" pass "the copy of a packet, become a question to the neighbour that the packet went to";
    16 NoPort "no_port" drop "the device, or this tag on it, is no port of the fabric";
    17 VlanTag "vlan_tag" drop "an inner VLAN tag, refused";
    18 SourceMac "source_mac" drop "the inner source address is a group address or zero";
    19 InnerIpHeader "inner_ip_header" drop "the inner IP header is truncated or inconsistent";
    20 UnknownSwitch "unknown_switch" drop "no such logical switch on this host";
    21 UnknownUnicast "unknown_unicast" drop "no FDB entry, and the switch does not flood";
    22 Hairpin "hairpin" drop "the destination is the port it came from";
    23 PktTooBig "pkt_too_big" drop "a segment would exceed the underlay MTU";
    24 GsoUnsupported "gso_unsupported" drop "a super-packet of a kind that cannot be encapsulated";
    27 EncapFailed "encap_failed" drop "the kernel refused to make room for the outer header, or to take the encapsulated packet";
    28 UnknownRemote "unknown_remote" drop "the FDB names a remote that is not in the table";
    29 OuterFragment "outer_fragment" drop "a fragment of a tunnel packet";
    30 OuterIpCsum "outer_ip_csum" drop "the outer IPv4 header checksum is wrong";
    31 OuterLength "outer_length" drop "the outer IP or UDP length disagrees with the frame";
    32 UnknownVtep "unknown_vtep" drop "the outer source is no VTEP of the fabric";
    33 TunnelHeader "tunnel_header" drop "the VXLAN or Geneve header is truncated";
    34 VxlanFlags "vxlan_flags" drop "the VXLAN I flag is not set (RFC 7348 section 5)";
    35 ReservedBits "reserved_bits" drop "reserved bits are set, and the tunnel is strict";
    36 GeneveVersion "geneve_version" drop "unknown Geneve version";
    37 GeneveControl "geneve_control" drop "a Geneve control packet (O bit), never forwarded";
    38 GeneveProtocol "geneve_protocol" drop "the Geneve payload is not Ethernet";
    39 GeneveOptions "geneve_options" drop "the Geneve option lengths do not add up";
    40 GeneveCritical "geneve_critical" drop "an unknown critical Geneve option";
    41 GeneveOptionLength "geneve_option_length" drop "a known Geneve option of another length";
    42 VniZero "vni_zero" drop "VNI 0";
    43 UnknownVni "unknown_vni" drop "no logical switch with this VNI on this host";
    44 InnerTooSmall "inner_too_small" drop "less than an Ethernet header inside the tunnel packet";
    45 UnknownPortKey "unknown_port_key" drop "the Geneve option names no port of the switch here";
    46 DecapFailed "decap_failed" drop "the kernel refused to remove the outer header";
    47 NotConfigured "not_configured" drop "the tables are not filled";
    48 OuterDevice "outer_device" drop "a tunnel packet for another local address, refused";
    49 SpoofedMac "spoofed_mac" drop "port security: the source MAC is not the port's";
    50 SpoofedIp "spoofed_ip" drop "port security: the source address is not the port's";
    51 SpoofedArp "spoofed_arp" drop "port security: ARP about a MAC or address that is not the port's";
    52 SpoofedNd "spoofed_nd" drop "port security: ND about a MAC or address that is not the port's";
    53 HiddenHeader "hidden_header" drop "port security: a header where it cannot be checked";
    54 DhcpServer "dhcp_server" drop "port security: a DHCP server's packet";
    55 RouterAdvertisement "router_advertisement" drop "port security: a router's advertisement or redirect";
    56 MacLimit "mac_limit" drop "a new MAC at a learning port that has its limit";
    57 EcnCe "ecn_ce" drop "congestion marked on a packet that cannot say so (RFC 6040)";
    58 ReservedGroup "reserved_group" drop "to a group address that no bridge forwards (IEEE 802.1Q)";
    59 FirewallDrop "firewall_drop" drop "a rule of the firewall or the default policy says so";
    60 FirewallReject "firewall_reject" drop "a rule of the firewall says so, and the sender is told";
    61 ConnectionInvalid "connection_invalid" drop "belongs to no connection and cannot begin one";
    62 OutOfWindow "out_of_window" drop "a TCP packet outside the windows of its connection";
    63 ConnectionsFull "connections_full" drop "no place for a new connection";
    64 NotRoutable "not_routable" drop "addressed to a router, but nothing a router may forward";
    65 NoRoute "no_route" drop "the router has no route to the destination";
    66 NoNeighbour "no_neighbour" drop "nobody has the next hop's address, or answers for it";
    67 TtlExceeded "ttl_exceeded" drop "the last router that the packet may pass";
    68 RouterAddress "router_address" drop "to a router itself, which answers nothing but echo requests";
    69 NatExhausted "nat_exhausted" drop "no outside port is free for this peer";
    70 NatUnsupported "nat_unsupported" drop "nothing to translate by, or what covers the addresses cannot be written anew";
    71 ReversePath "reverse_path" drop "the way back to the source leads elsewhere";
    72 VtepAddress "vtep_address" drop "to or from the address of a VTEP";
    73 NatNoRule "nat_no_rule" drop "no rule translates it, and the gateway drops the rest";
    74 FragmentUnknown "fragment_unknown" drop "a later fragment whose first one was not seen, and rules ask for ports";
    75 FragmentTiny "fragment_tiny" drop "a first fragment without its transport header";
    76 FragmentOverlap "fragment_overlap" drop "a later fragment over the transport header of the first one";
    77 DeepHeader "deep_header" drop "behind more extension headers than are read, and rules ask what it is";
    78 RemoteSwitch "remote_switch" drop "the remote has nothing on this logical switch";
    79 RemoteMac "remote_mac" drop "by the fabric, the source MAC is not where the frame came from";
    80 FloodLimit "flood_limit" drop "its port floods more than it may";
    81 Resolving "resolving" drop "the router is still asking for the MAC of the next hop";
    82 AskLimit "ask_limit" drop "its sender makes routers ask for more neighbours than it may";
    83 NeighbourLimit "neighbour_limit" drop "one more neighbour than may be found there";
    84 DeviceGone "device_gone" drop "a device on its way is not the one that apply meant";
}

impl Verdict {
    /// Counters per hook: `VERDICT_SLOTS`. Numbers without a verdict stay zero.
    pub const SLOTS: usize = 128;

    /// The number in the counters' index.
    pub const fn number(self) -> u32 {
        self as u32
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = include_str!("../../../bpf/lib/verdicts.h");
    const ABI: &str = include_str!("../../../bpf/lib/abi.h");
    const MANUAL: &str = include_str!("../../../docs/counters.md");

    /// (number, name, is a drop) of every `V(…)` line.
    fn from_header() -> Vec<(u32, String, bool)> {
        let mut drops = false;
        let mut found = Vec::new();
        for line in HEADER.lines() {
            drops |= line.starts_with("#define OVL_VERDICTS_DROP");
            let Some(entry) = line.trim_start().strip_prefix("V(") else {
                continue;
            };
            let (inner, _) = entry.split_once(')').unwrap();
            let (number, name) = inner.split_once(',').unwrap();
            found.push((number.parse().unwrap(), name.trim().to_lowercase(), drops));
        }
        found
    }

    /// (number, name, is a drop) of every row of the manual's verdict tables.
    fn from_manual() -> Vec<(u32, String, bool)> {
        let mut found = Vec::new();
        for line in MANUAL.lines() {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let Some(number) = cells.get(1).and_then(|cell| cell.parse().ok()) else {
                continue;
            };
            let name = cells[2].trim_matches('`').to_owned();
            for hook in cells[4].split(", ") {
                assert!(
                    Hook::ALL.iter().any(|h| format!("`{h}`") == hook),
                    "{name}: {hook}"
                );
            }
            assert!(
                cells[5].len() > 3 && cells[6].len() > 1,
                "{name}: a cell is empty"
            );
            let drops = match cells[3] {
                "drop" => true,
                "pass" => false,
                other => panic!("{name}: {other}"),
            };
            found.push((number, name, drops));
        }
        found
    }

    fn from_enum() -> Vec<(u32, String, bool)> {
        Verdict::ALL
            .iter()
            .map(|v| (v.number(), v.name().to_owned(), v.is_drop()))
            .collect()
    }

    #[test]
    fn mirrors_the_c_header() {
        assert_eq!(from_enum(), from_header());
        assert!(HEADER.contains(&format!("VERDICT_SLOTS = {},", Verdict::SLOTS)));
    }

    #[test]
    fn manual_documents_every_verdict() {
        assert_eq!(from_manual(), from_enum());
    }

    #[test]
    fn hooks_mirror_the_c_header() {
        for hook in Hook::ALL {
            let line = format!("HOOK_{} = {},", hook.name().to_uppercase(), hook.number());
            assert!(ABI.contains(&line), "{line}");
        }
        assert!(ABI.contains(&format!("HOOK_COUNT = {},", Hook::ALL.len())));
    }

    #[test]
    fn numbers_lead_back() {
        for &verdict in Verdict::ALL {
            assert_eq!(Verdict::from_number(verdict.number()), Some(verdict));
            assert!((verdict.number() as usize) < Verdict::SLOTS);
            assert_eq!(verdict.is_drop(), verdict.number() >= 16);
        }
        assert_eq!(Verdict::from_number(15), None);
        assert_eq!(format!("[{:>8}]", Verdict::Encap), "[   encap]");
    }
}
