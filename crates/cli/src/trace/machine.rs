//! What the fabric file cannot say: devices that a host lacks, where it is applied on this machine. The data path there
//! loses what is for them, and so does the trace. Says nothing of other hosts.

use std::collections::BTreeSet;

use overlane_host::observe::{self, Lacking};
use overlane_model::{DeviceName, GatewayPlace, Name, Tables, Verdict};
use overlane_pipeline::{Entry, Host, Outcome, State, Step};

use super::walk::Hop;

/// The devices that a host lacks. Who may not look at a host knows of none.
#[derive(Debug, Default)]
pub(super) struct Lack {
    gone: BTreeSet<DeviceName>,
    missing: BTreeSet<DeviceName>,
}

impl Lack {
    pub(super) fn of(tables: &Tables) -> Self {
        let Lacking { gone, missing } = observe::lacking(tables).unwrap_or_default();
        Self { gone, missing }
    }

    fn has(&self, device: &DeviceName) -> bool {
        self.gone.contains(device) || self.missing.contains(device)
    }

    /// A leg whose device `apply` did not find is as none.
    pub(super) fn take_legs(&self, tables: &mut Tables) {
        let gateways = tables
            .routers
            .iter_mut()
            .filter_map(|it| it.gateway.as_mut());
        for gateway in gateways {
            if let GatewayPlace::Here { leg } = &mut gateway.place {
                leg.take_if(|leg| self.missing.contains(leg));
            }
        }
    }

    pub(super) fn state(&self) -> State {
        let mut state = State::new();
        state.set_gone(self.gone.clone());
        state.set_missing(self.missing.clone());
        state
    }

    /// Nothing comes in by an uplink or a leg that is not there. What a port sends, the data path judges.
    pub(super) fn judge(&self, host: &Host, entry: &Entry, outcome: &mut Outcome) {
        let (stage, device) = match entry {
            Entry::Port(_) | Entry::Segmenter(_) => return,
            Entry::Underlay => ("from_underlay", &host.tables().uplink),
            Entry::Leg(device) => ("from_leg", device),
        };
        if self.has(device) {
            outcome.verdict = Verdict::DeviceGone;
            outcome.outputs.clear();
            outcome.steps = vec![Step {
                stage,
                found: format!(
                    "device {device} is not there, so nothing comes in by it: apply again once it is"
                ),
                by: None,
            }];
        }
    }

    /// Said of a host that a packet met, if what it lacks may have mattered to the packet.
    pub(super) fn note(&self, host: &Name, hop: &Hop) -> Option<String> {
        let devices: BTreeSet<&str> = (self.gone.iter().chain(&self.missing))
            .map(DeviceName::as_str)
            .collect();
        let devices = Vec::from_iter(devices).join(", ");
        (!devices.is_empty() && meets(host, hop)).then(|| {
            format!(
                "host {host} on this machine has no device {devices}: what is for it is lost, until it is there and you \
                 apply again"
            )
        })
    }
}

/// Whether a device may have been looked for on a host.
fn meets(host: &Name, hop: &Hop) -> bool {
    let verdict = hop.outcome.verdict;
    let may_lack = matches!(
        verdict,
        Verdict::DeviceGone | Verdict::NoPort | Verdict::NoRoute | Verdict::Flood
    );
    (may_lack && hop.host == *host) || hop.then.iter().flatten().any(|behind| meets(host, behind))
}
