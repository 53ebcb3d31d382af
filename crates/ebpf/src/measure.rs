//! What the programs cost: their size, and the time of one packet (`BPF_PROG_TEST_RUN`). The programs are
//! those of production, with tables in maps that nobody else sees.
//!
//! A run happens on the loopback device (index 1), so the port under test has that index. A packet is run
//! once: the kernel's own repetition would encapsulate the same packet again and again.

use std::collections::BTreeSet;
use std::net::IpAddr;

use overlane_model::RouterId;
use overlane_wire::Mac;
use zerocopy::IntoBytes as _;

use crate::kernel::Kernel;
use crate::tables::{Contents, Table};
use crate::{DataPath, EbpfError, Loaded, Program, ProgramSize, abi, devices, neighbours, sys};

/// The device that a run happens on.
pub const IFINDEX: u32 = 1;

/// Which programs are measured.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    /// They ask whether somebody captures.
    pub can_capture: bool,
    /// The kernel shows them its own structures.
    pub sees_kernel: bool,
}

impl Default for Variant {
    fn default() -> Self {
        Self {
            can_capture: true,
            sees_kernel: true,
        }
    }
}

/// The programs and their maps, for this process only.
#[derive(Debug)]
pub struct Bench {
    loaded: Loaded,
}

impl Bench {
    /// Loads the programs.
    pub fn load(variant: Variant) -> Result<Self, EbpfError> {
        let can_capture = [u8::from(variant.can_capture)];
        let constants: [(_, &[u8]); 1] = [("can_capture", &can_capture)];
        let programs = BTreeSet::from(Program::ALL);
        let kernel = variant.sees_kernel.then(Kernel::look).flatten();
        let data_path = DataPath::embedded()?;
        let loaded = data_path.load_with(&programs, None, kernel.as_ref(), &constants, &[])?;
        Ok(Self { loaded })
    }

    /// Adds entries to the tables.
    pub fn fill(&self, contents: &Contents) -> Result<(), EbpfError> {
        for table in Table::ALL {
            for (key, value) in contents.get(&table).into_iter().flatten() {
                self.loaded.maps.put(table, key, value)?;
            }
        }
        for ifindex in devices::named(contents) {
            devices::pretend(&self.loaded.maps, ifindex, IFINDEX)?;
        }
        devices::hold(&self.loaded.maps, IFINDEX)?;
        self.loaded.maps.stand_still()
    }

    /// A machine behind a router's leg has answered the router, and goes on to.
    pub fn found_behind_leg(
        &self,
        router: RouterId,
        addr: IpAddr,
        mac: Mac,
    ) -> Result<(), EbpfError> {
        neighbours::insert_behind_leg(&self.loaded.maps, router, addr, mac)?;
        self.loaded.maps.stand_still()
    }

    /// Switches capturing of all packets (to nobody) on or off.
    pub fn capture(&self, on: bool) -> Result<(), EbpfError> {
        const NAME: &str = "capture";
        let value = abi::Capture {
            mode: if on {
                abi::CAPTURE_ALL
            } else {
                abi::CAPTURE_OFF
            },
            snap: 256,
            ..abi::Capture::default()
        };
        let map = self.loaded.maps.map(NAME)?;
        map.put(&0u32.to_ne_bytes(), value.as_bytes())
            .map_err(EbpfError::call("BPF_MAP_UPDATE_ELEM", NAME))
    }

    /// Nanoseconds of one run, which include some for the kernel's two looks at its clock.
    pub fn run_ns(&self, program: Program, bytes: &[u8]) -> Result<u32, EbpfError> {
        let held = self.loaded.program(program)?;
        sys::test_run_ns(held.fd(), bytes)
            .map_err(EbpfError::call("BPF_PROG_TEST_RUN", program.name()))
    }

    /// The size of a program.
    pub fn size(&self, program: Program) -> Result<ProgramSize, EbpfError> {
        self.loaded.size(program)
    }
}
