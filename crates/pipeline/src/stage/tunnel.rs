//! Stage tunnel: reads the VXLAN (RFC 7348 section 5) or Geneve (RFC 8926 section 3.4) header: the logical
//! switch, and the logical ports of OVN's option. Between `vtep_check` and `parse`.

use overlane_model::{Encapsulation, SwitchId, Verdict};
use overlane_wire::geneve_option::{OVN_CLASS, OVN_KIND};
use overlane_wire::{EtherType, Vni, geneve, vxlan};

use crate::lib::bytes::array;
use crate::lib::context::{Context, Stage};
use crate::lib::explain::Found;
use crate::lib::outer::{GROUP_KEY, Outer, Tunnel};

const STAGE: &str = "tunnel";
const VXLAN_I: u8 = 0x08;
const GENEVE_O: u8 = 0x80;
const GENEVE_RESERVED: u8 = 0x3f;
const CRITICAL: u8 = 0x80;
const OPTION_LEN: usize = 4;
const SOURCE_KEY: u16 = 0x7fff;

/// What the headers of both kinds say.
struct Header {
    vni: [u8; 3],
    len: usize,
    keys: Keys,
}

#[derive(Default)]
struct Keys {
    source: u16,
    dest: u16,
}

/// `None`: the VNI is 0, as that of greetings.
pub(crate) fn tunnel<'a>(cx: &mut Context<'a>, outer: &Outer<'_>) -> Stage<Option<Tunnel<'a>>> {
    let payload = cx.entered.bytes.get(outer.tunnel_at..outer.end);
    let payload = payload.unwrap_or_default();
    if cx.host.shares_port() && !has_our_vni(cx, payload) {
        return cx.end(STAGE, Verdict::ToHost, || {
            let port = cx.host.tables().tunnel.port;
            format!("no VNI of a switch here, and another device has UDP port {port} too")
        });
    }
    let header = match cx.host.tables().tunnel.encapsulation {
        Encapsulation::Vxlan => read_vxlan(cx, payload)?,
        Encapsulation::Geneve => read_geneve(cx, payload)?,
    };
    let [a, b, c] = header.vni;
    let Ok(vni) = Vni::new(u32::from_be_bytes([0, a, b, c])) else {
        return Stage::Continue(None);
    };
    let Some(switch) = cx.host.switch(SwitchId::Vni(vni)) else {
        return cx.end(STAGE, Verdict::UnknownVni, || {
            format!(
                "no switch with VNI {vni} has a port on host {}",
                cx.host.tables().host
            )
        });
    };
    cx.step(STAGE, || {
        let (name, Keys { source, dest }) = (&switch.name, &header.keys);
        let keys = match (source, dest) {
            (0, 0) => String::new(),
            (_, GROUP_KEY..) => format!(", from port key {source} to {dest:#x}"),
            _ => format!(", from port key {source} to {dest}"),
        };
        Found::by_switch(format!("VNI {vni} is switch {name}{keys}"), name)
    });
    Stage::Continue(Some(Tunnel {
        switch,
        inner_at: outer.tunnel_at + header.len,
        source_key: header.keys.source,
        dest_key: header.keys.dest,
    }))
}

/// VNI 0, and no greeting.
pub(crate) fn vni_zero<T>(cx: &mut Context<'_>) -> Stage<T> {
    cx.end(STAGE, Verdict::VniZero, || "VNI 0 is no logical switch")
}

/// Both headers have the VNI in the same place, whatever else may be wrong with them.
fn has_our_vni(cx: &Context<'_>, payload: &[u8]) -> bool {
    let vni = array::<4>(payload, 4).and_then(|[a, b, c, _]| {
        let number = u32::from_be_bytes([0, a, b, c]);
        Vni::new(number).ok()
    });
    vni.is_some_and(|vni| cx.host.switch(SwitchId::Vni(vni)).is_some())
}

