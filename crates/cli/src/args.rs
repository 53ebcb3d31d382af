//! The command line as types: what was typed, and nothing else. Each command's file takes its part
//! of this and does the work. `--help` texts and their examples live here, beside what they explain; those
//! of `show`, of `connections`, of the laboratory and of the program itself in files of their own.

mod agent;
mod connections;
mod lab;
mod mtu;
mod names;
mod program;
mod show;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueHint};
use overlane_lab::{RelayCable, RelayEnd};
use overlane_model::Name;

pub(crate) use agent::{Agent, AgentAccept, AgentWhat};
pub(crate) use connections::{
    Connections, ConnectionsExport, ConnectionsForget, ConnectionsImport, ConnectionsWhat,
};
pub(crate) use lab::{Lab, LabCompare, LabMatrix, LabPlan, LabRun, LabShow, LabWhat};
pub(crate) use mtu::Mtu;
pub(crate) use names::NetnsName;
pub(crate) use program::{Completions, Man, Schema, Version};
pub(crate) use show::{Show, ShowDrops, ShowWhat};

use crate::trace::{Expectation, ExpectationParser};

/// An overlay virtual switch for Linux, and the laboratory that measures it.
#[derive(Debug, Parser)]
#[command(
    name = "overlane",
    version = env!("OVERLANE_VERSION"),
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "\
Examples:
  overlane check fabric.yaml                 what is wrong with the file, all at once
  overlane apply fabric.yaml --host h1       make this machine host h1 of the fabric
  overlane show counters                     what became of every packet
  overlane trace fabric.yaml --port web1 ip4.dst=web2   what would become of one, and why
  overlane lab run jumbo-vxlan --quick       measure it, beside what else is on this machine

Exit codes: 0 done, 1 the operation failed, 2 wrong usage or wrong fabric file."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Check(Check),
    Apply(Apply),
    Agent(Agent),
    Announce(Announce),
    Remove(Remove),
    Status(Status),
    Show(Show),
    Connections(Connections),
    Capture(Capture),
    Log(Log),
    Top(Top),
    Trace(Trace),
    Flows(Flows),
    Mtu(Mtu),
    Schema(Schema),
    Completions(Completions),
    Man(Man),
    Version(Version),
    Lab(Lab),
    Traffic(Traffic),
    #[command(hide = true)]
    Relay(Relay),
}

/// Read a fabric file and show everything that is wrong with it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane check fabric.yaml
  overlane check - < fabric.yaml             from standard input
  overlane check fabric.yaml --json          for programs: positions as numbers

