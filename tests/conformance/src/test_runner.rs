//! Runs packets through the eBPF programs in the kernel, one at a time and on no device
//! ([`TestRun`]). Says what became of each in the words of the reference executor.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use overlane_ebpf::abi::firewall::ConnectionKey;
use overlane_ebpf::abi::{Asked, FoundNeighbour, MAX_GONE};
use overlane_ebpf::connections::{ConnectionEntry, Taken};
use overlane_ebpf::counters::Counters as MapCounters;
use overlane_ebpf::learned::LearnedEntry;
use overlane_ebpf::neighbours::Entries as Neighbours;
use overlane_ebpf::tables::{Devices, LegDevice as LegNumbers, PortDevice, encode};
use overlane_ebpf::test_run::{self, Action, Beside, Sent, TestRun};
use overlane_ebpf::{DataPath, EbpfError, Program, preflight};
use overlane_host::handover;
use overlane_model::{DeviceName, GatewayPlace, Name, PortLimits, Tables, Verdict};
use overlane_pipeline::{Counters, Entry, Outcome, Packet, PathMtu};

use crate::case::{Case, LegDevice, Machine, Moved};
use crate::compare;
use crate::counted::{self, added};
use crate::logged::Logged;

/// Devices that are not there: the programs only compare the numbers.
const UPLINK: u32 = 1_000_001;
const SEGMENTER: u32 = 1_000_002;
const SEGMENTER_OUT: u32 = 1_000_003;
const UNMARKER: u32 = 1_000_004;
const COALESCER: u32 = 1_000_005;
const NO_PORT: u32 = 1_000_009;
const FIRST_PORT: u32 = 1_000_010;
const FIRST_LEG: u32 = 1_100_000;

/// The programs, with the tables of one host.
#[derive(Debug)]
pub struct TestRunner {
    kernel: TestRun,
    tables: Option<Named>,
    gone: BTreeSet<DeviceName>,
    counted: MapCounters,
    counted_rules: counted::RuleCounters,
}

/// The tables, and the numbers of their devices.
#[derive(Debug)]
struct Named {
    tables: Tables,
    machine: Machine,
    devices: BTreeMap<DeviceName, u32>,
    legs: BTreeMap<DeviceName, u32>,
}

/// What became of a packet.
#[derive(Debug)]
pub struct Observed {
    /// Its verdict.
    pub verdict: Option<Verdict>,
    /// What the hook does with the packet.
    pub action: Action,
    /// Whether the packet itself is among those that left.
    pub redirected: bool,
    /// All that left, in order: copies of a flooded frame, then the packet itself.
    pub left: Vec<LeftBy>,
    /// The packet at the program's end, wherever it went.
    pub packet: Packet,
    /// What rules wrote into the log about it.
    pub log: Vec<Logged>,
}

/// A packet that left.
#[derive(Debug)]
pub struct LeftBy {
    /// Where.
    pub device: Device,
    /// Without what makes it a super-packet; of a copy only the first bytes.
    pub packet: Packet,
    /// Its length.
    pub len: usize,
    /// Of a flooded frame, and not the packet itself.
    pub is_copy: bool,
}

/// A device of the host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Device {
    /// The uplink.
    Uplink,
    /// The segmenter.
    Segmenter,
    /// One with ports.
    Port(DeviceName),
    /// A gateway's leg.
    Leg(DeviceName),
    /// A number nobody has.
    Unknown(u32),
}

/// Why this machine cannot run the programs; `None`: it can.
pub fn obstacle() -> Option<String> {
    let checks = [preflight::check_kernel(), preflight::check_rights()];
    checks
        .into_iter()
        .find_map(|check| check.err().map(|error| error.to_string()))
}

/// Whether the kernel can run this packet on no device.
pub fn can_run(packet: &Packet) -> bool {
    test_run::can_run(&packet.bytes)
}

/// Our build of the programs, or the one that `OVERLANE_OBJECT` names: with a bug planted (tests/mutants).
pub fn data_path() -> Result<DataPath<'static>, EbpfError> {
    let Some(path) = std::env::var_os("OVERLANE_OBJECT") else {
        return DataPath::embedded();
    };
    let read = std::fs::read(&path).map_err(|source| EbpfError::Call {
        call: "read",
        what: format!("OVERLANE_OBJECT={}", path.display()),
        source,
    });
    // Once in a process, as the embedded one.
    DataPath::new(read?.leak())
}

impl TestRunner {
    /// Loads the programs; once is enough for a process.
    pub fn load() -> Result<Self, EbpfError> {
        Self::of(TestRun::load(&data_path()?)?)
    }

