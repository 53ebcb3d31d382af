//! The format of statements: stations may stand in any order and have any names.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use overlane_conformance::statements::{Statements, prove};
use overlane_model::Fabric;

const FABRIC: &str = "version: 1
hosts: { h1: { underlay: 198.18.0.1, uplink: eth1 } }
switches: { blue: { vni: 1 } }
ports:
  web: { switch: blue, host: h1, device: web, mac: \"02:00:00:00:00:01\", addresses: [198.18.1.1] }
  vpn: { switch: blue, host: h1, device: vpn, mac: \"02:00:00:00:00:02\", addresses: [198.18.1.2], security: mac }
routers:
  core:
    interfaces: { blue: [198.18.1.254/24] }
    routes: [{ to: 198.18.5.0/24, via: 198.18.1.2 }, { to: 0.0.0.0/0, via: 198.19.0.1 }]
    gateway: { host: h1, device: out, addresses: [198.19.0.2/24] }
";

/// What does not hold of two statements, with these stations.
fn failures(stations: &str) -> Result<Vec<String>, String> {
    let fabric = Fabric::parse("fabric.yaml", FABRIC).unwrap();
    let text = format!(
        "stations:\n{stations}statements:\n  - {{ from: web, to: 198.19.9.9, reaches: behind }}\n  \
         - {{ from: vpn, to: web, reaches: web }}\n"
    );
    let read = Statements::read(Path::new("some.yaml"), &text, &fabric);
    let statements = read.map_err(|error| error.to_string())?;
    Ok(prove(&fabric, &statements).unwrap().failures)
}

#[test]
fn a_station_may_come_before_those_that_route_for_it_by_name_and_in_the_file() {
    let none: Vec<String> = Vec::new();
    for isp in ["a-isp", "isp", "z-isp"] {
        let router = format!("  {isp}: {{ outside: core, addresses: [198.19.0.1] }}\n");
        let behind = format!("  behind: {{ routed_by: [{isp}], addresses: [198.19.9.9] }}\n");
        assert_eq!(failures(&format!("{router}{behind}")), Ok(none.clone()));
        assert_eq!(failures(&format!("{behind}{router}")), Ok(none.clone()));
    }
}

#[test]
fn who_routes_is_a_station_with_a_place_of_its_own() {
    for (router, more) in [
        ("nobody", ""),
        ("behind", ""),
        (
            "other",
            "  other: { routed_by: [vpn], addresses: [198.18.5.5] }\n",
        ),
    ] {
        let error = failures(&format!(
            "  behind: {{ routed_by: [{router}], addresses: [198.19.9.9] }}\n{more}"
        ));
        let error = error.unwrap_err();
        assert!(error.starts_with("some.yaml:2: "), "{error}");
        assert!(error.contains(&format!("routed by `{router}`")), "{error}");
    }
}
