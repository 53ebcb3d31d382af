//! Devices: those of our own, and what they have to be for us.

use std::collections::BTreeSet;

use overlane_ebpf::abi;
use overlane_ebpf::devices as held;
use overlane_ebpf::tables::Table;
use zerocopy::{FromBytes, IntoBytes};

use super::{Executor, unless_gone};
use crate::detours::Detour;
use crate::paths::{GRO, SEGMENTER};
use crate::{HostError, Note, devices};

impl<'a> Executor<'a> {
    pub(super) fn aside(&mut self, name: &'static str, to: &'static str) -> Result<(), HostError> {
        self.journal.before()?;
        self.netlink.rename(name, to)?;
        let netlink = self.netlink;
        self.journal.push(move || Ok(netlink.rename(to, name)?));
        Ok(())
    }

    pub(super) fn discard(&mut self, name: &str) -> Result<(), HostError> {
        self.journal.before()?;
        Ok(self.netlink.delete(name)?)
    }

    pub(super) fn segmenter(&mut self) -> Result<(), HostError> {
        self.journal.before()?;
        devices::add_segmenter(self.netlink)?;
        let netlink = self.netlink;
        self.journal.push(move || Ok(netlink.delete(SEGMENTER)?));
        self.journal.before()?;
        Ok(devices::finish_segmenter(self.netlink)?)
    }

    /// Whatever the kernel answers is no reason to give up. EPERM here does not mean that rights are missing: the
    /// kernel refuses a Geneve device in external mode beside another one on its port, whose namespace may be another.
    pub(super) fn gro(&mut self, notes: &mut Vec<Note>) -> Result<(), HostError> {
        self.journal.before()?;
        let (netlink, tables) = (self.netlink, self.target.tables);
        let (tunnel, ipv6) = (&tables.tunnel, tables.vtep.is_ipv6());
        let result =
            devices::add_gro(netlink, tunnel, ipv6).and_then(|()| devices::finish_gro(netlink));
        match result {
            Ok(()) => self.journal.push(move || Ok(netlink.delete(GRO)?)),
            Err(error) => {
                let port = tunnel.port;
                let reason = error.to_string();
                // Created, but its port could not be opened.
                let _ = netlink.delete(GRO);
                self.state.gro_refused = Some(reason.clone());
                notes.push(Note::NoGro { port, reason });
            }
        }
        Ok(())
    }

    pub(super) fn raise_gro(&mut self) -> Result<(), HostError> {
        self.journal.before()?;
        self.netlink.set_up(GRO)?;
        let netlink = self.netlink;
        self.journal.push(move || Ok(netlink.set_down(GRO)?));
        Ok(())
    }

    /// Packets do without: the straight way is slower, or a remote segments what it could have sent whole.
    pub(super) fn detour(
        &mut self,
        detour: Detour,
        notes: &mut Vec<Note>,
    ) -> Result<(), HostError> {
        self.journal.before()?;
        let (netlink, host) = (self.netlink, self.target.tables.host.as_str());
        self.close(detour)?;
        if detour == Detour::Unmarker {
            // It ends in the same namespace.
            self.close(Detour::Coalescer)?;
        }
        detour.discard(host, netlink)?;
        match detour.make(host, netlink) {
            Ok(()) => self
                .journal
                .push(move || Ok(detour.discard(host, netlink).map(drop)?)),
            Err(error) => {
                let reason = error.to_string();
                detour.discard(host, netlink)?;
                let name = detour.name().to_owned();
                self.state.detours_refused.insert(name, reason.clone());
                notes.push(Note::NoDetour { detour, reason });
            }
        }
        Ok(())
    }

    /// No frame goes into a device that is about to go. Has no way back: after a failure there is no such device.
    fn close(&mut self, detour: Detour) -> Result<(), HostError> {
        for (key, value) in self.maps.entries(Table::Settings)? {
            if let Ok(mut settings) = abi::Settings::read_from_bytes(&value) {
                detour.close(&mut settings);
                self.maps.put(Table::Settings, &key, settings.as_bytes())?;
            }
        }
        self.closed.insert(detour);
        Ok(())
    }

    pub(super) fn open_detours(&mut self) -> Result<(), HostError> {
        self.closed.clear();
        self.settings()
    }

    pub(super) fn promiscuous(&mut self, device: &'a str, on: bool) -> Result<(), HostError> {
        self.journal.before()?;
        let netlink = self.netlink;
        match netlink.link(device) {
            Ok(link) if link.promiscuous == on => return Ok(()),
            // It is gone, and its mode with it.
            Err(error) if error.is_not_found() && !on => return Ok(()),
            other => other.map(drop)?,
        }
        netlink.set_promiscuous(device, on)?;
        self.journal
            .push(move || unless_gone(netlink.set_promiscuous(device, !on)));
        Ok(())
    }

    /// Devices of ours may be younger than the plan, or refused.
    pub(super) fn hold(
        &mut self,
        new: &BTreeSet<u32>,
        kept: &BTreeSet<u32>,
    ) -> Result<(), HostError> {
        let maps = self.maps;
        let ours = devices::ours().filter_map(|name| self.netlink.link(name).ok());
        let mut wanted: BTreeSet<u32> = ours.map(|link| link.index).collect();
        wanted.extend(new);
        for ifindex in wanted.difference(kept).copied() {
            self.journal.before()?;
            held::hold(maps, ifindex)?;
            self.journal.push(move || Ok(held::release(maps, ifindex)?));
        }
        let held = held::held(maps)?;
        match kept.iter().find(|index| !held.contains(index)) {
            Some(index) => Err(held::gone(&format!("with index {index}")).into()),
            None => Ok(()),
        }
    }

    /// The device is the one that the plan looked at, and the maps hold it since.
    pub(super) fn check_device(
        &self,
        device: &str,
        ifindex: u32,
        planned: u32,
    ) -> Result<(), HostError> {
        if planned != 0 && planned != ifindex {
            return Err(held::gone(device).into());
        }
        Ok(held::check(self.maps, device, ifindex)?)
    }
}

/// A device that the kernel may have refused.
pub(super) fn is_optional(device: &str) -> bool {
    let hooks = Detour::ALL.iter().flat_map(|detour| detour.hooks());
    device == GRO || hooks.into_iter().any(|(_, ours)| *ours == device)
}
