//! The questions that a run may answer, and which comparison answers which: those of one question are a family.

use serde::Serialize;

use super::axis::Axis;
use crate::record::{BackendName, CellKey, Encapsulation};

/// A question that comparisons answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// What does an overlay cost against a network without one?
    Overlay,
    /// What do routing, the firewall, the gateway and NAT cost?
    Services,
    /// And against the kernel's own VXLAN, which does neither?
    WithoutServices,
    /// Does a jumbo MTU pay?
    Jumbo,
    /// Geneve or VXLAN?
    Geneve,
    /// Study E's model B against its model A.
    Models,
    /// Does Overlane beat the kernel's own VXLAN?
    KernelVxlan,
    /// What does the wire's segmentation offload bring?
    Offload,
    /// What do more VNIs cost?
    Vnis,
    /// What do more instances or guest pairs bring?
    More,
    /// What does a virtual machine cost against a container?
    Guests,
    /// What do other settings change?
    Settings,
    /// And Open vSwitch?
    Ovs,
    /// How far from one cable?
    Cable,
    /// Does a network differ from itself?
    Itself,
    /// Do jumbo frames shorten a migration?
    Migration,
    /// Do more links shorten it?
    Links,
    /// None of these; the comparisons of an axis are a family of their own.
    Other,
}

impl Question {
    /// The question that `a` against `b` on this axis answers. A comparison has one.
    pub(super) fn of(axis: Axis, a: &CellKey, b: &CellKey) -> Self {
        if a.group.workload.migration.is_some() {
            return match axis {
                Axis::Mtu => Self::Migration,
                Axis::Links => Self::Links,
                Axis::Offload => Self::Offload,
                Axis::Pairs => Self::More,
                Axis::Itself => Self::Itself,
                _ => Self::Other,
            };
        }
        match axis {
            Axis::Backend => between(a.backend, b.backend),
            Axis::Feature if a.group.setting.feature.is_service() => Self::Services,
            Axis::Without => Self::WithoutServices,
            Axis::Mtu => Self::Jumbo,
            Axis::Model => Self::Models,
            Axis::Offload => Self::Offload,
            Axis::Vnis => Self::Vnis,
            Axis::Instances | Axis::Pairs => Self::More,
            Axis::Guests => Self::Guests,
            Axis::Buffer
            | Axis::Hosts
            | Axis::Inner
            | Axis::Underlay
            | Axis::FarEnd
            | Axis::Feature
            | Axis::Tuning => Self::Settings,
            Axis::Itself => Self::Itself,
            Axis::Bytes
            | Axis::OfferedRate
            | Axis::GuestMemory
            | Axis::DirtyShare
            | Axis::DirtyRate
            | Axis::Links
            | Axis::Postcopy => Self::Other,
        }
    }
}

/// Of two networks.
fn between(a: BackendName, b: BackendName) -> Question {
    let is_ovs = matches!(switch(a), "ovs" | "ovs-kernel");
    let is_ours = matches!(a, BackendName::OverlaneVxlan | BackendName::OverlaneGeneve);
    let same_switch = switch(a) == switch(b);
    let is_plain =
        b == BackendName::Bridge || b.encapsulation() == Encapsulation::Vlan && same_switch;
    match (a.encapsulation(), b.encapsulation()) {
        _ if a.is_overlay() && !is_ovs && is_plain => Question::Overlay,
        (Encapsulation::Geneve, Encapsulation::Vxlan) if same_switch => Question::Geneve,
        _ if is_ours && b == BackendName::KernelVxlan => Question::KernelVxlan,
        _ if is_ovs && b == BackendName::KernelVxlan => Question::Ovs,
        _ if !is_ovs && b == BackendName::Direct => Question::Cable,
        _ => Question::Other,
    }
}

/// The name without its encapsulation.
fn switch(backend: BackendName) -> &'static str {
    let name = backend.as_str();
    name.rsplit_once('-').map_or(name, |(switch, _)| switch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_by_their_question() {
        use BackendName as B;
        for (a, b, question) in [
            (B::OverlaneVxlan, B::Bridge, Question::Overlay),
            (B::OverlaneVxlan, B::OverlaneVlan, Question::Overlay),
            (B::KernelVxlan, B::KernelVlan, Question::Overlay),
            (B::OverlaneVxlan, B::KernelVlan, Question::Other),
            (B::OverlaneGeneve, B::OverlaneVxlan, Question::Geneve),
            (B::OvsGeneve, B::OvsVxlan, Question::Geneve),
            (B::OverlaneGeneve, B::KernelVxlan, Question::KernelVxlan),
            (B::KernelGeneve, B::KernelVxlan, Question::Geneve),
            (B::OvsGeneve, B::KernelVxlan, Question::Ovs),
            (B::OvsKernelVxlan, B::KernelVxlan, Question::Ovs),
            (B::OvsVxlan, B::Bridge, Question::Other),
            (B::Bridge, B::Direct, Question::Cable),
            (B::OvsVlan, B::Direct, Question::Other),
        ] {
            assert_eq!(between(a, b), question, "{a} against {b}");
        }
    }
}
