//! What cannot be undone.

use overlane_ebpf::connections;
use overlane_ebpf::devices as held;
use overlane_ebpf::maps::{MapSet, unpin_folder};
use overlane_net::Netlink;

use super::tables::forgetter;
use crate::Note;
use crate::plan::{Cleanup, Target};

/// Does what cannot be undone, after all else succeeded. What resists is told; the next apply finds it.
pub(crate) fn clean_up(
    target: &Target<'_>,
    cleanups: &[Cleanup],
    netlink: &Netlink,
    maps: &MapSet,
    notes: &mut Vec<Note>,
) {
    let host = target.tables.host.as_str();
    for cleanup in cleanups {
        let left_over = match cleanup {
            Cleanup::Device(name) => match netlink.delete(name) {
                Err(error) if !error.is_not_found() => {
                    Some((format!("device {name}"), error.to_string()))
                }
                _ => None,
            },
            Cleanup::Detour(detour) => match detour.discard(host, netlink) {
                Err(error) => Some((format!("device {}", detour.entrance()), error.to_string())),
                Ok(_) => None,
            },
            Cleanup::Maps(folder) => match unpin_folder(folder) {
                Err(error) => Some((format!("map set {}", folder.display()), error.to_string())),
                Ok(_) => None,
            },
            Cleanup::Release(devices) => {
                let released = devices.iter().map(|&index| held::release(maps, index));
                let mut errors = released
                    .filter_map(Result::err)
                    .collect::<Vec<_>>()
                    .into_iter();
                errors
                    .next()
                    .map(|error| ("devices in the maps".to_owned(), error.to_string()))
            }
            Cleanup::Connections(of) => {
                match connections::forget_of(maps, of, || forgetter(target)) {
                    Err(error) => Some((
                        "connections of ports that left".to_owned(),
                        error.to_string(),
                    )),
                    Ok(()) => None,
                }
            }
        };
        notes.extend(left_over.map(|(what, reason)| Note::LeftOver { what, reason }));
    }
}
