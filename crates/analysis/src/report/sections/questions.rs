//! The titles of the questions that a run may answer; which of its comparisons answer them stands in [`Of`], and
//! [`answers`](crate::report::sections::answers) writes the sentences.

use crate::results::{Compared, Question as Of};
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
pub(in crate::report) const QUESTIONS: [Question; 19] = [
    Question {
        title: "What does an overlay cost against a network without one?",
        note: "Against a plain bridge, and against a VLAN on the same switch.",
        first: |view| matches!(view, View::CpuSteps { .. } | View::PacketRate),
        keep: |c| c.question == Of::Overlay,
    },
    Question {
        title: "What do routing, the firewall, the gateway and NAT cost?",
        note: "Each against the same network without it, sampled in turn; what contains another feature, also against that one.",
        first: asks_for_features,
        keep: |c| c.question == Of::Services,
    },
    Question {
        title: "And against the kernel’s own VXLAN, which does neither?",
        note: "A network that routes and filters against kernel-vxlan, which only switches.",
        first: asks_for_features,
        keep: |c| c.question == Of::WithoutServices,
    },
    Question {
        title: "Does a jumbo MTU pay?",
        note: "8900 bytes in an overlay, 9000 without one, against 1500. With offload on, super-packets cross the wire whole \
               and hide the MTU.",
        first: |view| matches!(view, View::GuestCpu | View::PacketRate),
        keep: |c| c.question == Of::Jumbo,
    },
    Question {
        title: "Do jumbo frames shorten a migration?",
        note: "9000 bytes against 1500 on the cables that the machines move over. With offload on, super-packets cross the wire \
               whole and hide the MTU.",
        first: |view| matches!(view, View::Migrations),
        keep: |c| c.question == Of::Migration,
    },
    Question {
        title: "Do more links shorten a migration?",
        note: "Connections of QEMU’s multifd, spread over the cables.",
        first: |view| matches!(view, View::Migrations),
        keep: |c| c.question == Of::Links,
    },
    Question {
        title: "What does the wire’s segmentation offload bring to a migration?",
        note: "Offload on against off, on the cables that the machines move over.",
        first: |_| false,
        keep: |c| c.question == Of::Offload && is_of_migrations(c),
    },
    Question {
        title: "What do more machines at once do to a migration?",
        note: "",
        first: |_| false,
        keep: |c| c.question == Of::More && is_of_migrations(c),
    },
    Question {
        title: "Geneve or VXLAN?",
        note: "The same switch with the other encapsulation.",
        first: |view| matches!(view, View::Difference { .. }),
        keep: |c| c.question == Of::Geneve,
    },
    Question {
        title: "What does the overlay between two hosts cost against one host and a bare tester?",
        note: "The draft’s model B against its model A.",
        first: |view| matches!(view, View::FrameTable { .. }),
        keep: |c| c.question == Of::Models,
    },
    Question {
        title: "Does Overlane beat the kernel’s own VXLAN?",
        note: "",
        first: |_| false,
        keep: |c| c.question == Of::KernelVxlan,
    },
    Question {
        title: "What does the wire’s segmentation offload bring?",
        note: "Offload on against off.",
        first: |_| false,
        keep: |c| c.question == Of::Offload && !is_of_migrations(c),
    },
    Question {
        title: "What do more VNIs cost?",
        note: "Packets rotate over all of them.",
        first: |view| matches!(view, View::Vnis),
        keep: |c| c.question == Of::Vnis,
    },
    Question {
        title: "What do more instances or guest pairs bring?",
        note: "",
        first: |_| false,
        keep: |c| c.question == Of::More && !is_of_migrations(c),
    },
    Question {
        title: "What does a virtual machine cost against a container?",
        note: "TAP guests against veth guests on the same network. The relay in the place of vhost-net is part of the difference.",
        first: |_| false,
        keep: |c| c.question == Of::Guests,
    },
    Question {
        title: "What do other settings change?",
        note: "",
        first: |_| false,
        keep: |c| c.question == Of::Settings,
    },
    Question {
        title: "And Open vSwitch?",
        note: "",
        first: |_| false,
        keep: |c| c.question == Of::Ovs,
    },
    Question {
        title: "How far from one cable, the limit of this machine?",
        note: "",
        first: |_| false,
        keep: |c| c.question == Of::Cable,
    },
    Question {
        title: "Does a network differ from itself?",
        note: "Each was built twice and measured against itself: what is found here is noise, in at most one of twenty runs.",
        first: |_| false,
        keep: |c| c.question == Of::Itself,
    },
];

fn is_of_migrations(c: &Compared) -> bool {
    c.a.group.workload.migration.is_some()
}

fn asks_for_features(view: &View) -> bool {
    matches!(view, View::CpuSteps { features, .. } if !features.is_empty())
}
