//! Runs the programs of the data path on single packets, on no device (`BPF_PROG_TEST_RUN`), with tables of
//! our own in maps that nobody else sees. For tests: the programs are loaded with `test_mode` set
//! (`bpf/lib/test_mode.h`), and then send nothing.
//!
//! What the kernel cannot run this way: packets of at most 14 bytes or above [`MAX_LEN`], IP packets without
//! a whole header ([`can_run`]). That a packet is a super-packet only our programs believe; to the kernel's
//! helpers it is a long one.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{io, thread};

use overlane_model::Verdict;
use overlane_wire::EtherType;
use overlane_wire::ethernet::Tag;
use zerocopy::{FromBytes, IntoBytes};

use crate::abi::firewall::{ConnectionKey, LogRecord, TranslationEntry};
use crate::connections::{self, ConnectionEntry, TRANSLATIONS, Taken};
use crate::counters::{self, Counters};
use crate::events::Events;
use crate::learned::{self, LearnedEntry};
use crate::rule_log::RuleLog;
use crate::tables::{Contents, Table};
use crate::{DataPath, EbpfError, Loaded, Program, abi, abilities, neighbours, path_mtus, sys};

/// Shortest packet the kernel runs: an Ethernet header and one byte.
pub const MIN_LEN: usize = 15;

/// Longest packet: it must fit a page with some room before and behind it (`bpf_test_init` in
/// net/bpf/test_run.c).
pub const MAX_LEN: usize = 3500;

/// Whether the kernel runs programs on these bytes (`bpf_prog_test_run_skb` in net/bpf/test_run.c).
pub fn can_run(bytes: &[u8]) -> bool {
    let header = match bytes.get(12..14) {
        Some([0x08, 0x00]) => 20,
        Some([0x86, 0xdd]) => 40,
        _ => 0,
    };
    (MIN_LEN..=MAX_LEN).contains(&bytes.len()) && bytes.len() >= 14 + header
}

/// What the programs take from us and tell us.
const TEST_IO: &str = "test_io";

/// Room for what encapsulation adds.
const ROOM: usize = MAX_LEN + 2 * abi::MAX_TEMPLATE;

/// Packets of a race that a CPU runs before it waits for the others.
const STRETCH: usize = 50;

/// The programs and their maps, for this process only.
#[derive(Debug)]
pub struct TestRun {
    loaded: Loaded,
    written: Contents,
    rule_log: RuleLog,
    copies: Events,
}

/// What the kernel keeps beside a packet's bytes, and when it enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Beside {
    /// Instead of the kernel's clock.
    pub now_ns: u64,
    /// The device it enters by.
    pub ifindex: u32,
    /// `skb->mark`.
    pub mark: u32,
    /// VLAN tag.
    pub tag: Option<Tag>,
    /// Payload of a segment; 0: no super-packet.
    pub gso_size: u32,
    /// Segments of a super-packet.
    pub gso_segs: u32,
    /// Devices that are gone; 0: none.
    pub gone: [u32; abi::MAX_GONE],
}

/// One copy of a flooded frame, as it would be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The device.
    pub ifindex: u32,
    /// Its tag.
    pub tag: Option<Tag>,
    /// Its length.
    pub len: usize,
    /// Its first bytes, at most [`abi::MAX_SNAP`].
    pub bytes: Vec<u8>,
}

/// What a program tells its hook to do with the packet (linux/bpf.h, `enum tcx_action_base`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It goes on as if no program were there.
    Next,
    /// It ends here.
    Drop,
    /// It goes where the program sent it.
    Redirect,
    /// None of these.
    Other(i32),
}

/// What became of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// What the hook does with it.
    pub action: Action,
    /// Its verdict; none when the program gave a number that is none.
    pub verdict: Option<Verdict>,
    /// The device it was sent to; 0: none.
    pub ifindex: u32,
    /// Copies of a flooded frame, in their order.
    pub copies: Vec<Sent>,
    /// Its tag now.
    pub tag: Option<Tag>,
    /// Its bytes now.
    pub bytes: Vec<u8>,
}

impl TestRun {
    /// Loads the programs of a build.
    pub fn load(build: &DataPath<'_>) -> Result<Self, EbpfError> {
        Self::with_room(build, 4096)
    }

    /// The same with maps for so many connections, translations and learned addresses.
    pub fn with_room(build: &DataPath<'_>, room: u32) -> Result<Self, EbpfError> {
        let loaded = build.load_for_tests(room)?;
        let rule_log = RuleLog::of(loaded.maps.duplicate("rule_log")?)?;
        let copies = Events::of(loaded.maps.duplicate("events")?)?;
        Ok(Self {
            loaded,
            written: Contents::new(),
            rule_log,
            copies,
        })
    }

