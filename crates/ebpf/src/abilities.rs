//! What remotes said that they can take: the map `abilities`, which the programs write when a remote greets.

use std::net::IpAddr;

use zerocopy::FromBytes;

use crate::EbpfError;
use crate::abi;
use crate::maps::MapSet;

const ABILITIES: &str = "abilities";

/// The remotes that take UDP super-packets whole.
pub fn take_whole_udp(maps: &MapSet) -> Result<Vec<IpAddr>, EbpfError> {
    let mut remotes = Vec::new();
    maps.walk(ABILITIES, |key, value| {
        let key = abi::Addr::read_from_bytes(key);
        let value = u32::read_from_bytes(value);
        if let (Ok(key), Ok(value)) = (key, value)
            && value & abi::ABILITY_WHOLE_UDP != 0
        {
            remotes.push(key.into());
        }
    })?;
    remotes.sort_unstable();
    Ok(remotes)
}

/// Forgets what they said. Until they say it again, nothing is sent that needs an ability.
pub fn forget(maps: &MapSet) -> Result<(), EbpfError> {
    maps.clear(ABILITIES)
}
