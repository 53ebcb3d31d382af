//! The flows for people: for each switch one table per stage, in the order in which a packet meets them,
//! and beneath it what holds for all.

use std::io;

use super::{EncapRule, PortRule, SwitchFlows};
use crate::output::{Output, Rows, text};
use crate::places::Places;

const ROUTE: &str = "route: addresses that nobody declares, on each side of the routers";

pub(crate) fn show(
    places: &Places<'_>,
    switches: &[SwitchFlows],
    output: Output,
) -> io::Result<()> {
    if switches.is_empty() {
        return output.line("no logical switches");
    }
    for (index, flows) in switches.iter().enumerate() {
        if index > 0 {
            output.line("")?;
        }
        show_switch(places, flows, output)?;
    }
    Ok(())
}

fn show_switch(places: &Places<'_>, flows: &SwitchFlows, output: Output) -> io::Result<()> {
    let id = match (flows.vni, flows.uplink_vlan) {
        (Some(vni), _) => format!("VNI {vni}"),
        (None, Some(vlan)) => format!("VLAN {vlan} on the uplinks"),
        (None, None) => String::new(),
    };
    let place = places.line(flows.line);
    output.line(format!("switch {}: {id} ({place})", flows.switch))?;
    let tags = match flows.guest_vlan {
        "transparent" => "carried with the frame",
        _ => "dropped (vlan_tag)",
    };
    output.line(format!("VLAN tags of guests: {tags}"))?;
    let neighbours = match flows.neighbours.as_str() {
        "declared" => "declared (routers reach only addresses that ports declare)",
        _ => "asked (routers ask for addresses that no port declares)",
    };
    output.line(format!("neighbours: {neighbours}"))?;
    let too_large = match flows.path_mtu_discovery {
        true => "the sender is told (path_mtu_discovery)",
        false => "dropped, and nobody is told",
    };
    output.line(format!("packets that are too large: {too_large}"))?;
    let mss = match flows.mss_clamp {
        true => "lowered to what fits (mss_clamp)",
        false => "left alone",
    };
    output.line(format!("MSS of TCP: {mss}\n"))?;
    if flows.port_security.is_empty() {
        output.line("no ports")?;
        if !flows.route.is_empty() {
            output.line("")?;
            output.section(ROUTE, &route(places, flows, output), "none")?;
        }
        return Ok(());
    }
    let (rows, notes) = port_security(places, flows, output);
    stage(
        output,
        "port_security: what each port may send",
        &rows,
        notes,
    )?;
    let (rows, notes) = arp_nd(places, flows, output);
    stage(
        output,
        "arp_nd: questions answered on the spot",
        &rows,
        notes,
    )?;
    let (rows, notes) = l2_lookup(places, flows, output);
    stage(output, "l2_lookup: where frames go", &rows, notes)?;
    if !flows.route.is_empty() {
        let rows = route(places, flows, output);
        stage(output, ROUTE, &rows, Vec::new())?;
    }
    let (rows, notes) = flood(flows, output);
    stage(output, "flood: who gets a copy", &rows, notes)?;
    if flows.uplink_vlan.is_some() {
        let rows = vlan_out(places, flows, output);
        return output.section("vlan_out: the tag on the uplink", &rows, "no hosts");
    }
    let rows = encap(places, flows, output);
    output.section(
        "encap: the outer header",
        &rows,
        "all ports are on one host",
    )
}

/// A heading, the rules, and what else holds.
fn stage(output: Output, heading: &str, rows: &Rows, notes: Vec<String>) -> io::Result<()> {
    output.section(heading, rows, "none")?;
    for note in notes {
        output.line(note)?;
    }
    output.line("")
}

fn port_security(places: &Places<'_>, flows: &SwitchFlows, output: Output) -> (Rows, Vec<String>) {
    let columns = [
        "PORT",
        "HOST",
        "SECURITY",
        "FROM MAC",
        "FROM ADDRESS",
        "AND",
        "LINE",
    ];
    let mut rows = output.table(&columns);
    for rule in &flows.port_security {
        let addresses = match &rule.addresses {
            None => "any".to_owned(),
            Some(addresses) => {
                let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                addresses.join(", ")
            }
        };
        rows.push(vec![
            text(&rule.port),
            text(&rule.host),
            text(&rule.security),
            text(rule.mac.as_deref().unwrap_or("any")),
            text(addresses),
            text(also(rule)),
            text(places.line(rule.line)),
        ]);
    }
    let mut notes = Vec::new();
    if flows
        .port_security
        .iter()
        .any(|rule| rule.addresses.is_some())
    {
        notes.push(
            "With addresses: also the link-local address of the MAC; 0.0.0.0 and :: in DHCP, address detection, IGMP and MLD."
                .to_owned(),
        );
    }
    (rows, notes)
}

fn also(rule: &PortRule) -> String {
    let mut also = [&rule.allowed_addresses[..], &rule.allowed_macs[..]].concat();
    if rule.dhcp_server {
        also.push("DHCP server".to_owned());
    }
    if rule.router_advertisement {
        also.push("router advertisements".to_owned());
    }
    if let Some(learning) = &rule.learning {
        let (limit, age_s) = (learning.limit, learning.age_s);
        also.push(format!("up to {limit} learned MACs, {age_s} s each"));
    }
    if also.is_empty() {
        "-".to_owned()
    } else {
        also.join(", ")
    }
}

