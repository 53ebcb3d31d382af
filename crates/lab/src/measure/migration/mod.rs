//! One sample of machines that move: all of a topology at once, to the other host.
//!
//! ```text
//! go on ─ dirty ─ flows ─ QEMU there ─ settle ─┬──── window: memory travels ────┬─ flows end ─ stand still
//!                                              │         still ─ switch ─ there │
//! ```
//!
//! In the window a machine's memory goes over the links. When little is left QEMU stops the machine, the network
//! [takes the port over](crate::backends::Backend::take_over), and the machine goes on at the other host. Even rounds go there,
//! odd ones back: cells that are compared go the same way in the same round.

mod links;

use super::{Request, figures, memory};
use crate::backends::Backend;
use crate::error::LabError;
use crate::flows::{ANSWER, Flows};
use crate::machine::cpu_time::CpuTimes;
use crate::machine::programs::Programs;
use crate::machines::Machines;
use crate::session::Session;
use crate::topology::Topology;
use crate::vm::{self, Images, Machine, Options, Progress};
use links::Links;
use overlane_analysis::record::{Discard, Flow, Memory, Migration, Moved, Moving, Sample};
use overlane_analysis::time;
use std::time::Duration;

/// The flows and the writing of memory are steady before a machine moves.
const SETTLE: Duration = Duration::from_millis(300);
/// The flows notice the end of the move.
const GRACE: Duration = Duration::from_millis(300);
/// A machine that has not moved by then will not: it writes faster than the links carry.
const LIMIT: Duration = Duration::from_secs(40);
/// Bytes a second that a machine may be sent at: more than any link carries, and without it QEMU keeps to 128 MiB.
const BANDWIDTH: u64 = 1 << 40;
/// QEMU stops a machine when what is left takes no longer. Its own default of 300 ms is for machines with much more memory: on a
/// fast cable most of that of these would travel while they stand still.
const DOWNTIME: Duration = Duration::from_millis(50);
/// How often the machines are looked after.
const TICK: Duration = Duration::from_millis(4);

/// The place in which machines move.
pub(crate) struct Place<'a> {
    pub(crate) session: &'a Session,
    pub(crate) images: &'a Images,
    pub(crate) topology: &'a Topology,
    pub(crate) backend: &'a mut dyn Backend,
    pub(crate) machines: &'a mut Machines,
}

/// A sample, and what the links carried, in words.
pub(crate) struct Taken {
    pub(crate) sample: Sample,
    pub(crate) proof: String,
}

/// Takes a sample. After an error the machines are gone: some may have moved, and others not.
pub(crate) fn sample(place: &mut Place<'_>, request: &Request) -> Result<Taken, LabError> {
    let taken = take(place, request);
    if taken.is_err() {
        place.machines.all.clear();
    }
    taken
}

