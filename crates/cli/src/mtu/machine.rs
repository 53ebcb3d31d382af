//! What a machine has, beside what it needs.

use std::collections::BTreeMap;
use std::io;

use overlane_host::mtu::facts::{DeviceFacts, HostFacts};
use overlane_model::Fabric;

use super::sizes::Sizes;
use crate::output::{Output, number, text};

pub(super) fn show(
    fabric: &Fabric,
    host: &HostFacts,
    sizes: &Sizes,
    output: Output,
) -> io::Result<()> {
    output.line("")?;
    let columns = [
        "DEVICE",
        "USED AS",
        "#MTU",
        "#OTHER END",
        "#FITS",
        "#LONGEST PACKET",
    ];
    let mut rows = output.table(&columns);
    let or_dash = |value: Option<u32>| value.map_or("-".to_owned(), |it| it.to_string());
    let mut push = |device: &DeviceFacts, used_as: String, fits, longest: Option<u64>| {
        let longest = longest.filter(|longest| *longest != 0);
        rows.push(vec![
            text(&device.device),
            text(used_as),
            text(device.mtu),
            text(or_dash(device.peer_mtu)),
            text(or_dash(fits)),
            longest.map_or_else(|| text("-"), number),
        ]);
    };
    if let Some(uplink) = &host.uplink {
        push(uplink, "uplink".to_owned(), None, None);
    }
    for below in &host.below {
        let device = DeviceFacts {
            device: below.device.clone(),
            mtu: below.mtu,
            ..DeviceFacts::default()
        };
        push(&device, format!("below {}", below.above), None, None);
    }
    for leg in &host.legs {
        push(&leg.device, format!("leg of {}", leg.router), None, None);
    }
    for port in &host.ports {
        let declared = fabric.ports().get(port.port.as_str());
        let switch = declared.map_or("?", |port| port.switch.as_str());
        let used_as = format!("port {} of {switch}", port.port);
        push(&port.device, used_as, sizes.guest_mtu(switch), port.longest);
    }
    output.section(&format!("DEVICES OF {}", host.host), &rows, "none")?;
    if let Some(packets) = host.pkt_too_big.filter(|packets| *packets != 0) {
        output.line(format!(
            "\nToo large since apply: {packets} packets (pkt_too_big)."
        ))?;
    }
    show_paths(host, output)?;
    for missing in &host.missing {
        output.line(format!("\nnot seen: {}: {}", missing.what, missing.why))?;
    }
    Ok(())
}

fn show_paths(host: &HostFacts, output: Output) -> io::Result<()> {
    let columns = [
        "REMOTE",
        "DEVICE",
        "#ROUTE MTU",
        "#PATH MTU",
        "SAID BY",
        "#FOR S",
    ];
    let mut rows = output.table(&columns);
    let paths = host
        .path_mtus
        .iter()
        .map(|path| (path.remote.as_str(), path));
    let paths: BTreeMap<_, _> = paths.collect();
    let or_dash = |value: Option<String>| text(value.unwrap_or_else(|| "-".to_owned()));
    for route in &host.routes {
        let path = paths.get(route.remote.as_str());
        let said_by = path.map(|path| {
            let hop = path.hop.map(|hop| hop.to_string());
            hop.unwrap_or_else(|| "probes".to_owned())
        });
        rows.push(vec![
            text(&route.remote),
            or_dash(route.device.clone()),
            or_dash(route.mtu.map(|mtu| mtu.to_string())),
            or_dash(path.map(|path| path.mtu.to_string())),
            or_dash(said_by),
            or_dash(path.map(|path| path.seconds_left.to_string())),
        ]);
    }
    if rows.is_empty() {
        return Ok(());
    }
    output.line("")?;
    output.section(&format!("PATHS OF {}", host.host), &rows, "none")
}
