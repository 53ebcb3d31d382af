//! The reference executor and the eBPF programs on the same packets: the first difference, made small, as a
//! case that shows it.

mod connections;
mod neighbours;
mod shrink;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use overlane_ebpf::learned::LearnedEntry;
use overlane_ebpf::{EbpfError, abi};
use overlane_model::{Fabric, Tables, Verdict};
use overlane_pipeline::{ConnectionState, Counters, Entry, LearnedPlace, Outcome, State, Zone};
use overlane_wire::Mac;

pub use shrink::shrink;

use crate::compare;
use crate::counted;
use crate::dissect::{dissect, text};
use crate::generate::{Arrival, FabricSpec};
use crate::reference;
use crate::test_runner::{TestRunner, can_run};

/// Seed of what nobody outside may foresee.
pub const SECRET: u32 = 0x5ec2_e7ed;

/// Nothing learned and no connection, with [`SECRET`].
pub fn new_state() -> State {
    State::new().with_secret(SECRET)
}

/// What random packets met.
#[derive(Clone, Default, Debug)]
pub struct Met {
    /// How often each verdict was seen.
    pub verdicts: BTreeMap<Verdict, u64>,
    /// How many connections were in each state after a sequence, ports' and (`true`) translations.
    pub connections: BTreeMap<(bool, ConnectionState), u64>,
}

/// Packets on which the executors differ.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The fabric.
    pub spec: FabricSpec,
    /// The packets; the last one shows it.
    pub arrivals: Vec<Arrival>,
    /// In words.
    pub found: Vec<String>,
}

/// The tables of the first host; or why the fabric is refused.
pub fn tables(spec: &FabricSpec) -> Result<Tables, String> {
    let fabric = Fabric::parse("random", &spec.yaml()).map_err(|errors| errors.render(false))?;
    fabric.compile("h1").map_err(|error| error.to_string())
}

/// Runs packets that follow each other on both executors, up to the first difference. Without a kernel, on the
/// reference executor only.
pub fn run(
    kernel: Option<&mut TestRunner>,
    spec: &FabricSpec,
    arrivals: &[Arrival],
    met: &mut Met,
) -> Result<Option<Difference>, EbpfError> {
    let Ok(tables) = tables(spec) else {
        return Ok(None);
    };
    let Some(kernel) = kernel else {
        let host = reference::host(&tables, spec.machine());
        let mut state = new_state();
        for arrival in arrivals {
            state.set_gone(arrival.gone.clone());
            let outcome = host.decide(&mut state, arrival.now_ns, &arrival.entry, &arrival.packet);
            *met.verdicts.entry(outcome.verdict).or_default() += 1;
        }
        met.connections_of(&state);
        return Ok(None);
    };
    let first = on_both(kernel, spec, &tables, arrivals, Counted::Together, met)?;
    if first.is_none() {
        return Ok(None);
    }
    // Which packet it was that was counted otherwise.
    let exact = on_both(
        kernel,
        spec,
        &tables,
        arrivals,
        Counted::Each,
        &mut Met::default(),
    )?;
    Ok(exact.or(first))
}

/// When the counters of the executors are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    /// After each packet.
    Each,
    /// After the last one, which takes a fifth of the time.
    Together,
}