    /// With maps as large as those of a host.
    pub fn with_all_room() -> Result<Self, EbpfError> {
        let room = *PortLimits::CONNECTIONS.end();
        Self::of(TestRun::with_room(&data_path()?, room)?)
    }

    fn of(kernel: TestRun) -> Result<Self, EbpfError> {
        Ok(Self {
            counted: kernel.counters()?,
            counted_rules: kernel.rule_counters()?,
            kernel,
            tables: None,
            gone: BTreeSet::new(),
        })
    }

    /// Becomes a host with these tables and with legs that are all alike, which has learned nothing.
    pub fn set_host(&mut self, tables: &Tables, machine: Machine) -> Result<(), EbpfError> {
        self.gone.clear();
        self.kernel.forget()?;
        let known = self.tables.as_ref();
        if known.is_some_and(|it| it.machine == machine && it.tables == *tables) {
            return self.begin_counting();
        }
        self.tables = None;
        self.change_host(tables, machine)
    }

    fn begin_counting(&mut self) -> Result<(), EbpfError> {
        self.counted = self.kernel.counters()?;
        self.counted_rules = self.kernel.rule_counters()?;
        self.kernel.take_log();
        Ok(())
    }

    /// From now on these devices are gone, and no others.
    pub fn set_gone(&mut self, devices: &BTreeSet<DeviceName>) {
        self.gone.clone_from(devices);
    }

    /// The host gets other tables, and knows what it knew. A device keeps its number.
    pub fn change_host(&mut self, tables: &Tables, machine: Machine) -> Result<(), EbpfError> {
        let before = self.tables.take();
        let mut devices = before.map_or_else(BTreeMap::new, |before| before.devices);
        for port in &tables.ports {
            let next = FIRST_PORT + devices.len() as u32;
            devices
                .entry(port.attachment.device.clone())
                .or_insert(next);
        }
        let ports = devices.iter().map(|(name, &ifindex)| {
            let peer = ifindex % 2 == 0; // both ways of delivery
            let takes_no_mark = ifindex % 3 == 0;
            let device = PortDevice {
                ifindex,
                peer,
                takes_no_mark,
                mtu: machine.port_mtu,
            };
            (name.clone(), device)
        });
        let legs = legs(tables);
        let numbers = legs.iter().map(|(name, &ifindex)| {
            let LegDevice { mac, mtu } = machine.leg;
            let leg = LegNumbers {
                ifindex,
                mac,
                mtu,
                takes_no_mark: false,
            };
            (name.clone(), leg)
        });
        let contents = encode(
            tables,
            &Devices {
                ports: ports.collect(),
                legs: numbers.collect(),
                uplink_ifindex: UPLINK,
                underlay_mtu: machine.underlay_mtu,
                segmenter_ifindex: SEGMENTER,
                segmenter_out_ifindex: SEGMENTER_OUT,
                unmarker_ifindex: if machine.whole_udp { UNMARKER } else { 0 },
                coalescer_ifindex: COALESCER,
                netns_cookie: 0,
                port_shared: machine.port_shared,
                secret: machine.secret,
                cookie_key: [machine.secret; 2],
            },
        )?;
        self.kernel.set_tables(&contents)?;
        self.begin_counting()?;
        self.tables = Some(Named {
            tables: tables.clone(),
            machine,
            devices,
            legs,
        });
        Ok(())
    }

    /// Connections come from another host at that time; what becomes of each.
    pub fn take(&self, moved: &Moved, now_ns: u64) -> Result<Vec<Taken>, EbpfError> {
        let port = (moved.port.0.number(), moved.port.1.get());
        let entries = moved.connections.iter();
        let entries = entries.map(|connection| handover::entry(connection, port, now_ns));
        entries
            .map(|entry| self.kernel.take(now_ns, &entry))
            .collect()
    }

    /// Runs a case, all of whose packets [`can_run`]: what became of each, and what was counted.
    pub fn observe(&mut self, case: &Case) -> Result<Vec<(Observed, Counters)>, EbpfError> {
        self.set_host(&case.tables, case.machine)?;
        if let (Some(moved), Some(first)) = (&case.moved, case.steps.first()) {
            let taken = self.take(moved, first.now_ns)?;
            if let Some(lost) = taken.iter().find(|taken| **taken != Taken::Kept) {
                return Err(EbpfError::Missing {
                    kind: "place for a connection",
                    name: format!("{lost:?}"),
                });
            }
        }
        let mut changed = false;
        let mut observed = Vec::new();
        for step in &case.steps {
            if step.changed && !changed {
                changed = true;
                self.change_host(case.tables_of(step), case.machine)?;
            }
            self.set_gone(&step.gone);
            let of_step = self.run(step.now_ns, &step.entry, &step.packet)?;
            observed.push((of_step, self.counted()?));
        }
        Ok(observed)
    }