Exit codes: 0 the file is right, 2 it is wrong or cannot be read.")]
pub(crate) struct Check {
    /// The fabric: a file (YAML), a folder with the parts of one, or - for standard input
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Make this machine carry one host of the fabric.
///
/// Changes only what differs from what is there, loses no packet, and on any error puts the machine
/// back as it was. The data path stays when the command ends; after a reboot, apply again.
/// A port whose device is missing is left out, with a warning; apply again when the device is there.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane apply fabric.yaml --host h1 --dry-run     print the difference, change nothing
  overlane apply fabric.yaml --host h1
  overlane apply fabric.yaml --host h1 --netns blue  the host lives in network namespace 'blue'
  overlane apply fabric.yaml --host h1 --strict      all devices, or no change at all
  overlane apply --last --host h1                    what was applied last, again: mends what differs
  overlane apply                                     what /etc/overlane/agent.yaml says

Where `overlane agent` keeps the host, the agent does it, at once and as it would by itself.
Needs root, Linux 6.12 or newer, and the BPF file system on /sys/fs/bpf.
Exit codes: 0 applied (or nothing differed), 1 failed and put back, 2 wrong usage or wrong
fabric file.")]
pub(crate) struct Apply {
    /// The fabric, the same on every host: a file (YAML), or a folder with the parts of one; left out: the agent's
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) file: Option<PathBuf>,
    /// Which host of the fabric this machine is; may be left out where the agent has one
    #[arg(long, value_name = "NAME", value_parser = names::name)]
    pub(crate) host: Option<Name>,
    /// What was applied last, again, in place of a file
    #[arg(long, conflicts_with = "file")]
    pub(crate) last: bool,
    /// Network namespace of the host's devices, as `ip netns list` shows it
    #[arg(long, value_name = "NS", value_parser = names::netns)]
    pub(crate) netns: Option<NetnsName>,
    /// Only print what would change
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Change nothing when the device of a port or of a gateway's leg is missing
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Tell whether this host is as it was declared, and if not, what differs and what helps.
///
/// Looks at the host itself, its ports, uplink, legs, remotes, and the devices and tables that Overlane made. It changes
/// nothing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane status                            when one host is applied on this machine
  overlane status fabric.yaml --host h1      beside this file, in place of what was applied last
  overlane status --json | jq -r '.rows[] | .what + \": \" + .remedy'

Exit codes: 0 as declared, 1 something differs, 2 nobody can tell.")]
pub(crate) struct Status {
    /// A fabric file (YAML) that should be the applied one
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) host: HostChoice,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Announce what this host answers for in the physical network.
///
/// Each address three times, a second apart, by ARP and neighbour discovery, so that neighbours and switches
/// forget where it was. `apply` does it by itself for what is new. A device that is down is waited for, up to a minute.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane announce                          when one host is applied on this machine
  overlane announce --host h1                for example when its leg was down, from a hook of ifup

Addresses of legs and of translations, addresses of guests on VLANs, and those of the routers that
this host answers for there. Exit codes: 0 done, also where a device stays down; 1 failed.")]
pub(crate) struct Announce {
    #[command(flatten)]
    pub(crate) host: HostChoice,
    /// What a run of `apply` left to announce
    #[arg(long, hide = true)]
    pub(crate) rest: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Take away everything that `apply` made.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane remove                            when one host is applied on this machine
  overlane remove --host h1

Works also when devices or the namespace are gone already. Exit codes: 0 done, 1 failed.")]
pub(crate) struct Remove {
    #[command(flatten)]
    pub(crate) host: HostChoice,
    /// Network namespace of the host's devices, if it is not the one `apply` was told
    #[arg(long, value_name = "NS", value_parser = names::netns)]
    pub(crate) netns: Option<NetnsName>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show packets as they pass, inside and outside the tunnel, with what becomes of each.
///
/// Sees what `tcpdump` on a device cannot: packets handed straight into a guest, packets that are
/// dropped, and why. One capture at a time per host; it ends with Ctrl-C and leaves nothing behind.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane capture web1                      packets from and to port web1
  overlane capture h2 -c 10                  ten tunnel packets from and to remote h2
  overlane capture drops 'ip4.src=198.18.1.0/24, tcp'
  overlane capture all verdict=pkt_too_big
  overlane capture web1 -w web1.pcapng       for Wireshark, with the verdict as comment
  overlane capture web1 -w - | wireshark -k -i -

Filters name fields of the inner frame as `overlane trace` does (eth.src, vlan.id, ip4.dst,
tcp.dport, icmp6.type, …), headers (arp ip4 ip6 tcp udp sctp icmp4 icmp6 nd), verdict, hook and
drop. All must agree; != and ! ask for the others. docs/capture.md explains the output.
Exit codes: 0 done, also by Ctrl-C; 1 failed; 2 wrong usage or wrong filter.")]
pub(crate) struct Capture {
    #[command(flatten)]
    pub(crate) host: HostChoice,
    /// A logical port of this host, a remote, `drops`, or `all`
    #[arg(value_name = "PORT|REMOTE|drops|all", value_parser = names::name)]
    pub(crate) what: Name,
    /// Only packets whose fields agree, like 'ip4.src=198.18.1.1, tcp.dport=80'
    pub(crate) filter: Vec<String>,
    /// Write a capture file (pcapng); - is standard output
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) write: Option<PathBuf>,
    /// Stop after this many packets
    #[arg(long, short, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Stop after this many seconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub(crate) seconds: Option<u64>,
    /// Bytes kept of each packet; without it 256, in a capture file 2048
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(64..=2048))]
    pub(crate) snap: Option<u32>,
    /// Ethernet addresses in each line
    #[arg(long, short)]
    pub(crate) ethernet: bool,
    /// Print JSON, one line for each packet
    #[arg(long, conflicts_with = "write")]
    pub(crate) json: bool,
}

