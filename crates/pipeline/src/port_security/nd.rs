//! Neighbour discovery (RFC 4861) in `port_security`: its messages speak for the port only, and none
//! hides where it cannot be seen (RFC 6980, RFC 7113 section 2).

use std::net::{IpAddr, Ipv6Addr};

use overlane_model::Verdict;
use overlane_wire::ip::protocol;
use overlane_wire::nd::{
    NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION, ROUTER_ADVERTISEMENT, ROUTER_SOLICITATION,
};

use super::{Owner, check_dhcp, may_claim, owner, ports_at, refuse, refuse_claim};
use crate::bytes::{array, byte};
use crate::context::{Context, Stage};
use crate::parse::{Frame, Ip, is_extension};
use crate::port::Source;

const REDIRECT: u8 = 137;
const SOURCE_MAC: u8 = 1;
const TARGET_MAC: u8 = 2;
const MAX_OPTIONS: usize = 16;
const FRAGMENT_LEN: usize = 8;

/// What follows an IPv6 header and the extension headers behind it.
pub(super) fn check_headers(
    cx: &mut Context<'_>,
    source: &Source<'_>,
    frame: &Frame<'_>,
    ip: &Ip,
) -> Stage {
    if is_extension(ip.protocol) || ip.l4_at > frame.len() {
        return refuse(
            cx,
            source,
            Verdict::HiddenHeader,
            || "what follows the IPv6 extension headers cannot be seen, refused at",
        );
    }
    match ip.protocol {
        protocol::FRAGMENT => check_fragment(cx, source, frame, ip),
        protocol::ICMPV6 => check_message(cx, source, frame, ip),
        _ => Stage::Continue(()),
    }
}

/// The header behind a fragment header, if this is the first fragment.
fn check_fragment(cx: &mut Context<'_>, source: &Source<'_>, frame: &Frame<'_>, ip: &Ip) -> Stage {
    let Some([next, _, offset, flags]) = array(&frame.bytes, ip.l4_at) else {
        return Stage::Continue(());
    };
    let is_first = u16::from_be_bytes([offset, flags]) & 0xfff8 == 0;
    let at = ip.l4_at + FRAGMENT_LEN;
    if !is_first || at > frame.len() {
        return Stage::Continue(());
    }
    if is_extension(next) || next == protocol::FRAGMENT {
        return refuse(
            cx,
            source,
            Verdict::HiddenHeader,
            || "a fragment header before another extension header, refused at",
        );
    }
    if next == protocol::UDP {
        return check_dhcp(cx, source, ip, ports_at(frame, at));
    }
    let kind = byte(&frame.bytes, at).filter(|_| next == protocol::ICMPV6);
    if kind.is_some_and(|kind| (ROUTER_SOLICITATION..=REDIRECT).contains(&kind)) {
        return refuse(
            cx,
            source,
            Verdict::HiddenHeader,
            || "neighbour discovery in a fragment (RFC 6980), refused at",
        );
    }
    Stage::Continue(())
}

fn check_message(cx: &mut Context<'_>, source: &Source<'_>, frame: &Frame<'_>, ip: &Ip) -> Stage {
    let Some(kind) = byte(&frame.bytes, ip.l4_at) else {
        return Stage::Continue(());
    };
    let is_routers = matches!(kind, ROUTER_ADVERTISEMENT | REDIRECT);
    if is_routers && !source.port.security.allow_router_advertisement {
        return refuse(cx, source, Verdict::RouterAdvertisement, || {
            let what = if kind == REDIRECT {
                "redirect"
            } else {
                "router advertisement"
            };
            format!("a {what} needs `allow: [router_advertisement]` at")
        });
    }
    let fixed_len = match kind {
        ROUTER_SOLICITATION => 8,
        ROUTER_ADVERTISEMENT => 16,
        NEIGHBOUR_SOLICITATION | NEIGHBOUR_ADVERTISEMENT => 24,
        _ => return Stage::Continue(()),
    };
    let Some(message) = frame.bytes.get(ip.l4_at..ip.end) else {
        return broken(cx, source);
    };
    let Some(options) = message.get(fixed_len..) else {
        return broken(cx, source);
    };
    if matches!(kind, NEIGHBOUR_SOLICITATION | NEIGHBOUR_ADVERTISEMENT) {
        check_target(cx, source, frame, ip, message)?;
    }
    let own = if kind == NEIGHBOUR_ADVERTISEMENT {
        TARGET_MAC
    } else {
        SOURCE_MAC
    };
    check_options(cx, source, frame, own, options)
}

/// An advertisement is about the port, or about the address that its guest made itself; so is duplicate
/// address detection, where the fabric knows what the guest is going to use.
fn check_target(
    cx: &mut Context<'_>,
    source: &Source<'_>,
    frame: &Frame<'_>,
    ip: &Ip,
    message: &[u8],
) -> Stage {
    let is_advertisement = message.first() == Some(&NEIGHBOUR_ADVERTISEMENT);
    let Some(target) = array::<16>(message, 8).map(Ipv6Addr::from) else {
        return broken(cx, source);
    };
    let owner = owner(cx, source, frame, target.into());
    let is_fine = match ip.source {
        _ if is_advertisement => may_claim(source, &owner),
        // For an address that the fabric knows, the answer from here says that it is taken.
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) if source.port.security.check_addresses => {
            !matches!(owner, Owner::Nobody)
        }
        _ => true,
    };
    if is_fine {
        return Stage::Continue(());
    }
    let what = match is_advertisement {
        true => "a neighbour advertisement is about",
        false => "duplicate address detection is about",
    };
    refuse_claim(cx, source, Verdict::SpoofedNd, what, target.into(), &owner)
}

/// Every option whole, and the one of kind `own` about the frame's source.
fn check_options(
    cx: &mut Context<'_>,
    source: &Source<'_>,
    frame: &Frame<'_>,
    own: u8,
    mut options: &[u8],
) -> Stage {
    for _ in 0..MAX_OPTIONS {
        if options.is_empty() {
            return Stage::Continue(());
        }
        let Some([kind, units, mac @ ..]) = array::<8>(options, 0) else {
            return broken(cx, source);
        };
        let Some(rest) = options.get(usize::from(units) * 8..).filter(|_| units > 0) else {
            return broken(cx, source);
        };
        if kind == own && mac != frame.source.get() {
            return refuse(cx, source, Verdict::SpoofedNd, || {
                let mac = overlane_wire::Mac::new(mac);
                format!(
                    "neighbour discovery speaks for {mac} in a frame of {}, refused at",
                    frame.source
                )
            });
        }
        options = rest;
    }
    match options.is_empty() {
        true => Stage::Continue(()),
        false => broken(cx, source),
    }
}

fn broken(cx: &mut Context<'_>, source: &Source<'_>) -> Stage {
    refuse(
        cx,
        source,
        Verdict::SpoofedNd,
        || "a neighbour discovery message that is not whole, or has more than sixteen options, is refused at",
    )
}