fn arp_nd(places: &Places<'_>, flows: &SwitchFlows, output: Output) -> (Rows, Vec<String>) {
    let mut rows = output.table(&["ADDRESS", "MAC", "PORT", "LINE"]);
    for answer in &flows.arp_nd {
        rows.push(vec![
            text(answer.address),
            text(&answer.mac),
            text(&answer.port),
            text(places.line(answer.line)),
        ]);
    }
    let notes = if flows.arp_nd.is_empty() {
        Vec::new()
    } else {
        vec!["To everybody but the port itself.".to_owned()]
    };
    (rows, notes)
}

fn l2_lookup(places: &Places<'_>, flows: &SwitchFlows, output: Output) -> (Rows, Vec<String>) {
    let mut rows = output.table(&["TO MAC", "PORT", "#KEY", "HOST", "DEVICE", "LINE"]);
    for entry in &flows.l2_lookup {
        let device = match entry.vlan {
            None => entry.device.clone(),
            Some(vlan) => format!("{} tag {vlan}", entry.device),
        };
        rows.push(vec![
            text(&entry.mac),
            text(&entry.port),
            text(entry.key),
            text(&entry.host),
            text(device),
            text(places.line(entry.line)),
        ]);
    }
    let unknown = match flows.unknown_unicast {
        "flood" => "flood",
        "vlan_out" => "vlan_out: the physical network may know",
        _ => "dropped (unknown_unicast)",
    };
    let mut notes = vec!["Group addresses: flood.".to_owned()];
    if let Some(age_s) = flows.learn_age_s {
        notes.push(format!("Then learned addresses, at most {age_s} s old."));
    }
    notes.push(format!("Any other address: {unknown}."));
    (rows, notes)
}

fn route(places: &Places<'_>, flows: &SwitchFlows, output: Output) -> Rows {
    let mut rows = output.table(&["ROUTER", "SIDE", "IN NETWORKS OF", "WHAT HAPPENS", "LINE"]);
    for rule in &flows.route {
        let side = match (&rule.switch, &rule.leg) {
            (Some(switch), _) => format!("switch {switch}"),
            (None, Some(leg)) => format!("leg {leg}"),
            (None, None) => String::new(),
        };
        let what = match (rule.undeclared, &rule.asks) {
            ("dropped", _) => "dropped (no_neighbour)".to_owned(),
            (_, Some(host)) => format!("host {host} asks"),
            (_, None) => "each host asks".to_owned(),
        };
        rows.push(vec![
            text(&rule.router),
            text(side),
            text(rule.networks.join(", ")),
            text(what),
            text(places.line(rule.line)),
        ]);
    }
    rows
}

fn flood(flows: &SwitchFlows, output: Output) -> (Rows, Vec<String>) {
    let mut rows = output.table(&["ON HOST", "TO PORTS", "TO HOSTS"]);
    for rule in &flows.flood {
        let hosts = match (rule.uplink, rule.hosts.is_empty()) {
            (true, _) => "the uplink, once".to_owned(),
            (false, true) => "-".to_owned(),
            (false, false) => rule.hosts.join(", "),
        };
        rows.push(vec![
            text(&rule.host),
            text(rule.ports.join(", ")),
            text(hosts),
        ]);
    }
    let note =
        "Never back to the port it came from; what comes from another host goes to ports only.";
    (rows, vec![note.to_owned()])
}

fn encap(places: &Places<'_>, flows: &SwitchFlows, output: Output) -> Rows {
    let mut rows = output.table(&[
        "FROM",
        "TO",
        "OUTER ADDRESSES",
        "UDP",
        "TUNNEL",
        "DSCP",
        "LINE",
    ]);
    for rule in &flows.encap {
        let EncapRule {
            source,
            destination,
            port,
            source_ports: [first, last],
            ..
        } = rule;
        let tunnel = match rule.options {
            Some("none") => format!("{} without options", rule.encapsulation),
            _ => rule.encapsulation.to_owned(),
        };
        let dscp = rule
            .dscp
            .map_or_else(|| "inner".to_owned(), |dscp| dscp.to_string());
        rows.push(vec![
            text(&rule.from),
            text(&rule.to),
            text(format!("{source} → {destination}")),
            text(format!("{first}-{last} → {port}")),
            text(format!("{tunnel} VNI {}", rule.vni)),
            text(dscp),
            text(places.line(rule.line)),
        ]);
    }
    rows
}

fn vlan_out(places: &Places<'_>, flows: &SwitchFlows, output: Output) -> Rows {
    let mut rows = output.table(&["HOST", "UPLINK", "#TAG", "LINE"]);
    for rule in &flows.vlan_out {
        rows.push(vec![
            text(&rule.host),
            text(&rule.uplink),
            text(rule.vlan),
            text(places.line(rule.line)),
        ]);
    }
    rows
}
