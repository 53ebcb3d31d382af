//! Stage origin: who sends a frame over the underlay may speak only for what the fabric lets it: its own ports, the
//! switches that it has ports of, and the routers that lead there from it. After `ecn`, or from a VLAN after `parse`;
//! then `learn`.

use overlane_model::{FdbEntry, Place, Remote, SwitchTable, Verdict};
use overlane_wire::Mac;

use crate::lib::context::{Context, Stage};
use crate::lib::explain::Found;
use crate::lib::frame::Frame;

const STAGE: &str = "origin";

/// The key of the port that sent the frame: `claimed` where the FDB does not have its source.
pub(crate) fn from_tunnel(
    cx: &mut Context<'_>,
    switch: &SwitchTable,
    frame: &Frame<'_>,
    remote: &Remote,
    claimed: u16,
) -> Stage<u16> {
    let (host, mac) = (cx.host, frame.source);
    let declared = host.fdb_entry(switch.id, mac);
    cx.claims_key = declared.is_none();
    let origin = host.origin(switch.id, remote.addr);
    match declared.map(|entry| (entry, &entry.place)) {
        Some((entry, Place::Remote(addr))) if *addr == remote.addr || entry.roams => {}
        Some((entry, Place::Router(_))) if origin.is_none() => {
            return cx.end(STAGE, Verdict::RemoteSwitch, || {
                let (router, sender) = (&entry.port, &remote.name);
                let text = format!(
                    "{mac} is router {router}, and no router leads to switch {} from host {sender}",
                    switch.name
                );
                Found::by_host(text, sender)
            });
        }
        Some((_, Place::Router(_))) => {}
        Some((entry, _)) => return refuse_mac(cx, mac, entry, &format!("host {}", remote.name)),
        None if origin.is_some_and(|origin| origin.has_ports) => {}
        None => {
            return cx.end(STAGE, Verdict::RemoteSwitch, || {
                let (name, sender) = (&switch.name, &remote.name);
                let text =
                    format!("host {sender} has no port of switch {name}, and {mac} is no router");
                Found::by_host(text, sender)
            });
        }
    }
    Stage::Continue(declared.map_or(claimed, |entry| entry.key.get()))
}

/// Nobody knows which host it came from, but not this one.
pub(crate) fn from_vlan(
    cx: &mut Context<'_>,
    switch: &SwitchTable,
    frame: &Frame<'_>,
) -> Stage<u16> {
    let (host, mac) = (cx.host, frame.source);
    match host.fdb_entry(switch.id, mac) {
        Some(entry) if matches!(entry.place, Place::Local(_)) => {
            refuse_mac(cx, mac, entry, "the uplink")
        }
        declared => Stage::Continue(declared.map_or(0, |entry| entry.key.get())),
    }
}

fn refuse_mac<T>(cx: &mut Context<'_>, mac: Mac, entry: &FdbEntry, from: &str) -> Stage<T> {
    cx.end(STAGE, Verdict::RemoteMac, || {
        let port = &entry.port;
        let place = match &entry.place {
            Place::Local(_) => "on this host".to_owned(),
            Place::Remote(addr) => match cx.host.remote(*addr) {
                Some(host) => format!("on host {}", host.name),
                None => format!("behind {addr}"),
            },
            Place::Vlan | Place::Router(_) => "elsewhere".to_owned(),
        };
        let text = format!("{mac} is at port {port} {place}, and the frame came from {from}");
        Found::by_port(text, port)
    })
}
