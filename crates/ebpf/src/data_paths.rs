//! Map `data_paths`: the program that those at hooks lead to (`enter()` of `bpf/tc.bpf.c`). Like every map with programs,
//! the kernel empties it when neither a descriptor nor a pin holds it any more.

use std::io;
use std::os::fd::AsRawFd as _;

use crate::maps::MapSet;
use crate::object::{Loaded, Program};
use crate::{EbpfError, HeldProgram};

const NAME: &str = "data_paths";
const SLOT: [u8; 4] = 0u32.to_ne_bytes();

impl MapSet {
    /// The kernel's number of the program that those at hooks lead to; none: it is not there.
    pub fn data_path(&self) -> Result<Option<u32>, EbpfError> {
        let found = self.map(NAME)?.get(&SLOT);
        let found = found.map_err(failed("BPF_MAP_LOOKUP_ELEM"))?;
        Ok(found.and_then(|id| Some(u32::from_ne_bytes(id.try_into().ok()?))))
    }

    /// From now on the programs at hooks that have these maps lead to this one.
    pub fn lead_to(&self, data_path: &HeldProgram) -> Result<(), EbpfError> {
        let fd = data_path.fd().as_raw_fd();
        let put = self.map(NAME)?.put(&SLOT, &fd.to_ne_bytes());
        put.map_err(failed("BPF_MAP_UPDATE_ELEM"))
    }
}

impl Loaded {
    /// From now on the programs at hooks lead to the data path that was loaded with them, all at the same moment. Returns
    /// the one before, for [`lead_to`](Self::lead_to); none: nothing has changed, or there was none.
    pub fn lead(&self) -> Result<Option<HeldProgram>, EbpfError> {
        self.lead_from(&self.maps)
    }

    /// The same of programs at hooks that have these maps, of whatever build: what is in `cb` is the same in all.
    pub fn lead_from(&self, maps: &MapSet) -> Result<Option<HeldProgram>, EbpfError> {
        let Ok(new) = self.program(Program::DataPath) else {
            return Ok(None);
        };
        let id = maps.data_path()?;
        if id == Some(new.id()) {
            return Ok(None);
        }
        let before = id.map(HeldProgram::by_id).transpose()?;
        // What the other one kept for flows is not for this one.
        maps.change()?;
        maps.lead_to(new)?;
        Ok(before)
    }

    /// From now on they lead to this one.
    pub fn lead_to(&self, data_path: &HeldProgram) -> Result<(), EbpfError> {
        self.maps.lead_to(data_path)
    }

    /// They lead nowhere.
    pub(crate) fn lead_nowhere(&self) -> Result<(), EbpfError> {
        let deleted = self.maps.map(NAME)?.delete(&SLOT);
        deleted.map_err(failed("BPF_MAP_DELETE_ELEM"))
    }
}

fn failed(call: &'static str) -> impl FnOnce(io::Error) -> EbpfError {
    EbpfError::call(call, NAME)
}
