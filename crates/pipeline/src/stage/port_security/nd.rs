//! Neighbour discovery (RFC 4861) in `port_security`: its messages speak for the port only, and none
//! hides where it cannot be seen (RFC 6980, RFC 7113 section 2).

use std::net::{IpAddr, Ipv6Addr};

use overlane_model::Verdict;
use overlane_wire::ethernet;
use overlane_wire::ip::protocol;
use overlane_wire::nd::{
    NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION, ROUTER_SOLICITATION, solicited_node,
};

use super::owner::{
    Owner, may_claim, may_probe, owner, owner_on_link, refuse, refuse_claim, refuse_vtep,
    speaks_for_mac,
};
use crate::lib::bytes::{array, byte};
use crate::lib::context::{Context, Stage};
use crate::lib::frame::Frame;
use crate::lib::ip::Ip;
use crate::lib::l4::least_transport_len;
use crate::lib::nd_options::{SOURCE_MAC, TARGET_MAC, mac_option};
use crate::lib::source::Source;
use crate::lib::upkeep::{REDIRECT, discovery_len, is_routers};

const HOP_LIMIT_AT: usize = ethernet::LEN + 7;

/// What follows an IPv6 header and the extension headers behind it.
pub(super) fn check_headers(
    cx: &mut Context<'_>,
    source: &Source<'_>,
    frame: &Frame<'_>,
    ip: &Ip,
) -> Stage {
    if ip.is_hidden() {
        return refuse(
            cx,
            source,
            Verdict::HiddenHeader,
            || "what follows the IPv6 extension headers cannot be seen, refused at",
        );
    }
    if ip.is_later_fragment() {
        return Stage::Continue(());
    }
    if ip.is_fragment() && least_transport_len(frame, ip).is_none() {
        return refuse(
            cx,
            source,
            Verdict::HiddenHeader,
            || "a first fragment without its transport header, refused at",
        );
    }
    if ip.protocol != protocol::ICMPV6 {
        return Stage::Continue(());
    }
    if ip.is_fragment() || ip.is_atomic {
        check_fragment(cx, source, frame, ip)?;
    }
    match ip.is_fragment() {
        true => Stage::Continue(()),
        false => check_message(cx, source, frame, ip),
    }
}

/// A message behind a fragment header.
fn check_fragment(cx: &mut Context<'_>, source: &Source<'_>, frame: &Frame<'_>, ip: &Ip) -> Stage {
    let kind = byte(&frame.bytes, ip.l4_at).filter(|_| ip.l4_at < ip.end);
    if !matches!(kind, Some(ROUTER_SOLICITATION..=REDIRECT)) {
        return Stage::Continue(());
    }
    refuse(
        cx,
        source,
        Verdict::HiddenHeader,
        || "neighbour discovery in a fragment (RFC 6980), refused at",
    )
}

/// Duplicate address detection (RFC 4862 section 5.4.2), of a solicitation from `::`.
pub(super) fn is_detection(frame: &Frame<'_>, ip: &Ip) -> bool {
    let is_plain = ip.protocol == protocol::ICMPV6 && !ip.is_fragment() && !ip.is_atomic;
    let is_solicitation = byte(&frame.bytes, ip.l4_at) == Some(NEIGHBOUR_SOLICITATION);
    let is_on_link = byte(&frame.bytes, HOP_LIMIT_AT) == Some(255);
    let target = array::<16>(&frame.bytes, ip.l4_at + 8).map(Ipv6Addr::from);
    let group = target.map(|target| IpAddr::V6(solicited_node(target)));
    is_plain && is_solicitation && is_on_link && group == Some(ip.destination)
}

fn check_message(cx: &mut Context<'_>, source: &Source<'_>, frame: &Frame<'_>, ip: &Ip) -> Stage {
    let Some(kind) = byte(&frame.bytes, ip.l4_at) else {
        return Stage::Continue(());
    };
    let is_routers = is_routers(kind);
    if is_routers && !source.port.security.allow_router_advertisement {
        return refuse(cx, source, Verdict::RouterAdvertisement, || {
            let what = routers_message(kind);
            format!("a {what} needs `allow: [router_advertisement]` at")
        });
    }
    let Some(fixed_len) = discovery_len(kind) else {
        return Stage::Continue(());
    };
    let is_from_link = matches!(ip.source, IpAddr::V6(from) if from.is_unicast_link_local());
    if is_routers && !is_from_link {
        return refuse(cx, source, Verdict::SpoofedNd, || {
            format!(
                "a {} comes from {}, which is not link-local, refused at",
                routers_message(kind),
                ip.source
            )
        });
    }
    if let IpAddr::V6(from) = ip.source
        && let owner @ Owner::Other(_) = owner_on_link(cx, source, frame, from)
    {
        let what = "neighbour discovery is from";
        return refuse_claim(cx, source, Verdict::SpoofedNd, what, ip.source, &owner);
    }
    let Some(message) = frame.bytes.get(ip.l4_at..ip.end) else {
        return broken(cx, source);
    };
    let Some(options) = message.get(fixed_len..) else {
        return broken(cx, source);
    };
    if matches!(kind, NEIGHBOUR_SOLICITATION | NEIGHBOUR_ADVERTISEMENT) {
        check_target(cx, source, frame, ip, message)?;
    }
    let own = match kind {
        // It has another's.
        REDIRECT => None,
        NEIGHBOUR_ADVERTISEMENT => Some(TARGET_MAC),
        _ => Some(SOURCE_MAC),
    };
    check_options(cx, source, frame, ip, own, options)
}

fn routers_message(kind: u8) -> &'static str {
    match kind {
        REDIRECT => "redirect",
        _ => "router advertisement",
    }
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
    let vtep = cx.host.vtep_among(&[target.into()]);
    if let Some(vtep) = vtep.filter(|_| is_advertisement) {
        return refuse_vtep(cx, source, "a neighbour advertisement is about", vtep);
    }
    let owner = match is_advertisement {
        true => owner_on_link(cx, source, frame, target),
        false => owner(cx, source, frame, target.into()),
    };
    let is_fine = match ip.source {
        _ if is_advertisement => may_claim(source, &owner),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => may_probe(source, &owner),
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

/// Every option whole, and the one of type `own` about a MAC of the port, which who has no address does not say.
fn check_options(
    cx: &mut Context<'_>,
    source: &Source<'_>,
    frame: &Frame<'_>,
    ip: &Ip,
    own: Option<u8>,
    options: &[u8],
) -> Stage {
    let Ok(found) = mac_option(options, own) else {
        return broken(cx, source);
    };
    let is_from_nobody = ip.source.is_unspecified();
    match found {
        Some(mac) if is_from_nobody || !speaks_for_mac(source, frame, mac) => {
            refuse(cx, source, Verdict::SpoofedNd, || match is_from_nobody {
                true => format!("neighbour discovery from :: speaks for {mac}, refused at"),
                false => format!(
                    "neighbour discovery speaks for {mac} in a frame of {}, refused at",
                    frame.source
                ),
            })
        }
        _ => Stage::Continue(()),
    }
}

fn broken(cx: &mut Context<'_>, source: &Source<'_>) -> Stage {
    refuse(
        cx,
        source,
        Verdict::SpoofedNd,
        || "a neighbour discovery message whose length or options are wrong is refused at",
    )
}
