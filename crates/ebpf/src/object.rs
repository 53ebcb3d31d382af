//! The compiled data path: embedded in the program, described by its maps, loaded into the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use aya::maps::{Map, MapData};
use aya::programs::{ProgramError, SchedClassifier};
use aya::{Ebpf, EbpfLoader};
use aya_obj::EbpfSectionKind;

use crate::abi::Counter;
use crate::connections::{CONNECTIONS, TRANSLATIONS};
use crate::counters::{Counted, VERDICT_COUNTERS};
use crate::kernel::{self, Kernel};
use crate::learned::LEARNED;
use crate::links::HeldProgram;
use crate::maps::{Layouts, MapSet};
use crate::neighbours::FOUND;
use crate::tables::Table;
use crate::{EbpfError, Layout, ProgramSize, preflight, sys};

/// `bpf/tc.bpf.c`, compiled by build.rs.
static EMBEDDED: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/tc.bpf.o"));

/// The programs of the data path, each for one tcx ingress hook, and one for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Program {
    /// On every port's device, and where segments come out of the segmenter.
    FromPort,
    /// On the uplink, and where joined packets come out of the coalescer.
    FromUnderlay,
    /// On the device that registers the tunnel's port for GRO.
    FromGroDevice,
    /// On a gateway's leg.
    FromLeg,
    /// On the unmarker's VXLAN devices.
    FromUnmarker,
    /// At the far end of the coalescer.
    BackToPeer,
    /// At no hook: where [`FromPort`](Self::FromPort), [`FromUnderlay`](Self::FromUnderlay) and
    /// [`FromLeg`](Self::FromLeg) lead.
    DataPath,
    /// At no hook: [`Taker`](crate::connections::Taker) runs it.
    TakeConnection,
    /// At no hook: [`Forgetter`](crate::connections::Forgetter) runs it.
    ForgetTranslated,
}

impl Program {
    /// All that packets meet.
    pub const ALL: [Self; 7] = [
        Self::FromPort,
        Self::FromUnderlay,
        Self::FromGroDevice,
        Self::FromLeg,
        Self::FromUnmarker,
        Self::BackToPeer,
        Self::DataPath,
    ];

    /// Its name in C.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FromPort => "from_port",
            Self::FromUnderlay => "from_underlay",
            Self::FromGroDevice => "from_gro_device",
            Self::FromLeg => "from_leg",
            Self::FromUnmarker => "from_unmarker",
            Self::BackToPeer => "back_to_peer",
            Self::DataPath => "data_path",
            Self::TakeConnection => "take_connection",
            Self::ForgetTranslated => "forget_translated",
        }
    }

    /// Whether it leads to [`DataPath`](Self::DataPath).
    const fn leads(self) -> bool {
        matches!(self, Self::FromPort | Self::FromUnderlay | Self::FromLeg)
    }
}

/// One build of the data path.
#[derive(Debug, Clone)]
pub struct DataPath<'a> {
    bytes: &'a [u8],
    digest: String,
    layouts: Layouts,
    signature: String,
}

/// A data path in the kernel: programs, and the maps they use.
#[derive(Debug)]
pub struct Loaded {
    programs: BTreeMap<Program, HeldProgram>,
    /// The maps; new and not pinned, unless a pinned set was given.
    pub maps: MapSet,
}

impl DataPath<'static> {
    /// The one this program was built with. It is read once.
    pub fn embedded() -> Result<Self, EbpfError> {
        static READ: OnceLock<DataPath<'static>> = OnceLock::new();
        if let Some(read) = READ.get() {
            return Ok(read.clone());
        }
        let read = Self::new(EMBEDDED)?;
        Ok(READ.get_or_init(|| read).clone())
    }

    /// The object file itself.
    pub const fn embedded_bytes() -> &'static [u8] {
        EMBEDDED
    }
}