/// Show what rules with `log: true` decide, packet by packet.
///
/// Each packet that such a rule let pass or stopped itself is a line; packets of a connection that it
/// allowed are not. At most 100 a second. One reader at a time per host; it ends with Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane log                               until Ctrl-C
  overlane log --seconds 60 --json | jq -r .rule | sort | uniq -c
  overlane show rules                        which rules log, and how often each decided

Exit codes: 0 done, also by Ctrl-C; 1 failed.")]
pub(crate) struct Log {
    #[command(flatten)]
    pub(crate) host: HostChoice,
    /// Stop after this many seconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub(crate) seconds: Option<u64>,
    /// Print JSON, one line for each packet
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show what passes per second: ports, remotes, drops, CPUs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane top                               until q
  overlane top --once                        two readings one second apart, as a table
  overlane top --once --interval 10 --json   for programs

Keys: q quit, s sort by the next column, r reverse, Tab the other table, arrows move.
Packets are what the kernel hands over (a super-packet is one), segments what they are on a wire.")]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) host: HostChoice,
    /// Seconds between two readings
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    pub(crate) interval: f64,
    /// Print one table and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Print JSON, one line for each interval
    #[arg(long)]
    pub(crate) json: bool,
}

/// Shorter, a reading would cost more than it says; longer, nobody waits.
fn interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.1 to 3600".to_owned()),
    }
}

/// Which of the hosts applied on this machine.
#[derive(Debug, Args)]
pub(crate) struct HostChoice {
    /// Host of the fabric; may be left out when exactly one is applied on this machine
    #[arg(long = "host", value_name = "NAME", value_parser = names::name)]
    pub(crate) name: Option<Name>,
}

/// Show what becomes of a packet, stage by stage, through the whole fabric.
///
/// The reference executor decides, from the file alone: nothing has to run, and no rights are needed.
/// What you leave out follows from the fabric. Learned addresses: none at the start.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane trace fabric.yaml --port web1 ip4.dst=web2                     a ping
  overlane trace fabric.yaml --port web1 ip4.dst=198.18.100.2 tcp.dport=80
  overlane trace fabric.yaml --port web1 'eth.dst=web2, ip4.src=198.18.1.9' --expect spoofed_ip
  overlane trace fabric.yaml --port web1 ip4.dst=web2 --expect delivered:web2
  overlane trace fabric.yaml --port web1 arp.tpa=web2
  overlane trace fabric.yaml --port web1 ip4.dst=web2 tcp size=60000 gso=1398 --mtu 1450
  overlane trace fabric.yaml --port web1 --pcap guest.pcap --json         each packet in turn
  overlane trace fabric.yaml --from-underlay h2 --pcap uplink.pcap
  overlane trace fabric.yaml --from-leg core ip4.src=198.19.9.1 ip4.dst=198.19.0.2 tcp.dport=80

Fields: eth.src eth.dst eth.type, vlan.id vlan.pcp, arp.op arp.sha arp.spa arp.tha arp.tpa,
  ip4.src ip4.dst ip4.ttl ip4.dscp ip4.ecn ip4.proto, ip6.src ip6.dst ip6.hop_limit ip6.dscp
  ip6.ecn ip6.proto, tcp.sport tcp.dport tcp.flags, udp.sport udp.dport, sctp.sport sctp.dport,
  icmp4.type icmp4.code, icmp6.type icmp6.code, nd.kind nd.target nd.sll nd.tll, size, gso;
  or only the name of a header: arp ip4 ip6 tcp udp sctp icmp4 icmp6 nd. Addresses may be the names
  of ports. docs/trace.md explains fields and output.