    /// Makes these the tables. Writes only what differs from the tables before. What the programs learned and their
    /// connections stay: [`forget`](Self::forget).
    pub fn set_tables(&mut self, contents: &Contents) -> Result<(), EbpfError> {
        let nothing = BTreeMap::new();
        for table in Table::ALL {
            let old = self.written.get(&table).unwrap_or(&nothing);
            let new = contents.get(&table).unwrap_or(&nothing);
            // An array's entries cannot be deleted, only overwritten.
            let gone = old.keys().filter(|key| !new.contains_key(*key));
            for key in gone.filter(|_| !table.is_array()) {
                self.loaded.maps.delete(table, key)?;
            }
            for (key, value) in new {
                if old.get(key) != Some(value) {
                    self.loaded.maps.put(table, key, value)?;
                }
            }
        }
        self.written = contents.clone();
        self.loaded.maps.stand_still()
    }

    /// As if somebody had taken the pin of the map `data_paths` away.
    pub fn lead_nowhere(&self) -> Result<(), EbpfError> {
        self.loaded.lead_nowhere()
    }

    /// Forgets what the programs learned, of paths too, their connections, and how much they sent and wrote.
    pub fn forget(&self) -> Result<(), EbpfError> {
        learned::forget(&self.loaded.maps)?;
        neighbours::forget(&self.loaded.maps)?;
        abilities::forget(&self.loaded.maps)?;
        counters::forget_path_mtus(&self.loaded.maps)?;
        connections::forget(&self.loaded.maps)?;
        self.loaded.maps.stand_still()
    }

    /// The connections there are, expired ones among them.
    pub fn connections(&self) -> Result<Vec<ConnectionEntry>, EbpfError> {
        connections::entries(&self.loaded.maps)
    }

    /// A connection comes from another host at that time.
    pub fn take(&self, now_ns: u64, entry: &ConnectionEntry) -> Result<Taken, EbpfError> {
        self.set_io(&abi::TestIo {
            now: now_ns,
            ..abi::TestIo::default()
        })?;
        connections::take(
            self.loaded.program(Program::TakeConnection)?,
            entry,
            connections::How::Absent,
        )
    }

    /// Forgets all translations as `overlane connections forget` does, also while packets are at work: so many.
    pub fn forget_translations(&self) -> Result<usize, EbpfError> {
        let maps = &self.loaded.maps;
        let entries = connections::entries(maps)?;
        let keys = entries.iter().map(|entry| &entry.key);
        let keys = keys.filter(|key| key.router().is_some());
        let program = self.loaded.program(Program::ForgetTranslated)?;
        let lonely = connections::lonely(maps, &entries)?;
        connections::forget_translated(program, keys, &lonely)
    }

    /// As if packets began to be at work with all entries of translations, or ended it.
    pub fn claim_translations(&self) -> Result<(), EbpfError> {
        let map = self.loaded.maps.map(TRANSLATIONS)?;
        let mut entries = Vec::new();
        self.loaded.maps.walk(TRANSLATIONS, |key, value| {
            if let Ok(entry) = TranslationEntry::read_from_bytes(value) {
                entries.push((key.to_vec(), entry));
            }
        })?;
        for (key, mut entry) in entries {
            entry.claim += 1;
            map.replace(&key, entry.as_bytes())
                .map_err(EbpfError::call("BPF_MAP_UPDATE_ELEM", TRANSLATIONS))?;
        }
        Ok(())
    }

    /// What rules have written into the log since the last call.
    pub fn take_log(&mut self) -> Vec<LogRecord> {
        std::iter::from_fn(|| self.rule_log.next()).collect()
    }

    /// Counters of all rules of the tables, by number.
    pub fn rule_counters(&self) -> Result<BTreeMap<u32, abi::Counter>, EbpfError> {
        let rules = self.written.get(&Table::Rules).into_iter().flatten();
        let numbers = rules.filter_map(|(key, _)| u32::read_from_bytes(key).ok());
        counters::rules(&self.loaded.maps, numbers)
    }

    /// What was said of the paths to remotes.
    pub fn path_mtus(&self) -> Result<BTreeMap<IpAddr, abi::PathMtu>, EbpfError> {
        path_mtus::all(&self.loaded.maps)
    }

    /// What the programs have learned.
    pub fn learned(&self) -> Result<Vec<LearnedEntry>, EbpfError> {
        learned::entries(&self.loaded.maps)
    }

    /// The neighbours that routers found.
    pub fn found(&self) -> Result<neighbours::Entries<abi::FoundNeighbour>, EbpfError> {
        neighbours::found(&self.loaded.maps)
    }

    /// The addresses that routers asked for in vain.
    pub fn asked(&self) -> Result<neighbours::Entries<abi::Asked>, EbpfError> {
        neighbours::asked(&self.loaded.maps)
    }

