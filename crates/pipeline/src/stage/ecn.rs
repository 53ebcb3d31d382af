//! Stage ecn: congestion that the underlay marked on the outer header reaches the inner one (RFC 6040
//! section 4.2). Between `parse` and `learn`, from a tunnel only.

use std::net::IpAddr;

use overlane_model::Verdict;
use overlane_wire::{Ecn, checksum, ethernet};

use crate::lib::bytes::{be16, put16};
use crate::lib::context::{Context, Stage};
use crate::lib::frame::Frame;

const STAGE: &str = "ecn";

pub(crate) fn ecn(cx: &mut Context<'_>, outer: Ecn, frame: &mut Frame<'_>) -> Stage {
    let Some(ip) = frame.ip else {
        return Stage::Continue(());
    };
    let inner = Ecn::from_bits(ip.traffic_class);
    let Some(combined) = combine(inner, outer) else {
        return cx.end(
            STAGE,
            Verdict::EcnCe,
            || "the underlay marked congestion on a packet whose ends do not know ECN",
        );
    };
    if combined != inner {
        write(frame, &ip.source, combined);
        // Routed into another tunnel, its outer header is marked as it is now.
        if let Some(ip) = &mut frame.ip {
            ip.traffic_class = ip.traffic_class & !3 | combined.bits();
        }
        cx.step(STAGE, || {
            format!("the underlay's mark makes {inner:?} {combined:?}")
        });
    }
    Stage::Continue(())
}

/// Figure 4; `None`: drop.
fn combine(inner: Ecn, outer: Ecn) -> Option<Ecn> {
    match (inner, outer) {
        (Ecn::NotEct, Ecn::Ce) => None,
        (_, Ecn::Ce) => Some(Ecn::Ce),
        (Ecn::Ect0, Ecn::Ect1) => Some(Ecn::Ect1),
        (inner, _) => Some(inner),
    }
}

/// The first 16 bits of both headers have the two bits, at different places.
fn write(frame: &mut Frame<'_>, family: &IpAddr, ecn: Ecn) {
    let Some(old) = be16(&frame.bytes, ethernet::LEN) else {
        return;
    };
    let shift = match family {
        IpAddr::V4(_) => 0,
        IpAddr::V6(_) => 4,
    };
    let new = old & !(3 << shift) | u16::from(ecn.bits()) << shift;
    let bytes = frame.bytes.to_mut();
    put16(bytes, ethernet::LEN, new);
    let checksum_at = ethernet::LEN + 10;
    if let (IpAddr::V4(_), Some(checksum)) = (family, be16(bytes, checksum_at)) {
        put16(bytes, checksum_at, checksum::update(checksum, old, new));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6040 figure 4, line by line: all sixteen.
    #[test]
    fn sixteen_combinations() {
        use Ecn::{Ce, Ect0, Ect1, NotEct};
        let outer = [NotEct, Ect0, Ect1, Ce];
        let expected = [
            (NotEct, [Some(NotEct), Some(NotEct), Some(NotEct), None]),
            (Ect0, [Some(Ect0), Some(Ect0), Some(Ect1), Some(Ce)]),
            (Ect1, [Some(Ect1), Some(Ect1), Some(Ect1), Some(Ce)]),
            (Ce, [Some(Ce); 4]),
        ];
        for (inner, line) in expected {
            assert_eq!(outer.map(|outer| combine(inner, outer)), line, "{inner:?}");
        }
    }
}