fn read_vxlan(cx: &mut Context<'_>, payload: &[u8]) -> Stage<Header> {
    let Some([flags, r0, r1, r2, v0, v1, v2, r3]) = array::<{ vxlan::LEN }>(payload, 0) else {
        return cx.end(
            STAGE,
            Verdict::TunnelHeader,
            || "the packet ends in the VXLAN header",
        );
    };
    if flags & VXLAN_I == 0 {
        return cx.end(STAGE, Verdict::VxlanFlags, || {
            format!("the I flag is not set in the VXLAN flags {flags:#04x}")
        });
    }
    if cx.host.tables().tunnel.strict && (flags != VXLAN_I || [r0, r1, r2, r3] != [0; 4]) {
        return reserved_bits(cx);
    }
    Stage::Continue(Header {
        vni: [v0, v1, v2],
        len: vxlan::LEN,
        keys: Keys::default(),
    })
}

fn read_geneve(cx: &mut Context<'_>, payload: &[u8]) -> Stage<Header> {
    let Some([version_len, flags, p0, p1, v0, v1, v2, reserved]) =
        array::<{ geneve::BASE_LEN }>(payload, 0)
    else {
        return cx.end(
            STAGE,
            Verdict::TunnelHeader,
            || "the packet ends in the Geneve header",
        );
    };
    if version_len >> 6 != 0 {
        return cx.end(STAGE, Verdict::GeneveVersion, || {
            format!("Geneve version {} is not known", version_len >> 6)
        });
    }
    let len = geneve::BASE_LEN + usize::from(version_len & 0x3f) * 4;
    let Some(options) = payload.get(geneve::BASE_LEN..len) else {
        return cx.end(
            STAGE,
            Verdict::TunnelHeader,
            || "the packet ends in the Geneve options",
        );
    };
    if flags & GENEVE_O != 0 {
        return cx.end(
            STAGE,
            Verdict::GeneveControl,
            || "a Geneve control packet (O bit)",
        );
    }
    let protocol = EtherType(u16::from_be_bytes([p0, p1]));
    if protocol != EtherType::TEB {
        return cx.end(STAGE, Verdict::GeneveProtocol, || {
            format!("the payload is of type {protocol}, not Ethernet")
        });
    }
    if cx.host.tables().tunnel.strict && (flags & GENEVE_RESERVED != 0 || reserved != 0) {
        return reserved_bits(cx);
    }
    Stage::Continue(Header {
        vni: [v0, v1, v2],
        len,
        keys: read_options(cx, options)?,
    })
}

/// OVN's option is the only one that is known; of several the last one counts.
fn read_options(cx: &mut Context<'_>, mut options: &[u8]) -> Stage<Keys> {
    let mut keys = Keys::default();
    while !options.is_empty() {
        let Some([c0, c1, kind, len]) = array::<OPTION_LEN>(options, 0) else {
            return bad_options(cx);
        };
        let len = OPTION_LEN + usize::from(len & 0x1f) * 4;
        let Some((option, rest)) = options.split_at_checked(len) else {
            return bad_options(cx);
        };
        let class = u16::from_be_bytes([c0, c1]);
        if (class, kind) == (OVN_CLASS, OVN_KIND) {
            let [_, _, _, _, s0, s1, d0, d1] = option else {
                return cx.end(STAGE, Verdict::GeneveOptionLength, || {
                    format!("OVN's option has {} bytes of data, not 4", len - OPTION_LEN)
                });
            };
            keys = Keys {
                source: u16::from_be_bytes([*s0, *s1]) & SOURCE_KEY,
                dest: u16::from_be_bytes([*d0, *d1]),
            };
        } else if kind & CRITICAL != 0 {
            return cx.end(STAGE, Verdict::GeneveCritical, || {
                format!("the critical option {class:#06x}/{kind:#04x} is not known")
            });
        }
        options = rest;
    }
    Stage::Continue(keys)
}

fn bad_options<T>(cx: &mut Context<'_>) -> Stage<T> {
    cx.end(
        STAGE,
        Verdict::GeneveOptions,
        || "a Geneve option runs past the options' end",
    )
}

fn reserved_bits<T>(cx: &mut Context<'_>) -> Stage<T> {
    cx.end(STAGE, Verdict::ReservedBits, || {
        Found::by_tunnel("reserved bits are set, and the tunnel is strict".to_owned())
    })
}
