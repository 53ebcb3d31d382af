//! What the fabric file cannot say: devices on a packet's way that are missing, where a host of the way is applied on
//! this machine. Says nothing of other hosts, and decides nothing: notes beside the trace.

use std::collections::{BTreeMap, BTreeSet};

use overlane_host::observe;
use overlane_model::{DeviceName, Fabric, Name};
use overlane_pipeline::{Entry, Output};

use super::walk::Hop;

/// The devices that packets met, by host.
#[derive(Default)]
pub(super) struct Met(BTreeMap<Name, BTreeSet<DeviceName>>);

impl Met {
    /// Adds the devices of a hook, and of all behind it.
    pub(super) fn add(&mut self, fabric: &Fabric, hop: &Hop) {
        let hosts = fabric.hosts();
        let uplink = || hosts.get(hop.host.as_str()).map(|host| &host.uplink);
        let entry = match &hop.entry {
            Entry::Port(device) | Entry::Segmenter(device) | Entry::Leg(device) => Some(device),
            Entry::Underlay => uplink(),
        };
        let outputs = hop
            .outcome
            .outputs
            .iter()
            .filter_map(|output| match output {
                Output::Port { port, .. } => {
                    let port = fabric.ports().get(port.as_str());
                    port.map(|port| &port.attachment.device)
                }
                Output::Leg { device, .. } => Some(device),
                Output::Underlay { .. } => uplink(),
                Output::Segmenter { .. } | Output::Host { .. } => None,
            });
        let met = self.0.entry(hop.host.clone()).or_default();
        met.extend(entry.into_iter().chain(outputs).cloned());
        for behind in hop.then.iter().flatten() {
            self.add(fabric, behind);
        }
    }

    /// A line for each host that lacks devices. Who may not look at a host is told nothing of it.
    pub(super) fn notes(&self) -> Vec<String> {
        let note = |(host, met): (&Name, &BTreeSet<DeviceName>)| {
            let there = observe::device_names(host.as_str()).ok()??;
            let missing = met.iter().map(DeviceName::as_str);
            let missing: Vec<_> = missing.filter(|name| !there.contains(*name)).collect();
            (!missing.is_empty()).then(|| {
                let missing = missing.join(", ");
                format!(
                    "host {host} on this machine has no device {missing}: what the trace says of it holds when the \
                     device is there and you apply again"
                )
            })
        };
        self.0.iter().filter_map(note).collect()
    }
}
