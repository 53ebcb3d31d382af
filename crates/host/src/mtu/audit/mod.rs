//! What is set wrongly, in each of the places where MTUs must agree. Pure: the same fabric and the same facts have the
//! same findings. `tests/mtu_mistakes.json` has a mistake for each of them.

mod finding;
mod guests;
mod places;
mod underlay;
mod view;

use overlane_model::Fabric;

pub use self::finding::{Finding, Place, Severity};
use self::view::View;
use super::facts::HostFacts;

/// Judges the facts of some hosts of a fabric. `underlay`: what the physical network carries, if somebody knows.
pub fn audit(fabric: &Fabric, facts: &[HostFacts], underlay: Option<u32>) -> Vec<Finding> {
    let view = View::new(fabric, facts, underlay);
    let mut findings = Vec::new();
    underlay::uplinks(&view, &mut findings);
    underlay::paths(&view, &mut findings);
    underlay::too_small(&view, &mut findings);
    places::helpers(&view, &mut findings);
    places::port_devices(&view, &mut findings);
    places::legs(&view, &mut findings);
    guests::guests(&view, &mut findings);
    findings.sort_by_key(|finding| (finding.severity, finding.place));
    findings
}
