//! The questions that a run may answer, and which of its comparisons answer them; [`answers`](crate::report::sections::answers) writes the sentences.

use crate::record::{BackendName, Encapsulation};
use crate::results::{Axis, Compared};
use crate::study::View;

/// A question that a run may answer.
pub(in crate::report) struct Question {
    pub(in crate::report) title: &'static str,
    pub(in crate::report) note: &'static str,
    /// The view of a study that asks it first.
    pub(in crate::report) first: fn(&View) -> bool,
    pub(in crate::report) keep: fn(&Compared) -> bool,
}

/// All of them, in the order in which they are answered where the study asks none first.
pub(in crate::report) const QUESTIONS: [Question; 15] = [
    Question {
        title: "What does an overlay cost against a network without one?",
        note: "Against a plain bridge, and against a VLAN on the same switch.",
        first: |view| matches!(view, View::CpuSteps { .. } | View::PacketRate),
        keep: |c| {
            between(c)
                && c.a.backend.is_overlay()
                && !is_ovs(c.a.backend)
                && is_plain_of(c.b.backend, c.a.backend)
        },
    },
    Question {
        title: "What do routing, the firewall, the gateway and NAT cost?",
        note: "Each against the same network without it, sampled in turn; what contains another feature, also against that one.",
        first: asks_for_features,
        keep: |c| c.axis == Axis::Feature && c.a.group.setting.feature.is_service(),
    },
    Question {
        title: "And against the kernel’s own VXLAN, which does neither?",
        note: "A network that routes and filters against kernel-vxlan, which only switches.",
        first: asks_for_features,
        keep: |c| c.axis == Axis::Without,
    },
    Question {
        title: "Does a jumbo MTU pay?",
        note: "8900 bytes in an overlay, 9000 without one, against 1500. With offload on, super-packets cross the wire whole \
               and hide the MTU.",
        first: |view| matches!(view, View::GuestCpu | View::PacketRate),
        keep: |c| c.axis == Axis::Mtu,
    },
    Question {
        title: "Geneve or VXLAN?",
        note: "The same switch with the other encapsulation.",
        first: |view| matches!(view, View::Difference { .. }),
        keep: |c| {
            between(c)
                && c.a.backend.encapsulation() == Encapsulation::Geneve
                && c.b.backend.encapsulation() == Encapsulation::Vxlan
                && same_switch(c.a.backend, c.b.backend)
        },
    },
    Question {
        title: "What does the overlay between two hosts cost against one host and a bare tester?",
        note: "The draft’s model B against its model A.",
        first: |view| matches!(view, View::FrameTable { .. }),
        keep: |c| c.axis == Axis::Model,
    },
    Question {
        title: "Does Overlane beat the kernel’s own VXLAN?",
        note: "",
        first: |_| false,
        keep: |c| between(c) && is_ours(c.a.backend) && c.b.backend == BackendName::KernelVxlan,
    },
    Question {
        title: "What does the wire’s segmentation offload bring?",
        note: "Offload on against off.",
        first: |_| false,
        keep: |c| c.axis == Axis::Offload,
    },
    Question {
        title: "What do more VNIs cost?",
        note: "Packets rotate over all of them.",
        first: |view| matches!(view, View::Vnis),
        keep: |c| c.axis == Axis::Vnis,
    },
    Question {
        title: "What do more instances or guest pairs bring?",
        note: "",
        first: |_| false,
        keep: |c| matches!(c.axis, Axis::Instances | Axis::Pairs),
    },
    Question {
        title: "What does a virtual machine cost against a container?",
        note: "TAP guests against veth guests on the same network. The relay in the place of vhost-net is part of the difference.",
        first: |_| false,
        keep: |c| c.axis == Axis::Guests,
    },
    Question {
        title: "What do other settings change?",
        note: "",
        first: |_| false,
        keep: |c| {
            let feature = c.a.group.setting.feature;
            let others = [
                Axis::Buffer,
                Axis::Hosts,
                Axis::Inner,
                Axis::Underlay,
                Axis::FarEnd,
            ];
            others.contains(&c.axis) || c.axis == Axis::Feature && !feature.is_service()
        },
    },
    Question {
        title: "And Open vSwitch?",
        note: "",
        first: |_| false,
        keep: |c| between(c) && is_ovs(c.a.backend) && c.b.backend == BackendName::KernelVxlan,
    },
    Question {
        title: "How far from one cable, the limit of this machine?",
        note: "",
        first: |_| false,
        keep: |c| between(c) && c.b.backend == BackendName::Direct && !is_ovs(c.a.backend),
    },
    Question {
        title: "Does a network differ from itself?",
        note: "Each was built twice and measured against itself: what is found here is noise. About 5 % is the price of 95 % intervals.",
        first: |_| false,
        keep: |c| c.axis == Axis::Itself,
    },
];

fn asks_for_features(view: &View) -> bool {
    matches!(view, View::CpuSteps { features, .. } if !features.is_empty())
}

fn between(c: &Compared) -> bool {
    c.axis == Axis::Backend
}

fn is_ours(backend: BackendName) -> bool {
    matches!(
        backend,
        BackendName::OverlaneVxlan | BackendName::OverlaneGeneve
    )
}

fn is_ovs(backend: BackendName) -> bool {
    matches!(switch(backend), "ovs" | "ovs-kernel")
}

/// The name without its encapsulation.
fn switch(backend: BackendName) -> &'static str {
    let name = backend.as_str();
    name.rsplit_once('-').map_or(name, |(switch, _)| switch)
}

fn same_switch(a: BackendName, b: BackendName) -> bool {
    switch(a) == switch(b)
}

fn is_plain_of(b: BackendName, a: BackendName) -> bool {
    b == BackendName::Bridge || b.encapsulation() == Encapsulation::Vlan && same_switch(a, b)
}