fn on_both(
    kernel: &mut TestRunner,
    spec: &FabricSpec,
    tables: &Tables,
    arrivals: &[Arrival],
    when: Counted,
    met: &mut Met,
) -> Result<Option<Difference>, EbpfError> {
    let mut host = reference::host(tables, spec.machine());
    let mut state = new_state();
    let (mut ours, mut theirs) = (Counters::default(), Counters::default());
    let turned = match arrivals.iter().any(|arrival| arrival.turned) {
        true => turned(spec, tables),
        false => None,
    };
    let mut now = tables;
    let difference = |packets: usize, found: Vec<String>| {
        (!found.is_empty()).then(|| Difference {
            spec: spec.clone(),
            arrivals: arrivals[..packets].to_vec(),
            found,
        })
    };
    kernel.set_host(tables, spec.machine())?;
    for (packets, arrival) in (1..).zip(arrivals) {
        if !can_run(&arrival.packet) {
            continue;
        }
        if let Some(turned) = turned.as_ref().filter(|_| arrival.turned)
            && now.firewall.version != turned.firewall.version
        {
            now = turned;
            counted::add(&mut theirs, &kernel.counted()?);
            kernel.change_host(now, spec.machine())?;
            host = reference::host(now, spec.machine());
        }
        state.set_gone(arrival.gone.clone());
        kernel.set_gone(&arrival.gone);
        let outcome = host.decide(&mut state, arrival.now_ns, &arrival.entry, &arrival.packet);
        *met.verdicts.entry(outcome.verdict).or_default() += 1;
        let observed = kernel.run(arrival.now_ns, &arrival.entry, &arrival.packet)?;
        let mut found = compare::with_reference(now, &arrival.packet, &outcome, &observed);
        counted::add(&mut ours, &outcome.counters);
        if when == Counted::Each {
            counted::add(&mut theirs, &kernel.counted()?);
            found.extend(compare::counters(&ours, &theirs));
        }
        if let Some(difference) = difference(packets, found) {
            return Ok(Some(difference));
        }
    }
    counted::add(&mut theirs, &kernel.counted()?);
    let mut found = compare::counters(&ours, &theirs);
    let both = [Some(tables), turned.as_ref()];
    let both: Vec<_> = both.into_iter().flatten().collect();
    found.extend(learned(&both, &state, kernel)?);
    found.extend(neighbours::differences(&state, kernel)?);
    found.extend(path_mtus(&state, kernel)?);
    found.extend(connections::differences(&both, &state, kernel)?);
    met.connections_of(&state);
    Ok(difference(arrivals.len(), found))
}

/// What they know of the paths to remotes.
fn path_mtus(state: &State, kernel: &TestRunner) -> Result<Option<String>, EbpfError> {
    let (ours, theirs) = (state.path_mtus(), kernel.path_mtus()?);
    let differ = *ours != theirs;
    Ok(differ.then(|| format!("path MTUs: reference {ours:?}, eBPF {theirs:?}")))
}

/// The tables after the rules have [turned](FabricSpec::turned).
fn turned(spec: &FabricSpec, before: &Tables) -> Option<Tables> {
    let mut tables = tables(&spec.turned()).ok()?;
    tables.firewall.version = before.firewall.version + 1;
    Some(tables)
}

impl Met {
    fn connections_of(&mut self, state: &State) {
        for (key, connection) in state.connections() {
            let is_translation = matches!(key.zone, Zone::Router(_));
            let kind = (is_translation, connection.state);
            *self.connections.entry(kind).or_default() += 1;
        }
    }
}

/// (switch, MAC) → device and tag or VTEP, key, age, time.
type Entries = BTreeMap<(u32, Mac), (String, u16, u32, u64)>;

/// What the executors have learned must be the same too.
fn learned(
    tables: &[&Tables],
    state: &State,
    kernel: &TestRunner,
) -> Result<Vec<String>, EbpfError> {
    let ours: Entries = state
        .learned()
        .iter()
        .map(|((switch, mac), entry)| {
            let place = match &entry.place {
                LearnedPlace::Port(at) => at.to_string(),
                LearnedPlace::Remote(remote) => remote.to_string(),
                LearnedPlace::Vlan => "uplink".to_owned(),
            };
            (
                (switch.number(), *mac),
                (place, entry.key, entry.age_s, entry.seen_ns),
            )
        })
        .collect();
    let theirs: Entries = kernel
        .learned()?
        .into_iter()
        .map(|LearnedEntry { key, value }| {
            let place = place(tables, kernel, &key, &value);
            (
                (key.switch_id, key.mac.into()),
                (place, value.key as u16, value.age, value.seen),
            )
        })
        .collect();
    Ok(if ours == theirs {
        Vec::new()
    } else {
        vec![format!(
            "learned:\n  reference {ours:?}\n  eBPF      {theirs:?}"
        )]
    })
}

