//! Map `epochs`, number 0: how often the tables have changed. Programs keep what they decided for a flow as long as that
//! number stands (`bpf/lib/flows.h`). It is odd while the tables stand still. While it is even, nothing is kept and nothing
//! that was kept is used: so it stays when whoever was writing is killed, until the next one is done.

use std::sync::atomic::Ordering;

use crate::EbpfError;
use crate::maps::MapSet;

const NAME: &str = "epochs";
const TABLES: [u8; 4] = 0u32.to_ne_bytes();

impl MapSet {
    /// Before something changes that decisions rest on.
    pub(crate) fn change(&self) -> Result<(), EbpfError> {
        if !self.is_changing.load(Ordering::Relaxed) {
            self.end_epoch_if(|epoch| epoch % 2 == 1)?;
            self.is_changing.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// All that was to be written is: what is decided from now on is kept. Only who holds the host's lock may say so.
    pub fn stand_still(&self) -> Result<(), EbpfError> {
        self.is_changing.store(false, Ordering::Relaxed);
        self.end_epoch_if(|epoch| epoch % 2 == 0)
    }

    /// A set of another build may have no such map.
    fn end_epoch_if(&self, ends: impl Fn(u64) -> bool) -> Result<(), EbpfError> {
        let Ok(map) = self.map(NAME) else {
            return Ok(());
        };
        let value = map.get(&TABLES);
        let value = value.map_err(EbpfError::call("BPF_MAP_LOOKUP_ELEM", NAME))?;
        let epoch = value.and_then(|value| Some(u64::from_ne_bytes(value.try_into().ok()?)));
        match epoch {
            Some(epoch) if ends(epoch) => map
                .put(&TABLES, &(epoch + 1).to_ne_bytes())
                .map_err(EbpfError::call("BPF_MAP_UPDATE_ELEM", NAME)),
            _ => Ok(()),
        }
    }
}
