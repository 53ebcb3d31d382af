//! What a term or a network is, for a reader who meets it here first.

use crate::record::BackendName;

/// What a backend is, for a reader who never heard of it.
pub(in crate::report) const fn describe(backend: BackendName) -> &'static str {
    match backend {
        BackendName::Direct => {
            "one virtual cable between the two guests: the limit of this machine"
        }
        BackendName::Bridge => "a plain Linux bridge on each host, no overlay",
        BackendName::KernelVlan => {
            "a Linux bridge and the kernel’s 802.1Q device: a VLAN on the underlay, no overlay"
        }
        BackendName::KernelVxlan => "a Linux bridge and the kernel’s VXLAN device",
        BackendName::KernelGeneve => "a Linux bridge and the kernel’s Geneve device",
        BackendName::OvsVlan => "Open vSwitch in userspace, a VLAN on the underlay, no overlay",
        BackendName::OvsVxlan => "Open vSwitch in userspace, VXLAN",
        BackendName::OvsGeneve => "Open vSwitch in userspace, Geneve",
        BackendName::OvsKernelVlan => {
            "Open vSwitch with the kernel’s datapath, a VLAN on the underlay, no overlay"
        }
        BackendName::OvsKernelVxlan => "Open vSwitch with the kernel’s datapath, VXLAN",
        BackendName::OvsKernelGeneve => "Open vSwitch with the kernel’s datapath, Geneve",
        BackendName::OverlaneVlan => {
            "Overlane’s eBPF data path, a VLAN on the underlay, no overlay"
        }
        BackendName::OverlaneVxlan => "Overlane’s eBPF data path, VXLAN",
        BackendName::OverlaneGeneve => "Overlane’s eBPF data path, Geneve with OVN’s option",
    }
}

/// The words of the page: (term, meaning).
pub(in crate::report) const GLOSSARY: [(&str, &str); 11] = [
    (
        "Goodput",
        "Payload that reached the receiving programs, in Gbit/s.",
    ),
    (
        "Transaction",
        "A request and its response. Thousand/s: thousands of them per second.",
    ),
    ("kpps", "Thousand packets per second."),
    (
        "CPU %",
        "Busy time in per cent of one logical CPU: two busy CPUs are 200 %. Per Gbit/s, per transaction and per packet: \
         of all hosts together, divided by what got through.",
    ),
    (
        "Guest, host",
        "Guest: the traffic programs’ own CPU time. Host: everything on the virtual host’s CPUs, the guest’s share included.",
    ),
    (
        "Offload on / off",
        "On: TCP super-packets of up to 64 kB cross the underlay whole, as with a NIC that segments \
         tunnelled TCP. Off: every one is cut into MTU-sized packets on the wire.",
    ),
    (
        "Underlay",
        "The network between the two hosts; the overlay’s packets travel on it.",
    ),
    (
        "[low, high]",
        "95 % interval: of the mean by Student’s t; of a ratio or difference by order statistics over \
         the rounds. –: not measured.",
    ),
    (
        "▲ better, ▼ worse",
        "The interval excludes “no difference”, and a permutation test gives q ≤ 0.05: p adjusted for all comparisons of the question.",
    ),
    (
        "◆ cannot tell",
        "The samples do not say; at least 6 pairs are needed to say anything.",
    ),
    (
        "Bound by",
        "What held the figure down: a full CPU of the sending or the receiving host, the traffic tool, the rate that was asked \
         for; nothing: no CPU was full.",
    ),
];

/// What a reader must know where guests are virtual machines.
pub(in crate::report) const VIRTUAL_MACHINES: &str = "Virtual machines: such a guest’s network card and its port on the host are TAP devices, as under vhost-net. In the \
    place of vhost-net the laboratory’s own relay moves the frames between them. The relay’s CPU time is the guest’s own: it is \
    part of the host’s figures, and stands by itself in the tables of every cell.";

/// What a reader must know where machines move.
pub(in crate::report) const MOVING_MACHINES: &str = "Machines that move: each is a whole virtual machine, which QEMU runs and which moves while it runs. Where KVM \
    does not boot it, QEMU translates the machine’s instructions (TCG), on the CPUs that also carry its memory: the times are those \
    of a busy small host. Compare the ratios between MTUs, links and networks, not the seconds.";

/// The words of the tables of machines that move: (term, meaning).
pub(in crate::report) const MOVING_WORDS: [(&str, &str); 5] = [
    (
        "Migration time",
        "From the beginning of the first machine of a cell until the last one runs at the other host.",
    ),
    (
        "Downtime",
        "The longest time that a machine stood still. The network’s share: until its switches send the machine’s frames to the \
         other host.",
    ),
    (
        "Rounds of dirty pages",
        "How often QEMU went through the memory for what had changed since it was sent. Sent: memory and state of all machines, pages \
         that were sent again among them. Written: how fast a machine’s program really wrote.",
    ),
    (
        "Precopy, postcopy",
        "Precopy sends memory until little is left to send, then moves the machine. Postcopy moves it first, and it asks for the \
         pages that it lacks.",
    ),
    (
        "Gap, datagrams lost",
        "The longest time in which no message to a machine came back; datagrams that never did.",
    ),
];

/// What a reader must know of every run of this laboratory.
pub(in crate::report) const VIRTUAL: &str = "Virtual laboratory: all hosts are network namespaces of one machine, all cables are \
    virtual. Compare shapes and ratios with hardware, not absolute values.";