fn place(
    tables: &[&Tables],
    kernel: &TestRunner,
    key: &abi::FdbKey,
    entry: &abi::Learned,
) -> String {
    if entry.port.ifindex == 0 && entry.remote == abi::Addr::default() {
        return "uplink".to_owned();
    }
    if entry.port.ifindex == 0 {
        return IpAddr::from(entry.remote).to_string();
    }
    let device = kernel.device_name(entry.port.ifindex);
    let mut ports = tables.iter().flat_map(|tables| &tables.ports);
    let here = ports.find(|port| {
        Some(&port.attachment.device) == device.as_ref()
            && port.attachment.vlan.map_or(0, |vlan| u32::from(vlan.get())) == entry.port.vlan
            && port.switch.number() == key.switch_id
    });
    here.map_or_else(
        || format!("{:?}", entry.port),
        |port| port.attachment.to_string(),
    )
}

impl Difference {
    /// What tells differences apart: the first one in words, up to what the eBPF programs did, without numbers.
    pub fn kind(&self) -> String {
        let words = self
            .found
            .first()
            .map_or("", |found| found.lines().next().unwrap_or_default());
        let words = words.split(", eBPF").next().unwrap_or_default();
        words.chars().filter(|c| !c.is_ascii_digit()).collect()
    }

    /// A file for `tests/cases/STAGE/`, with what the reference executor says.
    pub fn case(&self) -> String {
        let mut out = String::from("title: \nrules: []\nfabric:\n");
        for line in self.spec.yaml().lines() {
            let _ = writeln!(out, "  {line}");
        }
        let _ = writeln!(out, "underlay_mtu: {}", self.spec.underlay_mtu);
        let _ = writeln!(out, "port_shared: {}", self.spec.port_shared);
        let _ = writeln!(out, "whole_udp: {}", self.spec.whole_udp);
        let _ = writeln!(out, "leg: {{ mtu: {} }}", self.spec.leg_mtu);
        let _ = writeln!(out, "port_mtu: {}", self.spec.port_mtu);
        let mut turned = self.arrivals.iter().any(|arrival| arrival.turned);
        if turned {
            out += "changed:\n";
            for line in self.spec.turned().yaml().lines() {
                let _ = writeln!(out, "  {line}");
            }
        }
        out += "packets:\n";
        let outcomes = self.outcomes();
        for (arrival, outcome) in self.arrivals.iter().zip(&outcomes) {
            let seconds = arrival.now_ns as f64 / 1e9;
            let _ = writeln!(
                out,
                "  - at: {seconds:.9}\n    from: {}",
                self.entrance(&arrival.entry)
            );
            if arrival.turned && std::mem::take(&mut turned) {
                out += "    changed: true\n";
            }
            if !arrival.gone.is_empty() {
                let gone: Vec<_> = arrival.gone.iter().map(ToString::to_string).collect();
                let _ = writeln!(out, "    gone: [{}]", gone.join(", "));
            }
            out += "    packet:\n";
            out += &text(&dissect(&arrival.packet), "      ");
            out += &compare::outcome_text(outcome);
        }
        out
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let Ok(tables) = tables(&self.spec) else {
            return Vec::new();
        };
        let host = reference::host(&tables, self.spec.machine());
        let turned =
            turned(&self.spec, &tables).map(|it| reference::host(&it, self.spec.machine()));
        let mut state = new_state();
        let arrivals = self.arrivals.iter();
        arrivals
            .map(|arrival| {
                let host = turned.as_ref().filter(|_| arrival.turned).unwrap_or(&host);
                state.set_gone(arrival.gone.clone());
                host.decide(&mut state, arrival.now_ns, &arrival.entry, &arrival.packet)
            })
            .collect()
    }

    fn entrance(&self, entry: &Entry) -> String {
        match entry {
            Entry::Port(device) => format!("device {device}"),
            Entry::Segmenter(device) => {
                let ports = self.spec.ports.iter();
                let mut ports =
                    ports.filter(|port| port.host == 0 && port.device == device.as_str());
                ports.next().map_or_else(
                    || format!("segmenter {device}"),
                    |port| format!("segmenter p{}", port.name),
                )
            }
            Entry::Underlay => "underlay".into(),
            Entry::Leg(device) => format!("leg {device}"),
        }
    }
}
