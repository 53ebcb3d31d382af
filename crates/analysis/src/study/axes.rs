//! The product of a group's axes: the settings of its topologies, and the workloads that they carry.

use super::GroupAxes;
use crate::record::{Setting, Workload};

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
        let all = times(all, &self.guests, |one, value| one.guests = value);
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
        };
        let all = self.tests.iter().copied().map(one).collect();
        let all = times(all, &self.bytes, |one, value| one.bytes = value);
        let all = times(all, &self.instances, |one, value| one.instances = value);
        let all = times_some(all, &self.rate_pps, |one, value| one.rate_pps = value);
        times_some(all, &self.rate_mbps, |one, value| one.rate_mbps = value)
    }
}