/// The object with its line information under a name that nobody looks for. Only the verifier needs it, and aya takes
/// longer to read it than all else.
fn without_line_info(bytes: &[u8]) -> Vec<u8> {
    const NAME: &[u8] = b".BTF.ext\0";
    let mut bytes = bytes.to_vec();
    let places: Vec<usize> = memchr::memmem::find_iter(&bytes, NAME).collect();
    for at in places {
        bytes[at..at + NAME.len()].copy_from_slice(b".btf.ext\0");
    }
    bytes
}

impl<'a> DataPath<'a> {
    /// Reads an object file and checks its maps against `abi.rs`.
    pub fn new(bytes: &'a [u8]) -> Result<Self, EbpfError> {
        let object = aya_obj::Object::parse(&without_line_info(bytes))?;
        let layouts: Layouts = object
            .maps
            .iter()
            // .rodata and the like belong to one load of the object, not to the set.
            .filter(|(_, map)| {
                matches!(
                    map.section_kind(),
                    EbpfSectionKind::BtfMaps | EbpfSectionKind::Maps
                )
            })
            .map(|(name, map)| {
                let layout = Layout {
                    kind: map.map_type(),
                    key_size: map.key_size(),
                    value_size: map.value_size(),
                    max_entries: map.max_entries(),
                    flags: map.map_flags(),
                };
                (name.clone(), layout)
            })
            .collect();
        check_sizes(&layouts)?;
        let signature = signature(&layouts);
        Ok(Self {
            bytes,
            digest: digest(bytes),
            layouts,
            signature,
        })
    }

    /// Differs when the object does: an other build of the programs.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Differs when any map does: such maps cannot be shared with another build.
    pub fn signature(&self) -> &str {
        &self.signature
    }

    /// The layout of every map.
    pub const fn layouts(&self) -> &Layouts {
        &self.layouts
    }

    /// Loads some of the programs (the verifier takes its time with each), with the maps pinned in `pins`,
    /// or with new maps that are not pinned yet. With what leads to the data path comes the data path: with new maps it
    /// is led to at once, else after [`Loaded::lead`]. Leaves nothing behind when the result is dropped.
    pub fn load(
        &self,
        programs: &BTreeSet<Program>,
        pins: Option<&Path>,
    ) -> Result<Loaded, EbpfError> {
        match pins {
            Some(pins) if programs.is_empty() => Ok(Loaded {
                programs: BTreeMap::new(),
                maps: self.open(pins)?,
            }),
            pins => self.load_with(programs, pins, Kernel::look().as_ref(), &[], &[]),
        }
    }

    /// The maps that are pinned in a folder.
    fn open(&self, pins: &Path) -> Result<MapSet, EbpfError> {
        MapSet::open(pins, &self.layouts)?.ok_or_else(|| EbpfError::Missing {
            kind: "map set",
            name: pins.display().to_string(),
        })
    }

    /// Loads all programs for [`TestRun`](crate::test_run::TestRun): they take device, tag and clock from
    /// the map `test_io` and say there what became of the packet.
    ///
    /// What the programs remember has maps with so much `room`: to read an empty hash table the kernel walks all its
    /// buckets, and a test run reads these again and again.
    pub(crate) fn load_for_tests(&self, room: u32) -> Result<Loaded, EbpfError> {
        let constants: [(_, &[u8]); 1] = [("test_mode", &[1])];
        let sizes = [CONNECTIONS, TRANSLATIONS, LEARNED, FOUND].map(|map| (map, room));
        let for_us = [Program::TakeConnection, Program::ForgetTranslated];
        let programs = Program::ALL.into_iter().chain(for_us);
        self.load_with(&programs.collect(), None, None, &constants, &sizes)
    }

