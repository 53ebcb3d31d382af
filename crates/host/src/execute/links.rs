//! Links: the programs at the hooks of devices.

use std::path::Path;

use overlane_ebpf::Program;
use overlane_ebpf::links::{HeldProgram, Link as BpfLink, unpin};
use overlane_net::Netlink;

use super::Executor;
use super::devices::is_optional;
use crate::{HostError, detours, hooks, paths};

impl<'a> Executor<'a> {
    pub(super) fn attach(
        &mut self,
        program: Program,
        device: &str,
        planned: u32,
    ) -> Result<(), HostError> {
        let Some(loaded) = self.loaded else {
            return Ok(());
        };
        let name = paths::link(program, device);
        let path = paths::links(&self.state.host).join(&name);
        let inside = match detours::is_inside(device) {
            true => detours::open(&self.state.host).ok(),
            false => None,
        };
        let within = inside.as_ref().map(Netlink::in_netns).transpose()?;
        let netlink = within.as_ref().unwrap_or(self.netlink);
        let ifindex = match netlink.link(device) {
            // The kernel refused that device; the note says so.
            Err(error) if error.is_not_found() && is_optional(device) => {
                return self.detach_if_there(&path);
            }
            other => other?.index,
        };
        self.detach_if_there(&path)?;
        self.journal.before()?;
        let attach = || BpfLink::attach(loaded, program, device, ifindex);
        let link = match &inside {
            Some(netns) => netns.run(attach)??,
            None => attach()?,
        };
        if inside.is_none() {
            self.check_device(device, ifindex, planned)?;
        }
        link.pin(&path)?;
        // Held until the end: unpinning in an undo then detaches when the journal lets go of it.
        self.journal.push(move || {
            unpin(&path)?;
            drop(link);
            Ok(())
        });
        self.state
            .programs
            .insert(name, loaded.program(program)?.id());
        Ok(())
    }

    pub(super) fn detach(&mut self, name: &str) -> Result<(), HostError> {
        let path = paths::links(&self.state.host).join(name);
        self.detach_if_there(&path)
    }

    fn detach_if_there(&mut self, path: &Path) -> Result<(), HostError> {
        let Some(link) = BpfLink::open(path)? else {
            return Ok(());
        };
        self.journal.before()?;
        unpin(path)?;
        let path = path.to_owned();
        self.journal.push(move || Ok(link.pin(&path)?));
        Ok(())
    }

    pub(super) fn replace(
        &mut self,
        program: Program,
        device: &str,
        planned: u32,
        old_program: u32,
    ) -> Result<(), HostError> {
        let Some(loaded) = self.loaded else {
            return Ok(());
        };
        let name = paths::link(program, device);
        let path = paths::links(&self.state.host).join(&name);
        self.journal.before()?;
        let Some(link) = BpfLink::open(&path)? else {
            return self.attach(program, device, planned);
        };
        if !detours::is_inside(device) {
            let ifindex = self.netlink.link(device)?.index;
            self.check_device(device, ifindex, planned)?;
            if !hooks::is_at(device, ifindex, link.info()?)? {
                // It went along with a device that left the namespace.
                return self.attach(program, device, planned);
            }
        }
        let old = HeldProgram::by_id(old_program)?;
        let new = loaded.program(program)?;
        link.replace(new)?;
        self.journal.push(move || Ok(link.replace(&old)?));
        self.state.programs.insert(name, new.id());
        Ok(())
    }
}