    /// Runs one program on one packet, of which [`can_run`] is true.
    pub fn run(
        &mut self,
        program: Program,
        bytes: &[u8],
        beside: Beside,
    ) -> Result<Ran, EbpfError> {
        let (proto, tci) = beside
            .tag
            .map_or((0, 0), |tag| (tag.ethertype().get().to_be(), tag.tag.tci()));
        let io = abi::TestIo {
            now: beside.now_ns,
            ifindex: beside.ifindex,
            mark: beside.mark,
            gso_size: beside.gso_size,
            gso_segs: beside.gso_segs,
            gone: beside.gone,
            vlan_proto: proto,
            vlan_tci: tci,
            // Until the program takes it off, the packet has the tag it came with.
            out_proto: proto,
            out_tci: tci,
            verdict: u32::MAX,
            ..abi::TestIo::default()
        };
        self.set_io(&io)?;
        let program_name = program.name();
        let program = self.loaded.program(program)?;
        let (returned, bytes) = sys::test_run(program.fd(), bytes, ROOM)
            .map_err(EbpfError::call("BPF_PROG_TEST_RUN", program_name))?;
        let io = (self.loaded.maps.map(TEST_IO)?)
            .get(&0u32.to_ne_bytes())
            .map_err(EbpfError::call("BPF_MAP_LOOKUP_ELEM", TEST_IO))?
            .and_then(|value| abi::TestIo::read_from_bytes(&value).ok())
            .unwrap_or_default();
        Ok(Ran {
            action: Action::from(returned),
            verdict: Verdict::from_number(io.verdict),
            ifindex: io.out_ifindex,
            copies: std::iter::from_fn(|| self.copies.next(Sent::new)).collect(),
            tag: tag(io.out_proto, io.out_tci),
            bytes,
        })
    }

    /// Runs one program on many packets: each list, all of one length, on a CPU of its own. They begin each
    /// [`STRETCH`] at the same moment. `meanwhile` is done again and again.
    pub fn race(
        &self,
        program: Program,
        beside: Beside,
        lists: &[Vec<Vec<u8>>],
        meanwhile: &dyn Fn() -> Result<(), EbpfError>,
    ) -> Result<(), EbpfError> {
        self.set_io(&abi::TestIo {
            now: beside.now_ns,
            ifindex: beside.ifindex,
            mark: beside.mark,
            ..abi::TestIo::default()
        })?;
        let failed = EbpfError::call("BPF_PROG_TEST_RUN", program.name());
        let held = self.loaded.program(program)?;
        let (arrived, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        // False: another thread has failed, and nobody else comes.
        let meet = |stretch: usize| {
            arrived.fetch_add(1, Ordering::SeqCst);
            while arrived.load(Ordering::SeqCst) < lists.len() * (stretch + 1) {
                if has_failed.load(Ordering::SeqCst) {
                    return false;
                }
                thread::yield_now();
            }
            true
        };
        let run = |cpu: usize, packets: &[Vec<u8>]| {
            let mut stretches = packets.chunks(STRETCH).enumerate();
            let result = sys::pin_to_cpu(cpu).and_then(|()| {
                stretches.try_for_each(|(number, packets)| {
                    if !meet(number) {
                        return Ok(());
                    }
                    let mut packets = packets.iter();
                    packets.try_for_each(|packet| sys::test_run(held.fd(), packet, ROOM).map(drop))
                })
            });
            has_failed.fetch_or(result.is_err(), Ordering::SeqCst);
            result
        };
        thread::scope(|scope| {
            let (lists, run) = (lists.iter().enumerate(), &run);
            let threads = lists.map(|(cpu, packets)| scope.spawn(move || run(cpu, packets)));
            let threads: Vec<_> = threads.collect();
            let mut done = Ok(());
            while done.is_ok() && !threads.iter().all(thread::ScopedJoinHandle::is_finished) {
                done = meanwhile();
            }
            let results = threads.into_iter().map(|thread| {
                let died = |_| Err(io::Error::other("a thread died"));
                thread.join().unwrap_or_else(died)
            });
            results
                .collect::<io::Result<()>>()
                .map_err(failed)
                .and(done)
        })
    }

    /// What local ends of translations are outside, each with the connection that it leads to.
    pub fn translations(&self) -> Result<BTreeMap<ConnectionKey, ConnectionKey>, EbpfError> {
        connections::translations(&self.loaded.maps)
    }

    fn set_io(&self, io: &abi::TestIo) -> Result<(), EbpfError> {
        let map = self.loaded.maps.map(TEST_IO)?;
        map.put(&0u32.to_ne_bytes(), io.as_bytes())
            .map_err(EbpfError::call("BPF_MAP_UPDATE_ELEM", TEST_IO))
    }

    /// All that the programs have counted so far.
    pub fn counters(&self) -> Result<Counters, EbpfError> {
        counters::read(&self.loaded.maps)
    }
}

impl Sent {
    fn new(event: abi::Event, bytes: &[u8]) -> Self {
        Self {
            ifindex: event.ifindex,
            tag: tag(event.vlan_proto, event.vlan_tci),
            len: event.len as usize,
            bytes: bytes.to_vec(),
        }
    }
}

impl From<i32> for Action {
    fn from(returned: i32) -> Self {
        match returned {
            -1 => Self::Next,
            2 => Self::Drop,
            7 => Self::Redirect,
            other => Self::Other(other),
        }
    }
}

fn tag(proto: u16, tci: u16) -> Option<Tag> {
    Tag::of(EtherType(u16::from_be(proto)), tci)
}