    /// The same: how each packet differs from what the reference executor made of it.
    pub fn differences(
        &mut self,
        case: &Case,
        outcomes: &[Outcome],
    ) -> Result<Vec<Vec<String>>, EbpfError> {
        let observed = self.observe(case)?;
        let packets = case.steps.iter().zip(outcomes).zip(&observed);
        let differences = packets.map(|((step, outcome), (observed, counted))| {
            let tables = case.tables_of(step);
            let mut found = compare::with_reference(tables, &step.packet, outcome, observed);
            found.extend(compare::counters(&outcome.counters, counted));
            found
        });
        Ok(differences.collect())
    }

    /// Forgets all translations, as a user would: so many.
    pub fn forget_translations(&self) -> Result<usize, EbpfError> {
        self.kernel.forget_translations()
    }

    /// As if packets began to be at work with all entries of translations, or ended it.
    pub fn claim_translations(&self) -> Result<(), EbpfError> {
        self.kernel.claim_translations()
    }

    /// Forgets what was learned.
    pub fn forget(&self) -> Result<(), EbpfError> {
        self.kernel.forget()
    }

    /// What was said of the paths to remotes: by whom, and until when.
    pub fn path_mtus(&self) -> Result<BTreeMap<IpAddr, PathMtu>, EbpfError> {
        let all = self.kernel.path_mtus()?.into_iter();
        let ours = all.map(|(remote, known)| {
            let known = PathMtu {
                mtu: known.mtu,
                until_s: known.until.into(),
                hop: known.hop.into(),
            };
            (remote, known)
        });
        Ok(ours.collect())
    }

    /// What is learned now.
    pub fn learned(&self) -> Result<Vec<LearnedEntry>, EbpfError> {
        self.kernel.learned()
    }

    /// The neighbours that routers found.
    pub fn found(&self) -> Result<Neighbours<FoundNeighbour>, EbpfError> {
        self.kernel.found()
    }

    /// The addresses that routers asked for, and nobody has answered for.
    pub fn asked(&self) -> Result<Neighbours<Asked>, EbpfError> {
        self.kernel.asked()
    }

    /// The connections there are now.
    pub fn connections(&self) -> Result<Vec<ConnectionEntry>, EbpfError> {
        self.kernel.connections()
    }

    /// The device with a number that [`learned`](Self::learned) gave.
    pub fn device_name(&self, ifindex: u32) -> Option<DeviceName> {
        match self.tables.as_ref()?.device(ifindex)? {
            Device::Port(name) => Some(name),
            _ => None,
        }
    }

    /// What was counted since the last call, or since the tables were set.
    pub fn counted(&mut self) -> Result<Counters, EbpfError> {
        let Some(named) = &self.tables else {
            return Ok(Counters::default());
        };
        let before = std::mem::replace(&mut self.counted, self.kernel.counters()?);
        let rules = self.kernel.rule_counters()?;
        let rules_before = std::mem::replace(&mut self.counted_rules, rules);
        let mut counters = added(&named.tables, &before, &self.counted);
        counters.rules = counted::added_rules(&named.tables, &rules_before, &self.counted_rules);
        Ok(counters)
    }

    /// What local ends of translations are outside, each with the connection that it leads to.
    pub fn translations(&self) -> Result<BTreeMap<ConnectionKey, ConnectionKey>, EbpfError> {
        self.kernel.translations()
    }

    /// Each list of frames comes from there on a CPU of its own, at the same moments. `meanwhile` is done again and again.
    pub fn race(
        &self,
        now_ns: u64,
        entry: &Entry,
        lists: &[Vec<Vec<u8>>],
        meanwhile: &dyn Fn(&Self) -> Result<(), EbpfError>,
    ) -> Result<(), EbpfError> {
        let (program, ifindex, mark) = place(named(&self.tables)?, entry);
        let beside = Beside {
            now_ns,
            ifindex,
            mark,
            ..Beside::default()
        };
        let meanwhile = || meanwhile(self);
        (self.kernel).race(program, beside, lists, &meanwhile)
    }

