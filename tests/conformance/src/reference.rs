//! Runs a case on the reference executor.

use overlane_model::{GatewayPlace, Tables};
use overlane_pipeline::{Host, Outcome, State};

use crate::case::{Case, Machine};

/// What becomes of each packet of a case, in order on one state.
pub fn run(case: &Case) -> Vec<Outcome> {
    let first = host(&case.tables, case.machine);
    let changed = case.changed.as_ref().map(|it| host(it, case.machine));
    let mut state = State::new();
    if let (Some(moved), Some(first)) = (&case.moved, case.steps.first()) {
        let ports = case.tables.ports.iter();
        for port in ports.filter(|port| (port.switch, port.key) == moved.port) {
            for connection in &moved.connections {
                state.take_over(&case.tables, port, connection, first.now_ns);
            }
        }
    }
    let steps = case.steps.iter();
    steps
        .map(|step| {
            let host = changed.as_ref().filter(|_| step.changed);
            let host = host.unwrap_or(&first);
            state.set_gone(step.gone.clone());
            host.run(&mut state, step.now_ns, &step.entry, &step.packet)
        })
        .collect()
}

/// A host whose legs are all alike.
pub fn host(tables: &Tables, machine: Machine) -> Host {
    let leg = machine.leg;
    let host = Host::new(tables.clone(), machine.underlay_mtu);
    let host = host.with_shared_port(machine.port_shared);
    let host = host.with_port_mtu(machine.port_mtu);
    let mut host = host.with_whole_udp(machine.whole_udp);
    for router in &tables.routers {
        let place = router.gateway.as_ref().map(|gateway| &gateway.place);
        if let Some(GatewayPlace::Here { leg: Some(device) }) = place {
            host = host.with_leg(device, leg.mac, leg.mtu);
        }
    }
    host
}