    /// The same with what the kernel shows of itself, other values of constants in `.rodata`, and other numbers of entries
    /// of maps.
    pub(crate) fn load_with(
        &self,
        programs: &BTreeSet<Program>,
        pins: Option<&Path>,
        kernel: Option<&Kernel>,
        constants: &[(&'static str, &[u8])],
        sizes: &[(&'static str, u32)],
    ) -> Result<Loaded, EbpfError> {
        let mut loader = EbpfLoader::new();
        for (name, value) in constants {
            loader.override_global(name, *value, true);
        }
        for (map, entries) in sizes {
            loader.map_max_entries(map, *entries);
        }
        let sees_kernel = [u8::from(kernel.is_some())];
        loader.override_global("sees_kernel", sees_kernel.as_slice(), true);
        loader.btf(kernel.map(Kernel::types));
        if let Some(dir) = pins {
            for name in self.layouts.keys() {
                loader.map_pin_path(name, dir.join(name));
            }
        }
        let mut ebpf = loader.load(&kernel::fit(self.bytes, kernel))?;
        let leads = programs.iter().any(|program| program.leads());
        let data_path = leads.then_some(&Program::DataPath);
        let programs: BTreeSet<_> = programs.iter().chain(data_path).collect();
        let programs = programs
            .into_iter()
            .map(|&program| Ok((program, load_program(&mut ebpf, program)?)));
        let programs = programs.collect::<Result<_, EbpfError>>()?;
        let maps = match pins {
            Some(dir) => self.open(dir)?,
            None => self.new_maps(&ebpf)?,
        };
        let loaded = Loaded { programs, maps };
        if pins.is_none() {
            loaded.lead()?;
        }
        Ok(loaded)
    }

    fn new_maps(&self, ebpf: &Ebpf) -> Result<MapSet, EbpfError> {
        let mut fds = BTreeMap::new();
        for name in self.layouts.keys() {
            let data = ebpf
                .map(name)
                .and_then(map_data)
                .ok_or_else(|| EbpfError::Missing {
                    kind: "map",
                    name: name.clone(),
                })?;
            fds.insert(name.clone(), duplicate(data.fd(), name)?);
        }
        MapSet::from_descriptors(fds)
    }
}

impl Loaded {
    /// Takes a program in that runs already, of the same build and with the same maps.
    pub fn take_in(&mut self, program: Program, running: HeldProgram) {
        self.programs.insert(program, running);
    }

    /// One of the programs.
    pub fn program(&self, program: Program) -> Result<&HeldProgram, EbpfError> {
        self.programs
            .get(&program)
            .ok_or_else(|| EbpfError::Missing {
                kind: "program",
                name: program.name().to_owned(),
            })
    }

    /// How large the kernel says that it is.
    pub fn size(&self, program: Program) -> Result<ProgramSize, EbpfError> {
        let held = self.program(program)?;
        sys::program_size(held.fd())
            .map_err(EbpfError::call("BPF_OBJ_GET_INFO_BY_FD", program.name()))
    }
}

fn load_program(ebpf: &mut Ebpf, program: Program) -> Result<HeldProgram, EbpfError> {
    let name = program.name();
    let missing = || EbpfError::Missing {
        kind: "program",
        name: name.to_owned(),
    };
    let failed = |source| EbpfError::Program { name, source };
    let found = ebpf.program_mut(name).ok_or_else(missing)?;
    let classifier: &mut SchedClassifier = found.try_into().map_err(failed)?;
    classifier.load().map_err(|error| refusal(name, error))?;
    let fd = duplicate(classifier.fd().map_err(failed)?, name)?;
    HeldProgram::new(fd, name)
}

/// How the verifier refuses (kernel/bpf/verifier.c). It may have spoken before the kernel stopped for another
/// reason: memory, descriptors, a signal.
const REFUSALS: [i32; 6] = [
    libc::EACCES,
    libc::EINVAL,
    libc::EPERM,
    libc::E2BIG,
    libc::EFAULT,
    libc::EOPNOTSUPP,
];

/// What the verifier refuses has a log. Without one it was the rights, or the call.
fn refusal(name: &'static str, error: ProgramError) -> EbpfError {
    match error {
        ProgramError::LoadError {
            io_error,
            verifier_log,
        } => {
            let log = verifier_log.to_string();
            let errno = io_error.raw_os_error().unwrap_or_default();
            if log.trim().is_empty() || !REFUSALS.contains(&errno) {
                return EbpfError::call("BPF_PROG_LOAD", name)(io_error);
            }
            EbpfError::Refused {
                program: name,
                running: preflight::running_kernel().unwrap_or_else(|_| "(release unknown)".into()),
                log,
            }
        }
        source => EbpfError::Program { name, source },
    }
}

fn duplicate(fd: &impl AsFd, name: &str) -> Result<OwnedFd, EbpfError> {
    fd.as_fd()
        .try_clone_to_owned()
        .map_err(EbpfError::call("dup", name))
}

/// The kinds of map the data path uses.
const fn map_data(map: &Map) -> Option<&MapData> {
    match map {
        Map::Array(data)
        | Map::PerCpuArray(data)
        | Map::HashMap(data)
        | Map::PerCpuHashMap(data)
        | Map::LruHashMap(data)
        | Map::PerCpuLruHashMap(data)
        | Map::LpmTrie(data)
        | Map::DevMapHash(data)
        | Map::ProgramArray(data)
        | Map::RingBuf(data) => Some(data),
        _ => None,
    }
}

fn check_sizes(layouts: &Layouts) -> Result<(), EbpfError> {
    const WORD: usize = size_of::<u32>();
    let tables = Table::ALL.map(|table| (table.name(), table.sizes()));
    let counters = Counted::ALL.map(|what| (what.map(), (WORD, what.value_size())));
    let verdicts = (VERDICT_COUNTERS, (WORD, size_of::<Counter>()));
    for (name, (key, value)) in tables.into_iter().chain(counters).chain([verdicts]) {
        let layout = layouts.get(name).ok_or_else(|| EbpfError::Missing {
            kind: "map",
            name: name.to_owned(),
        })?;
        for (field, found, expected) in [
            ("key size", layout.key_size as usize, key),
            ("value size", layout.value_size as usize, value),
        ] {
            if found != expected {
                return Err(EbpfError::Abi {
                    map: name.to_owned(),
                    field,
                    found,
                    expected,
                });
            }
        }
    }
    Ok(())
}

fn signature(layouts: &Layouts) -> String {
    let mut text = String::new();
    for (name, layout) in layouts {
        text.push_str(&format!("{name} {layout:?}\n"));
    }
    digest(text.as_bytes())
}

/// Tells contents apart: 16 hexadecimal digits. Against accidents, not against malice.
pub fn digest(bytes: &[u8]) -> String {
    format!("{:016x}", fnv1a(bytes))
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use super::*;

    fn answer(errno: i32, log: &str) -> EbpfError {
        let error = ProgramError::LoadError {
            io_error: Error::from_raw_os_error(errno),
            verifier_log: aya_obj::VerifierLog::new(log.to_owned()),
        };
        refusal("from_port", error)
    }

    #[test]
    fn only_the_verifier_refuses_a_program() {
        const LOG: &str = "R4 invalid zero-sized read\nprocessed 7 insns\n";
        for errno in [libc::EACCES, libc::EINVAL, libc::E2BIG, libc::EPERM] {
            assert!(matches!(answer(errno, LOG), EbpfError::Refused { .. }));
        }
        let others = [libc::ENOMEM, libc::EMFILE, libc::EINTR].map(|errno| (errno, LOG));
        for (errno, log) in others
            .into_iter()
            .chain([(libc::EPERM, ""), (libc::EINVAL, "\n")])
        {
            let error = answer(errno, log);
            assert!(matches!(error, EbpfError::Call { .. }), "{error:?}");
        }
        assert!(answer(libc::EPERM, "").help().unwrap().contains("root"));
    }
}
