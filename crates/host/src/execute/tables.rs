//! Maps: their entries, the connections in them, the counters, and their pins.

use std::collections::BTreeSet;
use std::path::Path;

use overlane_ebpf::connections::{self, Forgetter};
use overlane_ebpf::counters::{self, Counted};
use overlane_ebpf::maps::{MapSet, unpin_folder};
use overlane_ebpf::tables::{self, Table};

use super::Executor;
use crate::paths::{self, SEGMENTER, SEGMENTER_OUT};
use crate::plan::{Entry, Plan, Target};
use crate::{HostError, files};

impl<'a> Executor<'a> {
    pub(super) fn put(&mut self, table: Table, entries: &'a [Entry]) -> Result<(), HostError> {
        let maps = self.maps;
        for entry in entries {
            self.journal.before()?;
            self.journal
                .push(move || put_back(maps, table, &entry.key, entry.old.as_deref()));
            maps.put(table, &entry.key, &entry.new)?;
        }
        Ok(())
    }

    pub(super) fn delete(&mut self, table: Table, entries: &'a [Entry]) -> Result<(), HostError> {
        let maps = self.maps;
        for entry in entries {
            self.journal.before()?;
            maps.delete(table, &entry.key)?;
            self.journal
                .push(move || put_back(maps, table, &entry.key, entry.old.as_deref()));
        }
        Ok(())
    }

    /// Encoded again, because devices of ours may be younger than the plan.
    pub(super) fn settings(&mut self) -> Result<(), HostError> {
        let mut devices = self.target.resolved.devices.clone();
        devices.segmenter_ifindex = self.netlink.link(SEGMENTER)?.index;
        devices.segmenter_out_ifindex = self.netlink.link(SEGMENTER_OUT)?.index;
        for detour in self.target.resolved.detours.difference(&self.closed) {
            // The kernel may have refused it.
            let entrance = self.netlink.link(detour.entrance()).ok();
            let index = entrance.map_or(0, |link| link.index);
            detour.set_index(&mut devices, index);
        }
        let settings = tables::settings(self.target.tables, &devices);
        let maps = self.maps;
        let mut before = maps.entries(Table::Settings)?;
        for (key, value) in &settings {
            self.journal.before()?;
            let (undo_key, old) = (key.clone(), before.remove(key));
            self.journal
                .push(move || put_back(maps, Table::Settings, &undo_key, old.as_deref()));
            maps.put(Table::Settings, key, value)?;
        }
        Ok(())
    }

    /// Has no way back, and needs none: the connections are nobody's.
    pub(super) fn forget_connections(
        &mut self,
        ports: &BTreeSet<(u32, u16)>,
    ) -> Result<(), HostError> {
        self.journal.before()?;
        let target = self.target;
        connections::forget_of(self.maps, ports, || forgetter(target))
    }

    /// Who knows less of a connection stops less of it. Undone it is the same: what follows takes a firewall away, or
    /// gives one.
    pub(super) fn pick_up_connections(
        &mut self,
        ports: &'a BTreeSet<(u32, u16)>,
    ) -> Result<(), HostError> {
        let maps = self.maps;
        self.journal.before()?;
        (self.journal).push(move || Ok(connections::pick_up(maps, ports)?));
        Ok(connections::pick_up(self.maps, ports)?)
    }

    /// Has no way back, and needs none: the numbers that are given are not in use before, or those of rules that
    /// have changed places.
    pub(super) fn move_counters(
        &mut self,
        what: Counted,
        from: &MapSet,
        plan: &Plan,
    ) -> Result<(), HostError> {
        self.journal.before()?;
        let moves = plan.moves.get(&what).map_or(&[][..], Vec::as_slice);
        Ok(counters::move_to(what, from, self.maps, moves)?)
    }

    pub(super) fn carry_counters(&mut self, from: &Path, plan: &Plan) -> Result<(), HostError> {
        self.journal.before()?;
        // A set of another build may lack maps; then counting begins anew.
        match MapSet::open_any(from, self.target.data_path.layouts()) {
            Ok(Some(old)) => {
                counters::carry_over(&old, self.maps)?;
                self.move_counters(Counted::Rules, &old, plan)
            }
            Ok(None) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn clear(&mut self, folder: &Path) -> Result<(), HostError> {
        self.journal.before()?;
        let unpinned = unpin_folder(folder)?;
        self.journal.push(move || Ok(unpinned.restore()?));
        Ok(())
    }

    pub(super) fn pin_maps(&mut self, folder: &'a Path) -> Result<(), HostError> {
        self.journal.before()?;
        files::pin_folder(folder)?;
        self.journal
            .push(move || unpin_folder(folder).map(drop).map_err(Into::into));
        self.journal.before()?;
        Ok(self.maps.pin(folder)?)
    }
}

fn put_back(maps: &MapSet, table: Table, key: &[u8], old: Option<&[u8]>) -> Result<(), HostError> {
    match old {
        Some(old) => Ok(maps.put(table, key, old)?),
        // The entries of an array cannot be deleted, and of a new set they need not.
        None if table.is_array() => Ok(()),
        None => Ok(maps.delete(table, key)?),
    }
}

/// For the set of maps that is there: a new one has no connections.
pub(super) fn forgetter(target: &Target<'_>) -> Result<Forgetter, HostError> {
    let host = target.tables.host.as_str();
    let pins = paths::map_set(host, target.data_path.signature());
    Ok(Forgetter::load(target.data_path, &pins)?)
}