Exit codes: 0 traced, also when the packet is dropped or unreachable; 1 not as --expect says; 2
wrong usage, a wrong fabric file or a capture that cannot be read.")]
pub(crate) struct Trace {
    /// The fabric file (YAML), or - for standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// What is in the packet
    #[arg(
        value_name = "FIELD=VALUE",
        required_unless_present = "pcap",
        conflicts_with = "pcap"
    )]
    pub(crate) packet: Vec<String>,
    /// The logical port that sends it
    #[arg(
        long,
        value_name = "NAME",
        value_parser = names::name,
        required_unless_present_any = ["from_underlay", "from_leg"],
        conflicts_with_all = ["from_underlay", "from_leg"]
    )]
    pub(crate) port: Option<Name>,
    /// Somebody in the physical network sends it to this router's leg
    #[arg(
        long,
        value_name = "ROUTER",
        value_parser = names::name,
        conflicts_with = "from_underlay"
    )]
    pub(crate) from_leg: Option<Name>,
    /// Trace the packets of a capture (pcap or pcapng, Ethernet), in order
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) pcap: Option<PathBuf>,
    /// They come from the underlay to this host
    #[arg(
        long,
        value_name = "HOST",
        value_parser = names::name,
        requires = "pcap",
        conflicts_with = "packet"
    )]
    pub(crate) from_underlay: Option<Name>,
    /// MTU of the uplinks, in bytes
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 1500,
        value_parser = clap::value_parser!(u32).range(68..=65535)
    )]
    pub(crate) mtu: u32,
    /// What must become of every packet: a verdict (docs/counters.md), delivered, dropped or unreachable; and who
    /// alone must get it: ports, leg:ROUTER, vlan:SWITCH, host:HOST
    #[arg(
        long,
        value_name = "VERDICT[:RECEIVER,…]",
        hide_possible_values = true,
        value_parser = ExpectationParser
    )]
    pub(crate) expect: Option<Expectation>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show what the whole deployment does with packets, as if it were one switch.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane flows fabric.yaml                 every logical switch
  overlane flows fabric.yaml blue            one of them
  overlane flows fabric.yaml --json | jq '.[].l2_lookup[] | select(.host == \"h1\")'

Exit codes: 0 shown, 2 wrong usage or wrong fabric file.")]
pub(crate) struct Flows {
    /// The fabric file (YAML), or - for standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Only this logical switch
    #[arg(value_parser = names::name)]
    pub(crate) switch: Option<Name>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Relay frames between TAP devices of two namespaces, as vhost-net does for a virtual machine.
///
/// The laboratory starts one for each virtual machine. It makes the devices, says `ready`, and ends with its input.
#[derive(Debug, Args)]
pub(crate) struct Relay {
    /// Queues of each device
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) queues: u16,
    /// The one namespace, and the CPUs that what comes from it is read on
    #[arg(value_name = "NAMESPACE@CPU,…")]
    pub(crate) one: RelayEnd,
    /// The other
    #[arg(value_name = "NAMESPACE@CPU,…")]
    pub(crate) other: RelayEnd,
    /// The devices in the one and in the other
    #[arg(value_name = "DEVICE=DEVICE", required = true)]
    pub(crate) cables: Vec<RelayCable>,
}

/// Send, answer and count traffic, as orders on standard input say.
///
/// The laboratory runs one in each guest. By hand, or over ssh, it measures between any two machines: the
/// one that serves says its port, the one that drives is told it. TCP streams and transactions, UDP
/// transactions, numbered UDP datagrams and raw frames, paced or as fast as it goes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overlane traffic                           then an order a line (<), an answer a line (>):

  > {\"answer\":\"hello\",...}
  < {\"order\":\"prepare\",\"job\":1,\"instances\":1,\"work\":{\"test\":\"tcp_rr\",\"request_bytes\":64,\"response_bytes\":64},\"role\":{\"side\":\"serve\",\"address\":\"127.0.0.1\"}}
  > {\"answer\":\"ready\",\"job\":1,\"ports\":[40123]}
  < {\"order\":\"prepare\",\"job\":2,\"instances\":1,\"work\":{\"test\":\"tcp_rr\",\"request_bytes\":64,\"response_bytes\":64},\"role\":{\"side\":\"drive\",\"from\":\"127.0.0.1\",\"to\":\"127.0.0.1\",\"ports\":[40123]}}
  > {\"answer\":\"ready\",\"job\":2,\"ports\":[]}
  < {\"order\":\"go\",\"job\":2}
  < {\"order\":\"stop\",\"job\":2}
  > {\"answer\":\"done\",\"job\":2,\"counters\":{\"transactions\":123456,...},...}
  < {\"order\":\"stop\",\"job\":1}
  < {\"order\":\"quit\"}

docs/traffic.md has all orders and answers. What goes wrong with a job is an answer.
Exit codes: 0 the orders ended, 1 answers could not be written.")]
pub(crate) struct Traffic {}