fn take(place: &mut Place<'_>, request: &Request) -> Result<Taken, LabError> {
    let group = request.cell.group;
    let Some(moving) = group.workload.migration else {
        return Err(LabError::Migration {
            reason: "the workload says nothing of how machines move".to_owned(),
        });
    };
    let home = usize::from(request.round % 2 == 1);
    let (session, topology) = (place.session, place.topology);
    place.machines.resume(session)?;
    if place.machines.host != home {
        // A round that was taken again left them on the other side.
        let there = place
            .machines
            .destinations(session, place.images, topology)?;
        place.move_all(there, &moving)?;
    }
    let memory_mib = group.setting.guest_memory_mib.unwrap_or_default();
    let dirty_mib = memory_mib * moving.dirty_percent / 100;
    for machine in &place.machines.all {
        machine.reset(session)?;
        machine.dirty(
            session,
            dirty_mib.into(),
            moving.dirty_mib_per_second.into(),
        )?;
    }
    let started_unix_ms = time::unix_ms();
    let flows = topology
        .pairs
        .iter()
        .map(|pair| Flows::start(pair, group.workload.bytes));
    let flows: Vec<Flows> = flows.collect::<Result<_, _>>()?;
    let there = place
        .machines
        .destinations(session, place.images, topology)?;
    session.wait_until("answers of the machines", ANSWER, || {
        Ok(flows.iter().all(Flows::run))
    })?;
    session.interrupts.wait(SETTLE)?;
    let written = place.reports()?;

    let programs = Programs::now()?;
    let links = Links::open(topology, home, moving.links, request.round == 0)?;
    flows.iter().for_each(Flows::begin_window);
    let before = CpuTimes::now()?;
    let all = place.move_all(there, &moving)?;
    let after = CpuTimes::now()?;
    let carried = links.close(topology)?;
    let foreign =
        Programs::now()?.foreign_since(&programs, std::process::id(), &session.cpus.all());
    let machine_mib = memory::of_the_machine()?;

    let written_after = place.reports()?;
    // A flow that goes no further has a gap whose end nobody has seen.
    let returned: Vec<_> = flows.iter().map(Flows::returned).collect();
    session.wait_until("answers of the machines that have moved", ANSWER, || {
        let now = flows.iter().map(Flows::returned);
        let mut both = now.zip(&returned);
        Ok(both.all(|(now, before)| now[0] > before[0] && now[1] > before[1]))
    })?;
    session.interrupts.wait(GRACE)?;
    let flows = flows
        .into_iter()
        .map(Flows::stop)
        .collect::<Result<Vec<_>, _>>()?;
    let reports = place.reports()?;
    place.machines.pause(session)?;
    let floods = !topology.backend.is_overlane();
    for (pair, report) in topology.pairs.iter().zip(&reports) {
        if let Some(wrong) = wrongly_delivered(report, floods) {
            return Err(LabError::VirtualMachine {
                name: pair.sender.node.place.clone(),
                reason: wrong,
            });
        }
    }

    let machines = all
        .iter()
        .zip(flows)
        .enumerate()
        .map(|(index, (figures, flows))| {
            let rate = written_between(written.get(index), written_after.get(index));
            Moved {
                wrong_frames: reports.get(index).map_or(0, |report| report.wrong_frames),
                ..moved(figures, flows, rate)
            }
        });
    let migration = Migration {
        back: home == 1,
        seconds: (after.at - before.at).as_secs_f64(),
        link_bytes: carried.bytes.clone(),
        machines: machines.collect(),
    };
    carried.hold(&migration, topology.setting)?;
    let cpu = after.since(&before, &session.cpus);
    let seconds = migration.seconds;
    let gbps = migration.transferred_bytes() as f64 * 8e-9 / seconds;
    let bytes: u64 = carried.bytes.iter().sum();
    let bound = figures::bound(gbps, None, None, &cpu, &session.cpus, foreign.disturbs());
    let sample = Sample {
        cell: request.cell,
        round: request.round,
        started_unix_ms,
        window_seconds: seconds,
        discarded: (request.round == 0).then_some(Discard::WarmUp),
        goodput_gbps: Some(gbps),
        transactions_per_second: None,
        rate_pps: None,
        loss_percent: None,
        timeouts: None,
        latency: None,
        retransmits: None,
        tcp: None,
        accounting: None,
        search: None,
        migration: Some(migration),
        bound,
        underlay_packets: carried.packets,
        underlay_bytes: bytes,
        underlay_rate_pps: carried.packets as f64 / seconds,
        underlay_packet_bytes: (carried.packets > 0).then(|| bytes as f64 / carried.packets as f64),
        cpu_percent_per_gbps: figures::cpu_per_gbps(&cpu, Some(gbps)),
        cpu_us_per_transaction: None,
        cpu_us_per_packet: None,
        cpu,
        foreign: Some(foreign),
        memory: Memory {
            machine_mib,
            guest_sender_mib: None,
            guest_receiver_mib: None,
        },
        intervals: Vec::new(),
    };
    Ok(Taken {
        sample,
        proof: carried.words,
    })
}

