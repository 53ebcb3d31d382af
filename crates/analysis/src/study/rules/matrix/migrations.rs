//! Rules of the test `migration`, and of the axes that are its own.

use super::{Group, axis, within};
use crate::record::{Setting, Test};
use crate::study::check::Found;
use crate::study::limits::{FLOW_BYTES, MACHINE_MIB, MAX_LINKS};
use crate::study::possible::immobile;

/// What a kernel, its network card's buffers and the guest's program take, and what stays free.
const KERNEL_MIB: u32 = 116;

impl Group<'_> {
    /// Machines that move have a group of their own.
    pub(super) fn migrations(&self, found: &mut Vec<Found>) {
        let axes = self.axes;
        let Some(at) = axes.tests.iter().position(|test| *test == Test::Migration) else {
            return self.moves_nothing(found);
        };
        let path = format!("{}[{at}]", self.key("tests"));
        if axes.tests.len() > 1 {
            let message = "migration stands beside other tests";
            let help = "give it a group of its own: its guests are machines that QEMU runs";
            found.push(Found::of(path.clone(), message, help));
        }
        for (key, values, range) in [
            ("guest_memory_mib", &axes.guest_memory_mib, MACHINE_MIB),
            ("dirty_percent", &axes.dirty_percent, 0..=90),
            ("dirty_mib_per_second", &axes.dirty_mib_per_second, 0..=4096),
            ("links", &axes.links, 1..=MAX_LINKS),
            ("bytes", &axes.bytes, FLOW_BYTES),
            ("instances", &axes.instances, 1..=1),
        ] {
            axis(&self.key(key), values, found);
            self.each_within(key, values, &range, found);
        }
        axis(&self.key("postcopy"), &axes.postcopy, found);
        if axes.postcopy.contains(&true) && axes.links.iter().any(|links| *links > 1) {
            let message = "QEMU copies afterwards over one connection alone";
            let help = "give postcopy a group with `links: [1]`";
            found.push(Found::of(self.key("postcopy"), message, help));
        }
        self.memory_holds_what_is_written(found);
        for setting in self.odd_machines() {
            if let Some(reason) = immobile(&setting) {
                let help = "leave what is not named by the migration studies as it comes";
                found.push(Found::of(
                    path.clone(),
                    format!("no migration here: {reason}"),
                    help,
                ));
            }
        }
    }

    fn memory_holds_what_is_written(&self, found: &mut Vec<Found>) {
        let least = self.axes.guest_memory_mib.iter().min().copied();
        let share = self.axes.dirty_percent.iter().max().copied();
        let (least, share) = (least.unwrap_or_default(), share.unwrap_or_default());
        let rest = least.saturating_sub(least * share / 100);
        if share > 0 && rest < KERNEL_MIB {
            within(
                &self.key("dirty_percent"),
                share,
                0..=most_percent(least),
                found,
            );
        }
    }

    /// What may keep machines from moving, each in a setting of its own.
    fn odd_machines(&self) -> Vec<Setting> {
        let axes = self.axes;
        let mut all = Vec::new();
        let mut add = |set: &dyn Fn(&mut Setting)| {
            let mut setting = Setting::default();
            set(&mut setting);
            all.push(setting);
        };
        axes.hosts
            .iter()
            .for_each(|value| add(&|s| s.hosts = *value));
        axes.pairs
            .iter()
            .for_each(|value| add(&|s| s.pairs = *value));
        axes.vnis.iter().for_each(|value| add(&|s| s.vnis = *value));
        axes.inner
            .iter()
            .for_each(|value| add(&|s| s.inner = *value));
        axes.far_end
            .iter()
            .for_each(|value| add(&|s| s.far_end = *value));
        axes.feature
            .iter()
            .for_each(|value| add(&|s| s.feature = *value));
        all
    }

    /// The axes of machines are of no use to other tests.
    fn moves_nothing(&self, found: &mut Vec<Found>) {
        for (key, values) in [
            ("guest_memory_mib", &self.axes.guest_memory_mib),
            ("dirty_percent", &self.axes.dirty_percent),
            ("dirty_mib_per_second", &self.axes.dirty_mib_per_second),
            ("links", &self.axes.links),
        ] {
            if values.len() > 1 {
                let message = "no test of this group moves a machine";
                let help = "remove the key, or measure `migration`";
                found.push(Found::of(self.key(key), message, help));
            }
        }
    }
}

/// The largest share that leaves room for the kernel.
fn most_percent(memory_mib: u32) -> u32 {
    memory_mib.saturating_sub(KERNEL_MIB) * 100 / memory_mib.max(1)
}