    /// Runs one packet, which [`can_run`].
    pub fn run(
        &mut self,
        now_ns: u64,
        entry: &Entry,
        packet: &Packet,
    ) -> Result<Observed, EbpfError> {
        let named = named(&self.tables)?;
        let (program, ifindex, mark) = place(named, entry);
        let beside = Beside {
            now_ns,
            ifindex,
            mark,
            tag: packet.tag,
            gone: named.gone(&self.gone),
            gso_size: packet.gso.map_or(0, |gso| gso.size.into()),
            gso_segs: packet.gso.map_or(0, |gso| gso.segments),
        };
        let ran = self.kernel.run(program, &packet.bytes, beside)?;
        let records = self.kernel.take_log();
        let packet = Packet {
            bytes: ran.bytes,
            tag: ran.tag,
            gso: None,
        };
        let copies = ran.copies.into_iter().map(|copy| named.copy(copy));
        let itself = named.device(ran.ifindex).map(|device| LeftBy {
            device,
            len: packet.bytes.len(),
            packet: packet.clone(),
            is_copy: false,
        });
        Ok(Observed {
            log: records
                .iter()
                .map(|record| Logged::theirs(record, named.rule(record.rule)))
                .collect(),
            verdict: ran.verdict,
            action: ran.action,
            redirected: itself.is_some(),
            left: copies.chain(itself).collect(),
            packet,
        })
    }
}

impl Named {
    fn ifindex(&self, device: &DeviceName) -> u32 {
        self.devices.get(device).copied().unwrap_or(NO_PORT)
    }

    /// Their numbers; 0: no more.
    fn gone(&self, devices: &BTreeSet<DeviceName>) -> [u32; MAX_GONE] {
        let number = |device: &DeviceName| {
            let known = self.devices.get(device).or_else(|| self.legs.get(device));
            let uplink = (*device == self.tables.uplink).then_some(UPLINK);
            known.copied().or(uplink)
        };
        let mut gone = [0; MAX_GONE];
        for (place, number) in gone.iter_mut().zip(devices.iter().filter_map(number)) {
            *place = number;
        }
        gone
    }

    fn device(&self, ifindex: u32) -> Option<Device> {
        let find = |devices: &BTreeMap<DeviceName, u32>| {
            let found = devices.iter().find(|(_, known)| **known == ifindex);
            found.map(|(name, _)| name.clone())
        };
        Some(match (ifindex, find(&self.devices), find(&self.legs)) {
            (0, ..) => return None,
            (UPLINK, ..) => Device::Uplink,
            (SEGMENTER, ..) => Device::Segmenter,
            (_, Some(name), _) => Device::Port(name),
            (_, None, Some(name)) => Device::Leg(name),
            (other, ..) => Device::Unknown(other),
        })
    }

    fn copy(&self, copy: Sent) -> LeftBy {
        LeftBy {
            device: self.device(copy.ifindex).unwrap_or(Device::Unknown(0)),
            len: copy.len,
            is_copy: true,
            packet: Packet {
                bytes: copy.bytes,
                tag: copy.tag,
                gso: None,
            },
        }
    }

    fn rule(&self, number: u32) -> Option<Name> {
        let rules = &self.tables.firewall.rules;
        rules.get(number as usize).map(|rule| rule.name.clone())
    }
}

/// Numbers for the legs that are here.
fn legs(tables: &Tables) -> BTreeMap<DeviceName, u32> {
    let gateways = tables.routers.iter().filter_map(|it| it.gateway.as_ref());
    let devices = gateways.filter_map(|gateway| match &gateway.place {
        GatewayPlace::Here { leg } => leg.clone(),
        GatewayPlace::Remote(_) => None,
    });
    devices.zip(FIRST_LEG..).collect()
}

/// What the host's tables call things.
fn named(tables: &Option<Named>) -> Result<&Named, EbpfError> {
    tables.as_ref().ok_or_else(|| EbpfError::Missing {
        kind: "table",
        name: "settings".into(),
    })
}

/// The program that sees a packet first, by which device, and the mark that it has.
fn place(named: &Named, entry: &Entry) -> (Program, u32, u32) {
    match entry {
        Entry::Port(device) => (Program::FromPort, named.ifindex(device), 0),
        Entry::Segmenter(device) => (Program::FromPort, SEGMENTER_OUT, named.ifindex(device)),
        Entry::Underlay => (Program::FromUnderlay, UPLINK, 0),
        Entry::Leg(device) => {
            let leg = named.legs.get(device).copied();
            (Program::FromLeg, leg.unwrap_or(NO_PORT), 0)
        }
    }
}