/// What a machine was sent that it should not have got. A switch that learns `floods` what is for a machine that it has not
/// heard of yet.
fn wrongly_delivered(report: &vm::GuestReport, floods: bool) -> Option<String> {
    let vm::GuestReport {
        udp_duplicates,
        duplicate_frames,
        wrong_frames,
        wrong_mac,
        ..
    } = report;
    if *wrong_frames > 0 && !floods {
        let to = wrong_mac.as_deref().unwrap_or("somebody else");
        return Some(format!(
            "{wrong_frames} frames came that are another's, the first to {to}"
        ));
    }
    let twice = udp_duplicates + duplicate_frames;
    (twice > 0)
        .then(|| format!("{udp_duplicates} datagrams and {duplicate_frames} frames came twice"))
}

/// Why a machine did not move, and where it is.
fn words(machine: &str, stopped: &vm::Stopped) -> String {
    let end = match stopped.guest {
        vm::Guest::AtSource => "it runs on where it was",
        vm::Guest::Lost => "it is lost",
    };
    format!("{machine}: {}; {end}", stopped.reason)
}

/// How fast the machine's program wrote memory between two reports, by the machine's own clock.
fn written_between(before: Option<&vm::GuestReport>, after: Option<&vm::GuestReport>) -> f64 {
    let (Some(before), Some(after)) = (before, after) else {
        return 0.0;
    };
    let seconds = (after.uptime.saturating_sub(before.uptime)).as_secs_f64();
    if seconds > 0.0 {
        (after.dirtied_mib - before.dirtied_mib) / seconds
    } else {
        0.0
    }
}

fn moved(figures: &vm::Figures, [udp, tcp]: [Flow; 2], rate: f64) -> Moved {
    Moved {
        total_ms: figures.total_ms as f64,
        downtime_ms: figures.downtime_ms as f64,
        setup_ms: figures.setup_ms as f64,
        switch_ms: figures.switch().as_secs_f64() * 1e3,
        transferred_bytes: figures.transferred_bytes,
        dirty_rounds: figures.rounds,
        pages_asked_for: figures.postcopy_requests,
        dirtied_mib_per_second: rate,
        wrong_frames: 0,
        udp,
        tcp,
    }
}

impl Place<'_> {
    /// Moves all machines to the other host. Where one does not, the error says why, and nothing is put back.
    fn move_all(
        &mut self,
        there: Vec<Machine>,
        moving: &Moving,
    ) -> Result<Vec<vm::Figures>, LabError> {
        let (session, topology) = (self.session, self.topology);
        let to = 1 - self.machines.host;
        let options = Options {
            addresses: links::addresses(to, moving.links),
            // One for each link, where there are several.
            channels: 0,
            postcopy: moving.postcopy,
            bandwidth: BANDWIDTH,
            downtime: DOWNTIME,
            limit: LIMIT,
        };
        let mut under_way = Vec::new();
        for (source, destination) in self.machines.all.iter().zip(&there) {
            under_way.push(vm::Migration::begin(
                session,
                source,
                destination,
                options.clone(),
            )?);
        }
        let mut done: Vec<Option<vm::Figures>> = vec![None; under_way.len()];
        let mut failed = None;
        while done.iter().any(Option::is_none) && failed.is_none() {
            for (index, migration) in under_way.iter_mut().enumerate() {
                if done[index].is_some() {
                    continue;
                }
                match migration.poll()? {
                    Progress::Running => {}
                    Progress::ReadyToSwitch => {
                        self.backend.take_over(session, topology, index, to)?;
                        migration.switch()?;
                    }
                    Progress::Completed(figures) => done[index] = Some(*figures),
                    Progress::Failed(stopped) => {
                        failed = Some(words(&self.machines.all[index].name, &stopped))
                    }
                }
            }
            session.interrupts.wait(TICK)?;
        }
        drop(under_way);
        if let Some(reason) = failed {
            return Err(LabError::Migration { reason });
        }
        self.machines.all = there;
        self.machines.host = to;
        Ok(done.into_iter().flatten().collect())
    }

    fn reports(&self) -> Result<Vec<vm::GuestReport>, LabError> {
        let session = self.session;
        let machines = self.machines.all.iter();
        machines.map(|machine| machine.report(session)).collect()
    }
}
