//! The product of a group's axes: the settings of its topologies, and the workloads that they carry.

use super::GroupAxes;
use crate::record::{GuestKind, Moving, Setting, Test, Workload};

/// Each of `so_far` with each of `axis`; the later axis varies faster.
fn times<T: Copy, A: Copy>(so_far: Vec<T>, axis: &[A], set: impl Fn(&mut T, A)) -> Vec<T> {
    let each = |one: T| {
        let set = &set;
        axis.iter().map(move |value| {
            let mut one = one;
            set(&mut one, *value);
            one
        })
    };
    so_far.into_iter().flat_map(each).collect()
}

/// As [`times`]; without values nothing is set.
fn times_some<T: Copy, A: Copy>(
    so_far: Vec<T>,
    axis: &[A],
    set: impl Fn(&mut T, Option<A>),
) -> Vec<T> {
    if axis.is_empty() {
        return so_far;
    }
    times(so_far, axis, |one, value| set(one, Some(value)))
}

impl GroupAxes {
    /// Every setting; those that differ in the MTU class alone follow each other.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let all = vec![Setting::default()];
        let all = times(all, &self.tuning, |one, value| one.tuning = value);
        let all = times(all, &self.feature, |one, value| one.feature = value);
        let all = times(all, &self.far_end, |one, value| one.far_end = value);
        let all = times(all, &self.underlay, |one, value| one.underlay = value);
        let all = times(all, &self.inner, |one, value| one.inner = value);
        let all = times(all, &self.hosts, |one, value| one.hosts = value);
        let all = times(all, &self.pairs, |one, value| one.pairs = value);
        let all = if self.moves() {
            times(all, &self.guest_memory_mib, |one, value| {
                one.guests = GuestKind::Qemu;
                one.guest_memory_mib = Some(value);
            })
        } else {
            times(all, &self.guests, |one, value| one.guests = value)
        };
        let all = times(all, &self.vnis, |one, value| one.vnis = value);
        let all = times(all, &self.offload, |one, value| one.offload = value);
        times(all, &self.mtu, |one, value| one.mtu_class = value)
    }

    /// Every workload.
    pub(crate) fn workloads(&self) -> Vec<Workload> {
        let one = |test| Workload {
            test,
            bytes: 0,
            instances: 1,
            buffer_bytes: self.buffer_bytes,
            rate_pps: None,
            rate_mbps: None,
            search: self.search,
            migration: None,
        };
        let all = self.tests.iter().copied().map(one).collect();
        let all = times(all, &self.bytes, |one, value| one.bytes = value);
        let all = times(all, &self.instances, |one, value| one.instances = value);
        let all = times_some(all, &self.rate_pps, |one, value| one.rate_pps = value);
        let all = times_some(all, &self.rate_mbps, |one, value| one.rate_mbps = value);
        if !self.moves() {
            return all;
        }
        times(all, &self.moving(), |one, value| {
            one.migration = Some(value)
        })
    }

    /// What is measured is how machines move.
    pub(crate) fn moves(&self) -> bool {
        self.tests.contains(&Test::Migration)
    }

    /// How they move.
    fn moving(&self) -> Vec<Moving> {
        let one = Moving {
            dirty_percent: 0,
            dirty_mib_per_second: 0,
            links: 1,
            postcopy: false,
        };
        let all = times(vec![one], &self.dirty_percent, |one, value| {
            one.dirty_percent = value
        });
        let all = times(all, &self.dirty_mib_per_second, |one, value| {
            one.dirty_mib_per_second = value;
        });
        let all = times(all, &self.links, |one, value| one.links = value);
        times(all, &self.postcopy, |one, value| one.postcopy = value)
    }
}
